"""Two candidates of saved sessions: how each came about, and where they differ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from astra_tui.model.check import CaseOutcome
from astra_tui.model.errors import UserError
from astra_tui.model.ledger import Score, score
from astra_tui.model.plan import Plan
from astra_tui.model.state import SessionState
from astra_tui.model.timing import Timing
from astra_tui.model.verdict import RoundVerdict
from astra_tui.sessions.branches import Branch, find_branch, places_of
from astra_tui.sessions.folder import read_blob
from astra_tui.sessions.integrity import Trust, read_session

LARGEST_SOURCE = 1_000_000
"""Characters; a kernel source that is longer was written by no agent, and its diff takes long."""


@dataclass(frozen=True, slots=True)
class Step:
    """A plan on the way from the baseline to a candidate, as it was decided, and its result.

    `measured` is None where the plan's counter was not measured.
    """

    round: int
    plan: Plan
    verdict: RoundVerdict | None
    measured: Score | None


@dataclass(frozen=True, slots=True)
class Side:
    """A candidate, the session that it is of, its source, and the plans that led to it in order.

    `trust` is the verdict on the session: what is not whole is compared, and marked.
    """

    folder: Path
    state: SessionState
    branch: Branch
    source: str
    steps: tuple[Step, ...]
    trust: Trust

    @property
    def name(self) -> str:
        """As in "session:0123456789ab"."""
        return f"{self.folder.name}:{self.branch.candidate[:12]}"

    @property
    def other_plans(self) -> int:
        """How many plans of the session led elsewhere."""
        return sum(len(r.proposals) for r in self.state.rounds) - len(self.steps)


Sides = tuple[Side, Side]


class CaseDifference(NamedTuple):
    """A case that ended in two ways; None where it was not run."""

    case: str
    first: CaseOutcome | None
    second: CaseOutcome | None


def read_side(folder: Path, choice: str = "") -> Side:
    """A candidate by its hash, by its round as in "r3", or the best one for "".

    Raises UserError where the session cannot be read, or has no such candidate.
    """
    session = read_session(folder)
    state = session.state
    branch = find_branch(state, str(folder), choice)
    source = read_blob(folder, branch.candidate)
    if len(source) > LARGEST_SOURCE:
        raise UserError(f"this source is longer than {LARGEST_SOURCE:,}", file=str(folder))
    steps = tuple(_steps_back(state, branch.candidate))
    return Side(folder, state, branch, source, steps[::-1], session.trust)


def case_differences(sides: Sides) -> tuple[CaseDifference, ...]:
    """The cases that ended in two ways, in the order in which they ran."""
    first, second = (_outcomes(side) for side in sides)
    return tuple(
        CaseDifference(case, first.get(case), second.get(case))
        for case in first | second
        if first.get(case) != second.get(case)
    )


def direct_timing(sides: Sides) -> Timing | None:
    """The latest timing of one side beside the other, if a session holds one.

    One of the second beside the first is preferred; `base` tells.
    """
    return _timing_beside(sides, 1, 0) or _timing_beside(sides, 0, 1)


def _timing_beside(sides: Sides, candidate: int, base: int) -> Timing | None:
    hashes = [side.branch.candidate for side in sides]
    found = (t for side in sides for t in reversed(side.state.candidate(hashes[candidate]).timings))
    return next((t.timing for t in found if t.timing.base == hashes[base]), None)


def _outcomes(side: Side) -> dict[str, CaseOutcome]:
    results = side.state.candidate(side.branch.candidate).results
    return {result.case.id: result.outcome for result in results}


def _steps_back(state: SessionState, candidate: str) -> Iterator[Step]:
    """The plans from a candidate back to the baseline."""
    places = places_of(state)
    while candidate in places:
        round_, proposal = places.pop(candidate)  # Of a made-up journal it may come again.
        plan = state.plan_of(round_.number, proposal.index)
        verdict = proposal.verdict
        comparison = verdict.comparison if verdict else None
        measured = score(plan.prediction, comparison) if comparison else None
        yield Step(round_.number, plan, verdict, measured)
        candidate = round_.base
