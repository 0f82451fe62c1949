"""What was tried on this machine: kept, found again, shown to planning, listed and forgotten."""

from __future__ import annotations

import asyncio
import math
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from astra_tui.engine.host import build_engine, open_session
from astra_tui.engine.loop import Engine
from astra_tui.model.errors import UserError
from astra_tui.model.events import ErrorOccurred, Event, MemoryRecalled, SessionClosed
from astra_tui.model.experience import Experience, ledger_over, predictions_of, retrieve
from astra_tui.model.fold import fold
from astra_tui.model.settings import RunSettings
from astra_tui.model.task import KernelTask
from astra_tui.model.verdict import Outcome
from astra_tui.sessions.experience import MOST, ExperienceStore
from astra_tui.sessions.journal_writer import Redactor
from tests.engine.scripted import AUTO, ScriptedTeam, Step, kept, settings_of, sources_of
from tests.sessions.samples import EXPERIENCE


@pytest.fixture
def store(tmp_path: Path) -> ExperienceStore:
    return ExperienceStore(tmp_path / "own" / "memory.jsonl")


def tried(number: int, **changes: object) -> Experience:
    time = f"2026-11-20T10:00:{number:02d}+00:00"
    return replace(EXPERIENCE, session=f"s{number}", time=time, **changes)


def run(
    folder: Path, task: KernelTask, team: ScriptedTeam, memory: ExperienceStore
) -> tuple[Engine, list[Event]]:
    settings: RunSettings = settings_of(AUTO, rounds=1)
    opened = open_session(folder, task, settings, Redactor())
    engine = build_engine(opened, task, settings, team, wait_for_engineer=False, memory=memory)
    events: list[Event] = []

    async def scenario() -> None:
        async for event in engine.run():
            events.append(event)
        opened.journal.close()

    asyncio.run(scenario())
    return engine, events


@pytest.mark.usefixtures("kept_labs")
def test_a_session_is_told_what_another_one_measured(
    tmp_path: Path, quick_task: KernelTask, store: ExperienceStore
) -> None:
    sources = sources_of(quick_task)
    first = ScriptedTeam([Step("slower", (sources.slow,))])
    _, events = run(tmp_path / "first", quick_task, first, store)
    assert not [e for e in events if isinstance(e, MemoryRecalled)]
    (one,) = store.read()
    assert (one.id, one.operator, one.gpu) == ("first/1.1", "silu_and_mul", "emulator")
    assert (one.title, one.outcome) == ("slower", Outcome.WORSE)
    assert one.ratios["warp_instructions"] > 1
    assert one.speedup is None

    second = ScriptedTeam([Step("better", (sources.better,))])
    _, events = run(tmp_path / "second", quick_task, second, store)
    (recalled,) = [e for e in events if isinstance(e, MemoryRecalled)]
    assert recalled.known == (one,)
    assert recalled.predictions == "1 plan, 0 better; 1 counter, off by a factor of 2.00"
    (told, own) = second.briefs[0].recalled
    assert told.startswith("worse: slower: requests x1.00 (predicted x0.50) [silu_and_mul on")
    assert told.endswith("first/1.1]")
    assert own.endswith(recalled.predictions)
    assert [e.id for e in store.read()] == ["first/1.1", "second/1.1"]
    journaled = kept(tmp_path / "second")
    assert recalled in journaled
    (closed,) = [e for e in journaled if isinstance(e, SessionClosed)]
    assert fold(journaled[: journaled.index(closed)]).digest() == closed.digest


@pytest.mark.usefixtures("kept_labs")
def test_a_file_that_cannot_be_read_costs_the_memory_and_not_the_run(
    tmp_path: Path, quick_task: KernelTask, store: ExperienceStore
) -> None:
    store.file.parent.mkdir()
    store.file.write_text("{}\n")
    team = ScriptedTeam([Step("slower", (sources_of(quick_task).slow,))])
    engine, events = run(tmp_path / "run", quick_task, team, store)
    (trouble,) = [e for e in events if isinstance(e, ErrorOccurred)]
    assert "memory.jsonl" in trouble.message
    assert engine.state.closed is not None
    assert engine.state.closed.reason.value == "rounds"
    assert store.file.read_text() == "{}\n"


