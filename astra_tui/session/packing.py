"""Journals that are kept compressed, as in recorded sessions: read, and never written to."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

from astra_tui.model.errors import UserError
from astra_tui.session.inside import LARGEST_JOURNAL, read_inside
from astra_tui.session.records import JOURNAL_NAME

PACKED_NAME = f"{JOURNAL_NAME}.gz"

_GZIP = 16 + zlib.MAX_WBITS


def pack(folder: Path) -> Path:
    """Compresses the journal of a session that is over; the same bytes each time.

    Raises UserError where there is no plain journal.
    """
    plain = folder / JOURNAL_NAME
    try:
        content = read_inside(folder, JOURNAL_NAME, LARGEST_JOURNAL)
    except FileNotFoundError:
        raise UserError("there is no journal to pack", file=str(plain)) from None
    packed = folder / PACKED_NAME
    packed.write_bytes(gzip.compress(content, mtime=0))
    if unpacked(folder) != content:
        packed.unlink()
        raise UserError("the packed journal does not give back the journal", file=str(packed))
    plain.unlink()
    return packed


def unpacked(folder: Path) -> bytes:
    """The bytes of a packed journal.

    Raises FileNotFoundError, and UserError where it is damaged or unpacks to more than a journal
    may have. What can be unpacked of one that was cut is given, as with a plain one.
    """
    file = folder / PACKED_NAME
    content = read_inside(folder, PACKED_NAME, LARGEST_JOURNAL)
    unpacking = zlib.decompressobj(_GZIP)
    try:
        journal = unpacking.decompress(content, LARGEST_JOURNAL + 1)
    except zlib.error as error:
        raise UserError(f"this is not a packed journal: {error}", file=str(file)) from None
    if len(journal) > LARGEST_JOURNAL:
        raise UserError(
            f"this file is too large: {LARGEST_JOURNAL:,} bytes at most", file=str(file)
        )
    return journal
