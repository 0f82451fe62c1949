"""The profile of a source: counters, residency, waves and the machine code's mix."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tui.lab.check.execution import read_source
from astra_tui.lab.compiler import Compiler
from astra_tui.lab.explain.profile import profile_source
from astra_tui.llm.asking.facts import profile_text
from astra_tui.model.errors import UserError
from astra_tui.model.occupancy import (
    MULTIPROCESSORS,
    UnknownArchitecture,
    occupancy,
    resident_blocks,
)
from astra_tui.model.task import KernelTask, find_task
from astra_tui.model.verdict import Profile, waves_of
from tests.emulator.harness import line_of

# The fence is not emulated; the rest of the kernel is.
FENCED = """
/* @launch
   fenced<T> grid=tokens block=256 args=(out, input, d)
*/
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <typename T>
__global__ void fenced(T* out, const T* input, int d) {
    asm volatile("fence.proxy.tensormap::generic.release.gpu;");
    for (int i = threadIdx.x; i < d; i += blockDim.x) {
        float g = float(input[2ll * blockIdx.x * d + i]);
        out[1ll * blockIdx.x * d + i] = T(g / (1.0f + expf(-g)));
    }
}
"""


TWICE = """
/* @launch
   workspace gates: float32[tokens, d]
   first<T> grid=tokens block=256 args=(gates, input, d)
   second<T> grid=tokens block=256 args=(out, gates, input, d)
*/
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <typename T>
__global__ void first(float* gates, const T* input, int d) {
    for (int i = threadIdx.x; i < d; i += blockDim.x) {
        float g = float(input[2ll * blockIdx.x * d + i]);
        gates[1ll * blockIdx.x * d + i] = g / (1.0f + expf(-g));
    }
}

template <typename T>
__global__ void second(T* out, const float* gates, const T* input, int d) {
    for (int i = threadIdx.x; i < d; i += blockDim.x) {
        const long long at = 1ll * blockIdx.x * d + i;
        out[at] = T(gates[at] * float(input[at + (1ll + blockIdx.x) * d]));
    }
}
"""


@pytest.fixture(scope="module")
def task() -> KernelTask:
    return find_task("silu_and_mul")


@pytest.fixture(scope="module")
def tuned(task: KernelTask) -> Profile:
    return profile(task, task.tuned_file.read_text(encoding="utf-8"))


def profile(task: KernelTask, text: str, device: str = "emulator", **attributes: int) -> Profile:
    from astra_tui.model.launch import DEVICE_ATTRIBUTES

    with Compiler() as compiler:
        source = read_source(task, text, "k.cu")
        attributes = {**DEVICE_ATTRIBUTES, **attributes}
        return profile_source(task, source, compiler, device, attributes).profile


def test_every_workload_is_counted(task: KernelTask, tuned: Profile) -> None:
    assert [w.workload for w in tuned.workloads] == [w.name for w in task.workloads]
    assert all(w.counters.requests for w in tuned.workloads)
    assert tuned.missing == {}


def test_a_profile_says_what_launches_do_again(task: KernelTask, tuned: Profile) -> None:
    again = profile(task, TWICE).wasted
    assert [r.describe() for r in again] == [
        f"line {line_of(TWICE, 'T(gates')} (launch 2) loads what line {line_of(TWICE, '= g /')} "
        "(launch 1) stored: 100 % of gates at 1024x13824; 100 % or more at 6 other workloads"
    ]
    assert tuned.wasted == ()
    assert [t.argument for t in tuned.workloads[0].traffic] == ["out", "input"]
    assert again[0].describe() in profile_text(profile(task, TWICE))
    assert "moved again" not in profile_text(tuned)


def test_waves_follow_blocks_residency_and_the_device(task: KernelTask) -> None:
    text = task.baseline_file.read_text(encoding="utf-8")
    few, many = profile(task, text, sm_count=10), profile(task, text, sm_count=100)
    use = few.kernels[0]
    for small, large in zip(few.workloads, many.workloads, strict=True):
        assert small.waves.waves == pytest.approx(small.blocks / (10 * use.resident_blocks))
        assert small.waves.waves == pytest.approx(10 * large.waves.waves)


@given(blocks=st.integers(1, 10**6), resident=st.integers(1, 32), sms=st.integers(1, 200))
def test_a_tail_is_what_the_last_wave_leaves_empty(blocks: int, resident: int, sms: int) -> None:
    found = waves_of(blocks, resident, sms)
    assert 0 <= found.tail < 1
    assert math.isclose((found.waves + found.tail) % 1, 0, abs_tol=1e-9) or math.isclose(
        (found.waves + found.tail) % 1, 1, abs_tol=1e-9
    )


def test_nothing_is_said_of_waves_without_residency() -> None:
    assert waves_of(100, 0, 132) is None


@given(
    arch=st.sampled_from(sorted(MULTIPROCESSORS)),
    threads=st.integers(1, 1024),
    registers=st.integers(1, 255),
    shared=st.integers(0, 200_000),
)
def test_occupancy_is_the_share_of_resident_warps(
    arch: str, threads: int, registers: int, shared: int
) -> None:
    blocks = resident_blocks(arch, threads, registers, shared)
    warps = -(-threads // 32)
    assert (
        occupancy(arch, threads, registers, shared) == blocks * warps / MULTIPROCESSORS[arch].warps
    )
    assert 0 <= occupancy(arch, threads, registers, shared) <= 1


def test_an_unknown_architecture_is_named() -> None:
    with pytest.raises(UnknownArchitecture, match="sm_999a"):
        resident_blocks("sm_999a", 128, 32, 0)


def test_the_mix_of_the_machine_code_is_there(tuned: Profile) -> None:
    wide = [r for k in tuned.code for r in k.histogram if r.name == "LDG.128"]
    assert wide
    assert all(k.instructions for k in tuned.code)


def test_what_the_emulator_cannot_run_is_missing_on_a_gpu_and_an_error_on_the_emulator(
    task: KernelTask,
) -> None:
    found = profile(task, FENCED, "cuda:0")
    assert "fence.proxy" in found.missing["counters"]
    assert found.kernels[0].registers
    with pytest.raises(UserError, match="cannot be counted"):
        profile(task, FENCED)
