"""Copies, and parents that a search draws, with a scripted team and everything else real."""

from __future__ import annotations

import asyncio

import pytest

from astra_tui.model.events import CheckStarted, CopyFound, ProfileTaken
from astra_tui.model.task import KernelTask
from astra_tui.model.verdict import Outcome
from tests.engine.scripted import (
    AUTO,
    ScriptedTeam,
    Session,
    Sources,
    Step,
    resume,
    settings_of,
    sources_of,
    start,
)

pytestmark = pytest.mark.usefixtures("known_answers")


@pytest.fixture
def task(quick_task: KernelTask) -> KernelTask:
    return quick_task


@pytest.fixture
def sources(task: KernelTask) -> Sources:
    return sources_of(task)


def run(session: Session) -> Session:
    asyncio.run(session.run())
    return session


def outcomes(session: Session) -> dict[str, tuple[Outcome, tuple[str, ...]]]:
    return {
        p.plan.title: (p.verdict.outcome, p.verdict.reasons)
        for r in session.engine.state.rounds
        for p in r.proposals
        if p.verdict is not None
    }


def test_copies_are_neither_checked_nor_profiled_again(tmp_path, task, sources):
    """With comments that the original lacks, letter for letter the same, and as the baseline."""
    commented = sources.better.replace("__global__", "// as before\n\n__global__", 1)
    assert commented != sources.better
    wrong_too = sources.wrong.replace("__global__", "/* still */ __global__", 1)
    steps = [
        Step("wide", (sources.better,)),
        Step("wide with a comment", (commented,)),
        Step("wide again", (sources.better,)),
        Step("nothing", (sources.baseline.replace("__global__", "/* x */ __global__", 1),)),
        Step("wrong", (sources.wrong,)),
        Step("wrong with a comment", (wrong_too,)),
    ]
    settings = settings_of(AUTO, rounds=1, candidates=6, repairs=0, reflections=0)
    session = run(start(tmp_path / "s", task, ScriptedTeam(steps), settings))
    state = session.engine.state
    written = {p.plan.title: p.attempts[0].candidate for p in state.round(1).proposals}
    originals = {e.candidate: e.original for e in session.of(CopyFound)}
    # Which of equal siblings comes first depends on the lab: one of each kind has the results.
    pairs = [("wide", "wide with a comment"), ("wrong", "wrong with a comment")]
    for one, other in pairs:
        first, second = sorted((written[one], written[other]), key=originals.__contains__)
        assert originals.pop(second) == first
        assert outcomes(session)[one][0] is outcomes(session)[other][0]
    assert originals == {written["nothing"]: state.opened.baseline}
    checked = [e.candidate for e in session.of(CheckStarted)]
    assert len(checked) == len(set(checked)) == 3
    assert len(session.of(ProfileTaken)) == 2
    nothing = outcomes(session)["nothing"]
    assert nothing == (Outcome.SAME, ("the same machine code as that of the baseline",))
    told = [r for o, rs in outcomes(session).values() for r in rs if r.startswith("the same ")]
    assert len(told) == 4
    # The best is what was checked, not its copy.
    assert state.best in checked
    again = resume(tmp_path / "s", task, ScriptedTeam(steps), settings)
    assert again.engine.state == state
