"""Sweeps and shipped kernels within rounds, on a scripted GPU; its times are the script's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from pathlib import Path

import pytest

from astra_tui.engine import lab
from astra_tui.engine import proposal as proposals
from astra_tui.engine.attempts import SWEEP
from astra_tui.engine.host import build_engine, open_session
from astra_tui.engine.stops import FINISHED, check_gpu_budget
from astra_tui.lab.devices import DeviceChoice
from astra_tui.lab.upstream import user_packages
from astra_tui.llm.asking.facts import measured_text
from astra_tui.model.approval import Answer, ApprovalGate, ApprovalStatus, Decision, Question
from astra_tui.model.author import Author, AuthorKind
from astra_tui.model.events import (
    CodeWritten,
    SessionClosed,
    ShippedTimed,
    StopReason,
    SweepAdvanced,
    SweepFinished,
)
from astra_tui.model.settings import Budget
from astra_tui.model.state import SessionState
from astra_tui.model.task import KernelTask, load_task
from astra_tui.model.verdict import Outcome
from astra_tui.playbook import Evidence, KernelText, Proposal
from astra_tui.playbook.moves.overlap_launches import OverlapLaunches
from astra_tui.playbook.propose import propose
from astra_tui.present.events import describe
from astra_tui.processes.child import Child
from astra_tui.sessions.journal_writer import Redactor
from tests.conftest import ROOT
from tests.engine.scripted import (
    ASK,
    AUTHOR,
    ENGINEER,
    ScriptedTeam,
    Session,
    Step,
    settings_of,
)
from tests.gpu.script import FACTS
from tests.packages.wheels import keep_wheel, make_wheel
from tests.quick import write_quick_task

pytestmark = pytest.mark.usefixtures("warm_processes")

WORKLOADS = "[[workloads]]\ndims = { tokens = 8, d = 128 }\n"
FASTER = "// scripted: 45 us\n// scripted by threads: 128=45 256=30\n"


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KernelTask:
    """silu_and_mul with two small workloads; lab processes are on the scripted GPU."""
    folder = write_quick_task(tmp_path / "kernels", WORKLOADS)
    (folder / "tuned.cu").unlink()
    monkeypatch.setenv("PYTHONPATH", str(ROOT))

    def scripted_child(_module: str, arguments: tuple[str, ...], name: str) -> Child:
        return Child("tests.gpu_tools.scripted_worker", arguments, name)

    monkeypatch.setattr(lab, "Child", scripted_child)
    return load_task(folder)


SHIPPED = """\
[packages.tiny-kernels]
version = "1.2.0"
file = "{file}"
sha256 = "{sha256}"
licence = "Apache-2.0"
released = "2026-10-01"

[[yardsticks]]
name = "tiny"
about = "an example"
package = "tiny-kernels"
arch = "sm_90a"
parameters = ["pointer", "pointer", "int64", "int64"]
launch = "grid=tokens block=128 args=(out, input, tokens * d, d)"

[yardsticks.source]
text = "// scripted: 40 us\\n#include <tiny.cuh>"
kernel = "act<T>"
include = ["tiny"]
"""
KERNEL = "template <typename T> __global__ void act(T*, const T*, long long, long long) {}\n"


def start(
    folder: Path,
    task: KernelTask,
    *times: str,
    author: Author = AUTHOR,
    sweep: float = 1.0,
    roofline: float = 0.0,
    overlap: bool = False,
) -> Session:
    """Rounds with the baseline and a constant, under comments that say how long it takes."""
    source = task.baseline_file.read_text(encoding="utf-8")
    source = source.replace("/* @launch", "/* @launch\n   tune threads = 128 in 128, 256")
    source = source.replace("d, 128), 256) block=128", "d, threads), 256) block=threads")
    source = source.replace("  for (", "#pragma unroll 1\n  for (")
    if overlap:
        made = propose(OverlapLaunches(), KernelText.read(source), Evidence(task, device="cuda:0"))
        assert isinstance(made, Proposal)
        source = made.source
    steps = [Step(f"other threads {n}", (t + source,)) for n, t in enumerate(times)]
    team = ScriptedTeam(steps, author=author)
    chosen = settings_of(ASK, rounds=len(times), reflections=0, sweep=sweep, roofline=roofline)
    opened = open_session(folder / "session", task, chosen, Redactor())
    device = DeviceChoice("cuda:0", FACTS)
    engine = build_engine(opened, task, chosen, team, wait_for_engineer=True, device=device)
    return Session(opened, engine, team)


def proposal(session: Session, round_: int) -> tuple[list[CodeWritten], Outcome]:
    (one,) = session.engine.state.rounds[round_].proposals
    assert one.verdict is not None
    return [a for a in one.attempts if isinstance(a, CodeWritten)], one.verdict.outcome


def test_what_passed_is_swept_and_the_result_goes_the_way_of_all_code(
    task: KernelTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the first round it is accepted; in the second rejected, and the code before it stays; in
    the third the GPU's budget ends with its timing.
    """
    second_times = "// scripted: 20 us\n// scripted by threads: 128=20 256=15\n"
    session = start(tmp_path, task, FASTER, second_times, "// scripted: 9 us\n")

    def ends_with_the_third_timing(state: SessionState, budget: Budget) -> None:
        attempts = state.rounds[-1].proposals[0].attempts
        timed = any(state.candidate(a.candidate).timings for a in attempts)  # type: ignore[union-attr]
        if len(state.rounds) == 4 and timed:
            budget = Budget(gpu_seconds=state.usage.gpu_seconds)
        check_gpu_budget(state, budget)

    monkeypatch.setattr(proposals, "check_gpu_budget", ends_with_the_third_timing)

    def answer(session: Session, question: Question) -> Awaitable[Decision]:
        status = ApprovalStatus.ACCEPTED
        if (question.gate, question.attempt, question.round) == (ApprovalGate.DIFF, 1, 2):
            status = ApprovalStatus.REJECTED
        by_hand = Answer(question.id, question.subject, status, ENGINEER, reason="keep 128")
        return session.engine.desk.answer(by_hand)

    asyncio.run(session.run_with(answer))
    state: SessionState = session.engine.state
    (first, second), outcome = proposal(session, 1)
    assert (second.author, outcome) == (SWEEP, Outcome.BETTER)
    assert state.rounds[2].base == second.candidate
    assert second.summary.endswith("threads = 256")
    assert "tune threads = 256 in" in session.engine.record.store.get(second.candidate)
    known = state.candidate(second.candidate)
    timing = known.timing(state.rounds[1].base)
    assert known.correct
    assert timing is not None
    assert timing.speedup is not None
    assert timing.speedup.value > 50 / 45 * 1.1
    swept = state.candidate(first.candidate).swept
    assert swept is not None
    assert (swept.result, swept.timed >= 3) == (second.candidate, True)
    assert swept.gpu_seconds < state.usage.gpu_seconds
    progress = [describe(e) for e in session.of(SweepAdvanced)]
    assert any(p is not None and "trials measured" in p.text for p in progress)
    words = describe(session.of(SweepFinished)[0])
    assert words is not None
    assert f"{swept.timed} of {swept.trials} trials timed, {second.summary}" in words.text

    (kept, rejected), outcome = proposal(session, 2)
    assert (rejected.author, outcome) == (SWEEP, Outcome.BETTER)
    assert state.rounds[3].base == kept.candidate
    (last,), outcome = proposal(session, 3)
    assert (outcome, state.best) == (Outcome.BETTER, last.candidate)


