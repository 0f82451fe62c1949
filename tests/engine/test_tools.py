"""Sessions on a scripted GPU, with stand-ins for compute-sanitizer and ncu."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from astra_tui.engine import lab
from astra_tui.engine.host import build_engine, open_session
from astra_tui.gpu.ncu.permission import PARAMETERS
from astra_tui.lab.devices import DeviceChoice
from astra_tui.llm.asking.facts import hardware_text
from astra_tui.model.check import CheckVerdict
from astra_tui.model.events import HardwareCountersRead, Sanitized, StopReason
from astra_tui.model.findings import SanitizerVerdict
from astra_tui.model.settings import Budget
from astra_tui.model.task import KernelTask, load_task
from astra_tui.model.verdict import Outcome
from astra_tui.plain.console import text_lines
from astra_tui.present.sessions import result_blocks
from astra_tui.processes.child import Child
from astra_tui.sessions.journal_writer import Redactor
from astra_tui.sessions.summary import run_report
from tests.conftest import ROOT
from tests.engine.scripted import ScriptedTeam, Session, Step, settings_of
from tests.gpu.script import FACTS
from tests.gpu_tools import texts
from tests.gpu_tools.stand_in import Behaviour, calls, install
from tests.gpu_tools.test_ncu import table
from tests.quick import write_quick_task

pytestmark = pytest.mark.usefixtures("warm_processes")

FAULTY, MENDED = "40 us", "45 us"
WORKLOADS = "[[workloads]]\ndims = { tokens = 8, d = 128 }\n"
METRICS = {"lts__t_sector_hit_rate.pct": ("%", "50.25"), "gpu__time_duration.sum": ("ns", "7,777")}


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KernelTask:
    """silu_and_mul with one small workload; lab processes are on the scripted GPU."""
    folder = write_quick_task(tmp_path / "kernels", WORKLOADS)
    (folder / "tuned.cu").unlink()
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))

    def scripted_child(_module: str, arguments: tuple[str, ...], name: str) -> Child:
        return Child("tests.gpu_tools.scripted_worker", arguments, name)

    monkeypatch.setattr(lab, "Child", scripted_child)
    return load_task(folder)


def run(folder: Path, task: KernelTask, team: ScriptedTeam, **settings: object) -> Session:
    chosen = settings_of(rounds=1, **settings)
    opened = open_session(folder / "session", task, chosen, Redactor())
    device = DeviceChoice("cuda:0", FACTS)
    engine = build_engine(opened, task, chosen, team, wait_for_engineer=False, device=device)
    session = Session(opened, engine, team)
    asyncio.run(session.run())
    return session


def source(task: KernelTask, time: str) -> str:
    return f"// scripted: {time}\n{task.baseline_file.read_text(encoding='utf-8')}"


@pytest.mark.skipif(PARAMETERS.exists(), reason="a driver here says who may read counters")
def test_what_a_tool_finds_goes_back_to_the_coding_agent(task: KernelTask, tmp_path: Path) -> None:
    behaviour = Behaviour(
        logs={"memcheck": texts.REAL_OUT_OF_BOUNDS},
        faulty_cases=("",),
        faulty_code='"us":40.0',
        clean=texts.CLEAN,
    )
    install(tmp_path / "programs", "compute-sanitizer", behaviour)
    ncu = install(tmp_path / "programs", "ncu", Behaviour(clean=table(METRICS)))
    team = ScriptedTeam([Step("faster", (source(task, FAULTY), source(task, MENDED)))])
    session = run(tmp_path, task, team, sanitize=True, ncu=True)
    state = session.engine.state
    first, second = (a.candidate for a in state.rounds[1].proposals[0].attempts)

    faulty = state.candidate(first)
    assert faulty.check is not None
    assert (faulty.check.verdict, faulty.correct) == (CheckVerdict.PASSED, False)
    assert faulty.profile is None
    assert faulty.timings == ()
    (failure,) = team.failures
    assert failure.source == source(task, FAULTY)
    words, place, code, *_ = failure.message.splitlines()
    assert words == "compute-sanitizer's memcheck: 1 error in case float16/typical"
    assert place.startswith("line 19: global_out_of_bounds: read of 2 bytes")
    assert code == f"    {source(task, FAULTY).splitlines()[18].strip()}"

    assert state.candidate(second).correct
    verdict = state.rounds[1].proposals[0].verdict
    assert verdict is not None
    assert (verdict.outcome, state.best) == (Outcome.BETTER, second)
    assert len(session.of(Sanitized)) == 3
    _counters_are_read(session, ncu, second)

    report = run_report(state, tmp_path)
    assert [r.verdict.value for r in report.best.sanitizer] == ["clean"] * 4
    assert report.best.hardware == state.candidate(second).hardware
    shown = "\n".join(text_lines(result_blocks(state, tmp_path)))
    assert "\nTools\nmemcheck, racecheck, initcheck, synccheck: nothing found in" in shown
    assert "50.25 %  L2 hits" in shown


def _counters_are_read(session: Session, ncu: Path, best: str) -> None:
    """Of the baseline, before anything is planned on it, and of the new best."""
    state = session.engine.state
    assert state.opened is not None
    read = session.of(HardwareCountersRead)
    assert [event.candidate for event in read] == [state.opened.baseline, best]  # type: ignore[attr-defined]
    assert len(calls(ncu)) == 2
    spent = sum(event.gpu_seconds for event in read)  # type: ignore[attr-defined]
    assert 0 < spent == sum(event.report.seconds for event in read)  # type: ignore[attr-defined]
    timed = sum(t.timing.gpu_seconds for c in state.candidates.values() for t in c.timings)
    assert state.usage.gpu_seconds == pytest.approx(timed + spent), "charged as timings are"
    brief = session.team.briefs[0]
    assert brief.hardware == state.candidate(state.opened.baseline).hardware
    words = hardware_text(brief.hardware)
    assert "lts__t_sector_hit_rate.pct = 50.25 %" in words
    assert "dram__bytes_read.sum was not read: not in ncu's table" in words
    assert "7777" not in words


def test_counters_are_not_read_where_the_gpus_seconds_are_used(
    task: KernelTask, tmp_path: Path
) -> None:
    ncu = install(tmp_path / "programs", "ncu", Behaviour(clean=table(METRICS)))
    budget = Budget(gpu_seconds=1e-6)
    session = run(tmp_path, task, ScriptedTeam([]), ncu=True, budget=budget)
    closed = session.engine.state.closed
    assert closed is not None
    assert closed.reason is StopReason.BUDGET
    assert calls(ncu) == []


def test_a_baseline_in_which_a_tool_finds_something_ends_the_session(
    task: KernelTask, tmp_path: Path
) -> None:
    behaviour = Behaviour(logs={"memcheck": texts.REAL_OUT_OF_BOUNDS}, faulty_cases=("",))
    install(tmp_path / "programs", "compute-sanitizer", behaviour)
    state = run(tmp_path, task, ScriptedTeam([]), sanitize=True).engine.state
    assert state.closed is not None
    assert state.closed.reason is StopReason.BASELINE
    assert "memcheck: 1 error in " in state.closed.message
    verdicts = [r.verdict for r in state.candidate(state.best).sanitizer]
    assert verdicts == [SanitizerVerdict.FOUND, *[SanitizerVerdict.FAILED] * 3]
