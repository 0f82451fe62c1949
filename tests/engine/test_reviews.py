"""Code against what the engineer said, at the diff gate: journaled, shown, sent back or asked."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from astra_tui.engine.briefing import constraints_of
from astra_tui.engine.policy import AutoPolicy
from astra_tui.model.approval import Answer, ApprovalGate, ApprovalStatus, Question
from astra_tui.model.author import AuthorKind
from astra_tui.model.constraints import Compliance, Constraint, Judge, Origin, Ruling
from astra_tui.model.events import DecisionTaken, DiffReviewed, VerdictReached
from astra_tui.model.task import KernelTask
from astra_tui.model.verdict import Outcome
from astra_tui.plain.console import text_lines
from astra_tui.present.document import fields
from astra_tui.present.plans import ruling_rows
from tests.engine.scripted import (
    ASK,
    AUTO,
    ENGINEER,
    ScriptedTeam,
    Session,
    Sources,
    Step,
    kept,
    resume,
    settings_of,
    start,
)

pytestmark = pytest.mark.usefixtures("known_answers")
FAST = "no fast math"


def fast(sources: Sources) -> str:
    return sources.baseline.replace("expf(-gate)", "__expf(-gate)")


def reviews(session: Session) -> list[list[tuple[str, str, str]]]:
    return [
        [(r.text, r.compliance.value, r.judge.value if r.judge else "") for r in e.rulings]
        for e in session.events
        if isinstance(e, DiffReviewed)
    ]


def test_code_that_breaks_what_was_said_is_sent_back_where_no_one_is_asked(
    tmp_path: Path, task: KernelTask, sources: Sources
) -> None:
    team = ScriptedTeam([Step("exp", (fast(sources), sources.slow))])
    session = start(tmp_path / "s", task, team, settings_of(AUTO, rounds=1))
    session.engine.add_note(FAST, ENGINEER)
    asyncio.run(session.run())

    assert reviews(session) == [
        [("fewer", "undecided", ""), (FAST, "broken", "rule")],
        [("fewer", "undecided", ""), (FAST, "kept", "rule")],
    ]
    (failure,) = team.failures
    assert failure.stage == "review"
    assert failure.message.startswith(f'breaks "{FAST}" (by rule, line ')
    (verdict,) = [e.verdict for e in session.events if isinstance(e, VerdictReached)]
    assert verdict.outcome is Outcome.WORSE
    decided = [e.decision for e in session.events if isinstance(e, DecisionTaken)]
    by_gate = [(d.gate.value, d.status.value) for d in decided]
    assert by_gate == [("plan", "accepted"), ("diff", "rejected"), ("diff", "accepted")]
    assert {d.by.kind for d in decided} == {AuthorKind.POLICY}
    state = session.engine.state
    assert state.revocable is None
    said = constraints_of(state, session.journal.get)
    assert [c.text for c in said] == [FAST], "what a policy says is no word of the engineer"


def test_code_that_is_never_mended_ends_without_a_launch(
    tmp_path: Path, task: KernelTask, sources: Sources
) -> None:
    session = start(
        tmp_path / "s", task, ScriptedTeam([Step("exp", (fast(sources),))]),
        settings_of(AUTO, rounds=1),
    )  # fmt: skip
    session.engine.add_note(FAST, ENGINEER)
    asyncio.run(session.run())
    (verdict,) = [e.verdict for e in session.events if isinstance(e, VerdictReached)]
    assert verdict.outcome is Outcome.NOT_WRITTEN
    assert FAST in verdict.reasons[0]
    assert session.engine.state.candidate(verdict.candidate).check is None


def test_an_engineer_is_shown_what_is_broken_and_has_the_last_word(
    tmp_path: Path, task: KernelTask, sources: Sources
) -> None:
    def read(undecided: Ruling) -> Ruling | None:
        if undecided.constraint.origin is Origin.PLAN:
            return None
        return replace(undecided, compliance=Compliance.KEPT, judge=Judge.MODEL, why="seen")

    team = ScriptedTeam([Step("exp", (fast(sources),))], reads=read)
    session = start(tmp_path / "s", task, team, settings_of(ASK, rounds=1))
    session.engine.add_note(f"{FAST}. Keep it readable.", ENGINEER)
    shown: list[str] = []

    async def decide(session: Session, question: Question) -> None:
        state = session.engine.state
        if question.gate is ApprovalGate.DIFF:
            proposal = state.round(1).proposals[0]
            rulings = fields(ruling_rows(proposal.rulings(question.subject)))
            shown.append("\n".join(text_lines([rulings])))
            policy = AutoPolicy(AUTO)
            refused = policy.answer(question, proposal.plan, state)
            assert refused is not None
            assert refused.status is ApprovalStatus.REJECTED
            ask = replace(state, auto=replace(state.auto, replaces=True))
            assert policy.answer(question, proposal.plan, ask) is None
        answer = Answer(question.id, question.subject, ApprovalStatus.ACCEPTED, ENGINEER)
        await session.engine.desk.answer(answer)

    asyncio.run(session.run_with(decide))
    (text,) = shown
    first, second, third = text.splitlines()
    assert first.startswith(f'said  breaks "{FAST}" (by rule, line ')
    assert second == "said  not decided: the plan (no rule reads it)"
    assert third == 'said  keeps "Keep it readable" (as a model reads it): seen'
    (verdict,) = [e.verdict for e in session.events if isinstance(e, VerdictReached)]
    assert verdict.outcome.measured or verdict.outcome is Outcome.WRONG
    (reviewed,) = [e for e in kept(tmp_path / "s") if isinstance(e, DiffReviewed)]
    assert reviewed.rulings[1].judge is Judge.RULE


def test_a_reason_of_one_round_binds_the_next_and_an_edit_only_its_plan(
    tmp_path: Path, task: KernelTask, sources: Sources
) -> None:
    steps = [Step("first", (sources.slow,)), Step("second", (sources.slow,))]
    team = ScriptedTeam([*steps, Step("third", (fast(sources),))])
    settings = settings_of(ASK, rounds=2)
    session = start(tmp_path / "s", task, team, settings)

    async def decide(session: Session, question: Question) -> None:
        status, more = ApprovalStatus.ACCEPTED, {}
        plan = session.engine.state.round(question.round).proposals[0].plan
        if question.gate is ApprovalGate.PLAN and plan.title == "first":
            edited = replace(plan, change=f"{plan.change}. At most 96 threads a block.")
            status, more = ApprovalStatus.EDITED, {"plan": edited, "reason": "it is small"}
        elif plan.title == "second":
            status, more = ApprovalStatus.REJECTED, {"reason": FAST}
        answer = Answer(question.id, question.subject, status, ENGINEER, **more)
        await session.engine.desk.answer(answer)

    asyncio.run(session.run_with(decide))
    assert reviews(session) == [
        [
            ("fewer.", "undecided", ""),
            ("At most 96 threads a block", "broken", "rule"),
        ],
        [("fewer", "undecided", ""), (FAST, "broken", "rule")],
    ]
    listed = [(c.origin, c.about) for c in session.team.briefs[-1].constraints]
    assert listed == [(Origin.EDIT, "first"), (Origin.REJECTION, "second")]
    described = session.team.briefs[-1].constraints[0].describe()
    assert described.startswith('edited "first" in round 1 (it is small): ')

    again = resume(tmp_path / "s", task, ScriptedTeam([]), settings)
    assert constraints_of(again.engine.state, again.journal.get) == tuple(
        session.team.briefs[-1].constraints
    )
    again.journal.close()


def test_nothing_is_read_where_nothing_was_said(
    tmp_path: Path, task: KernelTask, sources: Sources
) -> None:
    session = start(
        tmp_path / "s", task, ScriptedTeam([Step("slow", (sources.slow,))]), settings_of(rounds=1)
    )
    asyncio.run(session.run())
    assert not reviews(session)
    assert Constraint(Origin.NOTE, "x").describe() == "x"
