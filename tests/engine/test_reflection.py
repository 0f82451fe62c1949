"""What is judged and not better goes back with its profile, and the best attempt counts."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from astra_tui.model.digest import content_hash
from astra_tui.model.events import (
    AnalysisGiven,
    CodeWritten,
    DecisionTaken,
    SessionClosed,
    VerdictReached,
)
from astra_tui.model.fold import fold
from astra_tui.model.task import KernelTask
from astra_tui.model.verdict import Outcome, RoundVerdict
from tests.engine.scripted import (
    AUTO,
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


def run(
    folder: Path, task: KernelTask, steps: list[Step], reflects: dict[str, str], **settings: object
) -> Session:
    team = ScriptedTeam(steps, reflects=reflects)
    session = start(folder, task, team, settings_of(AUTO, rounds=1, **settings))
    asyncio.run(session.run())
    return session


def verdict_of(session: Session) -> RoundVerdict:
    (event,) = [e for e in session.events if isinstance(e, VerdictReached)]
    return event.verdict


def test_wrong_and_worse_candidates_are_mended_with_their_own_profiles(
    tmp_path: Path, task: KernelTask, sources: Sources
) -> None:
    steps = [Step("two", (sources.broken, sources.wrong, sources.slow))]
    session = run(tmp_path / "s", task, steps, {"two": sources.better})
    assert verdict_of(session).outcome is Outcome.BETTER
    assert session.engine.state.best == content_hash(sources.better)
    compiled, wrong, failure = session.team.failures
    assert (compiled.stage, compiled.profile) == ("compile", None)
    assert (wrong.stage, wrong.source) == ("check", sources.wrong)
    opened = session.engine.state.opened
    assert opened is not None
    baseline = session.engine.state.candidate(opened.baseline).profile
    assert wrong.profile is not None
    assert baseline is not None
    assert wrong.profile.workloads[0].counters == baseline.workloads[0].counters, "same accesses"
    kept_profile = session.engine.state.candidate(content_hash(sources.wrong)).profile
    assert kept_profile is None, "what is wrong is compared with nothing"
    assert (failure.stage, failure.source) == ("verdict", sources.slow)
    assert failure.message.startswith("worse: warp instructions ")
    known = session.engine.state.candidate(content_hash(sources.slow))
    assert failure.profile == known.profile is not None
    earlier, _ = failure.earlier
    assert (earlier.stage, earlier.source) == ("compile", sources.broken)
    assert "expected" in earlier.message
    tested = [sources.wrong, sources.slow, sources.better]
    assert session.team.tested == tested, "all that compiles"
    # Both gates hold for what was mended as well.
    decided = [e.decision for e in session.events if isinstance(e, DecisionTaken)]
    subjects = [d.subject for d in decided if d.gate.value == "diff"]
    assert subjects == [content_hash(source) for source in tested]


@pytest.mark.parametrize("mended", ["wrong", "broken", "slower"])
def test_an_attempt_that_only_makes_it_worse_leaves_the_earlier_verdict(
    tmp_path: Path, task: KernelTask, sources: Sources, mended: str
) -> None:
    texts = {
        "wrong": sources.wrong,
        "broken": sources.broken,
        "slower": sources.slow.replace("silu * up", "silu * sqrtf(up * up) * copysignf(1, up)"),
    }
    steps = [Step("two", (sources.slow,))]
    session = run(tmp_path / "s", task, steps, {"two": texts[mended]})
    verdict = verdict_of(session)
    assert verdict.outcome is Outcome.WORSE
    assert verdict.candidate == content_hash(sources.slow)
    written = [e.candidate for e in session.events if isinstance(e, CodeWritten)]
    assert written[:2] == [content_hash(sources.slow), content_hash(texts[mended])]


def test_a_coder_may_leave_it_and_say_why(
    tmp_path: Path, task: KernelTask, sources: Sources
) -> None:
    why = "the division was never the bottleneck"
    session = run(tmp_path / "s", task, [Step("two", (sources.slow,))], {"two": why})
    assert verdict_of(session).outcome is Outcome.WORSE
    said = [e for e in session.events if isinstance(e, AnalysisGiven) and e.role == "coding"]
    assert [(e.text, e.candidate) for e in said] == [(why, content_hash(sources.slow))]


def test_no_reflection_where_none_is_asked_for_or_it_is_better(
    tmp_path: Path, task: KernelTask, sources: Sources
) -> None:
    steps = [Step("two", (sources.slow,))]
    session = run(tmp_path / "s", task, steps, {"two": sources.better}, reflections=0)
    assert verdict_of(session).outcome is Outcome.WORSE
    steps = [Step("two", (sources.better,))]
    session = run(tmp_path / "t", task, steps, {"two": sources.slow})
    assert verdict_of(session).outcome is Outcome.BETTER
    assert not session.team.failures


def test_a_session_that_was_cut_off_reflects_no_more_often(
    tmp_path: Path, task: KernelTask, sources: Sources
) -> None:
    """The journal alone says how many attempts were reflections, and what each brought."""
    slower = sources.slow.replace("silu * up", "silu * sqrtf(up * up) * copysignf(1, up)")
    steps = [Step("two", (sources.slow,))]
    settings = settings_of(AUTO, rounds=1)
    first = start(tmp_path / "s", task, ScriptedTeam(steps, reflects={"two": slower}), settings)

    async def until_mended() -> None:
        async for event in first.engine.run():
            if isinstance(event, CodeWritten) and event.attempt == 1:
                first.engine.control.cancel(first.team.author)
        first.journal.close()

    asyncio.run(until_mended())
    again = resume(tmp_path / "s", task, ScriptedTeam(steps, reflects={"two": slower}), settings)
    asyncio.run(again.run())
    assert not again.team.failures
    verdict = verdict_of(again)
    assert (verdict.outcome, verdict.candidate) == (Outcome.WORSE, content_hash(sources.slow))
    events = kept(tmp_path / "s")
    (*_, closed) = [e for e in events if isinstance(e, SessionClosed)]
    assert fold(events[: events.index(closed)]).digest() == closed.digest
