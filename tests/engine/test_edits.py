"""An edited plan is coded as it says, or refused while the question is open: by file and socket."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from astra_tui.engine.host import build_engine, open_session
from astra_tui.model.approval import Answer, AnswerRefused, ApprovalGate, ApprovalStatus
from astra_tui.model.author import AuthorKind
from astra_tui.model.constraints import Compliance, Origin
from astra_tui.model.events import (
    ApprovalAsked,
    CheckStarted,
    PlanProposed,
    RoundClosed,
    SessionClosed,
    StopReason,
)
from astra_tui.model.plan import Plan
from astra_tui.model.settings import Approval, RunSettings, TeamKind
from astra_tui.model.state import SessionState
from astra_tui.model.task import KernelTask
from astra_tui.playbook.playbook_team import PlaybookTeam
from astra_tui.sessions.journal_reader import read_journal
from astra_tui.sessions.journal_writer import Redactor
from tests.engine.scripted import ASK, settings_of
from tests.engine.test_server import ANN, attached, hosted

pytestmark = pytest.mark.usefixtures("known_answers", "runtime_of_its_own")


@pytest.fixture
def runtime_of_its_own(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("run")))


def playbook_settings(approval: Approval) -> RunSettings:
    return settings_of(approval, team=TeamKind.PLAYBOOK, rounds=1)


def coded(folder: Path, state: SessionState) -> str:
    """The source that the plan of round 1 was coded as."""
    written = state.round(1).proposals[0].code
    assert written is not None
    assert written.author.kind is AuthorKind.PLAYBOOK
    return (folder / "sources" / f"{written.candidate[:12]}.cu").read_text()


def decided_by_file(folder: Path, task: KernelTask, plan: str) -> SessionClosed:
    """Runs a session whose first plan a file of decisions edits, and whose diff it rejects."""
    folder.mkdir()
    decisions = folder / "decisions.toml"
    decisions.write_text(
        f'[[decision]]\ngate = "plan"\nstatus = "edited"\nplan = {plan}\n'
        '[[decision]]\ngate = "diff"\nstatus = "rejected"\nreason = "seen"\n'
    )
    settings = playbook_settings(Approval(decisions=str(decisions)))
    opened = open_session(folder / "s", task, settings, Redactor())

    async def run() -> None:
        engine = build_engine(opened, task, settings, PlaybookTeam(), wait_for_engineer=False)
        async for _ in engine.run():
            pass

    with opened.journal:
        asyncio.run(run())
    closed = read_journal(folder / "s").records[-1].event
    assert isinstance(closed, SessionClosed)
    return closed


def test_a_file_of_decisions_edits_what_is_coded(tmp_path: Path, quick_task: KernelTask) -> None:
    parameters = "parameters = { pack_bytes = 8, workloads = ['16x4096'] }"
    edited = f"{{ {parameters}, prediction = {{ counter_ratio = 0.5 }} }}"
    closed = decided_by_file(tmp_path / "a", quick_task, edited)
    assert closed.reason is StopReason.ROUNDS
    found = read_journal(tmp_path / "a" / "s")
    state, kinds = found.state(), [type(event) for event in found.events]
    # The plan is read while the baseline is checked, and asked about when it has passed.
    order = [kinds.index(kind) for kind in (PlanProposed, CheckStarted, RoundClosed, ApprovalAsked)]
    assert order == sorted(order)
    source = coded(tmp_path / "a" / "s", state)
    assert "let width = 8 // sizeof(T)" in source
    assert "tokens == 16 and d == 4096" in source
    plan = state.plan_of(1, 0)
    assert (plan.title, plan.prediction.counter_ratio) == ("Access 8 bytes a thread", 0.5)
    assert state.decisions["1.0.plan"].by.kind is AuthorKind.ENGINEER
    asked = next(q for q in state.questions.values() if q.gate is ApprovalGate.DIFF)
    (ruling,) = state.round(1).proposals[0].rulings(asked.subject)
    assert (ruling.constraint.origin, ruling.compliance) == (Origin.PLAN, Compliance.KEPT)


@pytest.mark.parametrize(
    ("plan", "told"),
    [
        ('{ change = "use packs of 8 bytes" }', "would not follow an edit of change"),
        ("{ parameters = { pack_bytes = 12 } }", "pack_bytes: 12 is not one of 16, 8, 4"),
        ("{ parameters = { pack_byte = 8 } }", "did you mean 'pack_bytes'"),
        ("{ prediction = { counter_ration = 0.5 } }", "did you mean 'counter_ratio'"),
        (
            "{ prediction = { counter_ratio = -5.0 } }",
            "a ratio is a number of 0 or more",
        ),
    ],
)
def test_a_file_that_asks_for_what_would_not_be_coded_ends_the_run_undecided(
    tmp_path: Path, quick_task: KernelTask, plan: str, told: str
) -> None:
    closed = decided_by_file(tmp_path / "a", quick_task, plan)
    assert closed.reason is StopReason.TROUBLE
    assert told in closed.message
    assert "decisions.toml" in closed.message
    assert not read_journal(tmp_path / "a" / "s").state().decisions


def test_a_front_end_is_refused_there_and_then_and_may_answer_again(
    tmp_path: Path, quick_task: KernelTask
) -> None:
    folder = tmp_path / "s"

    async def test() -> None:
        settings = playbook_settings(ASK)
        async with (
            hosted(folder, quick_task, PlaybookTeam(), settings=settings) as engine,
            attached(engine) as screen,
        ):
            asked = await screen.question()
            shown = engine.server._engine.state.round(1).proposals[0].plan

            def edited(plan: Plan) -> Answer:
                return Answer(asked.id, asked.subject, ApprovalStatus.EDITED, ANN, plan=plan)

            with pytest.raises(AnswerRefused, match="would not follow an edit of change") as told:
                await screen.client.answer(edited(replace(shown, change="do not touch the store")))
            assert "set its parameters (pack_bytes, lines, workloads)" in told.value.hint
            wrong = replace(shown.prediction, counter_ratio=-5.0)
            with pytest.raises(AnswerRefused, match="a ratio is a number of 0 or more"):
                await screen.client.answer(edited(replace(shown, prediction=wrong)))
            assert engine.server._engine.desk.open == (asked,)
            both = shown.having({"lines": (20, 21)})
            await asyncio.gather(
                screen.client.answer(edited(both)), screen.client.answer(edited(both)),
                return_exceptions=True,
            )  # fmt: skip
            assert (await screen.question()).gate is ApprovalGate.DIFF

    asyncio.run(test())
    state = read_journal(folder).state()
    assert len(state.decisions) == 1
    assert "out_pack" not in coded(folder, state)
