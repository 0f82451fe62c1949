"""Agents that try drafts in their turns: real compiler, emulator and journal, a scripted model."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace as changed

from astra_tui.engine.host import build_engine, open_session
from astra_tui.engine.workbench import DraftLabs
from astra_tui.lab.devices import DeviceChoice
from astra_tui.llm.asking import toolbox
from astra_tui.llm.asking.toolbox import ARGUMENTS, Toolbox, open_toolbox, tools_text
from astra_tui.llm.llm_team import LlmTeam
from astra_tui.model.check import Case, CheckVerdict
from astra_tui.model.digest import content_hash
from astra_tui.model.events import (
    AnalysisGiven,
    CheckFinished,
    CodeWritten,
    ExchangeMade,
    ToolUsed,
)
from astra_tui.model.roles import Role
from astra_tui.model.settings import EMULATOR, Budget, RunSettings, TeamKind, ToolLimits
from astra_tui.model.task import KernelTask
from astra_tui.model.team_protocol import Failure, KnownCandidate
from astra_tui.playbook.playbook_team import PlaybookTeam
from astra_tui.present.events import describe
from astra_tui.present.files import as_markdown
from astra_tui.present.report import compose
from astra_tui.sessions.experience import ExperienceStore
from astra_tui.sessions.integrity import read_session
from astra_tui.sessions.journal_writer import Redactor
from tests.conftest import ROOT
from tests.engine.test_lab import ScriptedLab
from tests.engine.test_tools import METRICS
from tests.gpu_tools.stand_in import Behaviour, install
from tests.gpu_tools.test_ncu import table
from tests.llm.conftest import Scripted
from tests.llm_team.conftest import (
    QUIET,
    Team,
    bench_at,
    brief_of,
    plan_of,
    planning,
    profile_of,
    proposed,
    reply,
    run_engine,
    selected,
    source,
    with_team,
)
from tests.sessions.samples import EXPERIENCE

pytestmark = pytest.mark.usefixtures("kept_labs")


def calls(when: str, name: str, **arguments: Any) -> dict[str, Any]:
    """The scripted model asks for a tool."""
    return {"when": {"user": when}, "tool_calls": [{"name": name, "arguments": arguments}]}


def test_a_coder_mends_its_draft_in_its_turn(
    tmp_path: Path, task: KernelTask, server: Scripted
) -> None:
    server.play(
        *QUIET,
        planning(proposed("read pairs")),
        calls("title: read pairs", "compile", source=source("broken"), of="base"),
        calls("d1 does not compile", "compile", source=source("wrong"), of="base"),
        calls("d2 compiles", "check", draft="d2"),
        calls("d2 failed", "compile", source=source("better"), of="base"),
        calls("d3 compiles", "check", draft="d3"),
        calls("d3 passed", "count", draft="d3"),
        calls("d3, counted", "disassemble", draft="d3", first=1, last=60),
        reply("kernel silu", "Pairs are read at once.\nDRAFT d3\n"),
    )
    ran = run_engine(tmp_path / "run", task, server, rounds=1)

    (code,) = ran.of(CodeWritten)
    assert code.candidate == content_hash(source("better"))
    assert code.summary == "Pairs are read at once."
    assert ran.state.best == code.candidate
    used = ran.of(ToolUsed)
    assert [(u.role, u.tool, u.subject) for u in used] == [
        (Role.CODING, *which)
        for which in (
            ("compile", "d1"), ("compile", "d2"), ("check", "d2"), ("compile", "d3"),
            ("check", "d3"), ("count", "d3"), ("disassemble", "d3"),
        )
    ]  # fmt: skip
    told = [ran.opened.journal.get(u.answer) for u in used]
    assert 'line 22: identifier "reciprocal" is undefined' in told[0]
    assert ran.opened.journal.get(used[0].draft) == source("broken")
    assert "should be" in told[2]
    assert "in all rows" in told[2]
    assert "(base " in told[5]
    assert "LDG" in told[6]
    assert not [u.cut for u in used if u.cut]
    assert ran.state.usage.tools_used == len(used)
    # It is replayed and shown as what it was.
    assert read_session(tmp_path / "run").state.digest() == ran.state.digest()
    shown = describe(used[0])
    assert shown is not None
    assert shown.text.startswith("coding agent: compile: d1 does not compile: line 22: ")
    asked = [ran.opened.journal.get(e.request) for e in ran.of(ExchangeMade) if e.purpose == "code"]
    assert "[calls check" in asked[-1]


def test_a_tester_tries_the_code_before_it_adds_cases_and_says_what_is_wrong(
    tmp_path: Path, task: KernelTask, server: Scripted
) -> None:
    bench = bench_at(tmp_path / "run", task)
    brief, wrong = brief_of(task, bench=bench), source("wrong")
    sizes = [{"name": "tokens", "size": 3}, {"name": "d", "size": 5}]
    odd = {"name": "odd", "why": "pairs", "dtype": "float16", "dims": sizes, "values": []}
    failure = Failure(wrong, "check", "case float16/typical is wrong")
    server.play(
        calls("Add at most", "check", draft="candidate"),
        calls("candidate failed", "compile", source=wrong, of="base"),
        reply("no tool 'compile'", {"cases": [odd]}),
        calls("A candidate failed its check", "disassemble", draft="candidate", first=0, last=0),
        reply("kernel silu", "The scale is off."),
    )

    async def ask(team: LlmTeam) -> tuple[tuple[Case, ...], str]:
        cases = await team.cases(brief, plan_of(), wrong)
        return cases, await team.explain(brief, wrong, failure)

    (case,), words = with_team(server, ask)
    assert (case.dims, words) == ({"tokens": 3, "d": 5}, "The scale is off.")
    used = [e for e in read_session(tmp_path / "run").contents.events if isinstance(e, ToolUsed)]
    assert [(u.role, u.tool, u.subject) for u in used] == [
        (Role.TESTING, "check", "candidate"),
        (Role.TESTING, "disassemble", "candidate"),
    ]


def turn(box: Toolbox, *uses: tuple[str, dict[str, Any]]) -> list[str]:
    async def scenario() -> list[str]:
        return [await box.handlers[name](arguments) for name, arguments in uses]

    return asyncio.run(scenario())


def box_at(folder: Path, task: KernelTask, role: Role = Role.CODING, **limits: Any) -> Toolbox:
    box = open_toolbox(brief_of(task, bench=bench_at(folder, task, **limits)), role)
    assert box is not None
    return box


LOOK = ("read_device", dict[str, Any]())


def test_a_turn_ends_at_its_limits_and_says_so(tmp_path: Path, task: KernelTask) -> None:
    box = box_at(tmp_path / "calls", task, calls=2)
    *fine, refused = turn(box, LOOK, LOOK, LOOK)
    assert all("emulator" in answer for answer in fine)
    assert refused == "error: all 2 calls of tools in this turn are used; answer now"
    box = box_at(tmp_path / "tokens", task, tokens=20)
    (cut, refused) = turn(box, LOOK, LOOK)
    assert cut[80:].endswith(" characters were left out: 20 tokens a turn]")
    assert "the 20 tokens of tools in this turn are used" in refused
    box = box_at(tmp_path / "seconds", task, seconds=0.05)
    late = turn(box, ("check", {"draft": "base"}), LOOK)
    assert [answer.startswith("error: ") for answer in late] == [True, True]
    assert "0.05 s of tools in this turn are used" in late[0]


def test_mistakes_are_told_and_never_raised(tmp_path: Path, task: KernelTask) -> None:
    box = box_at(tmp_path / "run", task)
    blocks = "<<<<<<< SEARCH\nno such line\n=======\nx\n>>>>>>> REPLACE\n"
    answers = turn(
        box,
        ("check", {"draft": "d9"}),
        ("compile", {"source": blocks, "of": "base"}),
        ("compile", {"source": "__global__ void k() {}", "of": "base"}),
        ("count", {"draft": "d1"}),
        ("time", {"draft": "base"}),
    )
    assert all("error: " in answer or "does not compile" in answer for answer in answers)
    assert "there is no draft 'd9'" in answers[0]
    assert "launch plan" in answers[2]
    assert "drafts are not timed here" in answers[4]


def test_blocks_change_a_draft(tmp_path: Path, task: KernelTask) -> None:
    box = box_at(tmp_path / "run", task)
    blocks = "<<<<<<< SEARCH\n/* @launch\n=======\n// mine\n/* @launch\n>>>>>>> REPLACE\n"
    assert turn(box, ("compile", {"source": blocks, "of": "base"})) == ["d1 compiles"]
    assert box.drafts["d1"] == box.brief.source.replace("/* @launch", "// mine\n/* @launch")


def test_tools_are_strict_and_offered_by_role_and_device(tmp_path: Path, task: KernelTask) -> None:
    for role in Role:
        box = box_at(tmp_path / role.value, task, role)
        names = [spec.name for spec in box.specs]
        assert all(spec.strict for spec in box.specs)
        assert set(names) <= set(ARGUMENTS) == set(box.handlers)
        assert "time" not in names, "drafts are never launched on a GPU that no one allowed"
        assert "search_memory" not in names, "there is no memory here"
        assert bool(tools_text(box)) == bool(names)
        for limit in (f"{ToolLimits().calls} calls", f"{ToolLimits().seconds:g} s"):
            assert (limit in tools_text(box)) == bool(names)


def test_the_memory_is_searched_by_operator_and_by_words(tmp_path: Path, task: KernelTask) -> None:
    store = ExperienceStore(tmp_path / "memory.jsonl")
    other = changed(EXPERIENCE, session="other", operator="rmsnorm", title="sum by shuffles")
    store.add([EXPERIENCE, other, changed(other, session="run")])
    box = open_toolbox(brief_of(task, bench=bench_at(tmp_path / "run", task, store)), Role.PLANNING)
    assert box is not None
    assert "search_memory" in [spec.name for spec in box.specs]
    search = "search_memory"
    own, words, none = turn(
        box,
        (search, {"operator": EXPERIENCE.operator, "about": ""}),
        (search, {"operator": "", "about": " shuffles\n"}),
        (search, {"operator": "conv", "about": "winograd"}),
    )
    assert own == EXPERIENCE.describe()
    assert words == other.describe(), "this session's own plans are in its prompts already"
    assert none == "nothing in the memory of this machine fits"
    assert [call for call, _ in box.told][1] == "search_memory shuffles"
    store.file.write_text("damaged")
    (damaged,) = turn(box, (search, {"operator": "", "about": "shuffles"}))
    assert damaged.startswith("error: ")
    assert "memory.jsonl" in damaged


def test_without_tools_no_one_hears_of_them(task: KernelTask, server: Scripted) -> None:
    server.play(reply("title: read pairs", f"Pairs.\n```cuda\n{source('better')}```\n"))
    log = Team()
    with_team(
        server, lambda t: t.code(brief_of(task), plan_of("read pairs"), None, log.on_text), log
    )
    (sent,) = server.requests()
    assert "tools" not in sent
    assert "DRAFT" not in log.settled[0].request


@pytest.mark.parametrize("drafts", [False, True])
def test_on_a_gpu_drafts_run_on_the_emulator_unless_they_are_allowed(
    tmp_path: Path, task: KernelTask, drafts: bool
) -> None:
    chosen = RunSettings(task.name, TeamKind.LLM, tools=ToolLimits(drafts=drafts))
    opened = open_session(tmp_path / "run", task, chosen, Redactor([]), 0)
    gpu = DeviceChoice("cuda:0")
    engine = build_engine(opened, task, chosen, PlaybookTeam(), wait_for_engineer=False, device=gpu)
    labs = engine._context.drafts
    assert labs.emulator.device == EMULATOR
    assert engine._context.lab.device == "cuda:0"
    assert labs.timer is (engine._context.lab if drafts else None)


def test_a_draft_is_timed_once_it_has_passed(
    tmp_path: Path, small_task: KernelTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = small_task
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    bench = bench_at(tmp_path / "run", task, seconds=10_000.0)
    gpu = ScriptedLab(task, "cuda:0")
    bench = replace(bench, labs=DraftLabs(bench.labs.emulator, gpu, gpu))
    box = open_toolbox(brief_of(task, bench=bench), Role.CODING)
    assert box is not None
    assert "time" in [spec.name for spec in box.specs]
    base, name = {"draft": "base"}, task.workloads[0].name
    known = KnownCandidate("base", "", bench.base, box.brief.source, profile_of(workload=name))
    profiler = open_toolbox(brief_of(task, bench=bench, candidates=(known,)), Role.PROFILING)
    assert profiler is not None
    assert "read_hardware" not in [spec.name for spec in profiler.specs], "ncu was not asked for"
    itself = ("compare", {"first": "base", "second": "base", "workload": name})
    hardware = ("read_hardware", {"candidate": "base", "workload": name})
    programs = tmp_path / "programs"
    programs.mkdir()
    install(programs, "ncu", Behaviour(clean=table(METRICS)))
    monkeypatch.setenv("PATH", str(programs))
    try:
        early, _, timed = turn(box, ("time", base), ("check", base), ("time", base))
        (unaccepted,) = turn(profiler, itself)
        passed = CheckFinished(bench.base, CheckVerdict.PASSED, "", (), (), 0.0)
        bench.record.emit(passed)
        (compared,) = turn(profiler, itself)
        before = bench.record.state.usage
        (read,) = turn(profiler, hardware)
        spent = replace(bench, settings=changed(bench.settings, budget=Budget(gpu_seconds=1e-6)))
        late = open_toolbox(brief_of(task, bench=spent, candidates=(known,)), Role.PROFILING)
        assert late is not None
        (refused,) = turn(late, hardware)
    finally:
        gpu.close()
    assert early == "error: a draft is timed once it has passed `check` in this turn"
    assert timed.startswith("base against base on ")
    assert task.workloads[0].name in timed
    # What a profiling agent has timed was accepted, and is charged as all timings are.
    assert unaccepted.startswith("error: it did not pass its check, which comes after its diff")
    assert compared.startswith("m1: base against base on ")
    assert "\nbase against base, counted on the emulator: " in compared
    assert f"workload {name}: " in compared
    assert before.tools_used == 5
    assert before.gpu_seconds > 0
    assert "lts__t_sector_hit_rate.pct = 50.25 %" in read
    assert bench.record.state.usage.gpu_seconds > before.gpu_seconds, "ncu's time is charged too"
    assert "0 seconds of measuring on the GPU are used" in refused


def test_a_profiler_chooses_what_is_measured(
    tmp_path: Path, task: KernelTask, server: Scripted
) -> None:
    planning_two = planning(proposed("read pairs"), when={"user": "Step: planning, round 2."})
    chosen = selected(
        "Pairs are read at once.",
        workload=task.workloads[0].name,
        lines=[{"first": 20, "last": 22}],
        measured=["m2", "m3"],
    )
    again = "Step: profiling, round 2."
    server.play(
        calls(again, "measure", candidate="bass", shape="", counters="", first=0, last=0),
        calls("'bass'", "measure", candidate="base", shape="", counters="speed", first=0, last=0),
        calls("'speed'", "disassemble", draft="baseline", first=0, last=0),
        calls(
            "m1: kernel silu", "measure", candidate="base", shape="tokens=3, d=64",
            counters="requests, sectors", first=1, last=60,
        ),
        calls("m2: base on tokens=3", "compare", first="baseline", second="base", workload=""),
        reply("m3: base against baseline", selected("lost", measured=["m9"]), times=1),
        reply("there is no measurement 'm9'", chosen),
        *QUIET,
        planning(proposed("read pairs"), when={"user": "Step: planning, round 1."}),
        planning_two,
        reply("", f"Pairs.\n```cuda\n{source('better')}```\n", when={"user": "title: read pairs"}),
    )  # fmt: skip
    ran = run_engine(tmp_path / "run", task, server, rounds=2, reflections=0)

    _, given = [e for e in ran.of(AnalysisGiven) if e.role == Role.PROFILING]
    assert given.candidate == ran.state.round(2).base == content_hash(source("better"))
    used = [u for u in ran.of(ToolUsed) if u.role is Role.PROFILING]
    assert [u.tool for u in used] == ["measure", "measure", "disassemble", "measure", "compare"]
    told = [ran.opened.journal.get(u.answer) for u in used]
    assert told[0].startswith("error: there is no candidate 'bass' to measure")
    assert told[1].startswith("error: there is no counter 'speed'")
    assert told[3].startswith(
        "base on tokens=3,d=64 (counted on the emulator with tokens = 3, d = 64;"
    )
    assert "\n    line " in told[3]
    assert "baseline" in told[4]
    assert "(baseline " in told[4]
    assert given.selection is not None
    assert [m.answer for m in given.selection.measured] == [u.answer for u in used[3:]]
    # The planner sees it with where it is from, and so do all who look.
    asked = [ran.opened.journal.get(e.request) for e in ran.of(ExchangeMade) if e.purpose == "plan"]
    assert "measured for this in round 2, compare baseline with base on all workloads:" in asked[-1]
    assert told[4].splitlines()[1] in asked[-1]
    assert "measured for this" not in asked[0]
    words = describe(given)
    assert words is not None
    assert words.text.endswith("; rests on: compare baseline with base on all workloads")
    session = read_session(tmp_path / "run")
    assert session.state.digest() == ran.state.digest()
    shown = as_markdown(compose(session))
    assert "compare baseline with base on all workloads" in shown
    assert told[4].splitlines()[1] in shown


def test_shapes_keep_to_the_contract(
    tmp_path: Path, task: KernelTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolbox, "MAX_ELEMENTS", 100)
    box = box_at(tmp_path / "run", task, Role.PROFILING)
    profile = profile_of()
    box._candidates["base"] = KnownCandidate("base", "", "b" * 64, box.brief.source, profile)
    wrong = {
        "tokens=3": "d is missing",
        "tokens=3,d=64,e=1": "e is no size of the task",
        "tokens=3,d=x": "is no shape",
        "tokens=3,d=-2": "sizes go from 0",
        f"tokens=3,d={1 << 20}": "it breaks the contract: d <= ",
        "tokens=3,d=128": "its row has 256 elements; 100 can be counted",
        "16x4097": "there is no workload '16x4097'",
    }
    rest = {"candidate": "base", "counters": "", "first": 0, "last": 0}
    answers = turn(box, *(("measure", {**rest, "shape": shape}) for shape in wrong))
    for answer, why in zip(answers, wrong.values(), strict=True):
        assert answer.startswith("error: ")
        assert why in answer
    assert box.measured == {}
    (last,) = turn(box, ("measure", {**rest, "shape": "", "first": 900, "last": 901}))
    assert "base has no lines 900 to 901" in last
