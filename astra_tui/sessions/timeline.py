"""A session's past, at any place: its state there, its turning points, the time between events.

Positions count events: at position n the first n events have happened, so that 0 is before the
first one and `len(timeline)` is the end. Everything here is pure.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from operator import sub
from pathlib import Path

import msgspec

from astra_tui.model.check import CheckVerdict
from astra_tui.model.errors import UserError
from astra_tui.model.events import (
    BestChanged,
    CheckFinished,
    CodeFailed,
    CompileFinished,
    DecisionTaken,
    ErrorOccurred,
    Event,
    RoundOpened,
    SessionClosed,
    VerdictReached,
)
from astra_tui.model.fold import BulkFold, ImpossibleEvent
from astra_tui.model.state import SessionState
from astra_tui.sessions.journal_lines import Record, StateLimits
from astra_tui.sessions.journal_reader import Damage, journal_path

EVENTS_BETWEEN_SNAPSHOTS = 256
MAX_SNAPSHOTS = 64
"""Of longer sessions fewer states are kept, so that memory stays bounded."""

LONGEST_WAIT = 2.0
"""Seconds of its own time that a replay waits for one event at most."""

IDLE_SECONDS = 30.0
"""A stretch without an event that is worth a word, however much of it is waited for."""


class MomentKind(StrEnum):
    """The kinds of turning points."""

    ROUND = "round"
    """A round began."""
    DECISION = "decision"
    VERDICT = "verdict"
    BEST = "best"
    ERROR = "error"
    """Code that was not written, not compiled or wrong, or an error outside of the candidates."""
    END = "end"
    """An engine closed the session; a session that was resumed has several."""


class Moment(msgspec.Struct, frozen=True):
    """A turning point; its event is the last one of the state at `position`."""

    position: int
    seq: int
    kind: MomentKind
    round: int


class Break(msgspec.Struct, frozen=True):
    """Where the events stop making sense: `seq` is the first that cannot follow the others."""

    position: int
    seq: int
    message: str


class Timeline:
    """The states and turning points of a session, found in a time that hardly grows with it.

    Every k events one state is kept; the others are folded from the one before them, at most k
    events. States share what they have in common. Where an event cannot follow the others, the
    timeline ends before it and `broken` says so. `damage` is what the journal's reader could not
    read, which has no place in the timeline.
    """

    def __init__(self, records: Sequence[Record], damage: Sequence[Damage] = ()):
        self.damage = tuple(damage)
        self.broken: Break | None = None
        self._stride = max(EVENTS_BETWEEN_SNAPSHOTS, -(-len(records) // MAX_SNAPSHOTS))
        self._snapshots: list[SessionState] = []
        self._records = tuple(records)[: self._fold(records)]
        self.moments = _moments(self._records)
        self._positions = [m.position for m in self.moments]
        self._seqs = [r.seq for r in self._records]
        self._elapsed = _elapsed(self._records)
        self._shown: tuple[int, SessionState] = (0, SessionState())

    def __len__(self) -> int:
        return len(self._records)

    @property
    def records(self) -> tuple[Record, ...]:
        """The events that make sense, with their numbers and times."""
        return self._records

    def state(self, position: int) -> SessionState:
        """The state after the first `position` events. Raises IndexError outside of the session."""
        if not 0 <= position <= len(self):
            raise IndexError(f"position {position} of {len(self)}")
        start, state = self._nearest(position)
        if start < position:
            folding = BulkFold(state)
            for record in self._records[start:position]:
                folding.apply(record.event)
            state = folding.state()
        self._shown = (position, state)
        return state

    def final_state(self) -> SessionState:
        """The state at the end."""
        return self.state(len(self))

    def event(self, position: int) -> Event:
        """The event that made the state at a position. Raises IndexError at position 0."""
        if position < 1:
            raise IndexError("nothing has happened at position 0")
        return self._records[position - 1].event

    def position_of(self, seq: int) -> int:
        """The position after the event with this number, or after the last one before it."""
        return bisect_right(self._seqs, seq)

    def following(self, position: int, kinds: Collection[MomentKind]) -> Moment | None:
        """The next turning point of some kinds after a position."""
        start = bisect_right(self._positions, position)
        return next((m for m in self.moments[start:] if m.kind in kinds), None)

    def preceding(self, position: int, kinds: Collection[MomentKind]) -> Moment | None:
        """The last turning point of some kinds before a position."""
        end = bisect_left(self._positions, position)
        return next((m for m in reversed(self.moments[:end]) if m.kind in kinds), None)

    @cached_property
    def gaps(self) -> tuple[float, ...]:
        """Seconds between the event of each position and the one before it; 0 where clocks went
        back.
        """
        return (0.0, *map(sub, self._elapsed[1:], self._elapsed))

    def seconds_before(self, position: int) -> float:
        """The gap before the event of a position."""
        return self.gaps[position]

    def elapsed(self, position: int) -> float:
        """Seconds from the first event to the one of a position, idle stretches included."""
        return self._elapsed[position]

    def _nearest(self, position: int) -> tuple[int, SessionState]:
        """A known state at or before a position: a kept one, or the one that was shown last."""
        index = min(position // self._stride, len(self._snapshots) - 1)
        kept = index * self._stride
        shown, state = self._shown
        return (shown, state) if kept <= shown <= position else (kept, self._snapshots[index])

    def _fold(self, records: Sequence[Record]) -> int:
        """Keeps the states; returns how many events make sense."""
        folding, growth = BulkFold(SessionState()), StateLimits()
        for position, record in enumerate(records):
            if position % self._stride == 0:
                self._snapshots.append(folding.state())
            try:
                growth.apply(folding, record.event)
            except ImpossibleEvent as error:
                self.broken = Break(position, record.seq, str(error))
                return position
        if not self._snapshots:
            self._snapshots.append(folding.state())
        return len(records)


class Wait(msgspec.Struct, frozen=True):
    """How long a replay waits before an event, and how much of the time it leaves out.

    `seconds` are of the replay's clock, `left_out` of the session's.
    """

    seconds: float
    left_out: float


def paced(seconds: float, speed: float, longest: float) -> Wait:
    """The wait for a gap of a session at a speed; no longer than `longest` seconds of the replay.

    A speed of infinity waits for nothing and leaves nothing out.
    """
    wait = seconds / speed
    if wait <= longest:
        return Wait(wait, 0.0)
    return Wait(longest, seconds - longest * speed)


def position_after(timeline: Timeline, seq: int | None, folder: Path) -> int:
    """The position after the event with a number, or the end for None.

    Raises UserError where the session of this folder ends before it.
    """
    if seq is None:
        return len(timeline)
    last = timeline.records[-1].seq if len(timeline) else -1
    if seq > last:
        raise UserError(
            f"this session has no event {seq}",
            file=str(journal_path(folder)),
            hint=f"its last event is {last}",
        )
    return timeline.position_of(seq)


def _elapsed(records: Sequence[Record]) -> list[float]:
    """By position; a clock that went back, or cannot be read, adds nothing."""
    elapsed, before = [0.0], None
    for record in records:
        now = _clock(record.time)
        step = 0.0 if now is None or before is None else max(0.0, now - before)
        elapsed.append(elapsed[-1] + step)
        before = before if now is None else now
    return elapsed


def _clock(time: str) -> float | None:
    try:
        return datetime.fromisoformat(time).timestamp()
    except (ValueError, OverflowError):
        return None


def _moments(records: Sequence[Record]) -> tuple[Moment, ...]:
    moments, round_ = [], 0
    for position, record in enumerate(records, start=1):
        event = record.event
        kind = _KINDS.get(type(event))
        if kind is None:
            continue
        if isinstance(event, RoundOpened):
            round_ = event.round
        if kind is not MomentKind.ERROR or _failed(event):
            moments.append(Moment(position, record.seq, kind, round_))
    return tuple(moments)


_KINDS: dict[type[Event], MomentKind] = {
    RoundOpened: MomentKind.ROUND,
    DecisionTaken: MomentKind.DECISION,
    VerdictReached: MomentKind.VERDICT,
    BestChanged: MomentKind.BEST,
    SessionClosed: MomentKind.END,
    ErrorOccurred: MomentKind.ERROR,
    CodeFailed: MomentKind.ERROR,
    CompileFinished: MomentKind.ERROR,
    CheckFinished: MomentKind.ERROR,
}
"""Of compilations and checks, those that failed."""


def _failed(event: Event) -> bool:
    match event:
        case CompileFinished(ok=True) | CheckFinished(verdict=CheckVerdict.PASSED):
            return False
    return True
