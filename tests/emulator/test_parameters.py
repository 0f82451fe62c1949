"""Structures as parameters: read in place, by their address, and through generic pointers."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from astra_tui.emulator.device import Emulator
from astra_tui.lab.compiler import Compiler
from astra_tui.model.compilation import Compilation, CompiledKernel, Resources
from astra_tui.model.device import ArgumentRole, DeviceBuffer, PackedLaunch
from astra_tui.model.findings import FindingKind
from tests.emulator.harness import Ran

K = FindingKind
HEAD = """
struct P { float* out; const float* in; int n; float w[8]; };
__device__ __noinline__ float pick(const float* w, int i) { return w[i]; }
__device__ __noinline__ float second(const P& p, int i) { return p.w[i & 7] + p.n; }
"""
WEIGHTS = np.arange(8, dtype=np.float32) * 1.5 - 2
IN = np.arange(64, dtype=np.float32)


def run(compiler: Compiler, parameter: str, body: str, more: int = 3) -> Ran:
    """Runs two blocks of 32 threads of a kernel of a structure and a number."""
    source = f"{HEAD}__global__ void k({parameter}, int m) {{ {body} }}"
    built = compiler.build(source, ("k",), {}, ())
    assert not built.problem, built.problem
    size = struct.calcsize("<QQi8f")
    packed = struct.pack("<QQi8fi", 0, 0, 50, *WEIGHTS, more)
    assert size == 52
    packed = packed[:52] + bytes(4) + packed[52:]
    kernel = CompiledKernel("k", built.symbols["k"], (), len(packed), Resources(0, 0, 0, 0, 0, 0))
    compilation = Compilation((), (kernel,), built.ptx, b"", "sm_90a", built.compiler, 0.0)
    buffers = tuple(
        DeviceBuffer(name, use, array.view(np.uint8))
        for name, use, array in (
            ("out", ArgumentRole.INOUT, np.zeros(64, np.float32)),
            ("in", ArgumentRole.IN, IN),
        )
    )
    places = ((0, "out"), (8, "in"))
    launch = PackedLaunch(kernel, (2, 1, 1), (32, 1, 1), 0, packed, places, 1)
    outcome = Emulator().run(compilation, (launch,), buffers)
    arrays = {name: data.view(np.float32) for name, data in outcome.contents.items()}
    return Ran(arrays, outcome.findings, outcome.counters, outcome.traffic)


INDEX = "const int i = blockIdx.x * 32 + threadIdx.x; if (i >= p.n) return;"
BODIES = {
    "in place": ("p.out[i] = p.in[i] * p.w[3] + m;", IN * WEIGHTS[3] + 3),
    "by an index": ("p.out[i] = p.w[i % 8];", np.tile(WEIGHTS, 8)),
    "by a generic pointer": ("p.out[i] = pick(p.w, i % 8);", np.tile(WEIGHTS, 8)),
    "by a reference": ("p.out[i] = second(p, i) + p.w[i & m];", None),
    "of one memory or another": (
        "float mine[8]; for (int j = 0; j < 8; ++j) mine[j] = p.in[j]; "
        "p.out[i] = pick(m > 2 ? p.w : mine, i % 8) + pick(m > 3 ? p.w : mine, i % 8);",
        np.tile(WEIGHTS, 8) + IN % 8,
    ),
    "a local array by a generic pointer": (
        "float mine[8]; for (int j = 0; j < 8; ++j) mine[j] = p.w[j] + i; "
        "p.out[i] = pick(mine, i % 8);",
        np.tile(WEIGHTS, 8) + IN,
    ),
    "a shared array by a generic pointer": (
        "__shared__ float s[8]; s[i % 8] = p.w[i % 8]; __syncthreads(); "
        "p.out[i] = pick(m ? s : p.w, 7 - i % 8);",
        np.tile(WEIGHTS[::-1], 8),
    ),
}


@pytest.mark.parametrize("parameter", ["P p", "const __grid_constant__ P p"])
@pytest.mark.parametrize("name", BODIES)
def test_a_structure_is_read(compiler: Compiler, parameter: str, name: str) -> None:
    body, expected = BODIES[name]
    if expected is None:
        expected = np.tile(WEIGHTS, 8) + 50 + WEIGHTS[IN.astype(int) & 3]
    index = INDEX.replace("return;", "{}") if "__shared__" in body else INDEX
    ran = run(compiler, parameter, index + body.replace("p.out[i] =", "if (i < p.n) p.out[i] ="))
    np.testing.assert_array_equal(ran["out"], np.where(IN < 50, expected, 0).astype(np.float32))


def test_a_parameter_cannot_be_left_or_written(compiler: Compiler) -> None:
    constant = "const __grid_constant__ P p"
    past = run(compiler, constant, INDEX + "p.out[i] = pick(p.w, i + m);")
    assert [f.kind for f in past.findings] == [K.LOCAL_OUT_OF_BOUNDS]
    assert "byte 60 of the kernel's parameters, which have 60" in past.findings[0].message
    odd = "p.out[i] = *(const float*)((const char*)p.w + i % 4);"
    assert [f.kind for f in run(compiler, constant, INDEX + odd).findings] == [K.MISALIGNED]
    write = "const_cast<float*>(p.w)[i % 8] = 1; p.out[i] = pick(p.w, i % 8);"
    findings = run(compiler, constant, INDEX + write).findings
    assert [f.kind for f in findings] == [K.WROTE_INPUT]
    assert "store to a parameter of the kernel" in findings[0].message
