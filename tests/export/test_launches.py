"""Packages launch the same whether or not they have checked a call before. On a scripted driver."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from astra_tui.export import Format, Subject, export_files
from astra_tui.lab.compiler import Compiler
from astra_tui.model.task import KernelTask
from tests.conftest import MadeOnce
from tests.export.sessions import compiled_subject, made_up, write_files

HERE = Path(__file__).parent
TASKS = ("silu_and_mul", "fused_add_rmsnorm", "merge_attn_states_lse")

WITH_WORKSPACES = """#include <cuda_bf16.h>
#include <cuda_fp16.h>
/* @launch
   workspace partial: float32[tokens, d]
   workspace spare: T[d]
   gate<T> grid=tokens block=32 args=(partial, input, d)
   up<T> grid=tokens block=32 args=(out, partial, spare, d) pdl=true */
template <typename T> __global__ void gate(float* partial, const T* input, long long d) {
  if (threadIdx.x < d) partial[blockIdx.x * d + threadIdx.x] = float(input[0]);
}
template <typename T>
__global__ void up(T* out, const float* partial, const T* spare, long long d) {
  cudaGridDependencySynchronize();
  if (threadIdx.x < d) out[blockIdx.x * d + threadIdx.x] = T(partial[threadIdx.x]);
}
"""


def launch_packages(folder: Path, library: Path) -> None:
    """Writes into `answer.json` what the packages of a folder did; their tensors are on the CPU."""
    for package in folder.glob("astra_*"):
        (package / "_gpu.py").write_text((HERE / "cpu_gpu.py").read_text(), encoding="utf-8")
    log = folder / "log"
    log.touch()
    done = subprocess.run(
        [sys.executable, "-P", str(HERE / "launch_packages.py"), str(folder), str(log)],
        cwd=folder,
        env={**os.environ, "LD_LIBRARY_PATH": str(library), "SCRIPTED_CUDA_LOG": str(log)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    (folder / "answer.json").write_text(done.stdout.splitlines()[-1], encoding="utf-8")


@pytest.fixture(scope="module")
def found(
    subjects: dict[str, Subject],
    tasks: dict[str, KernelTask],
    compiler: Compiler,
    scripted_driver: Path,
    made_once: MadeOnce,
) -> dict[str, Any]:
    """What the three packages did, and one whose plan has workspaces."""
    task = replace(tasks["silu_and_mul"], name="gated_twice")
    twice = compiled_subject(made_up(task, WITH_WORKSPACES), task, compiler)

    def launch(folder: Path) -> None:
        for subject in (*subjects.values(), twice):
            write_files(folder, export_files(subject, Format.TORCH))
        launch_packages(folder, scripted_driver)

    folder = made_once("launched-packages", launch)
    found: dict[str, Any] = json.loads((folder / "answer.json").read_bytes())
    return found


@pytest.mark.parametrize("name", TASKS)
def test_a_call_that_is_kept_launches_what_a_checked_one_does(
    found: dict[str, Any], name: str
) -> None:
    seen = found[f"astra_{name}"]
    assert seen["launched"] > 250
    assert seen["kept"] > 250
    assert seen["refused"] > 50
    assert seen["share memory"] > 10
    assert seen["functions"] > 2


@pytest.mark.parametrize(
    "what", ["the same", "alignment", "address", "nothing was launched", "right behind it"]
)
def test_what_changes_after_a_call(found: dict[str, Any], what: str) -> None:
    assert found["again"][what] is True


@pytest.mark.parametrize("what", ["overlap", "last element"])
def test_shared_memory_is_noticed_after_a_call(found: dict[str, Any], what: str) -> None:
    assert found["again"][what].startswith("silu_and_mul: out and input share memory; ")


def test_stream_and_device_are_those_of_the_call(found: dict[str, Any]) -> None:
    assert found["again"]["stream"] == 0x99
    assert found["again"]["device"] == [0]
    assert found["again"]["launched on it"] == 1


def test_threads_do_not_share_parameters(found: dict[str, Any]) -> None:
    assert found["threads"] == {"errors": [], "launches": True}


def test_autograd_is_told(found: dict[str, Any]) -> None:
    told = found["autograd"]
    assert told["versions"] == [[True, True, False]] * 2
    assert told["requires grad"] is True
    assert told["backward"] == "astra.silu_and_mul.default has no derivative"
    assert told["no grad"] is True


def test_minus_zero_is_another_number(found: dict[str, Any]) -> None:
    assert found["zeros"] is True


@pytest.mark.parametrize("which", ["checked", "kept"])
def test_workspaces_of_a_call(found: dict[str, Any], which: str) -> None:
    assert found["workspaces"][which] is True


def test_what_is_kept_is_bounded(found: dict[str, Any]) -> None:
    assert found["table"] == [False, True, True]
