"""The bundled kernels as machine code: lines, classes, counts."""

from __future__ import annotations

import pytest

from astra_tui.lab.compiler import Compiler
from astra_tui.lab.explain.sass.classes import classify
from astra_tui.model.sass import InstructionClass as Kind
from astra_tui.model.task import KernelTask
from tests.explain.helpers import SOURCES, TASKS, disassembled, kernel_from_source

HALF_SUM = """
#include <cuda_fp16.h>
__global__ void half_sum(__half* out, const __half* in) { out[threadIdx.x] = __hadd(in[0], in[1]); }
"""
SHARED = """
template <typename T> __global__ void mixed(T* out, const T* in, int* count) {
  __shared__ T row[64];
  row[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  T sum = row[63 - threadIdx.x];
  sum += __shfl_xor_sync(~0u, sum, 1);
  atomicAdd(count, 1);
  out[threadIdx.x] = exp2f(sum) + rsqrtf(sum);
}
"""


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("name", TASKS)
def test_every_instruction_is_in_one_known_class(
    name: str, source: str, tasks: dict[str, KernelTask], compiler: Compiler
) -> None:
    found = disassembled(tasks[name], source, compiler)
    assert found.arch == "sm_90a"
    assert found.tool.startswith("nvdisasm V13.")
    lines = (tasks[name].folder / source).read_text(encoding="utf-8").count("\n")
    for kernel in found.kernels:
        assert len(kernel.instructions) > 100
        assert sum(row.count for row in kernel.histogram) == len(kernel.instructions)
        in_loops = sum(instruction.loop_depth > 0 for instruction in kernel.instructions)
        assert sum(row.in_loops for row in kernel.histogram) == in_loops
        assert sum(kernel.count(kind) for kind in Kind) == len(kernel.instructions)
        assert kernel.unknown == ()
        assert not kernel.count(Kind.HALF)  # All three compute in float32.
        assert all(0 <= instruction.line <= lines for instruction in kernel.instructions)
        assert [i.address for i in kernel.instructions] == list(
            range(0, 16 * len(kernel.instructions), 16)
        )


def test_wide_loads_of_tuned_silu_are_at_their_source_lines(
    tasks: dict[str, KernelTask], compiler: Compiler
) -> None:
    task = tasks["silu_and_mul"]
    (kernel,) = disassembled(task, "tuned.cu", compiler).kernels
    assert kernel.name == "silu_and_mul_vec<__half, 8>"
    text = (task.folder / "tuned.cu").read_text(encoding="utf-8").splitlines()
    loads = [i for i in kernel.instructions if i.category is Kind.GLOBAL_LOAD]
    assert [(i.opcode, i.name, i.loop_depth) for i in loads] == [
        ("LDG.E.128.CONSTANT", "LDG.128", 1)
    ] * 2
    assert [text[i.line - 1].strip() for i in loads] == [
        "const P g = gate[i];",
        "const P u = up[i];",
    ]
    (store,) = (i for i in kernel.instructions if i.category is Kind.GLOBAL_STORE)
    assert (store.name, text[store.line - 1].strip()) == ("STG.128", "result[i] = r;")
    # Eight halves a thread: one exponential and one reciprocal each.
    assert kernel.count(Kind.SPECIAL_FUNCTION, in_loops=True) == 16


def test_baselines_move_single_halves(tasks: dict[str, KernelTask], compiler: Compiler) -> None:
    (kernel,) = disassembled(tasks["silu_and_mul"], "baseline.cu", compiler).kernels
    names = {row.name: row.count for row in kernel.histogram}
    assert (names["LDG.U16"], names["STG.U16"]) == (2, 1)
    assert not {"LDG.128", "STG.128"} & set(names)


def test_half_arithmetic_is_told_from_conversions(compiler: Compiler) -> None:
    kernel = kernel_from_source(HALF_SUM, "half_sum", compiler)
    assert kernel.count(Kind.HALF) == 1


def test_shared_memory_shuffles_barriers_and_atomics(compiler: Compiler) -> None:
    kernel = kernel_from_source(SHARED, "mixed<float>", compiler)
    names = {row.name for row in kernel.histogram}
    assert {"LDS.32", "STS.32", "SHFL.BFLY", "BAR.SYNC", "MUFU.EX2", "MUFU.RSQ"} <= names
    assert kernel.count(Kind.ATOMIC) >= 1
    assert kernel.unknown == ()


@pytest.mark.parametrize(
    ("opcode", "operands", "kind", "name"),
    [
        ("LDG.E.U8", "R1 [R2.64]", Kind.GLOBAL_LOAD, "LDG.U8"),
        ("STL.64", "[R1] R2", Kind.LOCAL_STORE, "STL.64"),
        ("LDSM.16.M88.4", "R4 [R1]", Kind.SHARED_LOAD, "LDSM"),
        ("LDGSTS.E.BYPASS.128", "[R1] [R2.64]", Kind.ASYNC_COPY, "LDGSTS"),
        ("UTMALDG.2D", "[UR8] [UR4]", Kind.ASYNC_COPY, "UTMALDG"),
        ("MUFU.LG2", "R1 R2", Kind.SPECIAL_FUNCTION, "MUFU.LG2"),
        ("HADD2.F32", "R1 -RZ R2.H0_H0", Kind.CONVERSION, "HADD2.F32"),
        ("HADD2", "R1 R2 R3", Kind.HALF, "HADD2"),
        ("HFMA2.BF16_V2", "R1 R2 R3 R4", Kind.HALF, "HFMA2.BF16"),
        ("HFMA2.MMA", "R1 -RZ RZ 0 0", Kind.MOVE, "HFMA2"),
        ("IMAD.MOV.U32", "R1 RZ RZ R2", Kind.MOVE, "IMAD.MOV"),
        ("IMAD.WIDE", "R2 R3 0x2 R4", Kind.INTEGER, "IMAD"),
        ("REDUX.SUM.S32", "UR4 R2", Kind.WARP, "REDUX.SUM"),
        ("RED.E.ADD.STRONG.GPU", "[R2.64] R5", Kind.ATOMIC, "RED"),
        ("FROBNICATE.X", "R1", Kind.OTHER, "FROBNICATE"),
    ],
)
def test_classes(opcode: str, operands: str, kind: Kind, name: str) -> None:
    assert classify(opcode, tuple(operands.split())) == (kind, name)