@pytest.mark.usefixtures("kept_labs")
def test_a_home_that_cannot_be_written_costs_the_memory_and_not_the_run(
    tmp_path: Path, quick_task: KernelTask
) -> None:
    team = ScriptedTeam([Step("slower", (sources_of(quick_task).slow,))])
    nowhere = ExperienceStore(Path("/proc/1/none/memory.jsonl"))
    engine, events = run(tmp_path / "run", quick_task, team, nowhere)
    (trouble,) = [e for e in events if isinstance(e, ErrorOccurred)]
    assert "memory.jsonl: cannot be written: " in trouble.message
    assert engine.state.closed is not None
    assert engine.state.closed.reason.value == "rounds"


def test_a_plan_is_kept_once_and_the_oldest_go_first(store: ExperienceStore) -> None:
    store.add([tried(1), tried(2)])
    store.add([tried(1, outcome=Outcome.WORSE)])
    assert [(e.id, e.outcome) for e in store.read()] == [
        ("s2/2.1", Outcome.BETTER), ("s1/2.1", Outcome.WORSE),
    ]  # fmt: skip
    assert stat.S_IMODE(store.file.stat().st_mode) == 0o600
    assert store.forget(lambda one: one.session == "s2") == 1
    assert [e.session for e in store.read()] == ["s1"]
    store.add(tried(0, round=n) for n in range(MOST))
    assert len(store.read()) == MOST
    assert all(e.session == "s0" for e in store.read())
    store.clear()
    assert store.read() == ()


def test_damage_is_named_with_its_line(store: ExperienceStore) -> None:
    store.add([tried(1)])
    store.file.write_bytes(store.file.read_bytes() + b"no\n")
    with pytest.raises(UserError, match="line 2"):
        store.read()
    store.clear()
    assert store.read() == ()


def test_like_operators_come_first_then_like_bottlenecks_then_this_gpu() -> None:
    other = "barriers at every level of the tree"
    same = tried(1, gpu="emulator")
    here = tried(2)
    upstream = tried(3, operator="flashinfer_silu_and_mul")
    alike = tried(4, operator="rmsnorm", bottleneck="loads are narrow")
    far = tried(5, operator="rmsnorm", bottleneck=other, title="shuffle")
    known = [far, alike, upstream, same, here, tried(6, title="pairs")]
    found = retrieve(known, "silu_and_mul", "NVIDIA H100", "narrow loads of 2 bytes", 9)
    assert [e.session for e in found] == ["s6", "s3", "s1", "s4"], "s2 is s6 again, later"
    assert retrieve(known, "silu_and_mul", "NVIDIA H100", "", 1)[0].session == "s6"
    assert retrieve([far], "silu_and_mul", "NVIDIA H100", "narrow loads", 9) == ()


@given(st.lists(st.sampled_from(["loads", "narrow", "the", "tree"]), max_size=4), st.integers(0, 3))
def test_no_more_is_found_than_asked_for(words: list[str], count: int) -> None:
    known = [tried(n, bottleneck=" ".join(words)) for n in range(5)]
    found = retrieve(known, " ".join(words), "emulator", "narrow", count)
    assert len(found) <= count
    assert all(one in known for one in found)


def test_the_ledger_scores_counters_and_times_over_all_sessions() -> None:
    expected = EXPERIENCE.prediction
    slow = replace(expected, speedup_low=1.5, speedup_high=2.0)
    rows = [
        tried(1, ratios={expected.counter.value: 2 * expected.counter_ratio}),
        tried(2, prediction=slow, outcome=Outcome.SAME, ratios={}),
        tried(3, team="playbook", model="", ratios={}, speedup=None),
    ]
    llm, playbook = ledger_over(rows)
    assert (llm.team, llm.model, llm.plans, llm.better) == ("llm", "qwen3", 2, 1)
    assert (llm.counters, llm.mean_factor) == (1, pytest.approx(2.0))
    assert (llm.speedups, llm.in_bounds) == (2, sum(r.in_bounds is True for r in rows[:2]))
    middles = [math.sqrt(low * high) for low, high in ((*expected.speedup,), (1.5, 2.0))]
    assert llm.speedup_bias == pytest.approx(1.25 / math.sqrt(middles[0] * middles[1]))
    assert (playbook.mean_factor, playbook.speedups) == (None, 0)
    assert predictions_of(rows, "playbook", "", "NVIDIA H100") == "", "nothing was measured"
    elsewhere = [*rows, tried(4, gpu="emulator", speedup=None)]
    told = predictions_of(elsewhere, "llm", "qwen3", "emulator")
    assert told.startswith("on emulator: 1 plan, 1 better; ")
    assert "; 3 plans, 2 better; " in told
    assert "2 speedups within predicted bounds, measured x" in told
