from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from astra_tui.model.approval import (
    Answer,
    AnswerRefused,
    ApprovalGate,
    ApprovalStatus,
    Decision,
    Question,
    decide,
)
from astra_tui.model.author import Author, AuthorKind
from astra_tui.model.digest import content_hash
from astra_tui.model.plan import Counter, Plan, Prediction, Risk

ENGINEER = Author(AuthorKind.ENGINEER, "ada")
PLAN = Plan("t", "b", (), "c", Prediction(1.0, 2.0, Counter.SECTORS, 0.5), Risk.LOW)
OTHER = replace(PLAN, title="other")
AT_PLAN = Question("p", ApprovalGate.PLAN, 1, 0, PLAN.hash)
AT_DIFF = Question(
    "d", ApprovalGate.DIFF, 1, 0, content_hash("new"), 0, content_hash("old"), hunks=3
)


def decided(question: Question, status: ApprovalStatus, /, **changes: Any) -> Decision:
    answer = Answer(question.id, question.subject, status, ENGINEER)
    return decide(question, replace(answer, **changes))


@pytest.mark.parametrize("question", [AT_PLAN, AT_DIFF])
def test_accepted_passes_what_was_shown(question):
    decision = decided(question, ApprovalStatus.ACCEPTED)
    assert decision.result == question.subject
    assert decision.status.lets_pass
    assert (decision.question, decision.gate, decision.by) == (question.id, question.gate, ENGINEER)
    assert decision.partial is None


@pytest.mark.parametrize("question", [AT_PLAN, AT_DIFF])
@pytest.mark.parametrize("status", [ApprovalStatus.REJECTED, ApprovalStatus.CANCELLED])
def test_nothing_goes_on_after_a_no(question, status):
    decision = decided(question, status, reason="too risky")
    assert (decision.result, decision.reason) == ("", "too risky")
    assert not decision.status.lets_pass


def test_an_edited_plan_goes_on_in_place_of_the_shown_one():
    decision = decided(AT_PLAN, ApprovalStatus.EDITED, plan=OTHER)
    assert (decision.result, decision.plan, decision.subject) == (OTHER.hash, OTHER, PLAN.hash)


def test_an_edited_source_goes_on_in_place_of_the_shown_one():
    decision = decided(AT_DIFF, ApprovalStatus.EDITED, source="edited")
    assert (decision.result, decision.plan) == (content_hash("edited"), None)


def test_some_hunks_let_nothing_pass_yet():
    decision = decided(AT_DIFF, ApprovalStatus.ACCEPTED, hunks=(2, 0, 2))
    assert (decision.partial, decision.result) == ((0, 2), "")


def test_all_hunks_are_the_whole():
    decision = decided(AT_DIFF, ApprovalStatus.ACCEPTED, hunks=(2, 1, 0))
    assert (decision.partial, decision.result) == (None, AT_DIFF.subject)


@pytest.mark.parametrize(
    ("question", "status", "changes", "said"),
    [
        (AT_PLAN, ApprovalStatus.PENDING, {}, "has to decide"),
        (AT_PLAN, ApprovalStatus.ACCEPTED, {"question": "d"}, "the question is p"),
        (AT_PLAN, ApprovalStatus.ACCEPTED, {"subject": OTHER.hash}, "look at it again"),
        (AT_PLAN, ApprovalStatus.ACCEPTED, {"plan": OTHER}, "belongs to 'edited'"),
        (AT_DIFF, ApprovalStatus.REJECTED, {"source": "x"}, "not to 'rejected'"),
        (AT_DIFF, ApprovalStatus.CANCELLED, {"source": "x"}, "not to 'cancelled'"),
        (AT_DIFF, ApprovalStatus.REJECTED, {"hunks": (0,)}, "not to 'rejected'"),
        (AT_PLAN, ApprovalStatus.ACCEPTED, {"hunks": (0,)}, "only a diff has hunks"),
        (AT_DIFF, ApprovalStatus.ACCEPTED, {"hunks": (0, 3)}, "has 3 hunks; there is no hunk 4"),
        (AT_DIFF, ApprovalStatus.ACCEPTED, {"hunks": (-1,)}, "there is no hunk 0"),
        (AT_DIFF, ApprovalStatus.ACCEPTED, {"hunks": ()}, "no hunk is left"),
        (AT_PLAN, ApprovalStatus.EDITED, {}, "edited plan"),
        (AT_PLAN, ApprovalStatus.EDITED, {"plan": OTHER, "source": "x"}, "no source"),
        (AT_DIFF, ApprovalStatus.EDITED, {}, "edited source"),
        (AT_DIFF, ApprovalStatus.EDITED, {"source": ""}, "edited source"),
        (AT_DIFF, ApprovalStatus.EDITED, {"source": "x", "plan": OTHER}, "no plan"),
        (AT_DIFF, ApprovalStatus.EDITED, {"source": "x", "hunks": (0,)}, "one after the other"),
    ],
)
def test_answers_that_decide_nothing(question, status, changes, said):
    with pytest.raises(AnswerRefused, match=said):
        decided(question, status, **changes)


ANSWERS = st.builds(
    Answer,
    question=st.sampled_from(["p", "d"]),
    subject=st.sampled_from([AT_PLAN.subject, AT_DIFF.subject]),
    status=st.sampled_from(ApprovalStatus),
    by=st.just(ENGINEER),
    plan=st.none() | st.just(OTHER),
    source=st.none() | st.sampled_from(["", "edited"]),
    hunks=st.none() | st.lists(st.integers(-1, 3), max_size=4).map(tuple),
)


@given(st.sampled_from([AT_PLAN, AT_DIFF]), ANSWERS)
def test_only_what_was_shown_or_edited_goes_on(question, answer):
    try:
        decision = decide(question, answer)
    except AnswerRefused:
        return
    assert (answer.question, answer.subject) == (question.id, question.subject)
    going_on = {
        ApprovalStatus.ACCEPTED: "" if decision.partial else question.subject,
        ApprovalStatus.EDITED: OTHER.hash if question is AT_PLAN else content_hash("edited"),
    }
    assert decision.result == going_on.get(answer.status, "")
