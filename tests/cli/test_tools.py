"""`check --sanitize` and `counters --hardware`, on a scripted GPU with stand-ins for the tools."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from astra_tui.cli.exit_codes import ExitCode
from astra_tui.gpu.ncu.permission import PARAMETERS
from astra_tui.lab.on_gpu.hardware_counters import find_ncu
from astra_tui.lab.on_gpu.sanitizing import find_sanitizer
from tests.cli.command import Outcome, Shell
from tests.conftest import ROOT
from tests.gpu_tools import texts
from tests.gpu_tools.stand_in import Behaviour, calls, install
from tests.gpu_tools.test_ncu import table
from tests.quick import write_quick_task

CHECK = ("check", "silu_and_mul", "mine.cu", "--sanitize", "--case", "float16/typical")
COUNTERS = ("counters", "silu_and_mul", "mine.cu", "--rows", "1", "--hardware")
TOOLS = ["memcheck", "racecheck", "initcheck", "synccheck"]


@pytest.fixture
def scripted(shell: Shell, sources: dict[str, str]) -> Shell:
    """A folder with silu_and_mul and a source of it, on the scripted GPU; programs/ is on PATH."""
    write_quick_task(shell.folder / "kernels")
    (shell.folder / "mine.cu").write_text(sources["good.cu"], encoding="utf-8")
    programs = shell.folder / "programs"
    programs.mkdir()
    variables = {
        **shell.variables,
        "PYTHONPATH": str(ROOT),
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
    }
    command = (sys.executable, "-m", "tests.cli.scripted_gpu")
    return replace(shell, command=command, variables=variables)


def has(shell: Shell, name: str, behaviour: Behaviour) -> Path:
    return install(shell.folder / "programs", name, behaviour)


def report_of(outcome: Outcome) -> dict[str, Any]:
    (report,) = json.loads(outcome.out)["reports"]
    assert [r["tool"] for r in report["sanitizer"]] == TOOLS
    found: dict[str, Any] = report
    return found


def test_a_clean_source_passes_and_the_tools_are_named(scripted: Shell) -> None:
    program = has(scripted, "compute-sanitizer", Behaviour(clean=texts.CLEAN))
    outcome = scripted.run(*CHECK)
    assert outcome.code == ExitCode.OK
    assert outcome.err.endswith("running compute-sanitizer on mine.cu ...\n")
    assert "PASSED silu_and_mul mine.cu" in outcome.out
    assert f"  {', '.join(TOOLS)}: nothing found in case float16/typical" in outcome.out
    assert len(calls(program)) == 4


def test_what_a_tool_finds_makes_the_source_wrong_at_its_line(scripted: Shell) -> None:
    logs = {"memcheck": texts.REAL_OUT_OF_BOUNDS}
    behaviour = Behaviour(logs=logs, faulty_cases=("",), clean=texts.CLEAN, exit_code=86)
    has(scripted, "compute-sanitizer", behaviour)
    outcome = scripted.run(*CHECK)
    assert outcome.code == ExitCode.FAILED
    assert "FAILED silu_and_mul mine.cu" in outcome.out
    assert "but compute-sanitizer found errors (memcheck)" in outcome.out
    assert "  memcheck: 1 error in case float16/typical\n" in outcome.out
    assert "  racecheck, initcheck, synccheck: nothing found in case" in outcome.out
    line = (scripted.folder / "mine.cu").read_text(encoding="utf-8").splitlines()[18]
    assert f"        19 | {line}\n" in outcome.out


def test_tools_that_do_not_get_to_their_end_are_said_and_fail_nothing(scripted: Shell) -> None:
    has(scripted, "compute-sanitizer", Behaviour(trouble="nothing"))
    outcome = scripted.run(*CHECK)
    assert outcome.code == ExitCode.OK
    assert f"  {', '.join(TOOLS)}: not looked at: the launcher gave no answer" in outcome.out


@pytest.mark.skipif(find_sanitizer() is not None, reason="compute-sanitizer is installed here")
def test_a_machine_without_the_tools_says_so(scripted: Shell) -> None:
    outcome = scripted.run(*CHECK)
    assert outcome.code == ExitCode.OK
    text = f"  {', '.join(TOOLS)}: not looked at: compute-sanitizer was not found\n    install the"
    assert text in outcome.out
    report = report_of(scripted.run(*CHECK, "--json"))
    assert (report["verdict"], report["sanitizer"][0]["verdict"]) == ("passed", "unavailable")


def test_on_the_emulator_its_own_checks_stand_for_the_tools(scripted: Shell) -> None:
    outcome = scripted.run(*CHECK, "--device", "emulator")
    assert outcome.code == ExitCode.OK
    assert "not looked at: compute-sanitizer needs a GPU; the emulator checks" in outcome.out


# -- hardware counters -----------------------------------------------------------------------------

METRICS = {
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": ("", "256"),
    "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum": ("", "130"),
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": ("sector", "512"),
    "memory_l1_wavefronts_shared": ("", "1,032"),
    "memory_l1_wavefronts_shared_ideal": ("", "32"),
}

may_read = pytest.mark.skipif(PARAMETERS.exists(), reason="a driver here says who may read")


@may_read
def test_counters_of_gpu_and_emulator_are_beside_each_other(scripted: Shell) -> None:
    program = has(scripted, "ncu", Behaviour(clean=table(METRICS)))
    outcome = scripted.run(*COUNTERS)
    assert outcome.code == ExitCode.OK
    rows = {line.split()[0]: line.split() for line in outcome.out.partition("own counters")[2]
            .splitlines() if line}  # fmt: skip
    # One row of 4,096 halves is 128 warps: they load twice and store once.
    assert rows["requests"] == ["requests", "384", "386", "+2"]
    assert rows["sectors"][:2] == ["sectors", "768"]
    assert "not read by ncu" in " ".join(rows["sectors"])
    assert rows["bank"] == ["bank", "conflicts", "0", "1,000", "+1,000"]
    assert "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum: not in ncu's table" in outcome.out
    (given,) = calls(program)
    assert "gpu__time_duration.sum" not in given[given.index("--metrics") + 1]
    (entry,) = json.loads(scripted.run(*COUNTERS, "--json").out)["sources"]
    assert entry["compared"][0] == {"counter": "requests", "emulator": 384, "gpu": 386.0}
    assert entry["compared"][1]["gpu"] is None


@pytest.mark.skipif(find_ncu() is not None, reason="ncu is installed here")
def test_counters_without_ncu_say_so_and_show_the_emulator_s(scripted: Shell) -> None:
    outcome = scripted.run(*COUNTERS)
    assert outcome.code == ExitCode.OK
    assert "\nrequests" in outcome.out
    assert "mine.cu: hardware counters: not available: ncu was not found\n  install" in outcome.out


def test_counters_without_a_gpu_say_so(shell: Shell) -> None:
    if Path("/dev/nvidiactl").exists():
        pytest.skip("a GPU is here")
    outcome = shell.run("counters", "silu_and_mul", "baseline.cu", "--rows", "1", "--hardware")
    assert outcome.code == ExitCode.OK
    assert "hardware counters: not available: there is no device 'cuda'" in outcome.out
