"""Asks every move, and holds each answer to the same standard before anyone sees it."""

from __future__ import annotations

import math

from msgspec.structs import replace

from astra_tui.cuda_source.syntax import line_of, of_type, parse
from astra_tui.model.errors import UserError
from astra_tui.model.launch import plan_of, print_plan, validate_plan
from astra_tui.model.plan import Plan
from astra_tui.playbook.api import Evidence, Move, MoveKind, NotApplicable, Proposal
from astra_tui.playbook.edits import OverlappingEdits
from astra_tui.playbook.kernel_text import KernelText
from astra_tui.playbook.moves import all_moves


def propose_all(
    source: str,
    evidence: Evidence,
    withdrawn: frozenset[tuple[str, str]] = frozenset(),
    settled: frozenset[tuple[str, str]] = frozenset(),
) -> tuple[list[Proposal], list[NotApplicable]]:
    """What the playbook offers for a source, best first, and why its other moves do not.

    `withdrawn` names moves that failed or were rejected, each with the hash of the source that it
    was offered for; `settled` those that gained nothing, each with the `region` that they had to
    change. Raises PlanError for a source whose launch plan cannot be read.
    """
    text = KernelText.read(source)
    proposals: list[Proposal] = []
    refusals: list[NotApplicable] = []
    for move in all_moves():
        answer = propose(move, text, evidence, withdrawn)
        if isinstance(answer, Proposal) and (move.name, region(answer.plan, source)) in settled:
            answer = NotApplicable(
                move.name, "it gained nothing before, and what it would change is still the same"
            )
        if isinstance(answer, Proposal):
            proposals.append(_with_gain(answer, move) if evidence.timed else answer)
        else:
            refusals.append(answer)
    if evidence.timed:
        order = {move.name: move.priority for move in all_moves()}
        return sorted(proposals, key=lambda p: order[p.plan.move]), refusals
    return sorted(proposals, key=_preference), refusals


def propose(
    move: Move,
    source: KernelText,
    evidence: Evidence,
    withdrawn: frozenset[tuple[str, str]] = frozenset(),
) -> Proposal | NotApplicable:
    """One move's answer for a source; a rewrite that is no valid source becomes a refusal."""
    if (move.name, source.hash) in withdrawn:
        return NotApplicable(move.name, "withdrawn: it was tried on this source or rejected")
    broken = next(of_type(source.root, "ERROR"), None)
    if broken is not None:
        return NotApplicable(move.name, f"line {line_of(broken)}: the grammar does not follow")
    if move.needs_gpu and not evidence.timed:
        return NotApplicable(move.name, move.needs_gpu)
    try:
        answer = move.propose(source, evidence)
    except OverlappingEdits as error:
        return NotApplicable(move.name, f"its changes get in each other's way: {error}")
    if isinstance(answer, NotApplicable):
        return answer
    problem = _problem(answer.source, source.text, evidence)
    return NotApplicable(move.name, problem) if problem else answer


def _problem(text: str, before: str, evidence: Evidence) -> str:
    """What is wrong with a rewritten source, "" for nothing."""
    if text == before:
        return "the rewrite changed nothing"
    root = parse(text)
    if root.has_error:
        places = [line_of(n) for n in of_type(root, "ERROR")]
        return f"the rewrite does not parse (line {places[0] if places else '?'})"
    try:
        validate_plan(plan_of(text), evidence.task.scope)
    except UserError as error:
        return f"the rewritten launch plan does not fit the task: {error.describe()}"
    return ""


def _preference(proposal: Proposal) -> tuple[float, int, str]:
    """Larger middle of the predicted speedup first, then lower risk, then by name."""
    prediction = proposal.plan.prediction
    middle = math.sqrt(prediction.speedup_low * prediction.speedup_high)
    return -middle, proposal.plan.risk.rank, proposal.plan.move


def _with_gain(proposal: Proposal, move: Move) -> Proposal:
    """The proposal with the gain that its move had on a GPU."""
    low, high = move.gain
    prediction = replace(proposal.plan.prediction, speedup_low=low, speedup_high=high)
    return replace(proposal, plan=replace(proposal.plan, prediction=prediction))


def region(plan: Plan, source: str) -> str:
    """The code that a plan for a source names as its places, however it is indented.

    With the launch plan where the effect depends on it. Equal regions promise equal effects: a
    move looks at these lines, and what it writes follows from them.
    """
    lines = source.splitlines()
    named = [line.strip() for p in plan.places for line in lines[p.first - 1 : p.last]]
    if all(move.kind is MoveKind.CODE for move in all_moves() if move.name == plan.move):
        return "\n".join(named)
    return "\n".join([print_plan(plan_of(source)), *named])
