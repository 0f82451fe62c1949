from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from astra_tui.model.approval import ApprovalGate, ApprovalStatus
from astra_tui.model.events import (
    ApprovalAsked,
    CheckStarted,
    DecisionTaken,
    EngineStarted,
    ExchangeMade,
    PlanProposed,
    RoundClosed,
    RoundOpened,
    StageBegan,
    TextStreamed,
    WorkloadTimed,
)
from astra_tui.model.fold import ImpossibleEvent, apply, fold
from astra_tui.model.state import SessionState, SessionStatus, Usage
from astra_tui.sessions.journal_lines import Record, decode_record, encode_record
from tests.sessions.samples import (
    BASELINE,
    BETTER,
    DIFF_QUESTION,
    PLAN,
    PLAN_QUESTION,
    PLAYBOOK,
    accepted,
    opened,
    whole_session,
)

SESSION = whole_session()
TRANSIENT = [StageBegan("code", 1), TextStreamed("coding", "x", restart=True)]
POOL = [*SESSION, *TRANSIENT, PlanProposed(1, 1, PLAN, PLAYBOOK), RoundOpened(2, 1, BETTER)]
SEQUENCES = st.lists(st.sampled_from(POOL), max_size=25) | st.permutations(SESSION)


def possible(events) -> list:
    """The events that can follow each other, without the others."""
    state, kept = SessionState(), []
    for event in events:
        try:
            state = apply(state, event)
        except ImpossibleEvent:
            continue
        kept.append(event)
    return kept


@settings(deadline=None, max_examples=150)
@given(SEQUENCES, st.sampled_from(POOL))
def test_apply_leaves_its_input_alone(events, event):
    state = fold(possible(events))
    before = msgspec.msgpack.encode(state)
    with suppress(ImpossibleEvent):
        apply(state, event)
    assert msgspec.msgpack.encode(state) == before


@settings(deadline=None, max_examples=100)
@given(SEQUENCES, st.sampled_from(TRANSIENT))
def test_transient_events_change_nothing(events, event):
    state = fold(possible(events))
    assert apply(state, event) is state


@settings(deadline=None, max_examples=150)
@given(SEQUENCES)
def test_a_replay_of_the_records_is_the_fold_of_the_events(events):
    durable = [e for e in possible(events) if e not in TRANSIENT]
    lines = [encode_record(Record(n, "", 0.0, event)) for n, event in enumerate(durable)]
    replayed = [decode_record(line).event for line in lines]
    assert fold(replayed) == fold(durable)


@settings(deadline=None, max_examples=100)
@given(SEQUENCES)
def test_a_question_is_decided_at_most_once(events):
    state = fold(possible(events))
    assert set(state.decisions) <= set(state.questions)
    for question in state.decisions:
        with pytest.raises(ImpossibleEvent, match="decided before"):
            apply(state, DecisionTaken(state.decisions[question]))


def test_the_whole_session():
    state = fold(SESSION)
    assert state.status is SessionStatus.CLOSED
    assert state.best == BETTER
    assert [(r.number, r.closed, r.best) for r in state.rounds] == [
        (0, True, ""),
        (1, True, BETTER),
    ]
    assert state.candidate(BETTER).correct
    assert state.candidate(BETTER).failures == ()
    assert len(state.candidate(BETTER).results) == 1
    proposal = state.round(1).proposals[0]
    assert [type(a).__name__ for a in proposal.attempts] == ["CodeFailed", "CodeWritten"]
    assert proposal.code.candidate == BETTER
    assert state.usage == Usage(1, 100, 20, 0.25, 0, gpu_seconds=3.0, last_call=1, tools_used=1)
    assert state.candidate(BETTER).timing(BASELINE).speedup.value == pytest.approx(4 / 3)
    assert state.candidate(BETTER).timed == ()
    assert state.device.device == "cuda:0"
    assert state.plan_of(1, 0) == PLAN
    assert (len(state.notes), len(state.cases), len(state.troubles)) == (1, 1, 1)


