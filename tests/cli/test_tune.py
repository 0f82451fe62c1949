"""`tune` on a scripted GPU: plans, compiler, processes and statistics are real, times scripted."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from dataclasses import replace

import msgspec
import pytest

from astra_tui.cli import json_answers as answers
from astra_tui.cli.exit_codes import ExitCode
from astra_tui.model.launch import plan_of
from astra_tui.model.timing import TimingVerdict
from tests.cli.command import SECONDS, Shell
from tests.conftest import ROOT
from tests.quick import write_quick_task

WORKLOADS = """\
[[workloads]]
dims = { tokens = 16, d = 256 }

[[workloads]]
dims = { tokens = 8, d = 128 }
"""


@pytest.fixture
def scripted(shell: Shell) -> Shell:
    """A folder with a quick silu_and_mul whose grid-stride kernel is fastest with 512 threads."""
    task = write_quick_task(shell.folder / "kernels", WORKLOADS)
    baseline = (task / "baseline.cu").read_text(encoding="utf-8")
    (task / "tuned.cu").write_text(baseline, encoding="utf-8")
    times = "64=70 128=60 256=50 512=40 1024=55"
    source = f"// scripted by threads: {times}\n{baseline}"
    (shell.folder / "open.cu").write_text(source, encoding="utf-8")
    command = (sys.executable, "-m", "tests.cli.scripted_gpu")
    return replace(shell, command=command, variables={**shell.variables, "PYTHONPATH": str(ROOT)})


def test_a_source_is_swept_and_what_is_written_is_checked_and_faster(scripted: Shell) -> None:
    told = ("--workload", "16x256", "--share", "1", "--out", "new.cu")
    outcome = scripted.run("tune", "silu_and_mul", "open.cu", *told, "--json")
    assert outcome.code == ExitCode.OK, outcome.err
    assert outcome.err.startswith("checking open.cu\n"), "how far it is, JSON or not"
    assert " different trials on 1 workloads\n" in outcome.err
    answer = msgspec.json.decode(outcome.out, type=answers.TuneAnswer)
    assert answer.default["threads"] == 512
    assert answer.parts == ()
    assert 0 < answer.timed <= answer.trials
    assert answer.timing is not None
    assert answer.timing.verdict is TimingVerdict.FASTER
    assert answer.timing.speedup.value == pytest.approx(50 / 40, rel=0.01)
    written = (scripted.folder / "new.cu").read_text(encoding="utf-8")
    assert {t.name: t.value for t in plan_of(written).tunes} == {"threads": 512}


@pytest.mark.parametrize(
    ("word", "cut"),
    [
        (
            " of at most ",
            r"the sweep was cut: \d+ of at most \d+ trials measured, none of them again",
        ),
        ("checking new.cu", "the result was not timed against the source"),
    ],
)
def test_an_interrupted_sweep_writes_the_best_that_it_has_measured(
    scripted: Shell, word: str, cut: str
) -> None:
    source = (scripted.folder / "open.cu").read_text(encoding="utf-8")
    source = source.replace("64=70 128=60", "64=20 128=30")
    (scripted.folder / "open.cu").write_text(source, encoding="utf-8")
    told = ("--workload", "16x256", "--share", "1", "--out", "new.cu", "--json")
    process = subprocess.Popen(
        [*scripted.command, "tune", "silu_and_mul", "open.cu", *told],
        cwd=scripted.folder,
        env=scripted.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    while word not in (line := process.stderr.readline()):
        assert line, "it ended before it could be interrupted"
    process.send_signal(signal.SIGINT)
    out, said = process.communicate(timeout=SECONDS)
    assert process.returncode == ExitCode.INTERRUPTED, said
    answer = msgspec.json.decode(out, type=answers.TuneAnswer)
    assert re.fullmatch(cut, answer.cut)
    assert answer.cut in said
    assert (answer.exit_code, answer.timing) == (ExitCode.INTERRUPTED, None)
    assert answer.out == "new.cu"
    written = (scripted.folder / "new.cu").read_text(encoding="utf-8")
    (value,) = (t.value for t in plan_of(written).tunes)
    assert value == answer.default["threads"] != 256


def test_a_sweep_that_is_interrupted_before_its_first_trial_writes_nothing(
    scripted: Shell,
) -> None:
    process = subprocess.Popen(
        [*scripted.command, "tune", "silu_and_mul", "open.cu", "--out", "new.cu"],
        cwd=scripted.folder,
        env=scripted.environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    while "compiling" not in (line := process.stderr.readline()):
        assert line, "it ended before it could be interrupted"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=SECONDS)
    assert process.returncode == ExitCode.INTERRUPTED, said
    assert said.endswith("astra-tui: interrupted\n")
    assert not (scripted.folder / "new.cu").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("open.cu", "--share", "0"), "--share is more than 0 and at most 1"),
        (("missing.cu",), "missing.cu: there is no such file"),
        (("open.cu", "--device", "emulator"), "the emulator gives no times"),
    ],
)
def test_what_cannot_be_tuned_is_said(
    scripted: Shell, arguments: tuple[str, ...], message: str
) -> None:
    outcome = scripted.run("tune", "silu_and_mul", *arguments)
    assert outcome.code != ExitCode.OK
    assert message in outcome.err
