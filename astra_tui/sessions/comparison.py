"""Candidates of saved sessions: what a journal says of one, and where two differ."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from astra_tui.model.check import CaseOutcome, CheckVerdict, worst_error
from astra_tui.model.digest import short
from astra_tui.model.errors import UserError
from astra_tui.model.ledger import Score, score
from astra_tui.model.plan import Plan
from astra_tui.model.state import ProposalState, RoundState, SessionState
from astra_tui.model.timing import Timing
from astra_tui.model.verdict import Outcome, RoundVerdict
from astra_tui.sessions.folder import read_blob
from astra_tui.sessions.integrity import Trust, read_session
from astra_tui.sessions.summary import counter_totals

SHORTEST_HASH = 4
"""Digits by which a candidate may be named."""

LARGEST_SOURCE = 1_000_000
"""Characters; a kernel source that is longer was written by no agent, and its diff takes long."""


class ComparedCandidate(msgspec.Struct, frozen=True):
    """A candidate; `plan` is None for the baseline, `round` is where it was written.

    `worst_error` is the largest error of an output as a fraction of what is allowed. `timings`
    are the latest against every other version that it was timed with.
    """

    session: str
    folder: str
    candidate: str
    round: int
    task_hash: str
    plan: Plan | None
    author: str
    verdict: CheckVerdict | None
    cases: int
    failed: tuple[str, ...]
    worst_error: float
    counters: dict[str, int] | None
    outcome: Outcome | None
    reasons: tuple[str, ...]
    timings: tuple[Timing, ...]


def find_candidate(state: SessionState, folder: str, named: str) -> ComparedCandidate:
    """A candidate by its hash, by its round as in "r3", or the best one for "".

    Raises UserError where there is none, or several begin with these digits.
    """
    assert state.opened is not None
    round_, proposal, candidate = _find(state, named)
    known = state.candidate(candidate)
    verdict = proposal.verdict if proposal else None
    return ComparedCandidate(
        session=state.opened.session,
        folder=folder,
        candidate=candidate,
        round=round_,
        task_hash=state.opened.task_hash,
        plan=_plan(state, round_, proposal) if proposal else None,
        author=state.written_by(round_, proposal.index, candidate) if proposal else "task",
        verdict=known.check.verdict if known.check else None,
        cases=len(known.results),
        failed=tuple(f"{r.case.id}: {r.message}" for r in known.failures),
        worst_error=worst_error(known.results),
        counters=counter_totals(known.profile) if known.profile else None,
        outcome=verdict.outcome if verdict and verdict.candidate == candidate else None,
        reasons=verdict.reasons if verdict and verdict.candidate == candidate else (),
        timings=tuple({t.timing.base: t.timing for t in known.timings}.values()),
    )


def _plan(state: SessionState, round_: int, proposal: ProposalState) -> Plan:
    """As it was decided; no speedup is predicted where none could be measured."""
    timed = state.candidate(state.round(round_).base).is_timed
    return state.plan_of(round_, proposal.index).for_device(timed)


def _find(state: SessionState, named: str) -> tuple[int, ProposalState | None, str]:
    number = named.removeprefix("r")
    if named.startswith("r") and number.isascii() and number.isdigit():
        return _of_round(state, int(number))
    candidate = _by_hash(state, named) if named else state.best
    round_, proposal = places_of(state).get(candidate, (None, None))
    return round_.number if round_ else 0, proposal, candidate


def places_of(state: SessionState) -> dict[str, tuple[RoundState, ProposalState]]:
    """By candidate, the round and the proposal that wrote it first.

    The baseline is not among them, also where an agent wrote it again.
    """
    places: dict[str, tuple[RoundState, ProposalState]] = {}
    for round_ in state.rounds:
        for proposal in round_.proposals:
            for candidate in _written(proposal):
                places.setdefault(candidate, (round_, proposal))
    if state.opened is not None:
        places.pop(state.opened.baseline, None)
    return places


def _of_round(state: SessionState, number: int) -> tuple[int, ProposalState | None, str]:
    """What a round led to: the candidate that became the best, else the last that was written."""
    round_ = next((r for r in state.rounds if r.number == number), None)
    if round_ is None:
        last = state.rounds[-1].number if state.rounds else 0
        raise UserError(f"this session has no round {number}", hint=f"its last one is {last}")
    if number == 0:
        return 0, None, round_.base
    written = [(p, c) for p in round_.proposals for c in _written(p)]
    if not written:
        raise UserError(f"no code was written in round {number}", hint=_reasons(round_))
    chosen = [(p, c) for p, c in written if c == round_.best] or written
    proposal, candidate = chosen[-1]
    return number, proposal, candidate


def _reasons(round_: RoundState) -> str:
    verdicts = (p.verdict for p in round_.proposals)
    return "; ".join(r for v in verdicts if v is not None for r in v.reasons)


def _written(proposal: ProposalState) -> list[str]:
    return [c for a in proposal.attempts if (c := getattr(a, "candidate", ""))]


def _by_hash(state: SessionState, start: str) -> str:
    assert state.opened is not None
    known = {state.opened.baseline: None, **state.candidates}
    found = [h for h in known if h.startswith(start.lower())]
    if len(start) < SHORTEST_HASH or len(found) != 1:
        several = f"{len(found)} candidates begin with" if found else "there is no candidate"
        hint = "a hash with 4 digits or more, or a round as in r3"
        raise UserError(f"{several} '{start}'", hint=hint)
    return found[0]


class Step(msgspec.Struct, frozen=True):
    """A plan on the way from the baseline to a candidate, as it was decided, and its result.

    `measured` is None where the plan's counter was not measured.
    """

    round: int
    plan: Plan
    verdict: RoundVerdict | None
    measured: Score | None


class Side(msgspec.Struct, frozen=True):
    """A candidate, the session that it is of, its source, and the plans that led to it in order.

    `trust` is the verdict on the session: what is not whole is compared, and marked.
    """

    folder: Path
    state: SessionState
    compared: ComparedCandidate
    source: str
    steps: tuple[Step, ...]
    trust: Trust

    @property
    def name(self) -> str:
        """As in "session:0123456789ab"."""
        return f"{self.folder.name}:{short(self.compared.candidate)}"

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
    compared = find_candidate(state, str(folder), choice)
    source = read_blob(folder, compared.candidate)
    if len(source) > LARGEST_SOURCE:
        raise UserError(f"this source is longer than {LARGEST_SOURCE:,}", file=str(folder))
    steps = tuple(_steps_back(state, compared.candidate))
    return Side(folder, state, compared, source, steps[::-1], session.trust)


def case_differences(sides: Sides) -> tuple[CaseDifference, ...]:
    """The cases that ended in two ways, in the order in which they ran."""
    first, second = (_outcomes(side) for side in sides)
    return tuple(
        CaseDifference(case, first.get(case), second.get(case))
        for case in first | second
        if first.get(case) != second.get(case)
    )


def direct_timing(sides: Sides) -> Timing | None:
    """The latest timing of one side against the other, if a session holds one.

    One of the second against the first is preferred; `base` tells.
    """
    return _timing_beside(sides, 1, 0) or _timing_beside(sides, 0, 1)


def _timing_beside(sides: Sides, candidate: int, base: int) -> Timing | None:
    hashes = [side.compared.candidate for side in sides]
    found = (t for side in sides for t in reversed(side.state.candidate(hashes[candidate]).timings))
    return next((t.timing for t in found if t.timing.base == hashes[base]), None)


def _outcomes(side: Side) -> dict[str, CaseOutcome]:
    results = side.state.candidate(side.compared.candidate).results
    return {result.case.id: result.outcome for result in results}


def _steps_back(state: SessionState, candidate: str) -> Iterator[Step]:
    """The plans from a candidate back to the baseline."""
    places = places_of(state)
    while candidate in places:
        round_, proposal = places.pop(candidate)  # Of a made-up journal it may come again.
        plan = state.plan_of(round_.number, proposal.index)
        verdict = proposal.verdict
        measured = score(plan.prediction, proposal.comparison)
        yield Step(round_.number, plan, verdict, measured)
        candidate = round_.base


def same_task(sides: Sides) -> bool:
    """Whether both are kernels of the same task, so that more than their plans compares."""
    return sides[0].compared.task_hash == sides[1].compared.task_hash
