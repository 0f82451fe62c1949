"""What the agents get to know of a session."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from msgspec.structs import replace

from astra_tui.engine.judging import compare_counters
from astra_tui.engine.record import Record
from astra_tui.engine.search import gains_of
from astra_tui.lab.upstream import included_texts
from astra_tui.model.approval import ApprovalGate, ApprovalStatus, Decision, Question
from astra_tui.model.archive import archive_of
from astra_tui.model.author import AuthorKind
from astra_tui.model.check import ConditionResult
from astra_tui.model.constraints import Constraint, Origin
from astra_tui.model.events import CodeWritten
from astra_tui.model.hunks import hunks_of, line_changes, split_lines
from astra_tui.model.plan import Selection, edited_words
from astra_tui.model.state import SessionState
from astra_tui.model.task import KernelTask
from astra_tui.model.task.yardstick import load_yardsticks
from astra_tui.model.team_protocol import BASE, Brief, KnownCandidate, Reading, SecondParent, Tried

MAX_CANDIDATES = 10
"""Others than the base and the baseline that agents can have measured, the latest."""


def brief_for(record: Record, task: KernelTask, round_: int) -> Brief:
    """The brief for a round: the base, its profile, what was tried and what the engineer said."""
    return brief_on(record.state, record.store.get, task, round_, record.state.round(round_).base)


def brief_on(
    state: SessionState, text_of: Callable[[str], str], task: KernelTask, round_: int, base: str
) -> Brief:
    """The brief for a round on the source `base`; `text_of` gives texts by their hash."""
    known = state.candidate(base)
    return Brief(
        task=task,
        round=round_,
        base=base,
        source=text_of(base),
        profile=known.profile,
        tried=tuple(_tried(state, text_of, base)),
        constraints=constraints_of(state, text_of),
        second=_second(state, text_of, task, round_),
        recalled=_recalled(state, round_),
        reading=_reading(state, text_of, round_, base),
        candidates=tuple(_measured(state, text_of, base)),
        timing=known.timings[-1].timing if known.timings else None,
        gpu=state.device.gpu if state.device else None,
        shipped=known.shipped,
        launches=_launches(task) if known.shipped is not None else {},
        hardware=known.hardware,
        included=included_texts(task),
        swept=next((text_of(hash_) for hash_ in _swept_for(state, base)), ""),
        open_conditions=tuple(_open_conditions(state, round_, base)),
    )


def _reading(
    state: SessionState, text_of: Callable[[str], str], round_: int, base: str
) -> Reading | None:
    """What the profiling agent made of the base, its measurements with their texts."""
    found = state.reading(base, round_)
    if found is None:
        return None
    selection = found.selection or Selection(round_)
    measured = (replace(one, answer=text_of(one.answer)) for one in selection.measured)
    return Reading(found.text, replace(selection, measured=tuple(measured)))


def _measured(
    state: SessionState, text_of: Callable[[str], str], base: str
) -> Iterator[KnownCandidate]:
    """The base, and the latest of the others that can be measured: none that was not accepted."""
    archive = archive_of(state)
    others = [m for m in archive.members.values() if m.fit and m.candidate != base]
    known = [archive.members[base]] if base in archive.members else []
    named: Counter[str] = Counter()
    for member in (*known, *others[:1], *others[1:][-MAX_CANDIDATES:]):
        profile = state.candidate(member.candidate).profile
        if profile is None:
            continue
        name, about = "baseline", "where the session began"
        if member.round:
            plan = state.plan_of(member.round, member.proposal)
            outcome = f", {member.outcome.value}" if member.outcome else ""
            about = f"plan {member.proposal + 1} of round {member.round}{outcome}: {plan.title}"
            name = f"r{member.round}.{member.proposal + 1}"
            named[name] += 1
            name = name if named[name] == 1 else f"{name}.{named[name]}"
        name = BASE if member.candidate == base else name
        yield KnownCandidate(name, about, member.candidate, text_of(member.candidate), profile)


def _launches(task: KernelTask) -> Mapping[str, str]:
    return {name: how for one in load_yardsticks(task) for name, how in one.launches.items()}


def _swept_for(state: SessionState, base: str) -> Iterator[str]:
    """The candidates of which a sweep timed trials, and which are a source or were made into it."""
    for hash_, known in state.candidates.items():
        if known.swept is not None and known.swept.timed and base in (hash_, known.swept.result):
            yield hash_


def _open_conditions(state: SessionState, round_: int, base: str) -> Iterator[ConditionResult]:
    """What no case took in the base, and in what this round made of it; each condition once."""
    made = (
        attempt.candidate
        for tried in state.rounds
        if tried.number == round_
        for proposal in tried.proposals
        for attempt in proposal.attempts
        if isinstance(attempt, CodeWritten)
    )
    seen: set[str] = set()
    for candidate in dict.fromkeys((base, *made)):
        check = state.candidate(candidate).check
        for condition in check.open_conditions if check is not None else ():
            if condition.text not in seen:
                seen.add(condition.text)
                yield condition


def _recalled(state: SessionState, round_: int) -> tuple[str, ...]:
    found = state.round(round_).recalled if round_ < len(state.rounds) else None
    if found is None:
        return ()
    own = f"predictions of yours on this machine: {found.predictions}"
    return (*(one.describe() for one in found.known), *([own] if found.predictions else []))


def _second(
    state: SessionState, text_of: Callable[[str], str], task: KernelTask, round_: int
) -> SecondParent | None:
    """The winner that a round is to merge with its base, and where it is the better of the two."""
    opened = state.round(round_) if round_ < len(state.rounds) else None
    if opened is None or not opened.other:
        return None
    archive = archive_of(state)
    ancestor = archive.common_ancestor(opened.base, opened.other)
    lineage = set(archive.lineage(opened.other)) - set(archive.lineage(opened.base))
    done = (
        state.plan_of(m.round, m.proposal).title
        for m in archive.members.values()
        if m.candidate in lineage
    )
    old, new = (state.candidate(hash_).profile for hash_ in (ancestor, opened.other))
    ratios = compare_counters(old, new).ratios if old is not None and new is not None else {}
    gains = gains_of(task, archive, opened.base, opened.other)
    texts = text_of(opened.other), text_of(ancestor)
    return SecondParent(opened.other, *texts, tuple(done), ratios, *gains)


def _tried(state: SessionState, text_of: Callable[[str], str], source: str) -> Iterator[Tried]:
    """What was tried. A plan that was lost to the model or its server was not."""
    lineage = frozenset(archive_of(state).lineage(source))
    for round_ in state.rounds:
        for proposal in round_.proposals:
            if proposal.verdict is not None and not proposal.lost:
                plan = state.plan_of(round_.number, proposal.index)
                verdict = proposal.verdict
                base, place = round_.base, (round_.number, proposal.index)
                judged, reasons = verdict.candidate, verdict.reasons
                if round_.elsewhere:
                    reasons = (f"on {round_.elsewhere}, before this branch", *reasons)
                yield Tried(
                    round_.number, plan, base, verdict.outcome, reasons, text_of(base),
                    plan != proposal.plan,
                    _rejected_because(state, place),
                    code=text_of(judged) if judged else "",
                    profile=state.candidate(judged).profile if judged else None,
                    in_base=(state.candidate(judged).copy_of or judged) in lineage,
                )  # fmt: skip


def _rejected_because(state: SessionState, place: tuple[int, int]) -> str:
    """The reason of the rejection at a round and proposal, if there was one."""
    for key, decision in state.decisions.items():
        asked = state.questions[key]
        if decision.status is ApprovalStatus.REJECTED and place == (asked.round, asked.proposal):
            return decision.reason
    return ""


def constraints_of(state: SessionState, text_of: Callable[[str], str]) -> tuple[Constraint, ...]:
    """All that the engineer said, which binds: notes, then what decisions said, oldest first."""
    notes = (Constraint(Origin.NOTE, note.text) for note in state.notes)
    decided = (
        constraint
        for decision in state.decisions.values()
        if decision.by.kind is not AuthorKind.POLICY
        for constraint in _said_in(state, decision, text_of)
    )
    return (*notes, *decided)


def binding_on(state: SessionState, round_: int, proposal: int) -> Callable[[Constraint], bool]:
    """Whether a constraint binds the code of a proposal: an edit of another plan does not."""
    title = state.round(round_).proposals[proposal].plan.title

    def binds(constraint: Constraint) -> bool:
        own = (constraint.round, constraint.about) == (round_, title)
        return constraint.origin is not Origin.EDIT or own

    return binds


def _said_in(
    state: SessionState, decision: Decision, text_of: Callable[[str], str]
) -> Iterator[Constraint]:
    """What an engineer said by one decision."""
    question = state.questions[decision.question]
    shown = state.round(question.round).proposals[question.proposal].plan
    place = shown.title, question.round
    if decision.status is ApprovalStatus.REJECTED and decision.reason:
        yield Constraint(Origin.REJECTION, decision.reason, *place)
    elif decision.status is ApprovalStatus.EDITED and decision.plan is not None:
        if text := edited_words(shown, decision.plan):
            yield Constraint(Origin.EDIT, text, *place, why=decision.reason)
    elif decision.gate is ApprovalGate.DIFF and decision.partial is not None:
        for refused in _refused_lines(question, decision, text_of):
            yield Constraint(Origin.HUNK, refused, *place, why=decision.reason)
        if decision.reason:
            yield Constraint(Origin.REJECTION, decision.reason, *place)


def _refused_lines(
    question: Question, decision: Decision, text_of: Callable[[str], str]
) -> Iterator[str]:
    """What an engineer took out of a diff, hunk by hunk, so that it is not written again."""
    assert decision.partial is not None
    old, new = text_of(question.base), text_of(question.subject)
    lines, changes = split_lines(new), line_changes(old, new)
    for index, hunk in enumerate(hunks_of(old, new)):
        left_out = [changes[n] for n in decision.left_out]
        refused = [c.new for c in left_out if c.hunk == index and c.new >= 0]
        if index not in decision.partial:
            refused = list(range(hunk.new_start, hunk.new_end))
        if text := "".join(lines[number] for number in refused):
            yield text
