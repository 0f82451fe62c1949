"""`bench` and the doctor's GPU part: without a GPU, and on a scripted one."""

from __future__ import annotations

import asyncio
import re
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from astra_tui.cli import json_answers as answers
from astra_tui.cli.exit_codes import ExitCode
from astra_tui.engine.endpoint_probe import probe_endpoint
from astra_tui.model.environment import Health
from astra_tui.model.timing import WRONG_OUTPUT, TimingVerdict
from tests.cli.command import Outcome, Shell
from tests.cli.conftest import KEY
from tests.conftest import ROOT
from tests.quick import write_quick_task

BENCH = ("bench", "silu_and_mul")
WORKLOADS = """\
[[workloads]]
dims = { tokens = 16, d = 256 }

[[workloads]]
dims = { tokens = 8, d = 128 }
"""

needs_no_gpu = pytest.mark.skipif(
    Path("/dev/nvidiactl").exists(), reason="a GPU is here, so bench would use it"
)


# -- without a GPU ---------------------------------------------------------------------------------


@needs_no_gpu
@pytest.mark.parametrize("device", ["auto", "cuda", "cuda:1"])
def test_without_a_gpu_it_says_so_and_gives_no_time(shell: Shell, device: str) -> None:
    outcome = shell.run(*BENCH, "baseline.cu", "--device", device)
    assert (outcome.code, outcome.out) == (ExitCode.UNSUPPORTED, "")
    first, hint = outcome.err.splitlines()
    assert first.startswith("astra-tui: nothing can be timed here: there is no device 'cuda")
    assert "no NVIDIA driver is loaded" in first
    assert "astra-tui counters" in hint


def test_the_emulator_gives_no_times(shell: Shell) -> None:
    outcome = shell.run(*BENCH, "baseline.cu", "--device", "emulator", "--json")
    answer = msgspec.json.decode(outcome.out, type=answers.ErrorAnswer)
    assert outcome.code == answer.exit_code == ExitCode.UNSUPPORTED
    assert answer.error.message == "the emulator gives no times"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("baseline.cu", "--workload", "16x4095"), "silu_and_mul has no workload '16x4095'"),
        (("missing.cu",), "missing.cu: there is no such file"),
        (("baseline.cu", "--device", "gpu"), "there is no device 'gpu'"),
        ((), "the following arguments are required: SOURCE.cu"),
        (("baseline.cu", "--protocol", "nvbench"), "there is no protocol 'nvbench'"),
    ],
)
def test_bad_input_is_named_before_any_gpu_is_looked_for(
    shell: Shell, arguments: tuple[str, ...], message: str
) -> None:
    outcome = shell.run(*BENCH, *arguments)
    assert (outcome.code, outcome.out) == (ExitCode.BAD_INPUT, "")
    assert message in outcome.err


# -- on a scripted GPU -----------------------------------------------------------------------------


@pytest.fixture
def scripted(shell: Shell) -> Shell:
    """A folder with a quick silu_and_mul, and sources whose kernels take known times."""
    task = write_quick_task(shell.folder / "kernels", WORKLOADS)
    baseline = (task / "baseline.cu").read_text(encoding="utf-8")
    (task / "tuned.cu").write_text(baseline, encoding="utf-8")
    scripts = {
        "fast.cu": "40 us",
        "slow.cu": "51 us",
        "lazy.cu": "lazy_silu after 1000 launches",
        "dying.cu": "dies after 1000 launches",
        "idle.cu": "nothing after 0 launches",
    }
    for name, script in scripts.items():
        (shell.folder / name).write_text(f"// scripted: {script}\n{baseline}", encoding="utf-8")
    command = (sys.executable, "-m", "tests.cli.scripted_gpu")
    return replace(shell, command=command, variables={**shell.variables, "PYTHONPATH": str(ROOT)})


def decoded(outcome: Outcome) -> answers.BenchAnswer:
    return msgspec.json.decode(outcome.out, type=answers.BenchAnswer)


