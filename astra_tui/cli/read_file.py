"""Files that the user names: plain ones of a bounded size, so that nothing is waited for."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from astra_tui.model.errors import UserError

MAX_BYTES = 16 << 20
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
"""A pipe that no one writes would be waited for without O_NONBLOCK."""


def read_user_file(file: Path, what: str = "file") -> bytes:
    """What a file holds. Raises UserError that says why it cannot be read."""
    try:
        handle = os.open(file, _FLAGS)
        with os.fdopen(handle, "rb") as opened:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise UserError("this is not a plain file", file=str(file))
            data = opened.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise UserError("there is no such file", file=str(file)) from None
    except IsADirectoryError:
        raise UserError(f"this is a folder; name a {what}", file=str(file)) from None
    except (OSError, ValueError) as error:  # ValueError: a name with a zero byte
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(f"cannot be read: {reason}", file=str(file)) from None
    if len(data) > MAX_BYTES:
        raise UserError(f"larger than {MAX_BYTES >> 20} MiB", file=str(file))
    return data
