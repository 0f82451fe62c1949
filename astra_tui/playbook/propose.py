"""Asks every move, and holds each answer to the same standard before anybody sees it."""

from __future__ import annotations

import math

from astra_tui.model.errors import UserError
from astra_tui.model.launch import plan_of, validate_plan
from astra_tui.playbook.api import Evidence, Move, NotApplicable, Proposal
from astra_tui.playbook.edits import OverlappingEdits
from astra_tui.playbook.kernel_text import KernelText
from astra_tui.playbook.moves import all_moves
from astra_tui.playbook.settled import region
from astra_tui.playbook.syntax import line_of, of_type, parse
from astra_tui.playbook.timed import seen_on_gpu


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
            proposals.append(answer)
        else:
            refusals.append(answer)
    if evidence.timed:
        return seen_on_gpu(proposals), refusals
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
    root = parse(text.encode())
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
