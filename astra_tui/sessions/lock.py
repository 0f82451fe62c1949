"""A session has one writer at a time, whichever way the one before it ended."""

from __future__ import annotations

import fcntl
import os
import socket
from pathlib import Path

import msgspec

from astra_tui.model.errors import OutOfResources, UserError
from astra_tui.sessions.safe_open import open_to_write, read_inside

LOCK_NAME = "lock"
_LARGEST = 4096


class Holder(msgspec.Struct, frozen=True):
    """The process that writes a session."""

    pid: int
    host: str

    def describe(self) -> str:
        """As in "process 4711 on host"."""
        return f"process {self.pid} on {self.host}"


class WriterLock:
    """The right to write a session, from construction to `release`.

    The kernel drops it when the process ends, however that happens. Raises UserError when another
    writer has it, whom it names, and when the disk is full.
    """

    def __init__(self, folder: Path):
        path = folder / LOCK_NAME
        self._handle = open_to_write(folder, LOCK_NAME)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._handle)
            raise _held(path) from None
        me = Holder(os.getpid(), socket.gethostname())
        try:
            os.ftruncate(self._handle, 0)
            os.pwrite(self._handle, msgspec.json.encode(me), 0)
        except OSError as error:
            os.close(self._handle)
            raise OutOfResources.or_bad_input(error, "cannot be written", path) from None

    def release(self) -> None:
        """Lets the next writer in; a second call does nothing."""
        if self._handle >= 0:
            os.ftruncate(self._handle, 0)
            os.close(self._handle)
            self._handle = -1


def writer_of(folder: Path) -> Holder | None:
    """Who writes the session now; None when nobody does.

    It looks at the name in the lock and not at the lock, which a look would take for a moment.
    """
    holder = _named_in(folder / LOCK_NAME)
    if holder is None or (holder.host == socket.gethostname() and not _is_alive(holder.pid)):
        return None
    return holder


def _held(path: Path) -> UserError:
    holder, folder = _named_in(path), str(path.parent)
    who = holder.describe() if holder else "another process"
    return UserError(
        f"{who} writes this session, which has one writer at a time",
        file=folder,
        hint=f"come to it: astra-tui attach {folder}\n  or end it: astra-tui stop {folder}",
    )


def _named_in(path: Path) -> Holder | None:
    try:
        content = read_inside(path.parent, path.name, _LARGEST)
        return msgspec.json.decode(content, type=Holder)
    except (OSError, UserError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _is_alive(pid: int) -> bool:
    if pid <= 0:
        return False  # Names no process; kill(2) would take it for a group.
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
