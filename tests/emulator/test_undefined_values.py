"""Shared memory that no thread has written: what a compiler loads early and drops is no fault, any
use of it is one, at the load.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from astra_tui.lab.compiler import Compiler
from astra_tui.model.findings import FindingKind
from tests.emulator.harness import Ran, line_of, run_kernel

THREADS = 64
WRITTEN = 48
MARK = "// <--"

KERNEL = """
__global__ void k(float* out, const float* in, int n) {
  __shared__ __align__(16) float s[64];
  __shared__ float other[64];
  int t = threadIdx.x;
  other[t] = 1.0f;
  if (t < n) s[t] = in[t];
  __syncthreads();
  float v;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"((unsigned)__cvta_generic_to_shared(s + t)));  // <--
  unsigned bits = __float_as_uint(v);
  (void)bits;
  USE
}
"""

USED = {
    "stored": "out[t] = v;",
    "computed with": "out[t] = sqrtf(fmaf(v, 2.0f, in[t]));",
    "compared": "if (v > 0.0f) out[t] = in[t];",
    "chosen by itself": "out[t] = v > 0.0f ? in[0] : in[1];",
    "chosen by another value": "out[t] = n > 0 ? v + 1.0f : 0.0f;",
    "chosen on both sides": "out[t] = n > 0 ? v + 1.0f : v;",
    "masked too little": "out[t] = bits & (t < n ? ~0u : 1u);",
    "both sides of an and": "out[t] = bits & (bits >> 1);",
    "as an address": "out[bits & 31] = 1.0f;",
    "as an address of shared memory": "out[t] = other[bits & 31];",
    "as an address that is only read": "out[t] = in[bits & 31];",
    "through shared memory": "__syncthreads(); other[t] = v; __syncthreads(); out[t] = other[63 - t];",
    "through local memory": "volatile float own[4]; own[n & 3] = v; out[t] = own[t & 3];",
    "shuffled": "out[t] = __shfl_xor_sync(~0u, v, 16);",
    "voted on": "out[t] = __ballot_sync(~0u, v > 0.0f);",
    "matched": "out[t] = __match_any_sync(~0u, bits);",
    "reduced by the warp": "out[t] = __reduce_add_sync(~0u, bits);",
    "counted at a barrier": "out[t] = __syncthreads_count(v > 0.0f);",
    "a barrier's number": 'asm volatile("barrier.sync %0, 64;" :: "r"(bits & 1)); out[t] = 1.0f;',
    "a mask": "out[t] = __shfl_sync(bits, in[t], 0);",
    "added atomically": "atomicAdd(out, v);",
    "turns of a loop": "float x = 0; for (int i = 0; i < (bits & 7); ++i) x = x * 1.5f + in[i]; out[t] = x;",
    "a switch": "switch (bits & 7) { case 0: out[t] = 1; break; case 1: out[0] = 3; break; "
    "case 2: out[t + 1] = 4; break; case 3: out[2] = 9; break; case 4: __syncwarp(); default: out[1] = 2; }",
    "guards an instruction": 'float x = 1.0f; asm volatile("{ .reg .pred p; setp.gt.f32 p, %1, 0f00000000; '
    '@p mov.f32 %0, %2; }" : "+f"(x) : "f"(v), "f"(in[t])); out[t] = x;',
    "multiplied by tensor cores": 'float d0, d1, d2, d3; asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 '
    '{%0, %1, %2, %3}, {%4, %4}, {%4}, {%5, %5, %5, %5};" : "=f"(d0), "=f"(d1), "=f"(d2), "=f"(d3) '
    ': "r"(bits), "f"(in[t])); out[t] = d0;',
}  # fmt: skip
"""Each use of `v`, or of its bits, that has to be found."""

DROPPED = {
    "not at all": "out[t] = in[t];",
    "not chosen": "out[t] = t < n ? v : in[t];",
    "not chosen as a part of sums": "float a = in[t] + v, b = a * v; out[t] = t < n ? b / v - v : in[t];",
    "a predicate that an and absorbs": "bool p = (t < n) & (v > -9.0f); out[t] = p ? in[t] : in[t];",
    "a predicate that an or absorbs": "bool p = (t >= n) | (v > -9.0f); out[t] = p ? in[t] : 7.0f;",
    "bits that an and absorbs": "out[t] = in[t] + __uint_as_float(bits & (t < n ? ~0u : 0u)) * 0.0f;",
    "written over": "__syncthreads(); s[t] = in[t]; v = s[t]; out[t] = v;",
}  # fmt: skip
"""What does not depend on `v` where it is undefined."""


def run(compiler: Compiler, source: str, **more: Any) -> Ran:
    values = np.arange(1, 1 + 2 * THREADS, dtype=np.float32)
    arguments = [np.zeros(2 * THREADS, np.float32), values, WRITTEN]
    return run_kernel(compiler, source, arguments, block=THREADS, read_only=(1,), **more)


@pytest.mark.parametrize("use", USED.values(), ids=USED)
def test_a_use_is_found_at_the_load(compiler: Compiler, use: str) -> None:
    source = KERNEL.replace("USE", use)
    (finding,) = run(compiler, source).findings
    assert finding.kind is FindingKind.UNINITIALISED_SHARED
    assert finding.line == line_of(source, MARK)
    assert finding.thread == (WRITTEN, 0, 0)
    assert finding.lanes == THREADS - WRITTEN
    assert (
        f"load of byte {4 * WRITTEN} of s, which has 256: no thread has written it"
        in finding.message
    )


@pytest.mark.parametrize("use", DROPPED.values(), ids=DROPPED)
def test_what_is_dropped_is_no_fault(compiler: Compiler, use: str) -> None:
    ran = run(compiler, KERNEL.replace("USE", use))
    assert ran["a0"][:THREADS].tolist() == list(range(1, 1 + THREADS))


VECTOR = """
__global__ void k(float* out, const float* in, int n) {
  __shared__ float2 s[64];
  int t = threadIdx.x;
  s[t].x = in[t];
  if (t < n) s[t].y = in[t];
  float2 v;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"((unsigned)__cvta_generic_to_shared(s + t)));
  out[t] = v.PART;
}
"""


def test_parts_of_a_vector_are_told_apart(compiler: Compiler) -> None:
    assert run(compiler, VECTOR.replace("PART", "x"))["a0"][THREADS - 1] == THREADS
    (finding,) = run(compiler, VECTOR.replace("PART", "y")).findings
    assert "load of byte 388 of s, which has 512" in finding.message
    assert finding.message.endswith("and line 9 uses its value")


ELSEWHERE = {
    "an atomic": "out[t] = atomicAdd(s + t, 1.0f);",
    "a matrix load": 'unsigned r; asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" '
    ': "=r"(r) : "r"((unsigned)__cvta_generic_to_shared(s + 32 + 4 * (t & 7)))); out[t] = r;',
}


@pytest.mark.parametrize("read", ELSEWHERE.values(), ids=ELSEWHERE)
def test_what_is_not_loaded_for_its_own_thread_is_found_at_once(
    compiler: Compiler, read: str
) -> None:
    (finding,) = run(compiler, KERNEL.replace("USE", read)).findings
    assert finding.kind is FindingKind.UNINITIALISED_SHARED
    assert "of s, which has 256: no thread has written it" in finding.message


REDUCTION = """
#include <cub/block/block_reduce.cuh>
struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Largest {
  __device__ float operator()(float a, float b) const { return a > b ? a : b; }
};
__global__ void k(float* out, const float* in, int n) {
  using Reduce = cub::BlockReduce<float, 1024>;
  __shared__ typename Reduce::TempStorage storage[2];
  float v = in[threadIdx.x];
  float total = Reduce(storage[0]).Reduce(v, Sum{}, blockDim.x);
  float largest = Reduce(storage[1]).Reduce(v, Largest{}, blockDim.x);
  if (threadIdx.x == 0) { out[0] = total; out[1] = largest; }
}
"""


def test_a_block_reduction_by_a_part_of_its_warps(compiler: Compiler) -> None:
    for threads in (16, 48, 64, 100):
        values = np.arange(1, 1 + threads, dtype=np.float32)
        ran = run_kernel(
            compiler, REDUCTION, [np.zeros(2, np.float32), values, 0], block=threads, read_only=(1,)
        )
        assert ran["a0"].tolist() == [values.sum(), threads]
