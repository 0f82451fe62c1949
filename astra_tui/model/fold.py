"""From events to the state: `state = apply(state, event)`, and nothing else changes it.

A state is immutable, so that every event copies the tables that it changes. Many events at once
go through `BulkFold`, whose tables grow in place: a long session takes linear time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any, TypeVar, cast

from msgspec.structs import replace

from astra_tui.model.approval import AutoApproval
from astra_tui.model.events import (
    AnalysisGiven,
    ApprovalAsked,
    AutoApprovalSet,
    BestChanged,
    CallReserved,
    CaseAdded,
    CaseChecked,
    CheckFinished,
    CheckStarted,
    CodeFailed,
    CodeWritten,
    CompileFinished,
    CopyFound,
    DecisionTaken,
    DeviceOpened,
    DiffReviewed,
    EngineStarted,
    ErrorOccurred,
    Event,
    ExchangeMade,
    HardwareCountersRead,
    KindTimed,
    KindWinnerChosen,
    MemoryRecalled,
    NoteAdded,
    ParentChosen,
    Paused,
    PlanningFinished,
    PlanProposed,
    ProfileTaken,
    RejectionTakenBack,
    Resumed,
    RoundClosed,
    RoundOpened,
    Sanitized,
    SessionClosed,
    SessionOpened,
    ShippedTimed,
    SweepFinished,
    TimingFinished,
    ToolUsed,
    VerdictReached,
    WorkloadTimed,
)
from astra_tui.model.settings import EMULATOR
from astra_tui.model.state import (
    CandidateState,
    KindState,
    ProposalState,
    RoundState,
    SessionState,
)

Part = TypeVar("Part")


class ImpossibleEvent(ValueError):
    """An event that cannot follow what was before: a journal that was not written by an engine."""


def fold(events: Iterable[Event]) -> SessionState:
    """The state after these events."""
    return reduce(apply, events, SessionState())


class BulkFold:
    """Folds one event after the other onto a state, which stays as it is."""

    def __init__(self, begin: SessionState):
        self._kept = begin
        self.current = replace(
            begin,
            rounds=cast(tuple[RoundState, ...], _GrowingRounds(begin.rounds)),
            candidates=_GrowingTable(begin.candidates),
            questions=_GrowingTable(begin.questions),
            decisions=_GrowingTable(begin.decisions),
        )
        """The state so far, of which nothing may be kept: the next event changes its tables."""

    def apply(self, event: Event) -> None:
        """Folds one event more. Raises ImpossibleEvent."""
        self.current = apply(self.current, event)

    def state(self) -> SessionState:
        """The state so far, to keep; what has not changed since the last one is the same object."""
        now, before = self.current, self._kept
        self._kept = replace(
            now,
            rounds=before.rounds if _is_as_before(now.rounds) else tuple(now.rounds),
            candidates=_copy(now.candidates, before.candidates),
            questions=_copy(now.questions, before.questions),
            decisions=_copy(now.decisions, before.decisions),
        )
        return self._kept


class _GrowingTable(dict[str, Any]):
    grew = False


class _GrowingRounds(list[RoundState]):
    grew = False


def _is_as_before(part: object) -> bool:
    """Whether a part has not changed since this was asked last; a rule may have made another."""
    if not isinstance(part, _GrowingTable | _GrowingRounds):
        return False
    grew, part.grew = part.grew, False
    return not grew


def _copy(table: dict[str, Part], before: dict[str, Part]) -> dict[str, Part]:
    return before if _is_as_before(table) else dict(table)


def _with(table: dict[str, Part], key: str, part: Part) -> dict[str, Part]:
    if type(table) is _GrowingTable:
        table[key], table.grew = part, True
        return table
    return {**table, key: part}


def _with_round(
    rounds: tuple[RoundState, ...], index: int, changed: RoundState
) -> tuple[RoundState, ...]:
    """The rounds with another one at a place, which may be just after the last."""
    growing: object = rounds
    if isinstance(growing, _GrowingRounds):
        growing[index : index + 1] = [changed]
        growing.grew = True
        return rounds
    return (*rounds[:index], changed, *rounds[index + 1 :])


def apply(state: SessionState, event: Event) -> SessionState:
    """The state after one event more; transient events change nothing. Raises ImpossibleEvent."""
    rule = _RULES.get(type(event))
    if rule is None:
        return state
    try:
        return rule(state, event)
    except (KeyError, IndexError) as error:
        raise ImpossibleEvent(f"{type(event).__name__}: there is no {error}") from None


def _candidate(state: SessionState, hash_: str, **changes: Any) -> SessionState:
    return _with_candidate(state, replace(state.candidate(hash_), **changes))


def _with_candidate(state: SessionState, changed: CandidateState) -> SessionState:
    table = _with(state.candidates, changed.hash, changed)
    return state if table is state.candidates else replace(state, candidates=table)


def _round(state: SessionState, number: int, **changes: Any) -> SessionState:
    index = state.round_index(number)
    changed = replace(state.rounds[index], **changes)
    rounds = _with_round(state.rounds, index, changed)
    return state if rounds is state.rounds else replace(state, rounds=rounds)


def _proposal(state: SessionState, round_: int, index: int, **changes: Any) -> SessionState:
    proposals = list(state.round(round_).proposals)
    proposals[index] = replace(proposals[index], **changes)
    return _round(state, round_, proposals=tuple(proposals))


def _opened(state: SessionState, event: SessionOpened) -> SessionState:
    if state.opened is not None:
        raise ImpossibleEvent("the session was opened before")
    return replace(state, opened=event, best=event.baseline)


def _started(state: SessionState, event: EngineStarted) -> SessionState:
    auto = replace(state.auto, replaces=False)
    return replace(state, closed=None, paused=False, round_limit=event.rounds, auto=auto)


def _round_opened(state: SessionState, event: RoundOpened) -> SessionState:
    last = state.rounds[-1].number if state.rounds else -1
    if event.round <= last:
        raise ImpossibleEvent(f"round {event.round} was opened after round {last}")
    parents = event.base, event.other, event.why, event.among
    opened = RoundState(event.round, event.parent, *parents)
    rounds = _with_round(state.rounds, len(state.rounds), opened)
    return replace(state, rounds=rounds, next_parent="")


def _parent_chosen(state: SessionState, event: ParentChosen) -> SessionState:
    return replace(state, next_parent=event.candidate)


def _proposed(state: SessionState, event: PlanProposed) -> SessionState:
    before = state.round(event.round).proposals
    if event.proposal != len(before):
        raise ImpossibleEvent(f"proposal {event.proposal} after {len(before)} others")
    made = ProposalState(event.proposal, event.plan, event.author)
    return _round(state, event.round, proposals=(*before, made))


def _recalled(state: SessionState, event: MemoryRecalled) -> SessionState:
    return _round(state, event.round, recalled=event)


def _plans_ended(state: SessionState, event: PlanningFinished) -> SessionState:
    changes = {
        "planned": True,
        "no_plan": event.reason,
        "refused": event.refused,
        "no_answer": event.lost,
        "answered": event.answered,
    }
    return _round(state, event.round, **changes)


def _asked(state: SessionState, event: ApprovalAsked) -> SessionState:
    question = event.question
    if state.questions.get(question.id, question) != question:
        raise ImpossibleEvent(f"{question.id} asked about something else before")
    return replace(state, questions=_with(state.questions, question.id, question))


def _decided(state: SessionState, event: DecisionTaken) -> SessionState:
    decision = event.decision
    question = state.questions[decision.question]
    if decision.question in state.decisions:
        raise ImpossibleEvent(f"{question.id} was decided before")
    if (decision.gate, decision.subject) != (question.gate, question.subject):
        raise ImpossibleEvent(f"the decision on {question.id} is about something else")
    auto = state.auto
    if auto.left and decision.by == auto.author:
        auto = replace(auto, left=auto.left - 1)
    return replace(state, decisions=_with(state.decisions, question.id, decision), auto=auto)


def _taken_back(state: SessionState, event: RejectionTakenBack) -> SessionState:
    decision = state.revocable
    if decision is None or decision.question != event.question:
        raise ImpossibleEvent(f"{event.question} has no rejection that can be taken back")
    place = state.questions[event.question]
    state = _proposal(state, place.round, place.proposal, verdict=None)
    state = _round(state, place.round, closed=False, lost=False)
    last = state.round_index(place.round)
    return replace(
        state,
        rounds=state.rounds[: last + 1],
        questions={key: q for key, q in state.questions.items() if q.round <= place.round},
        decisions={key: d for key, d in state.decisions.items() if key != event.question},
        # No mode that was set meanwhile decides what someone wants to look at again.
        auto=replace(state.auto, spared=(*state.auto.spared, event.question)),
    )


def _written(state: SessionState, event: CodeWritten) -> SessionState:
    state = _attempt(state, event)
    return state if event.candidate in state.candidates else _candidate(state, event.candidate)


def _attempt(state: SessionState, event: CodeWritten | CodeFailed) -> SessionState:
    before = state.round(event.round).proposals[event.proposal].attempts
    return _proposal(state, event.round, event.proposal, attempts=(*before, event))


def _reviewed(state: SessionState, event: DiffReviewed) -> SessionState:
    before = state.round(event.round).proposals[event.proposal].reviews
    return _proposal(state, event.round, event.proposal, reviews=(*before, event))


def _compiled(state: SessionState, event: CompileFinished) -> SessionState:
    return _candidate(state, event.candidate, compilation=event)


def _copied(state: SessionState, event: CopyFound) -> SessionState:
    original, own = state.candidates[event.original], state.candidates[event.candidate]
    copy = replace(
        original, hash=own.hash, compilation=own.compilation, copy_of=original.hash, analyses=()
    )
    return _with_candidate(state, copy)


def _check_started(state: SessionState, event: CheckStarted) -> SessionState:
    return _candidate(
        state, event.candidate, cases=event.cases, results=(), check=None, sanitizer=()
    )


def _case_checked(state: SessionState, event: CaseChecked) -> SessionState:
    results = state.candidate(event.candidate).results
    return _candidate(state, event.candidate, results=(*results, event.result))


def _check_finished(state: SessionState, event: CheckFinished) -> SessionState:
    return _candidate(state, event.candidate, check=event)


def _sanitized(state: SessionState, event: Sanitized) -> SessionState:
    return _candidate(state, event.candidate, sanitizer=event.reports)


def _profiled(state: SessionState, event: ProfileTaken) -> SessionState:
    return _candidate(
        state, event.candidate, profile=event.profile, machine_code=event.machine_code
    )


def _hardware_read(state: SessionState, event: HardwareCountersRead) -> SessionState:
    state = _charged(state, event.gpu_seconds)
    return _candidate(state, event.candidate, hardware=event.report)


def _device_opened(state: SessionState, event: DeviceOpened) -> SessionState:
    before = state.device
    if before is not None and (before.device == EMULATOR) != (event.device == EMULATOR):
        state = _without_results(state, before.device)
    return replace(state, device=event)


def _without_results(state: SessionState, device: str) -> SessionState:
    """A branch of a GPU's session on the emulator, or the other way: counts and times of one kind
    of device say nothing on the other, so that no candidate keeps any. Verdicts stay, marked.
    """
    rounds, candidates = state.rounds, state.candidates
    for index, round_ in enumerate(state.rounds):
        if round_.closed and not round_.elsewhere:
            rounds = _with_round(rounds, index, replace(round_, elsewhere=device))
    for hash_ in list(state.candidates):
        candidates = _with(candidates, hash_, CandidateState(hash_))
    return replace(state, rounds=rounds, candidates=candidates, kinds={})


def _workload_timed(state: SessionState, event: WorkloadTimed) -> SessionState:
    before = state.candidate(event.candidate).timed
    again = event.base, event.timing.workload
    kept = tuple(t for t in before if t.base == event.base and (t.base, t.timing.workload) != again)
    return _candidate(state, event.candidate, timed=(*kept, event))


def _timing_finished(state: SessionState, event: TimingFinished) -> SessionState:
    hash_ = event.timing.candidate
    before = state.candidate(hash_).timings
    state = _charged(state, event.timing.gpu_seconds)
    return _candidate(state, hash_, timings=(*before, event), timed=())


def _charged(state: SessionState, gpu_seconds: float) -> SessionState:
    used = state.usage.gpu_seconds + gpu_seconds
    return replace(state, usage=replace(state.usage, gpu_seconds=used))


def _kind_timed(state: SessionState, event: KindTimed) -> SessionState:
    known = state.kinds.get(event.kind, KindState())
    known = replace(known, timed=(*known.timed, event))
    used = event.timing.gpu_seconds if event.timing is not None else 0.0
    return replace(_charged(state, used), kinds={**state.kinds, event.kind: known})


def _kind_winner(state: SessionState, event: KindWinnerChosen) -> SessionState:
    known = state.kinds.get(event.kind, KindState())
    known = replace(known, winner=event.candidate, reason=event.reason)
    return replace(state, kinds={**state.kinds, event.kind: known})


def _swept(state: SessionState, event: SweepFinished) -> SessionState:
    state = _charged(state, event.swept.gpu_seconds)
    return _candidate(state, event.candidate, swept=event.swept)


def _shipped_timed(state: SessionState, event: ShippedTimed) -> SessionState:
    state = _charged(state, event.shipped.gpu_seconds)
    return _candidate(state, event.candidate, shipped=event.shipped)


def _analysed(state: SessionState, event: AnalysisGiven) -> SessionState:
    before = state.candidate(event.candidate).analyses
    return _candidate(state, event.candidate, analyses=(*before, event))


def _judged(state: SessionState, event: VerdictReached) -> SessionState:
    return _proposal(state, event.round, event.proposal, verdict=event.verdict)


def _best(state: SessionState, event: BestChanged) -> SessionState:
    return replace(_round(state, event.round, best=event.candidate), best=event.candidate)


def _round_closed(state: SessionState, event: RoundClosed) -> SessionState:
    return _round(state, event.round, closed=True, lost=event.lost)


def _noted(state: SessionState, event: NoteAdded) -> SessionState:
    return replace(state, notes=(*state.notes, event))


def _case_added(state: SessionState, event: CaseAdded) -> SessionState:
    return replace(state, cases=(*state.cases, event.case))


def _exchanged(state: SessionState, event: ExchangeMade) -> SessionState:
    old = state.usage
    usage = replace(
        old,
        calls=old.calls + 1,
        input_tokens=old.input_tokens + event.input_tokens,
        output_tokens=old.output_tokens + event.output_tokens,
        dollars=old.dollars + (event.dollars or 0.0),
        unpriced_calls=old.unpriced_calls + (event.dollars is None),
        estimated_calls=old.estimated_calls + event.estimated,
        reserved=tuple(one for one in old.reserved if one.call != event.call),
        last_call=max(old.last_call, event.call),
    )
    return replace(state, usage=usage)


def _call_reserved(state: SessionState, event: CallReserved) -> SessionState:
    old = state.usage
    reserved = (*old.reserved, event)
    usage = replace(old, reserved=reserved, last_call=max(old.last_call, event.call))
    return replace(state, usage=usage)


def _tool_used(state: SessionState, event: ToolUsed) -> SessionState:
    state = _charged(state, event.gpu_seconds)
    return replace(state, usage=replace(state.usage, tools_used=state.usage.tools_used + 1))


def _auto_set(state: SessionState, event: AutoApprovalSet) -> SessionState:
    spared = tuple(question.id for question in state.pending)
    return replace(state, auto=AutoApproval(event.mode, event.left, event.by, spared, True))


def _paused(state: SessionState, _event: Paused) -> SessionState:
    return replace(state, paused=True)


def _continued(state: SessionState, _event: Resumed) -> SessionState:
    return replace(state, paused=False)


def _trouble(state: SessionState, event: ErrorOccurred) -> SessionState:
    return replace(state, troubles=(*state.troubles, event))


def _closed(state: SessionState, event: SessionClosed) -> SessionState:
    return replace(state, closed=event, paused=False)


_RULES: dict[type[Event], Callable[[SessionState, Any], SessionState]] = {
    SessionOpened: _opened,
    EngineStarted: _started,
    RoundOpened: _round_opened,
    ParentChosen: _parent_chosen,
    MemoryRecalled: _recalled,
    PlanProposed: _proposed,
    PlanningFinished: _plans_ended,
    ApprovalAsked: _asked,
    DecisionTaken: _decided,
    RejectionTakenBack: _taken_back,
    CodeWritten: _written,
    CodeFailed: _attempt,
    DiffReviewed: _reviewed,
    CompileFinished: _compiled,
    CopyFound: _copied,
    CheckStarted: _check_started,
    CaseChecked: _case_checked,
    CheckFinished: _check_finished,
    Sanitized: _sanitized,
    ProfileTaken: _profiled,
    HardwareCountersRead: _hardware_read,
    DeviceOpened: _device_opened,
    WorkloadTimed: _workload_timed,
    TimingFinished: _timing_finished,
    KindTimed: _kind_timed,
    KindWinnerChosen: _kind_winner,
    SweepFinished: _swept,
    ShippedTimed: _shipped_timed,
    AnalysisGiven: _analysed,
    VerdictReached: _judged,
    BestChanged: _best,
    RoundClosed: _round_closed,
    NoteAdded: _noted,
    CaseAdded: _case_added,
    CallReserved: _call_reserved,
    ExchangeMade: _exchanged,
    ToolUsed: _tool_used,
    AutoApprovalSet: _auto_set,
    Paused: _paused,
    Resumed: _continued,
    ErrorOccurred: _trouble,
    SessionClosed: _closed,
}

__all__ = ["BulkFold", "CandidateState", "ImpossibleEvent", "apply", "fold"]