def test_a_model_is_told_what_ships_before_it_plans(task: KernelTask, tmp_path: Path) -> None:
    """The base of each round, once; the playbook, which does not read it, costs no GPU time."""
    pin = keep_wheel(user_packages(), make_wheel(tmp_path, {"tiny/tiny.cuh": KERNEL}))
    text = SHIPPED.format(file=pin.file, sha256=pin.sha256)
    task.yardsticks_file.write_text(text, encoding="utf-8")
    playbook = Author(AuthorKind.PLAYBOOK, "scripted")

    def answer(session: Session, question: Question) -> Awaitable[Decision]:
        return session.engine.desk.answer(
            Answer(question.id, question.subject, ApprovalStatus.ACCEPTED, ENGINEER)
        )

    told = {}
    for author in (AUTHOR, playbook):
        place, faster = tmp_path / author.kind, "// scripted: 30 us\n"
        session = start(place, task, faster, author=author, sweep=0)
        asyncio.run(session.run_with(answer))
        state = session.engine.state
        timed = [e.candidate for e in session.of(ShippedTimed)]
        assert timed == [*[state.rounds[1].base] * (author is AUTHOR), state.best]
        told[author.kind] = measured_text(session.team.briefs[0])
    assert "tiny" not in told[playbook.kind]
    (line,) = (each for each in told[AUTHOR.kind].split("\n") if "the fastest is tiny" in each)
    assert line.endswith("this source is slower")
    assert (
        "tiny is launched with grid=tokens block=128 args=(out, input, tokens * d, d)"
        in (told[AUTHOR.kind])
    )


def test_a_run_whose_best_is_at_the_floor_says_so_and_ends_well(
    task: KernelTask, tmp_path: Path
) -> None:
    """Rounds that are left are not begun; each workload is named with its time and its floor. One
    whose launches do not overlap, on a GPU that could, is not at the end.
    """

    def answer(session: Session, question: Question) -> Awaitable[Decision]:
        return session.engine.desk.answer(
            Answer(question.id, question.subject, ApprovalStatus.ACCEPTED, ENGINEER)
        )

    playbook = Author(AuthorKind.PLAYBOOK, "scripted")
    times = (f"// scripted: {us} us\n" for us in (20, 40, 40))
    left = start(tmp_path / "left", task, *times, author=playbook, sweep=0, roofline=0.98)
    asyncio.run(left.run_with(answer))
    assert [e.reason for e in left.of(SessionClosed)] == [StopReason.ROUNDS]
    times = (f"// scripted: {us} us\n" for us in (20, 40, 40))
    session = start(
        tmp_path / "overlaps", task, *times, author=playbook, sweep=0, roofline=0.98, overlap=True
    )
    asyncio.run(session.run_with(answer))
    state = session.engine.state
    (ended,) = session.of(SessionClosed)
    assert ended.reason is StopReason.ROOFLINE
    assert ended.reason in FINISHED
    assert len(state.rounds) == 2
    timed = state.candidate(state.best).timings[-1].timing.workloads
    assert [w.workload for w in timed] == [w.name for w in task.workloads]
    for workload in timed:
        assert workload.floor is not None
        assert f"{workload.workload} " in ended.message
        assert f"floor {workload.floor.us:.2f} us" in ended.message
