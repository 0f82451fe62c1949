"""Answers that need no one: the automatic policy and the file of decisions."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import cast

import pytest
from msgspec.structs import replace

from astra_tui.engine.approvals import Approvals
from astra_tui.engine.pending_questions import PendingQuestions
from astra_tui.engine.policy import AutoPolicy, DecisionsFile, read_decisions
from astra_tui.engine.record import Record, Store
from astra_tui.engine.stops import Stop
from astra_tui.model.approval import ApprovalGate, ApprovalStatus, Question, decide
from astra_tui.model.errors import UserError
from astra_tui.model.events import StopReason
from astra_tui.model.plan import Counter, Plan, Prediction, Risk
from astra_tui.model.settings import Approval, GatePolicy
from astra_tui.model.state import SessionState
from tests.conftest import ROOT

PLAN = Plan("wider", "requests", (), "load 16 bytes", Prediction(1, 2, Counter.REQUESTS, 0.5),
            Risk.MEDIUM)  # fmt: skip


def question(
    gate: ApprovalGate = ApprovalGate.PLAN, round_: int = 1, proposal: int = 0, hunks: int = 3
) -> Question:
    subject = PLAN.hash if gate is ApprovalGate.PLAN else "c" * 64
    name = f"{round_}.{proposal}.{gate.value}"
    return Question(
        name, gate, round_, proposal, subject, hunks=hunks if gate is ApprovalGate.DIFF else 0
    )


def written(folder: Path, text: str) -> Path:
    path = folder / "decisions.toml"
    path.write_text(text, encoding="utf-8")
    return path


def statuses(file: DecisionsFile, *questions: Question) -> list[str]:
    answers = [file.answer(q, PLAN) for q in questions]
    return [a.status.value if a else "none" for a in answers]


@pytest.mark.parametrize(
    ("entry", "taken", "left"),
    [
        ("", [question(), question(ApprovalGate.DIFF)], []),
        ('gate = "diff"', [question(ApprovalGate.DIFF)], [question()]),
        ("round = 2", [question(round_=2)], [question(round_=1)]),
        ("proposal = 1", [question(proposal=0)], [question(proposal=1)]),
        ('gate = "plan"\nround = 2\nproposal = 2', [question(round_=2, proposal=1)],
         [question(round_=2), question(ApprovalGate.DIFF, 2, 1)]),
    ],
)  # fmt: skip
def test_a_decision_matches_what_it_names(
    tmp_path: Path, entry: str, taken: list[Question], left: list[Question]
) -> None:
    path = written(tmp_path, f'[[decision]]\nstatus = "accepted"\ntimes = 0\n{entry}\n')
    assert statuses(DecisionsFile(path), *taken, *left) == (
        ["accepted"] * len(taken) + ["none"] * len(left)
    )


def test_decisions_are_used_in_order_and_as_often_as_they_say(tmp_path: Path) -> None:
    text = """
    [[decision]]
    status = "rejected"
    [[decision]]
    status = "accepted"
    times = 2
    [[decision]]
    status = "cancelled"
    times = 0
    """
    asked = [question(round_=n) for n in range(1, 7)]
    assert statuses(DecisionsFile(written(tmp_path, text)), *asked) == [
        "rejected", "accepted", "accepted", "cancelled", "cancelled", "cancelled",
    ]  # fmt: skip


def test_a_resumed_session_goes_on_in_the_file(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        '[[decision]]\nstatus = "rejected"\nreason = "no"\n[[decision]]\nstatus = "accepted"\n',
    )
    first = question()
    answer = DecisionsFile(path).answer(first, PLAN)
    assert answer is not None
    state = replace(
        SessionState(), questions={first.id: first}, decisions={first.id: decide(first, answer)}
    )
    assert statuses(DecisionsFile(path, state), question(round_=2)) == ["accepted"]


def test_hunks_count_from_one(tmp_path: Path) -> None:
    path = written(tmp_path, '[[decision]]\nstatus = "accepted"\nhunks = [1, 3]\ntimes = 0\n')
    file = DecisionsFile(path)
    answer = file.answer(question(ApprovalGate.DIFF), PLAN)
    assert answer is not None
    assert answer.hunks == (0, 2)
    with pytest.raises(UserError, match=r"there is no hunk 3: the diff 1\.0\.diff has 2"):
        file.answer(question(ApprovalGate.DIFF, hunks=2), PLAN)


def test_an_edited_plan_keeps_what_the_file_leaves_out(tmp_path: Path) -> None:
    text = '[[decision]]\nstatus = "edited"\n[decision.plan]\nchange = "load 8 bytes"\n'
    answer = DecisionsFile(written(tmp_path, text)).answer(question(), PLAN)
    assert answer is not None
    assert answer.plan == replace(PLAN, change="load 8 bytes")


def test_an_edited_source_is_a_file_beside_the_decisions(tmp_path: Path) -> None:
    (tmp_path / "mine.cu").write_text("// mine\n", encoding="utf-8")
    text = '[[decision]]\nstatus = "edited"\nsource = "{}"\n'
    answer = DecisionsFile(written(tmp_path, text.format("mine.cu"))).answer(
        question(ApprovalGate.DIFF), PLAN
    )
    assert answer is not None
    assert answer.source == "// mine\n"
    gone = DecisionsFile(written(tmp_path, text.format("gone.cu")))
    with pytest.raises(UserError, match=r"gone\.cu"):
        gone.answer(question(ApprovalGate.DIFF), PLAN)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[[decision]]\nstauts = "accepted"', "unknown key 'stauts' in decision 1\n.*'status'"),
        ('[[decisions]]\nstatus = "accepted"', "unknown key 'decisions'\n.*'decision'"),
        ('[[decision]]\nstatus = "maybe"', "decision 1: 'maybe' is no status"),
        ('[[decision]]\nstatus = "pending"', "decision 1: 'pending' is no status"),
        (
            '[[decision]]\nstatus = "accepted"\n[[decision]]\nstatus = "rejcted"',
            "decision 2: 'rejcted' is no status\n"
            "  a status is accepted, edited, rejected or cancelled",
        ),
        (
            '[[decision]]\nstatus = "accepted"\ngate = "dif"',
            "decision 1: 'dif' is no gate\n  a gate is plan or diff",
        ),
        ('[[decision]]\nstatus = "accepted"\ntimes = -1', "decision 1: times: .*of 0 or more"),
        ('[[decision]]\nstatus = "accepted"\nround = 0', "decision 1: round: .*of 1 or more"),
        ('[[decision]]\nstatus = "accepted"\nproposal = 0', "decision 1: proposal: .*of 1 or more"),
        ('[[decision]]\nstatus = "accepted"\nhunks = [1, 0]', "decision 1: hunks.*of 1 or more"),
        ('[[decision]]\ngate = "plan"', "decision 1: .*missing required field `status`"),
        ("decision = 3", "not a file of decisions"),
        ("", "not a file of decisions"),
        ("[[decision", "cannot be read"),
    ],
)
def test_a_bad_file_is_named_with_its_key(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(UserError, match=told) as raised:
        read_decisions(written(tmp_path, text))
    assert raised.value.file == str(tmp_path / "decisions.toml")


def test_a_bad_edit_of_a_plan_is_named(tmp_path: Path) -> None:
    text = '[[decision]]\nstatus = "edited"\n[decision.plan]\nchagne = "x"\n'
    with pytest.raises(UserError, match="unknown key 'chagne' in the edited plan"):
        DecisionsFile(written(tmp_path, text)).answer(question(), PLAN)


@pytest.mark.parametrize(
    ("approval", "gate", "risk", "answered"),
    [
        (Approval(), ApprovalGate.PLAN, Risk.LOW, False),
        (Approval(plan=GatePolicy.AUTO), ApprovalGate.PLAN, Risk.HIGH, True),
        (Approval(plan=GatePolicy.AUTO), ApprovalGate.DIFF, Risk.LOW, False),
        (Approval(diff=GatePolicy.AUTO, max_risk=Risk.LOW), ApprovalGate.DIFF, Risk.HIGH, True),
        (
            Approval(plan=GatePolicy.AUTO, max_risk=Risk.MEDIUM),
            ApprovalGate.PLAN,
            Risk.MEDIUM,
            True,
        ),
        (Approval(plan=GatePolicy.AUTO, max_risk=Risk.MEDIUM), ApprovalGate.PLAN, Risk.HIGH, False),
    ],
)
def test_auto_accepts_what_it_may(
    approval: Approval, gate: ApprovalGate, risk: Risk, answered: bool
) -> None:
    answer = AutoPolicy(approval).answer(question(gate), replace(PLAN, risk=risk), SessionState())
    assert (answer is not None) is answered
    assert answer is None or answer.status is ApprovalStatus.ACCEPTED


def test_the_example_of_the_page_is_a_file_of_decisions(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "approvals.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    decisions = read_decisions(written(tmp_path, example))
    assert [(d.gate, d.status.value, d.times) for d in decisions] == [
        (ApprovalGate.PLAN, "rejected", 1), (ApprovalGate.DIFF, "accepted", 1),
        (None, "accepted", 0),
    ]  # fmt: skip
    assert decisions[1].hunks == (1, 2)


def test_a_decision_that_does_not_fit_ends_the_run_with_the_file_and_what_to_do(
    tmp_path: Path,
) -> None:
    path = written(tmp_path, '[[decision]]\nstatus = "accepted"\nhunks = [9]\n')
    asked = question(ApprovalGate.DIFF)
    store = cast(Store, None)
    record = Record(store, replace(SessionState(), questions={asked.id: asked}), lambda _: None)
    approvals = Approvals(record, PendingQuestions(), [DecisionsFile(path)], wait=False)
    with pytest.raises(Stop) as stopped:
        asyncio.run(approvals.decide(asked, PLAN))
    assert stopped.value.reason is StopReason.TROUBLE
    assert stopped.value.message == (
        f"{path}: there is no hunk 9: the diff 1.0.diff has 3 (hunks count from 1)"
    )
