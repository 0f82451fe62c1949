from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from astra_tui.model import fold as fold_module
from astra_tui.model.approval import ApprovalGate, ApprovalStatus, Question
from astra_tui.model.events import (
    ApprovalAsked,
    DecisionTaken,
    EngineStarted,
    PlanningFinished,
    PlanProposed,
    RejectionTakenBack,
    RoundClosed,
    RoundOpened,
)
from astra_tui.model.fold import apply, fold
from astra_tui.sessions import journal_lines
from astra_tui.sessions import timeline as timeline_module
from astra_tui.sessions.integrity import read_session
from astra_tui.sessions.journal_lines import Record, fold_within_bounds
from astra_tui.sessions.journal_reader import read_journal
from astra_tui.sessions.timeline import MAX_SNAPSHOTS, MomentKind, Timeline, paced

from .samples import BASELINE, ENGINEER, PLAN, PLAYBOOK, accepted, opened, whole_session
from .synthetic import SECONDS_A_EVENT, write_session


def recorded(events: list, first: int = 0) -> list[Record]:
    return [
        Record(n, f"2026-11-21T12:00:{n % 60:02}.000Z", 0.0, e)
        for n, e in enumerate(events, start=first)
    ]


def events_folded(monkeypatch):
    """The events that a timeline folds from now on, one after the other."""
    folded = []

    def counted(state, event):
        folded.append(event)
        return apply(state, event)

    monkeypatch.setattr(fold_module, "apply", counted)
    return folded


@pytest.fixture(scope="module")
def long_session(tmp_path_factory):
    folder = tmp_path_factory.mktemp("long") / "session"
    write_session(folder, rounds=1000)
    return folder


def test_the_state_at_every_event_is_the_fold_of_those_before(monkeypatch):
    monkeypatch.setattr(timeline_module, "EVENTS_BETWEEN_SNAPSHOTS", 7)
    events = whole_session()
    timeline = Timeline(recorded(events))
    places = [*range(len(events) + 1)]
    random.Random(3).shuffle(places)
    assert [timeline.state(n) for n in places] == [fold(events[:n]) for n in places]
    for outside in (-1, len(events) + 1):
        with pytest.raises(IndexError):
            timeline.state(outside)


def test_turning_points_are_in_the_state_of_their_position():
    events = whole_session()
    timeline = Timeline(recorded(events, first=100))
    kinds = [m.kind for m in timeline.moments]
    assert kinds == [
        MomentKind.ROUND, MomentKind.ROUND, MomentKind.DECISION, MomentKind.DECISION,
        MomentKind.ERROR, MomentKind.DECISION, MomentKind.ERROR, MomentKind.VERDICT,
        MomentKind.BEST, MomentKind.ERROR, MomentKind.END,
    ]  # fmt: skip
    for moment in timeline.moments:
        assert timeline.position_of(moment.seq) == moment.position
        assert timeline.records[moment.position - 1].seq == moment.seq
    verdict = timeline.following(0, {MomentKind.VERDICT})
    assert timeline.state(verdict.position).rounds[1].proposals[0].verdict is not None
    assert timeline.state(verdict.position - 1).rounds[1].proposals[0].verdict is None
    assert timeline.following(verdict.position, {MomentKind.VERDICT}) is None
    assert timeline.preceding(verdict.position, {MomentKind.DECISION}).round == 1
    assert timeline.preceding(0, set(MomentKind)) is None


def test_what_is_taken_back_is_gone_from_every_state_after_it(monkeypatch):
    monkeypatch.setattr(timeline_module, "EVENTS_BETWEEN_SNAPSHOTS", 4)
    plan = Question("1.0.plan", ApprovalGate.PLAN, 1, 0, PLAN.hash)
    decision = replace(accepted(plan).decision, status=ApprovalStatus.REJECTED, result="")
    planned = [PlanProposed(1, 0, PLAN, PLAYBOOK), PlanningFinished(1), ApprovalAsked(plan)]
    events = [
        opened(), EngineStarted("host", 1, 2), RoundOpened(0, 0, BASELINE), RoundClosed(0),
        RoundOpened(1, 0, BASELINE), *planned, DecisionTaken(decision), RoundClosed(1),
        RoundOpened(2, 0, BASELINE), RejectionTakenBack(plan.id, ENGINEER), accepted(plan),
        RoundClosed(1), RoundOpened(2, 0, BASELINE),
    ]  # fmt: skip
    timeline = Timeline(recorded(events))
    assert timeline.broken is None
    for position in range(len(events) + 1):
        assert timeline.state(position) == fold(events[:position])
    assert fold_within_bounds(events) == fold(events)


def test_a_timeline_ends_where_events_stop_making_sense():
    events = [*whole_session()[:10], RoundClosed(99), *whole_session()[10:]]
    timeline = Timeline(recorded(events))
    assert (len(timeline), timeline.broken.seq) == (10, 10)
    assert "99" in timeline.broken.message
    assert timeline.final_state() == fold(events[:10])


def test_an_empty_journal_has_one_state():
    timeline = Timeline(())
    assert (len(timeline), timeline.final_state(), timeline.moments) == (0, fold(()), ())


def test_more_rounds_and_candidates_than_anyone_has_end_it(monkeypatch):
    monkeypatch.setattr(journal_lines, "MAX_PARTS", 3)
    timeline = Timeline(recorded(whole_session()))
    assert "more than 3" in timeline.broken.message
    assert timeline.final_state() == fold(whole_session()[: len(timeline)])


@given(st.floats(0, 1e6), st.floats(0.1, 1e3), st.floats(0, 10))
def test_a_wait_and_what_it_leaves_out_are_the_whole_gap(seconds, speed, longest):
    wait = paced(seconds, speed, longest)
    assert 0 <= wait.seconds <= longest
    assert wait.seconds * speed + wait.left_out == pytest.approx(seconds, abs=1e-6)


def test_an_endless_speed_waits_for_nothing():
    assert paced(3600.0, float("inf"), 2.0).seconds == 0


def test_a_thousand_rounds_open_and_seek_as_the_fold_says(long_session, monkeypatch):
    timeline = read_session(long_session).timeline
    assert timeline.broken is None
    closed = timeline.event(len(timeline))
    assert timeline.state(len(timeline) - 1).digest() == closed.digest
    events = read_journal(long_session).events
    middle = len(timeline) // 2 + 1
    assert timeline.state(middle) == fold(events[:middle])
    assert timeline.seconds_before(middle) == pytest.approx(SECONDS_A_EVENT)
    folded = events_folded(monkeypatch)
    draw = random.Random(1)
    for _ in range(100):
        folded.clear()
        timeline.state(draw.randrange(len(timeline) + 1))
        assert len(folded) <= -(-len(timeline) // MAX_SNAPSHOTS)
