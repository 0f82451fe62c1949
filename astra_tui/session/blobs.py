"""Sources, prompts and replies of a session, each stored once under the hash of its text."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from itertools import takewhile
from pathlib import Path

from astra_tui.model.contents import content_hash
from astra_tui.model.errors import UserError
from astra_tui.session.inside import LARGEST_TEXT, read_inside

_HASH = re.compile(r"[0-9a-f]{64}")
_RESTORE = "restore the session's folder from a copy; its journal can still be read"


def blob_path(folder: Path, hash_: str) -> Path:
    """Where a session keeps the text with this hash."""
    return folder / "blobs" / hash_[:2] / hash_


def source_path(folder: Path, hash_: str) -> Path:
    """Where a session keeps a kernel source under a name that editors know."""
    return folder / "sources" / f"{hash_[:12]}.cu"


def read_blob(folder: Path, hash_: str) -> str:
    """The text with this hash. Raises UserError when it is missing or not what it was."""
    if not _HASH.fullmatch(hash_):
        raise UserError(f"'{hash_}' names no stored text: a SHA-256 in hexadecimal does")
    path = blob_path(folder, hash_)
    try:
        content = read_inside(folder, f"blobs/{hash_[:2]}/{hash_}", LARGEST_TEXT)
    except FileNotFoundError:
        message = f"the text {hash_[:12]} of this session is missing"
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
    path = blob_path(folder, hash_)
    content = text.encode()
    if not path.exists() or path.read_bytes() != content:
        write_file(path, content)
    return hash_


def write_file(path: Path, content: bytes) -> None:
    """Writes a file at once or not at all. Raises UserError when the disk does not take it."""
    try:
        make_folder(path.parent)
        _write_and_rename(path, content)
        sync_folder(path.parent)
    except OSError as error:
        message = f"cannot be written: {error.strerror}"
        raise UserError(message, file=str(path), hint="is the disk full?") from None


def _write_and_rename(path: Path, content: bytes) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:12]}-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def make_folder(folder: Path, *, exist_ok: bool = True) -> None:
    """Makes a folder, and those above it, where they are missing; each that is made lasts."""
    missing = list(takewhile(lambda place: not place.is_dir(), (folder, *folder.parents)))
    folder.mkdir(parents=True, exist_ok=exist_ok)
    for made in missing:
        with contextlib.suppress(PermissionError):  # A folder may be written and not read.
            sync_folder(made.parent)


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder last."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
