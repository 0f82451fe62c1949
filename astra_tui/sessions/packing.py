"""Journals that are kept compressed, as in recorded sessions: read, and never written to."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

from astra_tui.model.errors import UserError
from astra_tui.sessions.limits import LARGEST_JOURNAL, MOST_UNPACKED, SMALL_JOURNAL
from astra_tui.sessions.records import JOURNAL_NAME
from astra_tui.sessions.safe_open import files_inside, read_inside, remove_inside, write_inside

PACKED_NAME = f"{JOURNAL_NAME}.gz"

_GZIP = 16 + zlib.MAX_WBITS


def pack(folder: Path) -> Path:
    """Compresses the journal of a session that is over; the same bytes each time.

    The plain journal goes once the packed one was read back from the disk. Raises UserError where
    there is no plain journal, or the folder holds links.
    """
    files_inside(folder)
    try:
        content = read_inside(folder, JOURNAL_NAME, LARGEST_JOURNAL)
    except FileNotFoundError:
        raise UserError("there is no journal to pack", file=str(folder / JOURNAL_NAME)) from None
    packed = gzip.compress(content, mtime=0)
    if len(content) > _most_unpacked(len(packed)):
        message = "this journal packs too well to be unpacked again: no engine wrote one like it"
        raise UserError(message, file=str(folder / JOURNAL_NAME))
    path = write_inside(folder, PACKED_NAME, packed)
    if unpacked(folder) != content:
        remove_inside(folder, PACKED_NAME)
        raise UserError("the packed journal does not give back the journal", file=str(path))
    remove_inside(folder, JOURNAL_NAME)
    return path


def unpacked(folder: Path) -> bytes:
    """The bytes of a packed journal.

    Raises FileNotFoundError, and UserError where it is damaged or unpacks to more than a journal
    may have. What can be unpacked of one that was cut is given, as with a plain one.
    """
    file = folder / PACKED_NAME
    content = read_inside(folder, PACKED_NAME, LARGEST_JOURNAL)
    most = _most_unpacked(len(content))
    unpacking = zlib.decompressobj(_GZIP)
    try:
        journal = unpacking.decompress(content, most + 1)
    except zlib.error as error:
        raise UserError(f"this is not a packed journal: {error}", file=str(file)) from None
    if len(journal) > most:
        message = f"this file is too large: it may unpack to {most:,} bytes at most"
        raise UserError(message, file=str(file))
    if unpacking.unused_data:
        raise UserError(
            "something follows the packed journal that is no part of it", file=str(file)
        )
    return journal


def _most_unpacked(packed: int) -> int:
    """Bytes. One that packs far better than any journal of an engine was made to fill memory."""
    return min(LARGEST_JOURNAL, max(SMALL_JOURNAL, MOST_UNPACKED * packed))
