"""What a session's folder holds with its journal: sources, prompts and replies under the hashes of
their texts, and the lock of its one writer.
"""

from __future__ import annotations

import fcntl
import os
import re
import socket
from pathlib import Path

import msgspec

from astra_tui.model.digest import content_hash, short
from astra_tui.model.errors import OutOfResources, UserError
from astra_tui.sessions.journal_lines import LARGEST_TEXT
from astra_tui.sessions.safe_open import (
    open_to_write,
    read_inside,
    write_inside,
)

_HASH = re.compile(r"[0-9a-f]{64}")
_RESTORE = "restore the session's folder from a copy; its journal can still be read"


def blob_path(folder: Path, hash_: str) -> Path:
    """Where a session keeps the text with this hash."""
    return folder / "blobs" / hash_[:2] / hash_


def source_path(folder: Path, hash_: str) -> Path:
    """Where a session keeps a kernel source under a name that editors know."""
    return folder / "sources" / f"{short(hash_)}.cu"


def read_blob(folder: Path, hash_: str) -> str:
    """The text with this hash. Raises UserError when it is missing or not what it was."""
    if not _HASH.fullmatch(hash_):
        raise UserError(f"'{hash_}' names no stored text: a SHA-256 in hexadecimal does")
    path = blob_path(folder, hash_)
    try:
        content = read_inside(folder, _blob_name(hash_), LARGEST_TEXT)
    except FileNotFoundError:
        message = f"the text {short(hash_)} of this session is missing"
        raise UserError(message, file=str(path), hint=_RESTORE) from None
    if content_hash(content) != hash_:
        message = "this text is damaged: its hash is not its name"
        raise UserError(message, file=str(path), hint=_RESTORE)
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise UserError("this is no text in UTF-8", file=str(path)) from None


def write_blob(folder: Path, text: str) -> str:
    """Stores a text, byte for byte, and returns its hash. It is on the disk afterwards."""
    hash_ = content_hash(text)
    name, content = _blob_name(hash_), text.encode()
    if len(content) > LARGEST_TEXT:
        message = f"this text is too large to be stored: {LARGEST_TEXT:,} bytes at most"
        raise UserError(message, file=str(folder))
    if not _holds(folder, name, content):
        write_inside(folder, name, content)
    return hash_


def write_source(folder: Path, text: str) -> str:
    """Stores a kernel source, also under the name that editors know; returns its hash."""
    hash_ = write_blob(folder, text)
    name, content = str(source_path(Path(), hash_)), text.encode()
    if not _holds(folder, name, content):
        write_inside(folder, name, content)
    return hash_


def _blob_name(hash_: str) -> str:
    return str(blob_path(Path(), hash_))


def _holds(folder: Path, name: str, content: bytes) -> bool:
    try:
        return read_inside(folder, name, LARGEST_TEXT) == content
    except (FileNotFoundError, UserError):
        return False


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
    """Who writes the session now; None when no one does.

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
