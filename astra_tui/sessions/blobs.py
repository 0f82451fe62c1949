"""Sources, prompts and replies of a session, each stored once under the hash of its text."""

from __future__ import annotations

import re
from pathlib import Path

from astra_tui.model.contents import content_hash
from astra_tui.model.errors import UserError
from astra_tui.sessions.limits import LARGEST_TEXT
from astra_tui.sessions.safe_open import read_inside, write_inside

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
        content = read_inside(folder, _blob_name(hash_), LARGEST_TEXT)
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
