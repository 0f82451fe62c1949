"""What an engineer lets the engine accept: it acts late, spares what is open, and is told."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from astra_tui.engine import approvals as gates
from astra_tui.engine.approvals import Approvals
from astra_tui.engine.pending_questions import PendingQuestions
from astra_tui.engine.policy import AutoPolicy
from astra_tui.engine.record import Record
from astra_tui.model.approval import ApprovalStatus, AutoApproval, AutoMode, Decision, plan_question
from astra_tui.model.author import Author, AuthorKind
from astra_tui.model.events import (
    AutoApprovalSet,
    EngineStarted,
    Event,
    PlanProposed,
    RoundOpened,
)
from astra_tui.model.plan import Counter, Plan, Prediction, Risk
from astra_tui.model.settings import Approval
from astra_tui.model.state import SessionState
from astra_tui.sessions.journal_reader import read_journal
from astra_tui.sessions.journal_writer import Journal, Redactor
from tests.engine.scripted import ASK, AUTHOR, AUTO, ENGINEER
from tests.sessions.samples import BASELINE, opened

SETTLE = 0.05


def plan_of(risk: Risk) -> Plan:
    return Plan("wider", "requests", (), "16 bytes", Prediction(1, 2, Counter.REQUESTS, 1), risk)


class Gate:
    """The plan gate of a session with a plan of every risk in round 1, in a real journal."""

    def __init__(self, folder: Path, approval: Approval = ASK):
        self.journal = Journal.create(folder, Redactor())
        self.told: list[Event] = []
        self.record = Record(self.journal, SessionState(), self.told.append)
        self.desk = PendingQuestions()
        self.plans = [plan_of(risk) for risk in Risk]
        self.record.emit(opened())
        self.record.emit(RoundOpened(0, 0, BASELINE))
        self.record.emit(RoundOpened(1, 0, BASELINE))
        for index, plan in enumerate(self.plans):
            self.record.emit(PlanProposed(1, index, plan, AUTHOR))
        policies = [AutoPolicy(approval)]
        self.approvals = Approvals(self.record, self.desk, policies, wait=True)

    def order(self, mode: AutoMode, left: int = 0) -> None:
        self.approvals.set_auto(AutoApprovalSet(mode, ENGINEER, left))

    def ask(self, proposal: int) -> asyncio.Task[Decision]:
        plan = self.plans[proposal]
        question = plan_question(1, proposal, plan)
        return asyncio.ensure_future(self.approvals.decide(question, plan))

    async def waits(self, proposal: int) -> bool:
        """Whether a question goes to the engineer in the end."""
        asking = self.ask(proposal)
        while not asking.done() and not self.desk.open:
            await asyncio.sleep(0)
        is_open = bool(self.desk.open)
        asking.cancel()
        await asyncio.wait([asking])
        return is_open


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    monkeypatch.setattr(gates, "SETTLE_SECONDS", SETTLE)
    made = Gate(tmp_path / "s")
    with made.journal:
        yield made


@pytest.mark.parametrize("mode", AutoMode)
def test_a_mode_accepts_up_to_its_risk_and_signs_for_it(mode: AutoMode, gate: Gate) -> None:
    async def go() -> None:
        gate.order(mode)
        for proposal, risk in enumerate(Risk):
            accepts = mode.bound is not None and risk.rank <= mode.bound.rank
            assert await gate.waits(proposal) is not accepts

    asyncio.run(go())
    decided = gate.record.state.decisions.values()
    assert {d.status for d in decided} <= {ApprovalStatus.ACCEPTED}
    assert {d.by.describe() for d in decided} <= {"policy auto, set by tester"}


def test_cycling_past_a_mode_decides_nothing(gate: Gate) -> None:
    async def go() -> None:
        gate.order(AutoMode.ALL)
        asking = gate.ask(0)
        await asyncio.sleep(0)
        assert gate.record.state.pending
        gate.order(AutoMode.ASK)
        while not gate.desk.open:
            await asyncio.sleep(0)
        asking.cancel()

    asyncio.run(go())
    assert not gate.record.state.decisions


def test_a_question_that_is_open_stays_the_engineers_also_when_it_is_asked_anew(
    gate: Gate,
) -> None:
    async def go() -> None:
        assert await gate.waits(0)
        gate.order(AutoMode.ALL)
        assert await gate.waits(0)
        assert not await gate.waits(1)

    asyncio.run(go())


def test_so_many_questions_are_accepted_and_a_journal_remembers(gate: Gate) -> None:
    async def go() -> None:
        gate.order(AutoMode.LOW, left=1)
        assert not await gate.waits(2)
        assert gate.record.state.auto.describe() == "auto: low risk"
        assert await gate.waits(1)

    asyncio.run(go())
    state = gate.record.state
    assert state.auto == AutoApproval(AutoMode.LOW, 0, ENGINEER, (), True)
    assert read_journal(gate.journal.folder).state().auto == state.auto


def test_fewer_than_no_questions_are_none() -> None:
    made_up = AutoApproval(AutoMode.LOW, -3)
    assert made_up.describe() == "auto: low risk"
    assert not made_up.covers(plan_question(1, 0, plan_of(Risk.HIGH)), plan_of(Risk.HIGH))


def test_of_questions_asked_together_the_first_are_accepted(gate: Gate) -> None:
    async def go() -> None:
        gate.order(AutoMode.ASK, left=1)
        asking = [gate.ask(proposal) for proposal in range(3)]
        while len(gate.desk.open) < 2:
            await asyncio.sleep(0)
        assert [one.done() for one in asking] == [True, False, False]
        for one in asking:
            one.cancel()
        await asyncio.wait(asking)

    asyncio.run(go())


def test_what_an_engineer_sets_replaces_the_policy_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gates, "SETTLE_SECONDS", SETTLE)
    gate = Gate(tmp_path / "s", AUTO)

    async def go() -> None:
        assert not await gate.waits(2)
        gate.order(AutoMode.ASK)
        assert await gate.waits(0)
        gate.record.emit(EngineStarted("host", 1, 5))
        assert not await gate.waits(0)

    with gate.journal:
        asyncio.run(go())
    assert [d.by.name for d in gate.record.state.decisions.values()] == ["auto", "auto"]


def test_a_resumed_session_keeps_the_mode_of_the_same_engineer(gate: Gate) -> None:
    async def go() -> None:
        gate.order(AutoMode.LOW)
        gate.approvals.begin(ENGINEER)
        gate.record.emit(EngineStarted("host", 1, 5))
        assert not await gate.waits(0)
        assert await gate.waits(1)
        gate.approvals.begin(Author(AuthorKind.ENGINEER, "somebody else"))
        assert gate.record.state.auto.mode is AutoMode.ASK

    asyncio.run(go())


def test_a_mode_of_an_engineer_without_a_name_does_not_hold_again(gate: Gate) -> None:
    nobody = Author(AuthorKind.ENGINEER, "")
    gate.approvals.set_auto(AutoApprovalSet(AutoMode.ALL, nobody))
    gate.approvals.begin(nobody)
    assert not gate.record.state.auto.is_on
