"""Adapters: their files, their guard against the real framework, and what they refuse.

The frameworks are large, so that only PyTorch's adapter is tried everywhere. The others are where
ASTRA_TUI_FRAMEWORKS names folders from which they can be imported (CONTRIBUTING.md).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from astra_tui.export import Framework, Subject, find_winner
from astra_tui.export.delivery import TARGETS, Adapter, adapter_of, proof_cases
from astra_tui.export.exporting import open_exporter
from astra_tui.lab.compiler import Compiler
from astra_tui.model.errors import UserError
from astra_tui.model.export import StepOutcome
from astra_tui.model.state import CandidateState, SessionState
from astra_tui.model.task import KernelTask
from astra_tui.sessions.integrity import read_session
from tests.export.sessions import tuned, write_files, write_session

FRAMEWORKS = os.environ.get("ASTRA_TUI_FRAMEWORKS", "")
OPERATORS = ("silu_and_mul", "fused_add_rmsnorm")


def adapter(subject: Subject, framework: Framework) -> Adapter:
    """An adapter of a winner that no session timed."""
    hash_ = subject.winner.candidate
    return adapter_of(subject, framework, SessionState(candidates={hash_: CandidateState(hash_)}))


def ran(folder: Path, framework: Framework, scripted_driver: Path) -> dict[str, Any]:
    """What adapters.py found."""
    script = Path(__file__).with_name("adapters.py")
    done = subprocess.run(
        [sys.executable, "-P", str(script), str(folder), framework.value],
        cwd=folder, capture_output=True, text=True, check=False,
        env={
            **os.environ,
            "PYTHONPATH": FRAMEWORKS,
            "LD_LIBRARY_PATH": str(scripted_driver),
            "SCRIPTED_CUDA_LOG": str(folder / "log"),
        },
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def packages(folder: Path, subjects: dict[str, Subject], framework: Framework) -> Path:
    """The packages of every operator that the framework has."""
    for name in TARGETS[framework].apis:
        files = adapter(subjects[name], framework).package
        write_files(folder / f"astra_{name}", files)
    return folder


@pytest.mark.parametrize(
    "framework",
    [
        pytest.param(
            one,
            marks=pytest.mark.skipif(
                one is not Framework.TORCH and not FRAMEWORKS,
                reason="set ASTRA_TUI_FRAMEWORKS to folders with the frameworks (CONTRIBUTING.md)",
            ),
        )
        for one in Framework
        if one is not Framework.HF
    ],
)
def test_the_framework_s_calls_reach_the_kernel(
    framework: Framework, subjects: dict[str, Subject], tmp_path: Path, scripted_driver: Path
) -> None:
    """The scripted driver computes nothing, so that results inside the guard are not compared."""
    found = ran(packages(tmp_path, subjects, framework), framework, scripted_driver)
    for name in TARGETS[framework].apis:
        proof = found[name]
        assert proof["wrong"]["counts"] == []
        assert proof["wrong"]["bits_outside"] == []
        assert proof["hits"] == proof["launches"] == proof["inside"]
        assert proof["shapes"] >= 100
        assert proof["outside"] >= 20
        assert proof["failed_before_and_after"] <= proof["outside"]
    assert found["astra_tui"] == []
    if framework is Framework.FLASHINFER:
        assert found["together"] == TOGETHER


NOT_ROUTED = "Trace Apply has no solution for this width, or met it first in a graph's capture"
TOGETHER = {
    "shape": [4, 6, 256],
    "out": True,
    "nothing": True,
    "named twice": True,
    "counts": {
        "silu_and_mul": {"hits": {"float16[24, 512]": 2}, "fallbacks": {}},
        "fused_add_rmsnorm": {
            "hits": {"float16[3, 512] float16[3, 512] float16[512]": 1},
            "fallbacks": {NOT_ROUTED: 1},
        },
    },
    "trace_apply": {
        "flashinfer.activation.silu_and_mul": {"hit": 2},
        "flashinfer.norm.fused_add_rmsnorm": {"hit": 1, "fallback_no_candidate": 1},
    },
    "own again": True,
    "the other stays": 2,
    "off": True,
}


@pytest.mark.skipif(not FRAMEWORKS, reason="needs ASTRA_TUI_FRAMEWORKS")
def test_kernels_loads_the_variant(subjects: dict[str, Subject], tmp_path: Path) -> None:
    write_files(tmp_path, adapter(subjects["silu_and_mul"], Framework.HF).files())
    script = (
        "import sys, torch; from pathlib import Path; from kernels import get_local_kernel\n"
        "module = get_local_kernel(Path(sys.argv[1]) / 'build/torch-cuda')\n"
        "import importlib; eager = importlib.import_module(module.__name__ + '.eager')\n"
        "eager.install(); x = torch.randn(3, 64, dtype=torch.half)\n"
        "assert torch.equal(module.silu_and_mul(x), eager.silu_and_mul(x))\n"
        "assert sum(module.calls.counts()['fallbacks'].values()) == 1\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", script, str(tmp_path)],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": FRAMEWORKS},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]


def test_another_version_is_an_error_that_says_so(
    subjects: dict[str, Subject], tmp_path: Path
) -> None:
    packages(tmp_path, subjects, Framework.VLLM)
    (tmp_path / "vllm-0.34.0.dist-info").mkdir()
    (tmp_path / "vllm-0.34.0.dist-info" / "METADATA").write_text("Name: vllm\nVersion: 0.34.0\n")
    done = subprocess.run(
        [sys.executable, "-c", "import astra_fused_add_rmsnorm.vllm"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert "FrameworkChanged: vllm is 0.34.0; this adapter was written" in done.stderr


def test_the_switch_turns_it_off(subjects: dict[str, Subject], tmp_path: Path) -> None:
    packages(tmp_path, subjects, Framework.TORCH)
    script = (
        "import json, torch; from astra_silu_and_mul import calls, eager, _operator\n"
        "_operator.set_fallback(eager.silu_and_mul)\n"
        "torch.ops.astra.silu_and_mul(torch.randn(3, 64).half())\n"
        "print(json.dumps(calls.counts()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True,
        env={**os.environ, "ASTRA_SILU_AND_MUL": "off"},
    )  # fmt: skip
    counts = {"hits": {}, "fallbacks": {"switched off by ASTRA_SILU_AND_MUL": 1}}
    assert json.loads(done.stdout) == counts


@pytest.mark.parametrize("name", OPERATORS)
def test_the_cases_of_a_proof(subjects: dict[str, Subject], name: str) -> None:
    cases = list(proof_cases(subjects[name]))
    assert len({json.dumps(c["tensors"], sort_keys=True) for c in cases}) == len(cases)
    inside = [c for c in cases if c["inside"]]
    assert len({json.dumps([t[1] for t in c["tensors"].values()]) for c in inside}) >= 100
    assert all((c["launches"] > 0) == c["inside"] for c in cases)
    assert {c["dtype"] for c in inside} == {"float16", "bfloat16"}


@pytest.mark.parametrize("framework", Framework)
def test_files_for_a_stranger(subjects: dict[str, Subject], framework: Framework) -> None:
    made = adapter(subjects["fused_add_rmsnorm"], framework)
    files = made.files()
    readme, project = files["README.md"], files["pyproject.toml"]
    assert isinstance(readme, str)
    assert isinstance(project, str)
    for words in (made.api, made.switch, *made.target.pinned, "`d >= 1`", "compiled, not measured"):
        assert words in readme
    assert ("Not run on a GPU" in readme) == (framework in (Framework.SGLANG, Framework.VLLM))
    assert "did not time it against what frameworks ship" in readme
    assert tomllib.loads(project)["project"]["name"].startswith("astra-fused-add-rmsnorm")
    prefix = made.target.prefix or "astra_fused_add_rmsnorm"
    assert {f"{prefix}/{made.target.module}.py", f"{prefix}/kernel.cu"} <= set(files)
    python = [text for name, text in files.items() if name.endswith(".py")]
    assert all(isinstance(text, str) and compile(text, "file", "exec") for text in python)


def test_an_operator_without_a_hook(subjects: dict[str, Subject]) -> None:
    with pytest.raises(UserError, match="vLLM has no hook for silu_and_mul"):
        adapter(subjects["silu_and_mul"], Framework.VLLM)


def test_delivery_is_checked_and_written(
    tasks: dict[str, KernelTask], compiler: Compiler, tmp_path: Path
) -> None:
    task = tasks["silu_and_mul"]
    session = read_session(write_session(tmp_path / "session", task, tuned(task)))
    with open_exporter(task, "emulator", compiler) as exporter:
        report = exporter.deliver(
            find_winner(session), Framework.TORCH, session.state, tmp_path / "out", sys.executable,
            prove=True,
        )  # fmt: skip
    outcomes = {step.name: step.outcome for step in report.steps}
    assert outcomes["kernels"] is outcomes["hook into PyTorch"] is StepOutcome.PASSED
    assert outcomes["proof of engagement"] is StepOutcome.NOT_CHECKED
    assert {"sm_80", "sm_89", "sm_100"} <= set(report.archs)
    assert report.measured == ""
    assert not report.failed
    assert sorted(report.files) == sorted(
        str(p.relative_to(tmp_path / "out")) for p in (tmp_path / "out").rglob("*") if p.is_file()
    )
    readme = (tmp_path / "out" / "README.md").read_text()
    assert "| proof of engagement | not checked |" in readme