def test_planted_times_are_told_apart_and_what_is_wrong_then_decides_nothing(
    scripted: Shell,
) -> None:
    outcome = scripted.run(*BENCH, "baseline.cu", "fast.cu", "slow.cu", "lazy.cu", "--json")
    answer = decoded(outcome)
    assert outcome.code == answer.exit_code == ExitCode.FAILED
    names = ["baseline.cu", "fast.cu", "slow.cu", "lazy.cu"]
    assert [Path(s.source).name for s in answer.sources] == names
    assert {s.verdict.value for s in answer.sources} == {"passed"}
    fast, slow, lazy = answer.comparisons
    assert [c.candidate for c in answer.comparisons] == names[1:]
    assert lazy.timing.verdict is TimingVerdict.INCONCLUSIVE
    caveats = [d for w in lazy.timing.workloads for d in w.caveats if d.kind == WRONG_OUTPUT]
    assert caveats
    assert all(d.invalidates for d in caveats)
    assert fast.timing.verdict is TimingVerdict.FASTER
    assert slow.timing.verdict is TimingVerdict.SLOWER
    assert fast.timing.speedup.value == pytest.approx(50 / 40, rel=0.002)
    assert slow.timing.speedup.value == pytest.approx(50 / 51, rel=0.002)
    assert 0 < fast.minimum_detectable < 0.003
    for workload in fast.timing.workloads:
        assert workload.cold.candidate_us == pytest.approx(40, rel=0.002)
        assert workload.paper is not None
        assert workload.paper.candidate_us == pytest.approx(40, rel=0.002)
    lines = [x for x in outcome.err.splitlines() if x.startswith("fast.cu ")]
    assert [x.split()[1] for x in lines] == ["16x256", "8x128"]


def test_one_source_is_beside_itself_in_a_live_table(scripted: Shell) -> None:
    shown = scripted.on_terminal(*BENCH, "baseline.cu", "--workload", "8x128", columns=100)
    assert shown.code == ExitCode.OK, shown.out
    assert len(re.findall(r"\d+ rounds", shown.out)) > 1, "the interval was seen to narrow"
    *_, result = shown.out.rpartition("silu_and_mul: cuda:0, Scripted GPU, ")
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", result)
    assert "baseline.cu against itself" in plain
    row = next(x for x in plain.splitlines() if x.startswith("8x128 "))
    assert row.split()[7:8] == ["same"]
    assert re.search(r"Differences down to 0\.\d\d % can be told apart here", plain)


def test_a_wrong_source_is_not_timed(scripted: Shell) -> None:
    outcome = scripted.run(*BENCH, "baseline.cu", "idle.cu")
    assert outcome.code == ExitCode.FAILED
    assert outcome.out.startswith("FAILED silu_and_mul idle.cu\n")
    assert " us" not in outcome.out


def test_a_kernel_that_dies_when_it_is_timed_is_said_to(scripted: Shell) -> None:
    outcome = scripted.run(*BENCH, "baseline.cu", "dying.cu", "--workload", "8x128", "--json")
    answer = msgspec.json.decode(outcome.out, type=answers.ErrorAnswer)
    assert outcome.code == answer.exit_code == ExitCode.FAILED
    assert answer.error.message.startswith("the measurement failed on workload 8x128: ")
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in answer.error.message


def test_the_paper_s_protocol_alone_gives_no_verdict_and_sources_of_one_name_are_told_apart(
    scripted: Shell,
) -> None:
    folder = scripted.folder / "mine"
    folder.mkdir()
    (folder / "baseline.cu").write_bytes((scripted.folder / "fast.cu").read_bytes())
    outcome = scripted.run(*BENCH, "baseline.cu", "mine/baseline.cu", "--protocol", "paper")
    assert outcome.code == ExitCode.OK
    assert not re.search(r"\b(faster|same|inconclusive)\b", outcome.out)
    row = next(x for x in outcome.out.splitlines() if x.startswith("16x256 "))
    base, candidate, ratio = (float(x.rstrip("x")) for x in row.split()[2:5])
    assert ratio == pytest.approx(base / candidate, abs=0.001)
    assert re.search(r"geometric mean +paper +1\.2", outcome.out)
    title = next(x for x in outcome.out.splitlines() if " against " in x)
    assert title.startswith("mine/baseline.cu against ")
    assert "/silu_and_mul/baseline.cu (cuda:0, " in title
    checks = next(x for x in outcome.out.splitlines() if x.startswith("checked on the GPU: "))
    assert "; mine/baseline.cu: " in checks


