"""What this user's processes agree on for one device: many use it side by side, or one alone.

Sessions, checks and audits that run at the same time know nothing of each other. A timing must not
be disturbed by them, so that each use of a device takes a lock of the kernel's first, which ends
with its process. Processes that keep hold of a device while they idle are noted next to it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

WAIT_SECONDS = 100.0
"""How long one waits to use a device together with others; a check may be silent for longer."""

_ALONE_FACTOR = 2.5
"""How much longer one waits to have it alone, as a timing may be silent for longer than a check."""

_PAUSES = 0.001, 0.02


class DeviceBusy(Exception):
    """The others did not let go of a device; the message says for how long."""


@cache
def shared_device(name: str) -> SharedDevice:
    """The device of that name, as this process shares it with others of its user."""
    return SharedDevice(name, Path(tempfile.gettempdir()) / f"astra-tui-devices-{os.getuid()}")


class SharedDevice:
    """One device. Of this process's own uses all but the first are part of that one.

    In a folder that is not this user's alone nothing is agreed: then others count as strangers.
    """

    def __init__(self, name: str, folder: Path, seconds: float = WAIT_SECONDS):
        self.name = name
        self._folder = folder / name
        self._seconds = seconds
        self._uses = 0
        self._is_agreed = _is_private(folder) and _made(self._folder)

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Uses the device together with others, once no one has it alone.

        After some time it is used all the same: the process that has it alone must have stopped.
        """
        fd = None if self._uses else self._joined()
        with self._counted(fd):
            yield

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Uses the device while no one else does. Raises DeviceBusy."""
        if self._uses or not self._is_agreed:
            with self._counted(None):
                yield
            return
        seconds = _ALONE_FACTOR * self._seconds
        until = time.monotonic() + seconds
        with _opened(self._folder / "turn") as turn:
            fd = self._open()
            # Those who come later wait at the turn, so that no stream of them keeps us out.
            if not (_locked(turn, fcntl.LOCK_EX, until) and _locked(fd, fcntl.LOCK_EX, until)):
                os.close(fd)
                raise DeviceBusy(
                    f"other sessions of this user have used {self.name} for {seconds:g} s"
                )
        with self._counted(fd):
            yield

    def join(self) -> int | None:
        """A descriptor for a child process, which uses the device until all copies are closed.

        None where this process has it alone, or nothing is agreed.
        """
        if self._uses and self._is_agreed:
            fd = self._open()
            with contextlib.suppress(BlockingIOError):  # Ours alone, and the child's with it.
                fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return fd
            os.close(fd)
            return None
        return self._joined()

    def note_holder(self, pid: int) -> None:
        """Says that a process keeps hold of the device, also while it does nothing there."""
        if self._is_agreed and (started := _start_of(pid)):
            with contextlib.suppress(OSError):
                self._note_of(pid).write_text(started, encoding="ascii")

    def holders(self) -> frozenset[int]:
        """Ids of the processes that were noted and live; who has ended is forgotten."""
        if not self._is_agreed:
            return frozenset()
        living = set()
        for note in self._folder.glob("holder-*"):
            pid = int(note.name.rpartition("-")[2])
            with contextlib.suppress(OSError):
                if note.read_text(encoding="ascii") == _start_of(pid):
                    living.add(pid)
                else:
                    note.unlink()
        return frozenset(living)

    def _joined(self) -> int | None:
        if not self._is_agreed:
            return None
        until = time.monotonic() + self._seconds
        fd = self._open()
        with _opened(self._folder / "turn") as turn:
            _ = _locked(turn, fcntl.LOCK_SH, until) and _locked(fd, fcntl.LOCK_SH, until)
        return fd

    def _open(self) -> int:
        return _open(self._folder / "use")

    def _note_of(self, pid: int) -> Path:
        return self._folder / f"holder-{pid}"

    @contextlib.contextmanager
    def _counted(self, fd: int | None) -> Iterator[None]:
        self._uses += 1
        try:
            yield
        finally:
            self._uses -= 1
            if fd is not None:
                os.close(fd)


def _is_private(folder: Path) -> bool:
    """Whether a folder is there, or can be made, that is this user's alone."""
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        return folder.is_dir() and not folder.is_symlink() and found.st_uid == os.getuid()
    return False


def _made(folder: Path) -> bool:
    with contextlib.suppress(OSError):
        folder.mkdir(exist_ok=True)
        return os.access(folder, os.W_OK)
    return False


def _open(file: Path) -> int:
    return os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


@contextlib.contextmanager
def _opened(file: Path) -> Iterator[int]:
    fd = _open(file)
    try:
        yield fd
    finally:
        os.close(fd)


def _locked(fd: int, operation: int, until: float) -> bool:
    """Whether a lock could be taken in time."""
    pause, longest = _PAUSES
    while True:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(fd, operation | fcntl.LOCK_NB)
            return True
        if time.monotonic() > until:
            return False
        time.sleep(pause)
        pause = min(2 * pause, longest)


def _start_of(pid: int) -> str:
    """When a process started, in the kernel's own words; "" for one that has ended.

    The next process with the same id has another.
    """
    with contextlib.suppress(OSError):
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return stat.rpartition(")")[2].split()[19]
    return ""
