"""Where engines put their sockets: a folder that only its owner can enter."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

import platformdirs

from astra_tui.model.contents import content_hash
from astra_tui.model.errors import OutOfResources, UserError
from astra_tui.sessions.safe_open import make_folder

LONGEST_SOCKET_PATH = 107
"""Bytes: `sun_path` of unix(7) holds 108 with the closing zero."""

_NAMES = 10
_NAME_LENGTH = 16
_SUFFIX = ".sock"


def runtime_folder() -> Path:
    """The folder of the sockets, with mode 0700; the same for all of a user's processes.

    $XDG_RUNTIME_DIR/astra-tui where that can be used; else one under the temporary folder, or where
    another user took that name first, one in the user's own state folder, or of another name.
    Raises UserError where none can be made, the user's own is open to others, and every path to a
    socket would be too long.
    """
    first, *others = _choices()
    why: list[UserError] = []
    for folder in (first, *filter(_is_there, others), *others):  # One that is in use is kept.
        if _socket_length(folder) > LONGEST_SOCKET_PATH:
            why.append(_too_long(folder))
        elif (problem := _problem(folder)) is None:
            return folder
        else:
            why.append(problem)
    raise why[0]


def socket_path(session: Path) -> Path:
    """The socket of the engine that writes a session; the same for every path to its folder."""
    name = content_hash(os.fsencode(session.resolve()))[:_NAME_LENGTH]
    return runtime_folder() / f"{name}{_SUFFIX}"


def _choices() -> list[Path]:
    shared = Path(tempfile.gettempdir())
    name = f"astra-tui-{os.getuid()}"
    own = platformdirs.user_state_path("astra-tui") / "run"
    choices = [shared / name, own, *(shared / f"{name}-{n}" for n in range(1, _NAMES))]
    given = os.environ.get("XDG_RUNTIME_DIR", "")
    if given and Path(given).is_absolute() and Path(given).is_dir():
        choices.insert(0, Path(given) / "astra-tui")
    return choices


def _is_there(folder: Path) -> bool:
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()


def _socket_length(folder: Path) -> int:
    return len(os.fsencode(folder)) + 1 + _NAME_LENGTH + len(_SUFFIX)


def _too_long(folder: Path) -> UserError:
    return UserError(
        f"paths to sockets in {folder} are longer than {LONGEST_SOCKET_PATH} bytes",
        hint="set XDG_RUNTIME_DIR to a folder of your own with a short path",
    )


def _problem(folder: Path) -> UserError | None:
    """Why a folder cannot be used, which is made where it is missing.

    Raises UserError for one of the user's own that others may enter.
    """
    try:
        make_folder(folder)
        found = folder.lstat()
    except OSError as error:
        return OutOfResources.or_bad_input(error, "cannot be made", folder)
    if not stat.S_ISDIR(found.st_mode):
        return UserError("this is not a folder", file=str(folder), hint="remove it")
    if found.st_uid != os.getuid():
        message = f"this folder belongs to user {found.st_uid}, not to you"
        hint = "set XDG_RUNTIME_DIR to a folder of your own"
        return UserError(message, file=str(folder), hint=hint)
    if stat.S_IMODE(found.st_mode) & 0o077:
        message = f"others may enter this folder (mode {stat.S_IMODE(found.st_mode):04o})"
        raise UserError(message, file=str(folder), hint=f"chmod 700 {folder}")
    return None
