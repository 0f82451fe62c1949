"""Programmatic dependent launch on the emulator: what may be touched before waiting."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from astra_tui.emulator.device import Emulator
from astra_tui.lab.compiler import Compiler
from astra_tui.model.device import ArgumentRole, DeviceBuffer, PackedLaunch, RunOutcome
from astra_tui.model.findings import FindingKind

WAIT = "cudaGridDependencySynchronize();"
TRIGGER = "cudaTriggerProgrammaticLaunchCompletion();"
N = 128


def source_of(*bodies: str) -> str:
    kernels = (
        f"__global__ void k{i}(float* out, const float* in, const float* weight, float* work) {{\n"
        f"  __shared__ float held[{N}];\n  const int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        f"  held[threadIdx.x] = 0;\n{body}\n}}\n"
        for i, body in enumerate(bodies)
    )
    return "\n".join(kernels)


def run(
    compiler: Compiler, *bodies: str, pdl: tuple[bool, ...] = (True,), checked: bool = True
) -> RunOutcome:
    names = tuple(f"k{i}" for i in range(len(bodies)))
    compilation = compiler.compile(source_of(*bodies), names)
    assert compilation.ok, compilation.errors
    data = np.arange(N, dtype=np.float32).view(np.uint8)
    nothing = np.full(4 * N, 0xFF, np.uint8)
    buffers = (
        DeviceBuffer("out", ArgumentRole.OUT, nothing),
        DeviceBuffer("in", ArgumentRole.IN, data),
        DeviceBuffer("weight", ArgumentRole.IN, data, stable=True),
        DeviceBuffer("work", ArgumentRole.WORKSPACE, nothing),
    )
    pointers = tuple((8 * i, b.name) for i, b in enumerate(buffers))
    launches = tuple(
        PackedLaunch(
            compilation.kernel(name),
            (2, 1, 1),
            (64, 1, 1),
            0,
            struct.pack("<4Q", 0, 0, 0, 0),
            pointers,
            1,
            early,
        )
        for name, early in zip(names, pdl, strict=True)
    )
    return Emulator().run(compilation, launches, buffers, checked=checked)


RIGHT = {
    "wait first": f"{WAIT} out[i] = in[i] + weight[i]; {TRIGGER}",
    "stable above": f"float w = weight[i]; {WAIT} out[i] = in[i] + w;",
    "one thread and a barrier": f"if (threadIdx.x == 0) {WAIT} __syncthreads(); out[i] = in[i];",
    "one lane and its warp": f"if (i % 32 == 5) {WAIT} __syncwarp(); out[i] = in[i];",
    "both sides": f"if (i % 2) {{ {WAIT} out[i] = 1; }} else {{ {WAIT} out[i] = 2; }}",
    "early exit without work": f"if (i >= 1000) return; {WAIT} out[i] = in[i];",
    "trigger first": f"{TRIGGER} {WAIT} out[i] = in[i];",
    "barrier before": f"held[i % 64] = i; __syncthreads(); {WAIT} out[i] = held[i % 64] + in[i];",
}

WRONG = {
    "never": "out[i] = in[i] + weight[i];",
    "stores alone": "out[i] = weight[i];",
    "nothing at all, never": "held[threadIdx.x] = 1;",
    "load above": f"float x = in[i]; {WAIT} out[i] = x;",
    "late": f"out[i] = in[i]; {WAIT}",
    "store above": f"out[i] = 0; {WAIT} out[i] = in[i];",
    "one side": f"if (i % 2) {WAIT} out[i] = in[i];",
    "one warp": f"if (threadIdx.x < 32) {WAIT} out[i] = in[i];",
    "one block": f"if (blockIdx.x == 0) {WAIT} out[i] = in[i];",
    "one thread, no barrier": f"if (threadIdx.x == 0) {WAIT} out[i] = in[i];",
    "barrier before the wait": f"__syncthreads(); if (threadIdx.x == 0) {WAIT} out[i] = in[i];",
    "part of a warp": f"if (i % 32 == 0) {WAIT} __syncwarp(i % 32 < 16 ? 0xffff : 0xffff0000);"
    " out[i] = in[i];",
    "wrong instruction": f"{TRIGGER} out[i] = in[i];",
    "atomic above": f"atomicAdd(work, 1.f); {WAIT} out[i] = in[i];",
}


@pytest.mark.parametrize("body", RIGHT.values(), ids=RIGHT)
def test_kernels_that_wait_in_time_pass(compiler: Compiler, body: str) -> None:
    for pdl, checked in ((True, True), (True, False), (False, True)):
        assert run(compiler, body, pdl=(pdl,), checked=checked).faults == ()


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG)
def test_what_comes_before_the_wait_is_found(compiler: Compiler, body: str) -> None:
    found = run(compiler, body).faults
    assert [f.kind for f in found] == [FindingKind.BEFORE_WAIT]
    assert found[0].line
    alone = run(compiler, body, pdl=(False,)).faults  # Without the attribute nothing is early.
    assert FindingKind.BEFORE_WAIT not in {f.kind for f in alone}


def test_an_input_is_final_behind_a_launch_that_waited_for_all(compiler: Compiler) -> None:
    first = f"{WAIT} work[i] = in[i]; {TRIGGER}"
    second = f"float x = in[i]; {WAIT} out[i] = work[i] + x;"
    assert run(compiler, first, second, pdl=(False, True)).faults == ()
    (found,) = run(compiler, first, second, pdl=(True, True)).faults
    assert "load at" in found.message
    assert "of in" in found.message


def test_a_workspace_of_the_launch_before_needs_the_wait(compiler: Compiler) -> None:
    first = f"{WAIT} work[i] = in[i]; {TRIGGER}"
    (found,) = run(
        compiler, first, f"float x = work[i]; {WAIT} out[i] = x;", pdl=(False, True)
    ).faults
    assert (found.kind, found.kernel) == (FindingKind.BEFORE_WAIT, "k1")


def test_a_launch_that_ends_without_waiting_hides_those_before_it(compiler: Compiler) -> None:
    first = f"{WAIT} work[i] = in[i];"
    idle = "held[threadIdx.x] = weight[i];"
    (found,) = run(compiler, first, idle, f"{WAIT} out[i] = work[i];", pdl=(True,) * 3).faults
    assert "ended without griddepcontrol.wait" in found.message
