"""What the agents get to know of a session."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from astra_tui.engine.record import Record
from astra_tui.model.approval import ApprovalGate, ApprovalStatus
from astra_tui.model.hunks import hunks_of, line_changes, split_lines
from astra_tui.model.state import SessionState
from astra_tui.model.task import KernelTask
from astra_tui.model.team import Brief, Tried


def brief_for(record: Record, task: KernelTask, round_: int) -> Brief:
    """The brief for a round: the base, its profile, what was tried and the engineer's notes."""
    return brief_on(record.state, record.store.get, task, round_, record.state.round(round_).base)


def brief_on(
    state: SessionState, text_of: Callable[[str], str], task: KernelTask, round_: int, base: str
) -> Brief:
    """The brief for a round on the source `base`; `text_of` gives texts by their hash."""
    known = state.candidate(base)
    analysis = next((a.text for a in reversed(known.analyses) if a.role == "profiling"), "")
    return Brief(
        task=task,
        round=round_,
        base=base,
        source=text_of(base),
        profile=known.profile,
        tried=tuple(_tried(state, text_of, base)),
        notes=(*(n.text for n in state.notes), *_refused_hunks(state, text_of)),
        analysis=analysis,
        timing=known.timings[-1].timing if known.timings else None,
        gpu=state.device.gpu if state.device else None,
        hardware=known.hardware,
    )


def _tried(state: SessionState, text_of: Callable[[str], str], source: str) -> Iterator[Tried]:
    """What was tried. A plan that was lost to the model or its server was not."""
    ancestors = _ancestors(state, source)
    for round_ in state.rounds:
        for proposal in round_.proposals:
            if proposal.verdict is not None and not proposal.lost:
                plan = state.plan_of(round_.number, proposal.index)
                verdict = proposal.verdict
                base, place = round_.base, (round_.number, proposal.index)
                judged = verdict.candidate
                yield Tried(
                    round_.number, plan, base, verdict.outcome, verdict.reasons, text_of(base),
                    _rejected_because(state, place),
                    code=text_of(judged) if judged else "",
                    profile=state.candidate(judged).profile if judged else None,
                    in_base=judged in ancestors,
                )  # fmt: skip


def _ancestors(state: SessionState, source: str) -> frozenset[str]:
    """A source, and what it was made from, back to the baseline; by their hashes."""
    made_from = {
        proposal.verdict.candidate: round_.base
        for round_ in state.rounds
        for proposal in round_.proposals
        if proposal.verdict is not None and proposal.verdict.candidate != round_.base
    }
    found: set[str] = set()
    while source and source not in found:
        found.add(source)
        source = made_from.get(source, "")
    return frozenset(found)


def _rejected_because(state: SessionState, place: tuple[int, int]) -> str:
    """The reason of the rejection at a round and proposal, if there was one."""
    for key, decision in state.decisions.items():
        asked = state.questions[key]
        if decision.status is ApprovalStatus.REJECTED and place == (asked.round, asked.proposal):
            return decision.reason
    return ""


def _refused_hunks(state: SessionState, text_of: Callable[[str], str]) -> Iterator[str]:
    """What engineers took out of diffs, so that it is not written again."""
    for decision in state.decisions.values():
        if decision.gate is not ApprovalGate.DIFF or decision.partial is None:
            continue
        question = state.questions[decision.question]
        old, new = text_of(question.base), text_of(question.subject)
        lines, changes = split_lines(new), line_changes(old, new)
        why = f" ({decision.reason})" if decision.reason else ""
        for index, hunk in enumerate(hunks_of(old, new)):
            left_out = [changes[n] for n in decision.left_out]
            refused = [c.new for c in left_out if c.hunk == index and c.new >= 0]
            if index not in decision.partial:
                refused = list(range(hunk.new_start, hunk.new_end))
            if text := "".join(lines[number] for number in refused):
                yield f"the engineer refused this part of a diff{why}:\n{text}"
