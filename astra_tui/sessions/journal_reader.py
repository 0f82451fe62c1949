"""Reading a journal, plain or packed: what is whole is read, what is not is reported with its
place.

One candidate's cases can be read again while an engine writes. Recorded sessions keep their journal
packed, which is never written to.
"""

from __future__ import annotations

import gzip
import math
import zlib
from collections.abc import Iterator
from io import BytesIO
from itertools import islice
from pathlib import Path

import msgspec

from astra_tui.model.check import CaseResult
from astra_tui.model.errors import Place, UserError
from astra_tui.model.events import SCHEMA_VERSION, CaseChecked, CheckStarted, Event, SessionOpened
from astra_tui.model.fold import ImpossibleEvent, fold
from astra_tui.model.state import SessionState
from astra_tui.sessions.journal_lines import (
    JOURNAL_NAME,
    LARGEST_JOURNAL,
    LONGEST_LINE,
    MAX_EVENTS,
    MAX_UNPACKED,
    SMALL_JOURNAL,
    MalformedRecord,
    Record,
    decode_record,
    fold_within_bounds,
    seal_holds,
)
from astra_tui.sessions.safe_open import (
    files_inside,
    lines_inside,
    read_inside,
    remove_inside,
    write_inside,
)

MAX_FLAWS = 100


class Damage(msgspec.Struct, frozen=True):
    """A part of a journal that cannot be read: its line, from 1, and its first byte, from 0."""

    line: int
    offset: int
    message: str
    truncated: bool = False
    """The last line ends in the middle, as after a crash."""

    def describe(self, file: Path) -> str:
        """As in "sessions/x/journal.jsonl:7: message"."""
        return f"{file}:{self.line}: {self.message}"


class JournalContents(msgspec.Struct, frozen=True):
    """The records of a journal in order, and what could not be read between them."""

    records: tuple[Record, ...]
    damage: tuple[Damage, ...]
    whole_bytes: int
    """Where the last complete line ends."""
    content: bytes = b""
    """The journal that was read."""

    @property
    def altered(self) -> tuple[int, ...]:
        """The lines, from 1, whose checksum does not fit what stands before it: the first 100.

        All of them are hashed, which takes as long as reading them.
        """
        return tuple(islice(self._altered(), MAX_FLAWS))

    def _altered(self) -> Iterator[int]:
        unreadable, seals = {d.line for d in self.damage}, (r.seal for r in self.records)
        before = ""
        for number, line in enumerate(islice(BytesIO(self.content), self.lines), start=1):
            if line.endswith(b"\n"):
                if not seal_holds(line[:-1], before):
                    yield number
                before = _seal_of(line) if number in unreadable else next(seals)

    @property
    def events(self) -> tuple[Event, ...]:
        """The events of the records."""
        return tuple(r.event for r in self.records)

    @property
    def lines(self) -> int:
        """How many lines the journal has, an incomplete one included."""
        return len(self.records) + len(self.damage)

    def first(self, records: int) -> JournalContents:
        """The same up to the line of one of its records, the first of which is 1."""
        last = self.line_of(records - 1)
        damage = tuple(d for d in self.damage if d.line < last)
        return JournalContents(self.records[:records], damage, self.whole_bytes, self.content)

    def line_of(self, number: int) -> int:
        """The line, from 1, of the record with this place among the records."""
        line = number + 1
        for damage in self.damage:
            if damage.truncated or damage.line > line:
                break
            line += 1
        return line

    def state(self) -> SessionState:
        """The fold of the events. Raises ImpossibleEvent when one cannot follow the others."""
        return fold_within_bounds(self.events)


class _EventHead(msgspec.Struct):
    event: str
    schema: int = 0


class _RecordHead(msgspec.Struct):
    event: _EventHead


_heads = msgspec.json.Decoder(_RecordHead)


def journal_path(folder: Path) -> Path:
    """Where a session keeps its journal: packed only where there is no plain one."""
    plain, packed = folder / JOURNAL_NAME, folder / PACKED_NAME
    return packed if packed.is_file() and not plain.exists() else plain


def is_packed(folder: Path) -> bool:
    """Whether the session's journal is compressed, so that nothing can be added to it."""
    return journal_path(folder).name == PACKED_NAME


def has_session(folder: Path) -> bool:
    """Whether a session can be resumed in this folder; one killed before its first event cannot."""
    return journal_path(folder).exists() and read_journal(folder).whole_bytes > 0


def read_journal(folder: Path) -> JournalContents:
    """Everything in a session's journal that is whole.

    Raises UserError when there is no journal, or when a newer version of this program wrote it.
    """
    return parse_journal(journal_bytes(folder), journal_path(folder))


