"""The lines of a journal, the seals that bind each to all before it, and their bounds.

The writer keeps to the bounds, so that what it wrote can be read. Each event copies the list that
it adds to; a list without an end would take quadratic time.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any

import msgspec

from astra_tui.model.digest import content_hash
from astra_tui.model.events import (
    AnalysisGiven,
    AnyEvent,
    CallReserved,
    CaseAdded,
    CaseChecked,
    CheckStarted,
    CodeFailed,
    CodeWritten,
    DiffReviewed,
    ErrorOccurred,
    Event,
    NoteAdded,
    PlanProposed,
    RoundOpened,
    TimingFinished,
    WorkloadTimed,
)
from astra_tui.model.fold import BulkFold, ImpossibleEvent
from astra_tui.model.state import SessionState

JOURNAL_NAME = "journal.jsonl"


class Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """One event as the journal holds it.

    `seq` counts from 0. `time` is UTC with milliseconds; `mono` is the writer's monotonic clock
    in seconds, which orders and spaces the events of one engine. `seal` is a hash of the line and
    of the seal before it.
    """

    seq: int
    time: str
    mono: float
    event: AnyEvent
    seal: str = ""


class MalformedRecord(ValueError):
    """A line that is no record."""


SEAL_DIGITS = 32
_SEAL_BYTES = SEAL_DIGITS + len(',"seal":""}')
_decoder = msgspec.json.Decoder(Record, strict=False)


def timestamp(now: datetime) -> str:
    """As in 2026-11-21T12:00:00.000Z."""
    return now.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def encode_record(record: Record) -> bytes:
    """One line with its line feed, with all fields that the record has; `sealed` gives it a seal.

    JSON has no infinities and no NaN, which errors of outputs can be: they are written as the
    strings "inf", "-inf" and "nan".
    """
    line = msgspec.to_builtins(msgspec.structs.replace(record, mono=round(record.mono, 6)))
    written = msgspec.json.encode(line)
    if b"null" in written:  # As which infinities and NaN are written, if there are any.
        written = msgspec.json.encode(_named_floats(line))
    return written + b"\n"


def sealed(line: bytes, before: str) -> bytes:
    """A line of `encode_record` with its seal, which covers the line and the seal `before` it.

    A line that is altered, moved, added or taken out breaks the chain at its place.
    """
    body = line.removesuffix(b"}\n")
    return b'%s,"seal":"%s"}\n' % (body, _seal(body, before).encode())


def seal_holds(line: bytes, before: str) -> bool:
    """Whether a line of a journal, without its line feed, is the one that was sealed."""
    body, end = line[:-_SEAL_BYTES], line[-_SEAL_BYTES:]
    return end == b',"seal":"%s"}' % _seal(body, before).encode()


def _seal(body: bytes, before: str) -> str:
    return content_hash(before.encode() + body)[:SEAL_DIGITS]


def decode_record(line: bytes) -> Record:
    """The record of a line. Raises MalformedRecord, with what is wrong and where in the line."""
    try:
        return _decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedRecord(str(error)) from None


def _named_floats(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {key: _named_floats(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [_named_floats(v) for v in value]
    return value


LARGEST_JOURNAL = 128 * 1024 * 1024
"""Bytes; a round on a GPU takes 200 kB, so that these are 600 rounds."""

MAX_UNPACKED = 40
"""Times the size of a packed journal; real ones unpack to six times their size."""

SMALL_JOURNAL = 8 * 1024 * 1024
"""Bytes that any packed journal may unpack to."""

LONGEST_LINE = 4 * 1024 * 1024
"""Bytes; the longest line of a real session holds the samples of one workload, under 100 kB."""

MAX_EVENTS = 200_000
"""A round has about 100, so that these are 2,000 rounds."""

LARGEST_TEXT = 16 * 1024 * 1024
"""Bytes of one source, prompt or reply."""

MAX_FILES = 100_000

MAX_PARTS = 40_000
"""Rounds, candidates and questions together, and the parts of any one list: 10,000 rounds."""

MAX_COPIED = 400_000_000
"""Parts that are copied in all, some 5 ns each. Only lists within a round or a candidate are."""

_growing = attrgetter(
    "rounds", "candidates", "questions", "decisions", "notes", "cases", "troubles"
)


class StateLimits:
    """Counts what is added to the lists of a state."""

    def __init__(self) -> None:
        self._added: Counter[tuple[type[Event], object]] = Counter()
        self._copied = 0

    def apply(self, folding: BulkFold, event: Event) -> None:
        """Folds one event more. Raises ImpossibleEvent, also where the state grows too large."""
        before, found = folding.current, _LISTS.get(type(event))
        if isinstance(event, RoundOpened) and event.round != len(before.rounds):
            raise ImpossibleEvent(f"round {event.round} after {len(before.rounds)} others")
        if isinstance(event, CheckStarted):
            self._added[CaseChecked, event.candidate] = 0
        elif found is not None:
            name, owner = found
            key = name, owner(event)
            self._added[key] = added = self._added[key] + 1
            if added > MAX_PARTS:
                raise ImpossibleEvent(f"more than {MAX_PARTS:,} times {type(event).__name__}")
            self._copied += added
        folding.apply(event)
        state = folding.current
        if state is not before:
            self._copied += _copied(before, state)
        if self._copied > MAX_COPIED:
            raise ImpossibleEvent("its rounds, candidates and lists change too often to be folded")
        if len(state.rounds) + len(state.candidates) + len(state.questions) > MAX_PARTS:
            raise ImpossibleEvent(f"more than {MAX_PARTS:,} rounds, candidates and questions")


def fold_within_bounds(events: Iterable[Event]) -> SessionState:
    """The state after these events. Raises ImpossibleEvent."""
    growth, folding = StateLimits(), BulkFold(SessionState())
    for event in events:
        growth.apply(folding, event)
    return folding.state()


def _copied(before: SessionState, after: SessionState) -> int:
    """The parts of what was made again."""
    copied = len(after.questions) if after.auto is not before.auto else 0  # All are looked at.
    for old, new in zip(_growing(before), _growing(after), strict=True):
        if new is not old:
            copied += len(new)
    return copied


_of_candidate, _of_round = attrgetter("candidate"), attrgetter("round")

_LISTS: dict[type[Event], tuple[type[Event], Callable[[Any], object]]] = {
    CaseChecked: (CaseChecked, _of_candidate),
    AnalysisGiven: (AnalysisGiven, _of_candidate),
    WorkloadTimed: (WorkloadTimed, _of_candidate),
    TimingFinished: (TimingFinished, attrgetter("timing.candidate")),
    DiffReviewed: (DiffReviewed, _of_round),
    CodeWritten: (PlanProposed, _of_round),
    CodeFailed: (PlanProposed, _of_round),
    PlanProposed: (PlanProposed, _of_round),
    **{kind: (kind, type) for kind in (NoteAdded, CaseAdded, ErrorOccurred, CallReserved)},
}
"""Events that add to a list: which one, and what of an event says whose it is."""
