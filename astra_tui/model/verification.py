"""A session's accepted candidates, tried again: the journal against what is found here."""

from __future__ import annotations

import msgspec

from astra_tui.model.check import CheckVerdict
from astra_tui.model.timing import Timing


class CounterPair(msgspec.Struct, frozen=True):
    """One counter, added up over the workloads."""

    name: str
    recorded: int
    measured: int


class TimingPair(msgspec.Struct, frozen=True):
    """A candidate against one other version, timed twice.

    `tolerance` is how far the ratios may be apart, as a fraction; `disagreement` says in words why
    the two do not say the same. Both are empty or 0 where nothing was timed here.
    """

    base: str
    recorded: Timing
    measured: Timing | None
    tolerance: float
    disagreement: str


class CandidateVerification(msgspec.Struct, frozen=True):
    """One accepted candidate; it agrees where there are no problems."""

    candidate: str
    round: int
    recorded: CheckVerdict | None
    measured: CheckVerdict
    cases: int
    worst_recorded: float
    """Largest error of an output as a fraction of what is allowed."""
    worst_measured: float
    counters: tuple[CounterPair, ...]
    timings: tuple[TimingPair, ...]
    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()
    """What could not be compared, and why; or by what less it was."""
    counters_compared: bool = False
    """Whether the counters were compared: with the very compiler that counted."""

    @property
    def agrees(self) -> bool:
        """Whether everything that the journal says of it was found again."""
        return not self.problems