def journal_bytes(folder: Path) -> bytes:
    """The journal, unpacked. Raises UserError when it is missing, damaged or too large."""
    try:
        if is_packed(folder):
            return unpacked(folder)
        return read_inside(folder, JOURNAL_NAME, LARGEST_JOURNAL)
    except FileNotFoundError:
        message = "this folder holds no session: its journal is missing"
        raise UserError(message, file=str(journal_path(folder))) from None


def state_of(contents: JournalContents, folder: Path) -> SessionState:
    """The state that the journal of a folder makes. Raises UserError where it makes no sense."""
    try:
        return contents.state()
    except ImpossibleEvent as error:
        raise impossible_journal(error, folder) from None


def impossible_journal(error: ImpossibleEvent, folder: Path) -> UserError:
    """What a user reads of a journal that no engine wrote."""
    return UserError(
        f"the events of this session make no sense: {error}",
        file=str(journal_path(folder)),
        hint=f"see where: astra-tui verify {folder}",
    )


def parse_journal(content: bytes, path: Path) -> JournalContents:
    """The records in the bytes of a journal; `path` names it in messages.

    Raises UserError where it has more lines than `MAX_EVENTS`, or was written by a newer version.
    """
    if content.count(b"\n") > MAX_EVENTS:
        raise UserError(f"a journal holds at most {MAX_EVENTS:,} events", file=str(path))
    parts = _Parts(path)
    for line in BytesIO(content):
        parts.add(line)
    return JournalContents(tuple(parts.records), tuple(parts.damage), parts.offset, content)


class _Parts:
    """What the lines of a journal hold, one after the other."""

    def __init__(self, path: Path):
        self.records: list[Record] = []
        self.damage: list[Damage] = []
        self.offset = 0
        self._path = path
        self._line = 0
        self._seq: float = -math.inf

    def add(self, line: bytes) -> None:
        """Takes one line with its line feed, which only the last one may lack."""
        self._line += 1
        if not line.endswith(b"\n"):
            message = "the last line ends in the middle"
            self.damage.append(Damage(self._line, self.offset, message, truncated=True))
            return
        body = line[:-1]
        try:
            record = _record(body)
            if record.seq <= self._seq:
                raise MalformedRecord(f"number {record.seq} after number {self._seq}")
            self._seq = record.seq
            if type(record.event) is SessionOpened:
                _refuse_newer(record.event.schema, self._path, self._line)
            self.records.append(record)
        except MalformedRecord as error:
            _refuse_newer(_schema_of(body), self._path, self._line)
            message = f"this line cannot be read: {error}"
            self.damage.append(Damage(self._line, self.offset, message))
        self.offset += len(line)


def _record(line: bytes) -> Record:
    if len(line) > LONGEST_LINE:
        raise MalformedRecord(f"it has {len(line):,} bytes, and {LONGEST_LINE:,} are the most")
    return decode_record(line)


def _seal_of(line: bytes) -> str:
    try:
        return _record(line).seal
    except MalformedRecord:
        return ""


def _schema_of(line: bytes) -> int:
    """The schema that a line names which this version cannot read; 0 where it names none."""
    if len(line) > LONGEST_LINE:
        return 0
    try:
        head = _heads.decode(line).event
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return 0
    return head.schema if head.event == SessionOpened.__struct_config__.tag else 0


def _refuse_newer(schema: int, path: Path, number: int) -> None:
    if schema > SCHEMA_VERSION:
        raise UserError(
            f"this journal has schema {schema}; this program reads up to {SCHEMA_VERSION}",
            file=str(path),
            place=Place(number),
            hint="upgrade astra-tui: a newer version wrote this session",
        )


_OF_CHECKS = (b'"check_started"', b'"case_checked"')


def recorded_cases(folder: Path, candidate: str, last: int) -> tuple[CaseResult, ...]:
    """The cases of a candidate as a state has them after event `last`.

    Holds no more of the journal than one line and what it returns. Lines that cannot be read are
    passed over, as the reader of a journal does. Raises UserError when there is no plain journal.
    """
    return fold(_events(folder, candidate, last)).candidate(candidate).results


def _events(folder: Path, candidate: str, last: int) -> Iterator[Event]:
    name = candidate.encode()
    for line in lines_inside(folder, JOURNAL_NAME, LONGEST_LINE):
        if name not in line or not any(tag in line for tag in _OF_CHECKS):
            continue  # Decoding every line would take seconds where this takes milliseconds.
        try:
            record = decode_record(line)
        except MalformedRecord:
            continue
        if record.seq > last:
            return
        event = record.event
        if isinstance(event, CheckStarted | CaseChecked) and event.candidate == candidate:
            yield event


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
    return min(LARGEST_JOURNAL, max(SMALL_JOURNAL, MAX_UNPACKED * packed))
