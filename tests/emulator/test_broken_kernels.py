"""Kernels that are wrong on purpose: each is caught, with the right kind and source line.

The line that is to blame carries the mark `// <--`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from astra_tui.lab.compiler import Compiler
from astra_tui.model.findings import FindingKind
from tests.emulator.harness import line_of, run_kernel

MARK = "// <--"


@dataclass(frozen=True)
class Broken:
    """One broken kernel and the fault that is expected of it."""

    name: str
    kind: FindingKind
    source: str
    grid: int = 1
    block: int = 256
    shared_bytes: int = 0
    count: int = 512
    out: int = 512
    read_only: tuple[int, ...] = (1,)
    undefined: tuple[int, ...] = ()
    words: str = ""


K = FindingKind
CASES = (
    Broken(
        "missing barrier",
        K.SHARED_RACE,
        """
__global__ void k(float* out, const float* in, int n) {
  __shared__ float s[256];
  s[threadIdx.x] = in[threadIdx.x];
  out[threadIdx.x] = s[255 - threadIdx.x];  // <--
}""",
        words="byte 1020 of s, which has 1024",
    ),
    Broken(
        "missing barrier between levels of a tree",
        K.SHARED_RACE,
        """
__global__ void k(float* out, const float* in, int n) {
  __shared__ float s[256];
  s[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  for (int k = 128; k > 0; k >>= 1) {
    if (threadIdx.x < k) s[threadIdx.x] += s[threadIdx.x + k];  // <--
  }
  if (threadIdx.x == 0) out[0] = s[0];
}""",
    ),
    Broken(
        "no __syncwarp between lanes of a warp",
        K.SHARED_RACE,
        """
__global__ void k(float* out, const float* in, int n) {
  __shared__ volatile float s[32];
  s[threadIdx.x] = in[threadIdx.x];
  if (threadIdx.x < 16) s[threadIdx.x] += s[threadIdx.x + 16];  // <--
  out[threadIdx.x] = s[0];
}""",
        block=32,
    ),
    Broken(
        "race on halves",
        K.SHARED_RACE,
        """
#include <cuda_fp16.h>
__global__ void k(float* out, const float* in, int n) {
  __shared__ __half s[64];
  s[threadIdx.x] = (__half)in[threadIdx.x];
  out[threadIdx.x] = (float)s[threadIdx.x ^ 1];  // <--
}""",
        block=64,
    ),
    Broken(
        "sum without atomics in a block",
        K.GLOBAL_RACE,
        """
__global__ void k(float* out, const float* in, int n) {
  out[0] += in[threadIdx.x];  // <--
}""",
        words="byte 0 of a0",
    ),
    Broken(
        "sum without atomics across blocks",
        K.GLOBAL_RACE,
        """
__global__ void k(float* out, const float* in, int n) {
  if (threadIdx.x == 0) out[0] = out[0] + in[blockIdx.x];  // <--
}""",
        grid=4,
    ),
    Broken(
        "one block reads what another writes",
        K.GLOBAL_RACE,
        """
__global__ void k(float* out, const float* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[i];
  __syncthreads();
  float other = out[(i + blockDim.x) % n];  // <--
  out[i] = other;
}""",
        grid=2,
    ),
    Broken(
        "missing guard",
        K.GLOBAL_OUT_OF_BOUNDS,
        """
__global__ void k(float* out, const float* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[i < n ? i : 0] * 2.0f;  // <--
}""",
        grid=2,
        count=488,
        out=488,
        words="byte 1952 of a0, which has 1952",
    ),
    Broken(
        "reads before the buffer",
        K.GLOBAL_OUT_OF_BOUNDS,
        """
__global__ void k(float* out, const float* in, int n) {
  out[threadIdx.x] = in[(int)threadIdx.x - 1];  // <--
}""",
        words="byte -4 of a1",
    ),
    Broken(
        "null pointer",
        K.GLOBAL_OUT_OF_BOUNDS,
        """
__global__ void k(float* out, const float* in, int n) {
  const float* p = (const float*)(unsigned long long)(n - 512);
  out[threadIdx.x] = p[threadIdx.x];  // <--
}""",
        words="a null pointer",
    ),
    Broken(
        "shared index too large",
        K.SHARED_OUT_OF_BOUNDS,
        """
__global__ void k(float* out, const float* in, int n) {
  __shared__ float s[128];
  s[threadIdx.x] = in[threadIdx.x];  // <--
  __syncthreads();
  out[threadIdx.x] = s[threadIdx.x];
}""",
        words="byte 512 of s, which has 512",
    ),
    Broken(
        "reaches from one shared array into the next",
        K.SHARED_OUT_OF_BOUNDS,
        """
__global__ void k(float* out, const float* in, int n) {
  __shared__ float a[32], b[32];
  a[threadIdx.x] = in[threadIdx.x]; b[threadIdx.x] = 1.0f;
  __syncthreads();
  out[threadIdx.x] = a[threadIdx.x + 1] + b[threadIdx.x];  // <--
}""",
        block=32,
    ),
    Broken(
        "dynamic shared memory too small",
        K.SHARED_OUT_OF_BOUNDS,
        """
__global__ void k(float* out, const float* in, int n) {
  extern __shared__ float s[];
  s[threadIdx.x] = in[threadIdx.x];  // <--
  out[threadIdx.x] = s[threadIdx.x];
}""",
        shared_bytes=1000,
        words="byte 1000 of dynamic shared memory, which has 1000",
    ),
    Broken(
        "uninitialised shared memory",
        K.UNINITIALISED_SHARED,
        """
__global__ void k(float* out, const float* in, int n) {
  __shared__ float s[256];
  if (threadIdx.x < 100) s[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = s[threadIdx.x];  // <--
}""",
        words="byte 400 of s",
    ),
    Broken(
        "divergent barrier",
        K.DIVERGENT_BARRIER,
        """
__global__ void k(float* out, const float* in, int n) {
  __shared__ float s[256];
  s[threadIdx.x] = in[threadIdx.x];
  if (threadIdx.x < 100) {
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x];
  } else {
    out[threadIdx.x] = 1.0f;
    __syncthreads();  // <--
  }
}""",
    ),
    Broken(
        "a shuffle that half of its warp never reaches",
        K.DEADLOCK,
        """
__global__ void k(float* out, const float* in, int n) {
  __shared__ float s[32];
  float v = in[threadIdx.x];
  if (threadIdx.x < 16) v += __shfl_xor_sync(0xffffffffu, v, 1);  // <--
  else { __syncthreads(); v = 2; }
  out[threadIdx.x] = v;
}""",
        block=32,
    ),
    Broken(
        "a lane that its mask does not name",
        K.BAD_MASK,
        """
__global__ void k(float* out, const float* in, int n) {
  out[threadIdx.x] = __shfl_sync(0x0000ffffu, in[threadIdx.x], 0);  // <--
}""",
        block=32,
    ),
    Broken(
        "endless loop",
        K.BUDGET,
        """
__global__ void k(float* out, const float* in, int n) {
  volatile float* v = out;
  int i = 0;
  while (v[0] >= 0.0f) ++i;  // <--
  out[1] = i;
}""",
        block=32,
    ),
    Broken(
        "misaligned vector load",
        K.MISALIGNED,
        """
__global__ void k(float* out, const float* in, int n) {
  float4 v = *(const float4*)(in + threadIdx.x * 4 + 1);  // <--
  out[threadIdx.x] = v.x + v.w;
}""",
        block=32,
    ),
    Broken(
        "cp.async without a wait",
        K.UNINITIALISED_SHARED,
        """
#include <cuda_pipeline.h>
__global__ void k(float* out, const float* in, int n) {
  __shared__ __align__(16) float s[512];
  __pipeline_memcpy_async(&s[threadIdx.x * 4], in + threadIdx.x * 4, 16);
  __pipeline_commit();
  __syncthreads();
  out[threadIdx.x] = s[threadIdx.x * 4];  // <--
}""",
        block=128,
        words="has not been waited for",
    ),
    Broken(
        "cp.async waited for, but no barrier",
        K.SHARED_RACE,
        """
#include <cuda_pipeline.h>
__global__ void k(float* out, const float* in, int n) {
  __shared__ __align__(16) float s[512];
  __pipeline_memcpy_async(&s[threadIdx.x * 4], in + threadIdx.x * 4, 16);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  out[threadIdx.x] = s[511 - threadIdx.x * 4];  // <--
}""",
        block=128,
    ),
    Broken(
        "unwritten tail",
        K.UNWRITTEN_OUTPUT,
        """
__global__ void k(float* out, const float* in, int n) {
  for (int i = threadIdx.x; i < n / 4; i += blockDim.x)
    ((float4*)out)[i] = ((const float4*)in)[i];  // <--
}""",
        count=510,
        out=510,
        undefined=(0,),
        words="byte 2032 of a0, which has 2040, and 7 more",
    ),
    Broken(
        "reads its own output",
        K.UNINITIALISED_GLOBAL,
        """
__global__ void k(float* out, const float* in, int n) {
  out[threadIdx.x] = out[threadIdx.x] + in[threadIdx.x];  // <--
}""",
        out=256,
        undefined=(0,),
    ),
    Broken(
        "writes an input",
        K.WROTE_INPUT,
        """
__global__ void k(float* out, float* in, int n) {
  out[threadIdx.x] = in[threadIdx.x];
  if (threadIdx.x == 7) in[threadIdx.x] = 0;  // <--
}""",
    ),
    Broken(
        "keeps state in a __device__ variable",
        K.HIDDEN_STATE,
        """
__device__ int calls;
__global__ void k(float* out, const float* in, int n) {
  if (threadIdx.x == 0) calls = calls + 1;  // <--
  out[threadIdx.x] = in[threadIdx.x];
}""",
    ),
    Broken(
        "failed assert",
        K.ASSERTION,
        """
#include <cassert>
__global__ void k(float* out, const float* in, int n) {
  assert(threadIdx.x < 200);  // <--
  out[threadIdx.x] = in[threadIdx.x];
}""",
        words="assert(threadIdx.x < 200) failed",
    ),
    Broken(
        "trap",
        K.TRAP,
        """
__global__ void k(float* out, const float* in, int n) {
  if (in[threadIdx.x] > 1e9f) out[0] = 1; else __trap();  // <--
}""",
    ),
    Broken(
        "a local array read beyond its end",
        K.LOCAL_OUT_OF_BOUNDS,
        """
__global__ void k(float* out, const float* in, int n) {
  float a[8];
  for (int i = 0; i < 8; ++i) a[i] = in[threadIdx.x + i];
  out[threadIdx.x] = a[n / 16];  // <--
}""",
    ),
    Broken(
        "an instruction that is not emulated",
        K.UNSUPPORTED,
        """
__global__ void k(float* out, const float* in, int n) {
  asm volatile("wgmma.fence.sync.aligned;");  // <--
  out[threadIdx.x] = in[threadIdx.x];
}""",
        words="Run on a GPU",
    ),
)


def run(compiler: Compiler, broken: Broken, budget: int) -> Any:
    random = np.random.Generator(np.random.Philox(1))
    data = np.abs(random.standard_normal(broken.count)).astype(np.float32)
    out = np.zeros(broken.out, np.float32)
    return run_kernel(
        compiler,
        broken.source,
        [out, data, broken.count],
        grid=broken.grid,
        block=broken.block,
        shared_bytes=broken.shared_bytes,
        read_only=broken.read_only,
        undefined=broken.undefined,
        budget=budget,
    )


@pytest.mark.parametrize("broken", CASES, ids=lambda b: b.name)
def test_broken_kernel_is_caught(compiler: Compiler, broken: Broken) -> None:
    ran = run(compiler, broken, budget=20_000)
    faults = [f for f in ran.findings if not f.is_warning]
    assert [f.kind for f in faults] == [broken.kind], [f.describe() for f in ran.findings]
    (fault,) = faults
    assert fault.line == line_of(broken.source, MARK)
    assert broken.words in fault.message
    if broken.kind not in (K.UNSUPPORTED, K.UNWRITTEN_OUTPUT):
        assert fault.block is not None
        assert fault.thread is not None
        assert fault.instruction


def test_a_shuffle_from_an_absent_lane_is_a_warning(compiler: Compiler) -> None:
    source = """
__global__ void k(float* out, const float* in) {
  if (threadIdx.x >= 20) return;
  float v = in[threadIdx.x];
  out[threadIdx.x] = v + __shfl_down_sync(0xffffffffu, v, 4);  // <--
}"""
    ran = run_kernel(compiler, source, [np.zeros(32, np.float32), np.ones(32, np.float32)])
    assert [(f.kind, f.line) for f in ran.findings] == [(K.INACTIVE_SHUFFLE, line_of(source, MARK))]
    assert np.isnan(ran.arrays["a0"][16:20]).all()


def test_a_barrier_after_some_threads_have_left_is_a_warning(compiler: Compiler) -> None:
    source = """
__global__ void k(float* out, const float* in) {
  if (threadIdx.x >= 48) return;
  __syncthreads();  // <--
  out[threadIdx.x] = in[threadIdx.x];
}"""
    ran = run_kernel(
        compiler, source, [np.zeros(64, np.float32), np.ones(64, np.float32)], block=64
    )
    assert [(f.kind, f.line) for f in ran.findings] == [
        (K.EXITED_BEFORE_BARRIER, line_of(source, MARK))
    ]


def test_warps_that_meet_at_different_barriers_are_a_warning(compiler: Compiler) -> None:
    """The first warp prepares while the other fills: both count the same barriers."""
    source = """
__global__ void k(float* out, const float* in) {
  __shared__ float s[2];
  if (threadIdx.x < 32) {
    out[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    __syncthreads();
    return;
  }
  if (threadIdx.x == 32) s[0] = in[63];
  __syncthreads();  // <--
  if (threadIdx.x == 33) s[1] = s[0];
  __syncthreads();
  out[threadIdx.x] = s[1] + out[threadIdx.x - 32];
}"""
    data = np.arange(64, dtype=np.float32)
    ran = run_kernel(compiler, source, [np.zeros(64, np.float32), data], block=64)
    lines = [line_of(source, MARK), line_of(source, MARK) + 2]
    assert [(f.kind, f.line) for f in ran.findings] == [(K.DIFFERENT_BARRIERS, n) for n in lines]
    np.testing.assert_array_equal(ran.arrays["a0"], np.concatenate((data[:32], 63 + data[:32])))


def test_a_fault_in_an_inlined_function_names_both_lines(compiler: Compiler) -> None:
    source = """
__device__ float pick(const float* p, int i) {
  return p[i];  // <--
}
__global__ void k(float* out, const float* in) {
  out[threadIdx.x] = pick(in, threadIdx.x * 99);  // caller
}"""
    ran = run_kernel(compiler, source, [np.zeros(32, np.float32), np.ones(32, np.float32)])
    (fault,) = ran.findings
    assert fault.line == line_of(source, MARK)
    assert line_of(source, "// caller") in fault.callers


def test_without_checks_an_access_still_cannot_leave_the_heap(compiler: Compiler) -> None:
    source = "__global__ void k(float* out) { out[-(long long)threadIdx.x * 100000000] = 1; }"
    ran = run_kernel(compiler, source, [np.zeros(32, np.float32)], checked=False)
    assert ran.findings[0].kind is K.GLOBAL_OUT_OF_BOUNDS
