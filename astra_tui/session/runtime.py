"""Where engines put their sockets: a folder that only its owner can enter."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from astra_tui.model.contents import content_hash
from astra_tui.model.errors import UserError

LONGEST_SOCKET_PATH = 107
"""Bytes: `sun_path` of unix(7) holds 108 with the closing zero."""

_NAME_LENGTH = 16
_SUFFIX = ".sock"


def runtime_folder() -> Path:
    """The folder of the sockets: $XDG_RUNTIME_DIR/astra-tui, else one under the temporary folder.

    It is made with mode 0700. Raises UserError when what is there belongs to somebody else or is
    open to others, and when every path to a socket would be too long.
    """
    for folder in _choices():
        if _socket_length(folder) <= LONGEST_SOCKET_PATH:
            _make_private(folder)
            return folder
    raise UserError(
        f"paths to sockets in {folder} are longer than {LONGEST_SOCKET_PATH} bytes",
        hint="set XDG_RUNTIME_DIR to a folder of your own with a short path",
    )


def socket_path(session: Path) -> Path:
    """The socket of the engine that writes a session; the same for every path to its folder."""
    name = content_hash(os.fsencode(session.resolve()))[:_NAME_LENGTH]
    return runtime_folder() / f"{name}{_SUFFIX}"


def _choices() -> list[Path]:
    choices = [Path(tempfile.gettempdir()) / f"astra-tui-{os.getuid()}"]
    given = os.environ.get("XDG_RUNTIME_DIR", "")
    if given and Path(given).is_absolute() and Path(given).is_dir():
        choices.insert(0, Path(given) / "astra-tui")
    return choices


def _socket_length(folder: Path) -> int:
    return len(os.fsencode(folder)) + 1 + _NAME_LENGTH + len(_SUFFIX)


def _make_private(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise UserError(f"cannot be made: {error.strerror}", file=str(folder)) from None
    if not stat.S_ISDIR(found.st_mode):
        raise UserError("this is not a folder", file=str(folder), hint="remove it")
    if found.st_uid != os.getuid():
        message = f"this folder belongs to user {found.st_uid}, not to you"
        hint = "set XDG_RUNTIME_DIR to a folder of your own"
        raise UserError(message, file=str(folder), hint=hint)
    if stat.S_IMODE(found.st_mode) & 0o077:
        message = f"others may enter this folder (mode {stat.S_IMODE(found.st_mode):04o})"
        raise UserError(message, file=str(folder), hint=f"chmod 700 {folder}")
