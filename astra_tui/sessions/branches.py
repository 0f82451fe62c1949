"""One candidate of a session, with all that the journal says of it; for two beside each other."""

from __future__ import annotations

import msgspec

from astra_tui.model.check import Verdict, worst_error
from astra_tui.model.errors import UserError
from astra_tui.model.plan import Plan
from astra_tui.model.state import ProposalState, RoundState, SessionState
from astra_tui.model.timing import Timing
from astra_tui.model.verdict import Outcome
from astra_tui.sessions.summary import counter_totals

_SHORTEST_HASH = 4


class Branch(msgspec.Struct, frozen=True):
    """A candidate; `plan` is None for the baseline, `round` is where it was written.

    `worst_error` is the largest error of an output as a fraction of what is allowed. `timings`
    are the latest beside every other version that it was timed with.
    """

    session: str
    folder: str
    candidate: str
    round: int
    task_hash: str
    plan: Plan | None
    author: str
    verdict: Verdict | None
    cases: int
    failed: tuple[str, ...]
    worst_error: float
    counters: dict[str, int] | None
    outcome: Outcome | None
    reasons: tuple[str, ...]
    timings: tuple[Timing, ...]


def find_branch(state: SessionState, folder: str, named: str) -> Branch:
    """A candidate by its hash, by its round as in "r3", or the best one for "".

    Raises UserError where there is none, or several begin with these digits.
    """
    assert state.opened is not None
    round_, proposal, candidate = _find(state, named)
    known = state.candidate(candidate)
    verdict = proposal.verdict if proposal else None
    return Branch(
        session=state.opened.session,
        folder=folder,
        candidate=candidate,
        round=round_,
        task_hash=state.opened.task_hash,
        plan=state.plan_of(round_, proposal.index) if proposal else None,
        author=proposal.author.describe() if proposal else "task",
        verdict=known.check.verdict if known.check else None,
        cases=len(known.results),
        failed=tuple(f"{r.case.id}: {r.message}" for r in known.failures),
        worst_error=worst_error(known.results),
        counters=counter_totals(known.profile) if known.profile else None,
        outcome=verdict.outcome if verdict and verdict.candidate == candidate else None,
        reasons=verdict.reasons if verdict and verdict.candidate == candidate else (),
        timings=tuple({t.timing.base: t.timing for t in known.timings}.values()),
    )


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
    if len(start) < _SHORTEST_HASH or len(found) != 1:
        several = f"{len(found)} candidates begin with" if found else "there is no candidate"
        hint = "a hash with 4 digits or more, or a round as in r3"
        raise UserError(f"{several} '{start}'", hint=hint)
    return found[0]
