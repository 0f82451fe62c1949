"""`counters`, `kernels` and `doctor`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from astra_tui.cli.exit_codes import ExitCode
from tests.cli.command import Shell
from tests.emulator.harness import line_of

ROOT = Path(__file__).resolve().parents[2]


def test_counters_annotates_the_source(shell: Shell, sources: dict[str, str]) -> None:
    outcome = shell.run("counters", "silu_and_mul", "good.cu", "--rows", "1")
    assert (outcome.code, outcome.err) == (ExitCode.OK, "counting good.cu ...\n")
    loads = [x for x in outcome.out.splitlines() if "const float gate = " in x]
    # 4096 halves are 8192 bytes: 256 sectors, asked for by 128 warps.
    assert [x.split()[:5] for x in loads] == [["128", "256", "100", "%", "896"]]
    assert sources["good.cu"].splitlines()[0] in outcome.out


def test_counters_beside_another_version(shell: Shell) -> None:
    names = ("tuned.cu", "--against", "baseline.cu")
    outcome = shell.run("counters", "silu_and_mul", *names, "--rows", "1")
    assert outcome.code == ExitCode.OK
    requests = next(x for x in outcome.out.splitlines() if x.startswith("requests"))
    # 16-byte accesses need an eighth of the requests of 2-byte ones.
    assert requests.split()[1:5] == ["384", "48", "-87.5", "%"]
    assert "tuned.cu is better by the emulator's key" in outcome.out


def test_counters_find_what_is_moved_again_on_other_workloads(shell: Shell) -> None:
    task = ROOT / "examples" / "double_tail"
    source = (task / "baseline.cu").read_text(encoding="utf-8")
    outcome = shell.run("counters", str(task), "baseline.cu")
    assert outcome.code == ExitCode.OK
    load, store = line_of(source, "up = *reinter"), line_of(source, "*reinterpret_cast<P*>(&out")
    load_again, store_again = (
        line_of(source, "up = (float)input[row"),
        line_of(source, "+ done + i] ="),
    )
    # A block of 1024 threads takes 8192 elements at once and leaves the tail the rest.
    shares = [f"{(d % 8192) / d:.0%}".replace("%", " %") for d in (12288, 11008)]
    assert (
        f"line {store_again} stores again what line {store} stored: {shares[0]} of out at "
        f"16x12288; {shares[1]} or more at 1 other workload; none at 2 of 4" in outcome.out
    )
    assert f"line {load_again} loads again what line {load} loaded: 17 % of input" in outcome.out
    outcome = shell.run("counters", str(task), "baseline.cu", "--json", "--rows", "1")
    answer = json.loads(outcome.out)
    (entry,) = answer["sources"]
    assert [w["workload"] for w in entry["traffic"]][:2] == ["16x4096", "64x8192"]
    assert {r["waste"]["kind"] for r in entry["wasted"]} == {"stored_again", "loaded_again"}


@pytest.mark.usefixtures("sources")
def test_counters_of_broken_sources(shell: Shell) -> None:
    broken = shell.run("counters", "silu_and_mul", "no_compile.cu")
    assert broken.code == ExitCode.COMPILE_ERROR
    assert broken.out.startswith("COMPILE ERROR no_compile.cu\n  line 21: error: ")
    faulty = shell.run("counters", "silu_and_mul", "tail.cu", "--rows", "1")
    assert faulty.code == ExitCode.FAILED
    assert "tail.cu: line 20: global_out_of_bounds" in faulty.out
    missing = shell.run("counters", "silu_and_mul", "good.cu", "--against", "missing.cu")
    assert (missing.code, missing.out) == (ExitCode.BAD_INPUT, "")
    assert missing.err == "astra-tui: missing.cu: there is no such file\n"


def test_kernels_lists_the_bundled_tasks(shell: Shell) -> None:
    outcome = shell.run("kernels")
    assert (outcome.code, outcome.err) == (ExitCode.OK, "")
    names = [line.split()[0] for line in outcome.out.splitlines()]
    assert names[:4] == ["task", "fused_add_rmsnorm", "merge_attn_states_lse", "silu_and_mul"]
    assert "flashinfer_rmsnorm" in names


def test_doctor_tries_everything_and_says_what_to_do_next(shell: Shell) -> None:
    outcome = shell.run("doctor")
    assert outcome.code == ExitCode.OK
    assert (
        outcome.out.splitlines()[-1]
        == "kernels can be checked here; try: astra-tui check silu_and_mul"
    )
    for name in ("compiler", "emulator", "torch"):
        assert re.search(rf"^ok +{name} ", outcome.out, re.MULTILINE)
    assert re.search(r"^missing +language model ", outcome.out, re.MULTILINE)
    assert "OPENAI_API_KEY" in outcome.out


def test_doctor_without_a_compiler(shell: Shell) -> None:
    outcome = shell.run("doctor", ASTRA_TUI_NVRTC=str(shell.folder / "libnvrtc.so.13"))
    assert outcome.code == ExitCode.UNSUPPORTED
    assert re.search(r"^missing +compiler ", outcome.out, re.MULTILINE)
    assert outcome.out.splitlines()[-1].startswith("kernels cannot be checked here")