def test_the_doctor_times_a_kernel_beside_itself_and_lists_what_a_server_offers(
    scripted: Shell, url: str
) -> None:
    outcome = scripted.run("doctor", "--json", "--base-url", url, OPENAI_API_KEY=KEY)
    assert KEY not in outcome.out + outcome.err
    answer = msgspec.json.decode(outcome.out, type=answers.DoctorAnswer)
    assert outcome.code == answer.exit_code == ExitCode.OK
    probes = {p.name: p for p in answer.probes}
    assert set(probes) >= {"compiler", "emulator", "torch"}
    assert probes["language model"].health == Health.MISSING
    assert "large, small" in probes["language model"].remedy
    assert probes["GPU"].detail.startswith("cuda:0, Scripted GPU, compute capability 9.0, ")
    assert probes["GPU process, closed"].health == Health.OK
    timing = probes["GPU timing"]
    assert timing.health == Health.OK
    assert "reads same" in timing.detail
    assert re.search(r"differences down to 0\.\d\d % can be told", timing.detail)
    assert not any(probes[name].needed for name in ("GPU", "NVML", "GPU timing", "ncu"))


def test_a_key_that_the_server_refuses_is_said_to_be_refused(url: str) -> None:
    found = asyncio.run(probe_endpoint(url, "small", "sk-other-000000"))
    assert found.health is Health.BROKEN
    assert "sk-other" not in str(found)


# -- against what others ship ----------------------------------------------------------------------

OUT_OF_REACH = """\
[packages.tiny-kernels]
version = "1.2.0"
file = "tiny_kernels-1.2.0-py3-none-any.whl"
sha256 = "abababababababababababababababababababababababababababababababab"
licence = "Apache-2.0"
released = "2026-10-01"

[[yardsticks]]
name = "tiny"
about = "an example"
package = "tiny-kernels"
arch = "sm_90a"
requires = "tokens > 8"

[yardsticks.out_of_reach]
reason = "compiled by Triton"
"""
TIME = ("yardstick", "time", "silu_and_mul")


def test_yardsticks_are_timed_in_both_chains_and_what_is_missing_is_said(scripted: Shell) -> None:
    file = scripted.folder / "kernels" / "silu_and_mul" / "yardsticks.toml"
    file.write_text(OUT_OF_REACH, encoding="utf-8")
    outcome = scripted.run(*TIME, "fast.cu", "--json")
    answer = msgspec.json.decode(outcome.out, type=answers.YardstickTimesAnswer)
    assert outcome.code == answer.exit_code == ExitCode.OK
    assert "tiny is not timed: compiled by Triton" in outcome.err
    assert [chain.chain for chain in answer.chains] == ["itself", "producer"]
    for chain, more in zip(answer.chains, (0, 1), strict=True):
        assert chain.means == {"fast.cu": None}
        large, small = chain.shapes
        assert (large.not_timed, small.not_timed) == ({"tiny": "compiled by Triton"}, {})
        assert small.base_us == pytest.approx(50 + more, rel=0.005)
        (ours,) = small.versions
        assert (ours.name, ours.us) == ("fast.cu", pytest.approx(40 + more, rel=0.005))
    shown = scripted.run(*TIME, "fast.cu", "--chain", "itself", "--workload", "16x256")
    assert "silu_and_mul: microseconds a launch, each after itself" in shown.out
    assert "not known" in shown.out
    assert "tiny is not timed: compiled by Triton" in shown.out


def test_a_baseline_alone_has_nothing_to_be_timed_against(scripted: Shell) -> None:
    (scripted.folder / "kernels" / "silu_and_mul" / "yardsticks.toml").unlink()
    outcome = scripted.run(*TIME)
    assert outcome.code == ExitCode.BAD_INPUT
    assert "nothing is timed against baseline.cu on 16x256" in outcome.err
    assert "name a source" in outcome.err
