"""The gate: which verdict comes of what a tool did. The tool is a stand-in, the rest is real."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_tui.gpu.launcher import tools
from astra_tui.gpu.launcher.tools import WatchedRun
from astra_tui.lab.check.execution import read_source
from astra_tui.lab.on_gpu.sanitizing import cases_to_sanitize, find_sanitizer, sanitize
from astra_tui.lab.on_gpu.workload import Compiled
from astra_tui.model.findings import FindingKind, SanitizerReport, SanitizerTool, SanitizerVerdict
from astra_tui.model.task import KernelTask
from tests.gpu.script import FACTS, LAUNCH_FAILED, Scripted
from tests.gpu_tools import texts
from tests.gpu_tools.conftest import Install, with_script
from tests.gpu_tools.stand_in import Behaviour, calls

MEMCHECK = (SanitizerTool.MEMCHECK,)


def memcheck(task: KernelTask, compiled: Compiled, seconds: float = 30.0) -> SanitizerReport:
    (report,) = sanitize(task, compiled, FACTS, tools=MEMCHECK, seconds=seconds)
    return report


def test_cases_are_small_and_every_kind_of_layout_is_there(tasks: dict[str, KernelTask]) -> None:
    for task in tasks.values():
        cases = cases_to_sanitize(task)
        names = [case.name for case in cases]
        assert 3 <= len(cases) <= 6
        assert {"typical", "all shifted by 1", "odd sizes shifted by 1"} <= set(names)
        assert {case.dtype for case in cases} == set(task.dtypes[:2])
        assert all(task.elements(c.dims, c.dtype) <= 1 << 16 for c in cases)


def test_four_clean_tools_need_four_processes(
    install: Install, silu: KernelTask, baseline: Compiled
) -> None:
    logs = dict.fromkeys(("memcheck", "initcheck", "synccheck"), texts.CLEAN)
    logs["racecheck"] = texts.CLEAN_RACECHECK
    program = install("compute-sanitizer", Behaviour(logs=logs, faulty_cases=("",)))
    kept: list[WatchedRun] = []
    reports = sanitize(silu, baseline, FACTS, keep=kept.append)
    assert [r.tool for r in reports] == list(SanitizerTool)
    assert {r.verdict for r in reports} == {SanitizerVerdict.CLEAN}
    assert {r.version for r in reports} == {"2025.3.1.0"}
    assert all(r.cases == tuple(c.id for c in cases_to_sanitize(silu)) for r in reports)
    assert [run.log for run in kept] == [logs[tool.value] for tool in SanitizerTool]
    given = calls(program)
    assert len(given) == 4
    assert "--padding" in given[0]
    assert all("--padding" not in arguments for arguments in given[1:])


def test_a_fault_is_found_in_its_case_at_its_line_in_its_buffer(
    install: Install, silu: KernelTask, baseline: Compiled
) -> None:
    case = "float16/all shifted by 1"
    faulty = Behaviour(
        logs={"memcheck": texts.OUT_OF_BOUNDS},
        faulty_cases=(case,),
        clean=texts.CLEAN,
        exit_code=86,
    )
    program = install("compute-sanitizer", faulty)
    report = memcheck(silu, baseline)
    assert report.verdict is SanitizerVerdict.FOUND
    assert report.cases == (case,)
    assert report.errors == 3
    (finding,) = report.findings
    assert (finding.kind, finding.line) == (FindingKind.GLOBAL_OUT_OF_BOUNDS, 24)
    assert "0 bytes past the end of out" in finding.message
    # All cases together, and then one by one up to the faulty one.
    names = [c.id for c in cases_to_sanitize(silu)]
    assert len(calls(program)) == 1 + names.index(case) + 1


def test_a_machine_without_the_tool_is_no_pass(
    silu: KernelTask, baseline: Compiled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "TOOLKITS", ())
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_sanitizer() is None
    reports = sanitize(silu, baseline, FACTS)
    assert [r.tool for r in reports] == list(SanitizerTool)
    assert {r.verdict for r in reports} == {SanitizerVerdict.UNAVAILABLE}
    assert all(r.problem and "install" in r.remedy and not r.cases for r in reports)


@pytest.mark.parametrize(
    ("behaviour", "said"),
    [
        (Behaviour(trouble="hang"), "was not done after 3 s"),
        (Behaviour(trouble="flood"), "printed more than 1 MB"),
        (Behaviour(trouble="die"), "was ended by a signal: Segmentation fault"),
        (Behaviour(trouble="nothing"), "the launcher gave no answer"),
        (Behaviour(), "the tool wrote no summary"),
        (
            Behaviour(clean="========= Error: Device not supported. Please refer to the manual\n"),
            "Device not supported",
        ),
        (
            Behaviour(clean="========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 2 errors\n"),
            "counts 2 errors and shows none",
        ),
        (Behaviour(clean="ERROR SUMMARY: 0 errors\n"), "no summary"),
    ],
)
def test_what_did_not_get_to_its_end_is_no_pass(
    install: Install, silu: KernelTask, baseline: Compiled, behaviour: Behaviour, said: str
) -> None:
    install("compute-sanitizer", behaviour)
    cases = cases_to_sanitize(silu)[:1]
    (report,) = sanitize(silu, baseline, FACTS, cases=cases, tools=MEMCHECK, seconds=3.0)
    assert report.verdict is SanitizerVerdict.FAILED
    assert said in report.problem
    assert not report.findings


def test_what_a_kernel_prints_is_not_taken_for_the_tool(
    install: Install, silu: KernelTask, baseline: Compiled
) -> None:
    install("compute-sanitizer", Behaviour(printed=texts.CLEAN))
    assert memcheck(silu, baseline).verdict is SanitizerVerdict.FAILED


def test_launches_that_fail_without_a_report_are_no_pass(
    install: Install, silu: KernelTask, baseline: Compiled
) -> None:
    install("compute-sanitizer", Behaviour(clean=texts.CLEAN))
    dying = with_script(baseline, Scripted(error=LAUNCH_FAILED))
    report = memcheck(silu, dying)
    assert report.verdict is SanitizerVerdict.FAILED
    assert "CUDA_ERROR_LAUNCH_FAILED" in report.problem


def test_a_case_that_the_plan_refuses_is_left_out(
    install: Install, silu: KernelTask, baseline: Compiled
) -> None:
    install("compute-sanitizer", Behaviour(clean=texts.CLEAN))
    report = memcheck(silu, refusing(silu, baseline, "tokens == 1"))
    assert report.verdict is SanitizerVerdict.CLEAN
    assert "float16/smallest" not in report.cases
    assert "float16/typical" in report.cases


def test_a_plan_that_refuses_everything_is_no_pass(
    install: Install, silu: KernelTask, baseline: Compiled
) -> None:
    install("compute-sanitizer", Behaviour(clean=texts.CLEAN))
    report = memcheck(silu, refusing(silu, baseline, "d >= 1"))
    assert report.verdict is SanitizerVerdict.FAILED
    assert "refuses every case" in report.problem


def refusing(task: KernelTask, compiled: Compiled, condition: str) -> Compiled:
    """The source with a launch plan that refuses some cases."""
    plan = f'/* @launch\n   when {condition}: refuse "not these"\n   otherwise: '
    text = compiled.source.text.replace("/* @launch\n   ", plan)
    return Compiled(read_source(task, text, "refusing.cu"), compiled.compilation)
