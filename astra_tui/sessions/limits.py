"""Bounds on a session's files, and on the state that its journal may make.

The writer keeps to them, so that what it wrote can be read. Each event copies the list that it adds
to; a list without an end would take quadratic time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from operator import attrgetter

from astra_tui.model.events import (
    AnalysisGiven,
    CallReserved,
    CaseAdded,
    CaseChecked,
    CheckStarted,
    CodeFailed,
    CodeWritten,
    ErrorOccurred,
    Event,
    NoteAdded,
    PlanProposed,
    RoundOpened,
    TimingFinished,
    WorkloadTimed,
)
from astra_tui.model.fold import ImpossibleEvent, apply
from astra_tui.model.state import SessionState

LARGEST_JOURNAL = 128 * 1024 * 1024
"""Bytes; a round on a GPU takes 200 kB, so that these are 600 rounds."""

MOST_UNPACKED = 40
"""Times the size of a packed journal; real ones unpack to six times their size."""

SMALL_JOURNAL = 8 * 1024 * 1024
"""Bytes that any packed journal may unpack to."""

LONGEST_LINE = 4 * 1024 * 1024
"""Bytes; the longest line of a real session holds the samples of one workload, under 100 kB."""

MOST_EVENTS = 200_000
"""A round has about 100, so that these are 2,000 rounds."""

LARGEST_TEXT = 16 * 1024 * 1024
"""Bytes of one source, prompt or reply."""

MOST_FILES = 100_000

MOST_PARTS = 10_000
"""Rounds, candidates and questions together, and the parts of any one list."""

MOST_COPIED = 400_000_000
"""Parts that are copied in all, some 5 ns each. The 200,000 events that a journal may have copy a
third of that in a session of 2,000 rounds.
"""

_growing = attrgetter(
    "rounds", "candidates", "questions", "decisions", "notes", "cases", "troubles"
)


class Growth:
    """Counts what is added to the lists of a state."""

    def __init__(self) -> None:
        self._added: Counter[tuple[type[Event], str]] = Counter()
        self._copied = 0

    def apply(self, state: SessionState, event: Event) -> SessionState:
        """The state after one event more. Raises ImpossibleEvent, also where it grows too large."""
        if isinstance(event, RoundOpened) and event.round != len(state.rounds):
            raise ImpossibleEvent(f"round {event.round} after {len(state.rounds)} others")
        if isinstance(event, CheckStarted):
            self._added[CaseChecked, event.candidate] = 0
        key = _list_of(event)
        if key is not None:
            self._added[key] += 1
            if self._added[key] > MOST_PARTS:
                raise ImpossibleEvent(f"more than {MOST_PARTS:,} times {type(event).__name__}")
            self._copied += self._added[key]
        before, state = state, apply(state, event)
        self._copied += _copied(before, state)
        if self._copied > MOST_COPIED:
            raise ImpossibleEvent("its rounds, candidates and lists change too often to be folded")
        if len(state.rounds) + len(state.candidates) + len(state.questions) > MOST_PARTS:
            raise ImpossibleEvent(f"more than {MOST_PARTS:,} rounds, candidates and questions")
        return state


def fold_within_bounds(events: Iterable[Event]) -> SessionState:
    """The state after these events. Raises ImpossibleEvent."""
    growth, state = Growth(), SessionState()
    for event in events:
        state = growth.apply(state, event)
    return state


def _copied(before: SessionState, after: SessionState) -> int:
    """The parts of what was made again."""
    if after is before:
        return 0
    copied = len(after.questions) if after.auto is not before.auto else 0  # All are looked at.
    for old, new in zip(_growing(before), _growing(after), strict=True):
        if new is not old:
            copied += len(new)
    return copied


def _list_of(event: Event) -> tuple[type[Event], str] | None:
    """The list that an event adds to."""
    match event:
        case CaseChecked() | AnalysisGiven() | WorkloadTimed():
            return type(event), event.candidate
        case TimingFinished():
            return TimingFinished, event.timing.candidate
        case CodeWritten() | CodeFailed() | PlanProposed():
            return PlanProposed, str(event.round)
        case NoteAdded() | CaseAdded() | ErrorOccurred() | CallReserved():
            return type(event), ""
    return None