def test_the_status_follows_the_events():
    seen = []
    state = SessionState()
    for event in SESSION:
        state = apply(state, event)
        if not seen or seen[-1] is not state.status:
            seen.append(state.status)
    running, waiting = SessionStatus.RUNNING, SessionStatus.WAITING
    rejected_and_taken_back = [running, waiting]
    accepted_and_asked_on = [running, waiting, SessionStatus.PAUSED, waiting, running]
    expected = [running, waiting, *rejected_and_taken_back, *accepted_and_asked_on]
    assert seen == [*expected, SessionStatus.CLOSED]
    assert apply(state, EngineStarted("h", 2, 8)).status is SessionStatus.RUNNING
    assert apply(state, EngineStarted("h", 2, 8)).round_limit == 8


def test_a_new_check_forgets_the_one_before():
    state = apply(fold(SESSION), CheckStarted(BETTER, 7))
    candidate = state.candidate(BETTER)
    assert (candidate.cases, candidate.results, candidate.check) == (7, (), None)
    assert not candidate.correct


def test_workloads_against_another_base_are_not_those_of_this_timing():
    """A timing that begins against another base begins again: half of each is none."""
    timed = next(e for e in SESSION if isinstance(e, WorkloadTimed))
    second = replace(timed, timing=replace(timed.timing, workload="second"))
    other = replace(timed, base=BETTER, candidate=BASELINE)
    events = [replace(timed, candidate=BASELINE), replace(second, candidate=BASELINE)]
    state = fold([opened(), *events])
    assert state.candidate(BASELINE).timed == tuple(events)
    again = apply(state, events[0])
    assert again.candidate(BASELINE).timed == (events[1], events[0])
    assert apply(state, other).candidate(BASELINE).timed == (other,)


def test_an_edited_plan_is_the_plan():
    other = replace(PLAN, title="other")
    decision = replace(
        accepted(PLAN_QUESTION).decision,
        status=ApprovalStatus.EDITED,
        plan=other,
        result=other.hash,
    )
    events = [RoundOpened(1, 0, BASELINE), PlanProposed(1, 0, PLAN, PLAYBOOK)]
    state = fold([*events, ApprovalAsked(PLAN_QUESTION), DecisionTaken(decision)])
    assert state.plan_of(1, 0) == other


def test_calls_without_a_price_are_counted():
    call = ExchangeMade("plan", "m", "a", "b", 3, 4, 1.0)
    usage = fold([call, call]).usage
    assert (usage.tokens, usage.dollars, usage.unpriced_calls) == (14, 0.0, 2)


@pytest.mark.parametrize(
    "events",
    [
        [opened(), opened()],
        [RoundClosed(0)],
        [RoundOpened(0, 0, BASELINE), RoundOpened(0, 0, BASELINE)],
        [PlanProposed(1, 0, PLAN, PLAYBOOK)],
        [RoundOpened(1, 0, BASELINE), PlanProposed(1, 1, PLAN, PLAYBOOK)],
        [accepted(PLAN_QUESTION)],
        [ApprovalAsked(PLAN_QUESTION), ApprovalAsked(replace(DIFF_QUESTION, id=PLAN_QUESTION.id))],
        [ApprovalAsked(PLAN_QUESTION), accepted(PLAN_QUESTION), accepted(PLAN_QUESTION)],
        [ApprovalAsked(PLAN_QUESTION), accepted(replace(PLAN_QUESTION, subject=BETTER))],
        [ApprovalAsked(PLAN_QUESTION), accepted(replace(PLAN_QUESTION, gate=ApprovalGate.DIFF))],
    ],
)
def test_events_that_cannot_follow(events):
    state = fold(events[:-1])
    with pytest.raises(ImpossibleEvent):
        apply(state, events[-1])


def test_the_plan_of_a_round_is_found_without_a_look_at_all_questions() -> None:
    """A list of 5,000 rounds asks for every one of them."""

    class Unsearched(dict[str, object]):
        def __iter__(self) -> Iterator[str]:
            raise AssertionError("all questions were looked at")

        items = keys = values = __iter__  # type: ignore[assignment]

    state = fold(SESSION)
    unsearched = replace(
        state,
        questions=Unsearched(state.questions),
        decisions=Unsearched(state.decisions),
    )
    places = [(r.number, p.index) for r in state.rounds for p in r.proposals]
    assert places
    for place in places:
        assert unsearched.plan_of(*place) == state.plan_of(*place)
        assert unsearched.written_by(*place) == state.written_by(*place)
