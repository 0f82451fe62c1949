"""Correct kernels of every kind the emulator promises: right numbers, and not one finding."""

from __future__ import annotations

import math

import numpy as np
import pytest

from astra_tui.lab.compiler import Compiler
from astra_tui.model.device import Variation
from astra_tui.model.findings import FindingKind
from tests.emulator.harness import run_kernel

F32 = np.float32


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.Generator(np.random.Philox(3))


def test_block_reduction_over_warp_shuffles(
    compiler: Compiler, random: np.random.Generator
) -> None:
    source = """
    __global__ void k(float* out, const float* in, int n) {
      __shared__ float part[8];
      float v = 0;
      for (int i = threadIdx.x; i < n; i += blockDim.x) v += in[blockIdx.x * n + i];
      for (int o = 16; o > 0; o >>= 1) v += __shfl_down_sync(0xffffffffu, v, o);
      if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
      __syncthreads();
      if (threadIdx.x == 0) { for (int w = 1; w < 8; ++w) v += part[w]; out[blockIdx.x] = v; }
    }"""
    x = random.standard_normal((6, 1000)).astype(F32)
    ran = run_kernel(compiler, source, [np.zeros(6, F32), x, 1000], grid=6, block=256)
    np.testing.assert_allclose(ran["a0"], x.sum(1), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "headers", [("cub/block/block_reduce.cuh", "cub/block/block_scan.cuh"), ("cub/cub.cuh",)]
)
def test_cub(compiler: Compiler, random: np.random.Generator, headers: tuple[str, ...]) -> None:
    included = "".join(f"#include <{header}>\n" for header in headers)
    source = f"""{included}
    __global__ void k(int* out, int* sums, const int* in) {{
      using S = cub::BlockScan<int, 128>;
      using R = cub::BlockReduce<int, 128>;
      __shared__ typename S::TempStorage s;
      __shared__ typename R::TempStorage r;
      int i = blockIdx.x * 128 + threadIdx.x, before;
      S(s).ExclusiveSum(in[i], before);
      int sum = R(r).Sum(in[i]);
      out[i] = before;
      if (threadIdx.x == 0) sums[blockIdx.x] = sum;
    }}"""
    x = random.integers(-50, 50, (3, 128)).astype(np.int32)
    arrays = [np.zeros((3, 128), np.int32), np.zeros(3, np.int32), x]
    ran = run_kernel(compiler, source, arrays, grid=3, block=128)
    assert (ran["a0"] == np.cumsum(x, 1) - x).all()
    assert (ran["a1"] == x.sum(1)).all()


def test_cooperative_groups(compiler: Compiler, random: np.random.Generator) -> None:
    source = """
    #include <cooperative_groups.h>
    #include <cooperative_groups/reduce.h>
    namespace cg = cooperative_groups;
    __global__ void k(int* out, const int* in) {
      auto block = cg::this_thread_block();
      auto tile = cg::tiled_partition<16>(block);
      int sum = cg::reduce(tile, in[block.thread_rank()], cg::plus<int>());
      block.sync();
      if (tile.thread_rank() == 0) out[tile.meta_group_rank()] = sum;
    }"""
    x = random.integers(-9, 9, 64).astype(np.int32)
    ran = run_kernel(compiler, source, [np.zeros(4, np.int32), x], block=64)
    assert (ran["a0"] == x.reshape(4, 16).sum(1)).all()


def test_half2_arithmetic(compiler: Compiler, random: np.random.Generator) -> None:
    source = """
    #include <cuda_fp16.h>
    __global__ void k(__half2* out, const __half2* in) {
      __half2 v = in[threadIdx.x];
      v = __hfma2(v, v, __float2half2_rn(1.0f));
      v = __hmax2(__hmul2(v, __floats2half2_rn(0.5f, 0.25f)), __float2half2_rn(0.6f));
      out[threadIdx.x] = __hsub2(v, h2exp(__hneg2(in[threadIdx.x])));
    }"""
    x = random.standard_normal(128).astype(np.float16)
    ran = run_kernel(compiler, source, [np.zeros_like(x), x], block=64)
    wide = x.astype(float)
    scale = np.where(np.arange(128) % 2 == 0, 0.5, 0.25)
    wanted = np.maximum((wide * wide + 1) * scale, 0.6) - np.exp(-wide)
    np.testing.assert_allclose(ran["a0"].astype(float), wanted, atol=2e-2)


def test_tiled_matrix_product(compiler: Compiler, random: np.random.Generator) -> None:
    source = """
    __global__ void k(float* c, const float* a, const float* b, int n) {
      __shared__ float ta[16][17], tb[16][16];
      int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
      float sum = 0;
      for (int t = 0; t < n; t += 16) {
        ta[threadIdx.y][threadIdx.x] = a[row * n + t + threadIdx.x];
        tb[threadIdx.y][threadIdx.x] = b[(t + threadIdx.y) * n + col];
        __syncthreads();
        for (int q = 0; q < 16; ++q) sum += ta[threadIdx.y][q] * tb[q][threadIdx.x];
        __syncthreads();
      }
      c[row * n + col] = sum;
    }"""
    a, b = (random.standard_normal((48, 48)).astype(F32) for _ in range(2))
    ran = run_kernel(compiler, source, [np.zeros_like(a), a, b, 48], grid=(3, 3), block=(16, 16))
    np.testing.assert_allclose(ran["a0"], a.astype(float) @ b, atol=1e-4)


def test_cp_async_double_buffer(compiler: Compiler, random: np.random.Generator) -> None:
    source = """
    #include <cuda_pipeline.h>
    __global__ void k(float* out, const float* in, int n) {
      __shared__ __align__(16) float s[2][128];
      int t = threadIdx.x;
      __pipeline_memcpy_async(&s[0][t * 4], in + t * 4, 16);
      __pipeline_commit();
      float sum = 0;
      for (int i = 0; i < n / 128; ++i) {
        if (i + 1 < n / 128)
          __pipeline_memcpy_async(&s[(i + 1) & 1][t * 4], in + (i + 1) * 128 + t * 4, 16);
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        for (int j = 0; j < 4; ++j) sum += s[i & 1][(t * 4 + j * 33) % 128];
        __syncthreads();
      }
      out[t] = sum;
    }"""
    x = random.standard_normal(512).astype(F32)
    ran = run_kernel(compiler, source, [np.zeros(32, F32), x, 512])
    t = np.arange(32)
    wanted = sum(x.reshape(4, 128)[:, (t * 4 + j * 33) % 128].sum(0) for j in range(4))
    np.testing.assert_allclose(ran["a0"], wanted, atol=1e-5)


def test_cp_async_zero_fills_what_lies_beyond_the_source(compiler: Compiler) -> None:
    source = """
    __global__ void k(int* out, const int* in, int n) {
      __shared__ __align__(16) int s[128];
      unsigned to = (unsigned)__cvta_generic_to_shared(&s[threadIdx.x * 4]);
      int left = max(0, min(16, (n - (int)threadIdx.x * 4) * 4));
      const int* from = left ? in + threadIdx.x * 4 : in;
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"(from), "r"(left));
      asm volatile("cp.async.commit_group; cp.async.wait_group 0;");
      __syncthreads();
      for (int j = 0; j < 4; ++j) out[threadIdx.x * 4 + j] = s[threadIdx.x * 4 + j];
    }"""
    x = np.arange(1, 51, dtype=np.int32)
    ran = run_kernel(compiler, source, [np.full(128, -1, np.int32), x, 50])
    assert (ran["a0"] == np.concatenate([x, np.zeros(78, np.int32)])).all()


def test_shared_and_global_atomics(compiler: Compiler, random: np.random.Generator) -> None:
    source = """
    __global__ void k(int* out, const int* in, int n) {
      __shared__ int h[32];
      if (threadIdx.x < 32) h[threadIdx.x] = 0;
      __syncthreads();
      for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&h[in[i]], 1);
      __syncthreads();
      if (threadIdx.x < 32) atomicAdd(&out[threadIdx.x], h[threadIdx.x]);
    }"""
    x = random.integers(0, 32, 3000).astype(np.int32)
    ran = run_kernel(compiler, source, [np.zeros(32, np.int32), x, 3000], grid=4, block=128)
    assert (ran["a0"] == np.bincount(x, minlength=32)).all()


def test_float_atomics_and_compare_and_swap(compiler: Compiler) -> None:
    source = """
    __global__ void k(float* sum, unsigned long long* top, int* slot) {
      atomicAdd(sum, 0.5f);
      atomicMax(top, 1000ull + threadIdx.x);
      int old = *slot, seen;
      do { seen = old; old = atomicCAS(slot, seen, seen + threadIdx.x); } while (old != seen);
    }"""
    arguments = [np.zeros(1, F32), np.zeros(1, np.uint64), np.zeros(1, np.int32)]
    ran = run_kernel(
        compiler,
        source.replace("int old = *slot", "int old = atomicAdd(slot, 0)"),
        arguments,
        block=64,
    )
    assert ran["a0"][0] == 32.0
    assert ran["a1"][0] == 1063
    assert ran["a2"][0] == sum(range(64))


def test_warp_aggregated_append(compiler: Compiler, random: np.random.Generator) -> None:
    source = """
    __global__ void k(int* out, int* count, const int* in, int n) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i >= n) return;
      if (in[i] % 3 == 0) {
        unsigned active = __activemask();
        int leader = __ffs(active) - 1, lane = threadIdx.x % 32, base = 0;
        if (lane == leader) base = atomicAdd(count, __popc(active));
        base = __shfl_sync(active, base, leader);
        out[base + __popc(active & ((1u << lane) - 1))] = in[i];
      }
    }"""
    x = random.integers(0, 100, 1000).astype(np.int32)
    ran = run_kernel(
        compiler,
        source,
        [np.zeros(1024, np.int32), np.zeros(1, np.int32), x, 990],
        grid=8,
        block=128,
    )
    wanted = np.sort(x[:990][x[:990] % 3 == 0])
    assert ran["a1"][0] == len(wanted)
    assert (np.sort(ran["a0"][: len(wanted)]) == wanted).all()


def test_attention_with_online_softmax(compiler: Compiler, random: np.random.Generator) -> None:
    source = """
    __global__ void k(float* o, const float* q, const float* kk, const float* v, int n) {
      extern __shared__ float tile[];
      float* ks = tile; float* vs = tile + 8 * 32;
      int r = blockIdx.x * blockDim.x + threadIdx.x;
      float mine[32], acc[32], top = -1e30f, sum = 0;
      for (int d = 0; d < 32; ++d) { mine[d] = q[r * 32 + d] * 0.17677669f; acc[d] = 0; }
      for (int j0 = 0; j0 < n; j0 += 8) {
        for (int i = threadIdx.x; i < 64; i += blockDim.x) {
          ((float4*)ks)[i] = ((const float4*)(kk + j0 * 32))[i];
          ((float4*)vs)[i] = ((const float4*)(v + j0 * 32))[i];
        }
        __syncthreads();
        for (int j = 0; j < 8; ++j) {
          float s = 0;
          for (int d = 0; d < 32; ++d) s += mine[d] * ks[j * 32 + d];
          float next = fmaxf(top, s), scale = __expf(top - next), p = __expf(s - next);
          sum = sum * scale + p; top = next;
          for (int d = 0; d < 32; ++d) acc[d] = acc[d] * scale + p * vs[j * 32 + d];
        }
        __syncthreads();
      }
      for (int d = 0; d < 32; ++d) o[r * 32 + d] = acc[d] / sum;
    }"""
    q, keys, v = (random.standard_normal((32, 32)).astype(F32) for _ in range(3))
    ran = run_kernel(
        compiler, source, [np.zeros_like(q), q, keys, v, 32], block=32, shared_bytes=2 * 8 * 32 * 4
    )
    scores = q.astype(float) @ keys.T / math.sqrt(32)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    np.testing.assert_allclose(ran["a0"], weights / weights.sum(1, keepdims=True) @ v, atol=1e-5)


def test_divergent_loops(compiler: Compiler) -> None:
    source = """
    __global__ void k(int* steps) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      long long v = i + 1;
      int n = 0;
      while (true) {
        if (v == 1) break;
        if (v & 1) { v = 3 * v + 1; ++n; continue; }
        v >>= 1; ++n;
      }
      steps[i] = n;
    }"""

    def collatz(value: int) -> int:
        steps = 0
        while value != 1:
            value = 3 * value + 1 if value % 2 else value // 2
            steps += 1
        return steps

    ran = run_kernel(compiler, source, [np.zeros(500, np.int32)], grid=5, block=100)
    assert ran["a0"].tolist() == [collatz(i + 1) for i in range(500)]


def test_binary_search(compiler: Compiler, random: np.random.Generator) -> None:
    source = """
    __global__ void k(int* out, const int* sorted, const int* wanted, int n) {
      int i = blockIdx.x * blockDim.x + threadIdx.x, low = 0, high = n;
      while (low < high) { int m = (low + high) / 2; if (sorted[m] < wanted[i]) low = m + 1; else high = m; }
      out[i] = low;
    }"""
    table = np.sort(random.integers(0, 9999, 777).astype(np.int32))
    wanted = random.integers(0, 9999, 256).astype(np.int32)
    ran = run_kernel(
        compiler, source, [np.zeros(256, np.int32), table, wanted, 777], grid=2, block=128
    )
    assert (ran["a0"] == np.searchsorted(table, wanted)).all()


def test_called_device_functions_with_structs(
    compiler: Compiler, random: np.random.Generator
) -> None:
    source = """
    struct Pair { float a; int b; double c; };
    __device__ __noinline__ Pair twice(Pair p) { p.a *= 2; p.b += 7; p.c = p.a + p.b; return p; }
    __device__ __noinline__ float deep(float x, int n) { return twice({x, n, 0.0}).c + twice({x, 1, 1.0}).b; }
    __global__ void k(float* out, const float* in) {
      int i = threadIdx.x;
      if (i % 3 == 0) out[i] = deep(in[i], i); else out[i] = deep(in[i], -i) - 1;
    }"""
    x = random.standard_normal(64).astype(F32)
    ran = run_kernel(compiler, source, [np.zeros(64, F32), x], block=64)
    i = np.arange(64)
    wanted = np.where(i % 3 == 0, x * 2 + i + 7 + 8, x * 2 - i + 7 + 8 - 1)
    np.testing.assert_allclose(ran["a0"], wanted, rtol=1e-5)


def test_local_arrays_with_dynamic_index(compiler: Compiler, random: np.random.Generator) -> None:
    source = """
    __global__ void k(float* out, const float* in, const int* at) {
      float mine[16];
      for (int i = 0; i < 16; ++i) mine[i] = in[threadIdx.x * 16 + i];
      float sum = 0;
      for (int i = 0; i < 16; ++i) sum += mine[at[i] & 15] * i;
      out[threadIdx.x] = sum;
    }"""
    x, at = (
        random.standard_normal((40, 16)).astype(F32),
        random.integers(0, 99, 16).astype(np.int32),
    )
    ran = run_kernel(compiler, source, [np.zeros(40, F32), x, at], block=40)
    np.testing.assert_allclose(ran["a0"], x[:, at & 15] @ np.arange(16), rtol=1e-4, atol=1e-4)


def test_switch_tables(compiler: Compiler) -> None:
    cases = "".join(f"case {n}: v = v * {n + 3} + {n}; break;" for n in range(12))
    source = f"""
    __global__ void k(int* out, const int* in) {{
      int v = in[threadIdx.x];
      switch (threadIdx.x % 13) {{ {cases} default: v = -1; }}
      out[threadIdx.x] = v;
    }}"""
    x = np.arange(64, dtype=np.int32)
    ran = run_kernel(compiler, source, [np.zeros(64, np.int32), x], block=64)
    wanted = [int(v) * (t + 3) + t if (t := n % 13) < 12 else -1 for n, v in enumerate(x)]
    assert ran["a0"].tolist() == wanted


def test_constant_memory_and_device_tables(compiler: Compiler) -> None:
    source = """
    __constant__ float scale[4] = {1.5f, 2.5f, -3.0f, 0.25f};
    __device__ const int table[5] = {10, 20, 30, 40, 50};
    __global__ void k(float* out) { out[threadIdx.x] = scale[threadIdx.x % 4] * table[threadIdx.x % 5]; }"""
    ran = run_kernel(compiler, source, [np.zeros(20, F32)], block=20)
    i = np.arange(20)
    wanted = np.array([1.5, 2.5, -3, 0.25])[i % 4] * np.array([10, 20, 30, 40, 50])[i % 5]
    assert (ran["a0"] == wanted).all()


POINTING = """
__device__ float left[4] = {1, 2, 3, 4};
__device__ float right[4] = {50, 60, 70, 80};
__device__ const float* const rows[3] = {left, right + 1, nullptr};
static const char* const word = "stride";
__global__ void k(float* out) {
  const int t = threadIdx.x;
  const float* row = rows[t % 3];
  out[t] = row ? row[t % 2] : word[t % 6];
}"""


@pytest.mark.parametrize("moved", [False, True])
def test_variables_that_begin_with_addresses(compiler: Compiler, moved: bool) -> None:
    variation = Variation(moved_buffers=moved, seed=7)
    ran = run_kernel(compiler, POINTING, [np.zeros(24, F32)], block=24, variation=variation)
    rows = [[1, 2], [60, 70]]
    wanted = [rows[t % 3][t % 2] if t % 3 < 2 else ord("stride"[t % 6]) for t in range(24)]
    assert ran["a0"].tolist() == wanted


@pytest.mark.parametrize("used", [True, False])
def test_a_variable_may_not_begin_with_a_functions_address(compiler: Compiler, used: bool) -> None:
    source = f"""
    __device__ __noinline__ float one(float x) {{ return x; }}
    __device__ float (*calls[2])(float) = {{one, one}};
    __global__ void k(float* out, int n) {{ out[0] = {"calls[n]" if used else "one"}(out[1]); }}"""
    ran = run_kernel(compiler, source, [np.ones(2, F32), 1])
    assert [f.kind for f in ran.findings] == [FindingKind.UNSUPPORTED] * used


def test_double_precision_mathematics(compiler: Compiler, random: np.random.Generator) -> None:
    source = """
    __global__ void k(double* out, const double* in) {
      double v = in[threadIdx.x];
      out[threadIdx.x] = exp(v) + sin(v * 1e6) + sqrt(fabs(v)) + pow(fabs(v), 1.3) + fma(v, v, 1.0);
    }"""
    x = random.standard_normal(64)
    ran = run_kernel(compiler, source, [np.zeros(64), x], block=64)
    wanted = np.exp(x) + np.sin(x * 1e6) + np.sqrt(abs(x)) + abs(x) ** 1.3 + x * x + 1
    np.testing.assert_allclose(ran["a0"], wanted, rtol=1e-13, atol=1e-14)


def test_integer_widths(compiler: Compiler) -> None:
    source = """
    #include <stdint.h>
    __global__ void k(int8_t* a, uint16_t* b, int64_t* c) {
      int t = threadIdx.x;
      a[t] = (int8_t)(t * 37); b[t] = (uint16_t)(t * 9999); c[t] = (int64_t)t * -12345678901ll / 7 % 1000;
    }"""
    arrays = [np.zeros(64, np.int8), np.zeros(64, np.uint16), np.zeros(64, np.int64)]
    ran = run_kernel(compiler, source, arrays, block=64)
    t = np.arange(64)
    assert (ran["a0"] == (t * 37).astype(np.int8)).all()
    assert (ran["a1"] == (t * 9999).astype(np.uint16)).all()
    assert (
        ran["a2"]
        == [
            math.fmod(
                int(v) * -12345678901 // 7 + (int(v) > 0 and (int(v) * -12345678901) % 7 > 0), 1000
            )
            for v in t
        ]
    ).all()


def test_matrix_instructions(compiler: Compiler, random: np.random.Generator) -> None:
    source = """
    #include <cuda_fp16.h>
    __global__ void k(float* c, const half* a, const half* b, int n) {
      __shared__ __align__(16) half ta[16][24], tb[16][8];
      int lane = threadIdx.x, r0 = blockIdx.y * 16, c0 = blockIdx.x * 8;
      float d[4] = {0, 0, 0, 0};
      for (int k0 = 0; k0 < n; k0 += 16) {
        *(uint4*)&ta[lane / 2][(lane & 1) * 8] = *(const uint4*)&a[(r0 + lane / 2) * n + k0 + (lane & 1) * 8];
        if (lane < 16) *(uint4*)&tb[lane][0] = *(const uint4*)&b[(k0 + lane) * n + c0];
        __syncthreads();
        unsigned x0, x1, x2, x3, y0, y1;
        unsigned pa = __cvta_generic_to_shared(&ta[lane % 16][(lane / 16) * 8]);
        unsigned pb = __cvta_generic_to_shared(&tb[lane % 16][0]);
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(x0), "=r"(x1), "=r"(x2), "=r"(x3) : "r"(pa));
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                     : "=r"(y0), "=r"(y1) : "r"(pb));
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(x0), "r"(x1), "r"(x2), "r"(x3), "r"(y0), "r"(y1));
        __syncthreads();
      }
      int g = lane / 4, t = lane % 4;
      c[(r0 + g) * n + c0 + t * 2] = d[0]; c[(r0 + g) * n + c0 + t * 2 + 1] = d[1];
      c[(r0 + g + 8) * n + c0 + t * 2] = d[2]; c[(r0 + g + 8) * n + c0 + t * 2 + 1] = d[3];
    }"""
    a, b = (random.standard_normal((32, 32)).astype(np.float16) for _ in range(2))
    ran = run_kernel(compiler, source, [np.zeros((32, 32), F32), a, b, 32], grid=(4, 2))
    np.testing.assert_allclose(ran["a0"], a.astype(float) @ b.astype(float), atol=1e-4)


@pytest.mark.parametrize("depth", [16, 32])
@pytest.mark.parametrize("kinds", [("s8", "s8"), ("u8", "s8"), ("s8", "u8"), ("u8", "u8")])
def test_matrix_instructions_of_bytes(
    compiler: Compiler, random: np.random.Generator, depth: int, kinds: tuple[str, str]
) -> None:
    """Fragments are loaded element by element, by the formulas of the PTX ISA."""
    left, right = kinds
    count = depth // 8
    a = ", ".join(f"%{8 + n}" for n in range(count))
    b = ", ".join(f"%{8 + count + n}" for n in range(count // 2))
    operands = ", ".join(
        [*(f'"r"(x[{n}])' for n in range(count)), *(f'"r"(y[{n}])' for n in range(count // 2))]
    )
    source = f"""
    __global__ void k(int* c, const unsigned char* a, const unsigned char* b) {{
      const int g = threadIdx.x / 4, t = threadIdx.x % 4;
      unsigned x[{count}] = {{}}, y[{count // 2}] = {{}};
      for (int i = 0; i < 4 * {count}; ++i) {{
        const int row = g + (i / 4 % 2) * 8, column = t * 4 + i % 4 + (i / 8) * 16;
        x[i / 4] |= (unsigned)a[row * {depth} + column] << i % 4 * 8;
      }}
      for (int i = 0; i < 2 * {count}; ++i) {{
        const int row = t * 4 + i % 4 + (i / 4) * 16;
        y[i / 4] |= (unsigned)b[row * 8 + g] << i % 4 * 8;
      }}
      int d[4];
      int* mine[4] = {{c + g * 8 + t * 2, c + g * 8 + t * 2 + 1, c + (g + 8) * 8 + t * 2,
                      c + (g + 8) * 8 + t * 2 + 1}};
      asm volatile(
          "mma.sync.aligned.m16n8k{depth}.row.col.s32.{left}.{right}.s32 "
          "{{%0,%1,%2,%3}}, {{{a}}}, {{{b}}}, {{%4,%5,%6,%7}};"
          : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
          : "r"(*mine[0]), "r"(*mine[1]), "r"(*mine[2]), "r"(*mine[3]), {operands});
      for (int i = 0; i < 4; ++i) *mine[i] = d[i];
    }}"""
    signs = {"s8": np.int8, "u8": np.uint8}
    x, y = random.integers(0, 256, (16, depth)), random.integers(0, 256, (depth, 8))
    x, y = x.astype(np.uint8).view(signs[left]), y.astype(np.uint8).view(signs[right])
    c = random.integers(2**31 - 9, 2**31, (16, 8)).astype(np.int32)
    expected = (x.astype(np.int64) @ y.astype(np.int64) + c).astype(np.int32)
    arrays = [c, x.view(np.uint8), y.view(np.uint8)]
    ran = run_kernel(compiler, source, arrays, read_only=(1, 2))
    assert (ran["a0"] == expected).all()


def test_the_nth_set_bit(compiler: Compiler, random: np.random.Generator) -> None:
    source = """
    __global__ void k(unsigned* out, const unsigned* in, const int* at) {
      const int i = threadIdx.x;
      out[i] = __fns(in[i], at[2 * i], at[2 * i + 1]);
    }"""
    masks = random.integers(0, 2**32, 256).astype(np.uint32) & random.integers(0, 2**32, 256)
    places = np.stack([random.integers(0, 32, 256), random.integers(-9, 10, 256)], 1)

    def nth(mask: int, base: int, offset: int) -> int:
        way = range(base, 32) if offset > 0 else range(base, -1, -1) if offset else [base]
        bits = [bit for bit in way if mask >> bit & 1]
        wanted = max(abs(offset), 1)
        return bits[wanted - 1] if len(bits) >= wanted else 0xFFFF_FFFF

    expected = [nth(int(m), *map(int, p)) for m, p in zip(masks, places, strict=True)]
    arrays = [np.zeros(256, np.uint32), masks.astype(np.uint32), places.astype(np.int32)]
    ran = run_kernel(compiler, source, arrays, block=256, read_only=(1, 2))
    assert ran["a0"].tolist() == expected


def test_what_a_cooperative_launch_needs_is_refused_by_name(compiler: Compiler) -> None:
    source = """#include <cooperative_groups.h>
    __global__ void k(int* o) { cooperative_groups::this_grid().sync(); *o = 1; }"""
    (finding,) = run_kernel(compiler, source, [np.zeros(1, np.int32)]).findings
    assert finding.kind is FindingKind.UNSUPPORTED
    assert "grid.sync() (cooperative launches)" in finding.message


def test_counting_barriers(compiler: Compiler) -> None:
    source = """
    __global__ void k(int* out) {
      int t = threadIdx.x;
      int many = __syncthreads_count(t % 3 == 0);
      int all = __syncthreads_and(t < 1000), any = __syncthreads_or(t == 77);
      out[t] = many * 100 + all * 10 + any;
    }"""
    ran = run_kernel(compiler, source, [np.zeros(96, np.int32)], block=96)
    assert (ran["a0"] == 32 * 100 + 10 + 1).all()


def test_named_barriers(compiler: Compiler) -> None:
    source = """
    __global__ void k(int* out) {
      __shared__ int s[128];
      int t = threadIdx.x;
      if (t < 64) { s[t] = t; asm volatile("bar.sync 1, 64;"); out[t] = s[63 - t]; }
      else { s[t] = 2 * t; asm volatile("bar.sync 2, 64;"); out[t] = s[191 - t]; }
    }"""
    ran = run_kernel(compiler, source, [np.zeros(128, np.int32)], block=128)
    t = np.arange(128)
    assert (ran["a0"] == np.where(t < 64, 63 - t, 2 * (191 - t))).all()


def test_warps_communicate_through_syncwarp(compiler: Compiler) -> None:
    source = """
    __global__ void k(int* out) {
      __shared__ int s[64];
      int t = threadIdx.x;
      s[t] = t;
      for (int step = 1; step < 32; step *= 2) {
        __syncwarp();
        int other = s[t ^ step];
        __syncwarp();
        s[t] += other;
      }
      out[t] = s[t];
    }"""
    ran = run_kernel(compiler, source, [np.zeros(64, np.int32)], block=64)
    assert (ran["a0"] == np.repeat([sum(range(32)), sum(range(32, 64))], 32)).all()


def test_last_block_sums_what_the_others_wrote(
    compiler: Compiler, random: np.random.Generator
) -> None:
    source = """
    __global__ void k(int* out, int* part, unsigned* done, const int* in) {
      __shared__ bool last;
      int v = in[blockIdx.x * 32 + threadIdx.x];
      v = __reduce_add_sync(0xffffffffu, v);
      if (threadIdx.x == 0) {
        part[blockIdx.x] = v;
        __threadfence();
        last = atomicInc(done, gridDim.x) == gridDim.x - 1;
      }
      __syncthreads();
      if (last && threadIdx.x == 0) {
        __threadfence();
        int sum = 0;
        for (int b = 0; b < gridDim.x; ++b) sum += part[b];
        *out = sum;
      }
    }"""
    x = random.integers(-99, 99, 32 * 700).astype(np.int32)
    arguments = [np.zeros(1, np.int32), np.zeros(700, np.int32), np.zeros(1, np.uint32), x]
    ran = run_kernel(compiler, source, arguments, grid=700, undefined=[1])
    assert ran["a0"][0] == x.sum()


def test_odd_blocks_in_three_dimensions(compiler: Compiler) -> None:
    source = """
    __global__ void k(int* out) {
      int t = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
      int b = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
      int v = __shfl_xor_sync(0xffffffffu, t, 1);
      out[b * 45 + t] = v;
    }"""
    ran = run_kernel(
        compiler, source, [np.zeros(45 * 24, np.int32)], grid=(2, 3, 4), block=(5, 3, 3)
    )
    t = np.arange(45)
    wanted = np.where(t == 44, 44, t ^ 1)
    same = ran.arrays["a0"].reshape(24, 45)
    assert (same[:, :44] == wanted[:44]).all()


def test_many_blocks_run_in_chunks(compiler: Compiler) -> None:
    source = (
        "__global__ void k(int* out) { out[blockIdx.x * blockDim.x + threadIdx.x] = blockIdx.x; }"
    )
    ran = run_kernel(compiler, source, [np.zeros(300 * 256, np.int32)], grid=300, block=256)
    assert (ran["a0"] == np.repeat(np.arange(300), 256)).all()


def test_the_size_of_a_warp_is_a_number_in_every_form(compiler: Compiler) -> None:
    source = """
    __global__ void k(int* out, int n) {
      const int t = threadIdx.x;
      int sum = t;
      for (int s = warpSize / 2; s > 0; s /= 2) sum += __shfl_xor_sync(~0u, sum, s);
      int* mine = out + 6 * t;
      mine[0] = t / warpSize;
      mine[1] = t % warpSize == warpSize - 1;
      mine[2] = sum;
      mine[3] = __shfl_up_sync(~0u, t, 1, warpSize);
      mine[4] = min(warpSize, n);
      mine[5] = n + warpSize;
    }"""
    ran = run_kernel(compiler, source, [np.zeros((64, 6), np.int32), 40], block=64)
    t = np.arange(64)
    sums = np.repeat(t.reshape(2, 32).sum(1), 32)
    above = np.where(t % 32 == 0, t, t - 1)
    expected = [t // 32, t % 32 == 31, sums, above, 32 + 0 * t, 72 + 0 * t]
    assert (ran["a0"] == np.stack(expected, 1)).all()


def test_same_value_stores_are_no_race(compiler: Compiler) -> None:
    source = """
    __global__ void k(int* flag) { __shared__ int s; s = 5; __syncthreads(); *flag = s; }"""
    ran = run_kernel(compiler, source, [np.zeros(1, np.int32)], grid=4, block=64)
    assert ran["a0"][0] == 5


def test_printf_is_a_warning(compiler: Compiler) -> None:
    source = """
    #include <cstdio>
    __global__ void k(int* out) { printf("%d\\n", out[threadIdx.x]); out[threadIdx.x] = 3; }"""
    ran = run_kernel(compiler, source, [np.zeros(32, np.int32)])
    assert [f.kind.value for f in ran.findings] == ["printf"]
    assert (ran.arrays["a0"] == 3).all()


def test_fp8_conversions_round_trip(compiler: Compiler) -> None:
    source = """
    #include <cuda_fp8.h>
    __global__ void k(float* out, const float* in) {
      out[threadIdx.x] = (float)__nv_fp8_e4m3(in[threadIdx.x]);
    }"""
    x = np.array([0.0, 1.0, -1.125, 448.0, 1000.0, 0.001953125, 3.3, -240.0] * 4, F32)
    ran = run_kernel(compiler, source, [np.zeros(32, F32), x])
    assert ran["a0"][:8].tolist() == [0.0, 1.0, -1.125, 448.0, 448.0, 0.001953125, 3.25, -240.0]


def test_runs_are_deterministic(compiler: Compiler, random: np.random.Generator) -> None:
    source = "__global__ void k(float* s, const float* x) { atomicAdd(s, x[blockIdx.x * 64 + threadIdx.x]); }"
    x = random.standard_normal(640).astype(F32)
    runs = [
        run_kernel(compiler, source, [np.zeros(1, F32), x], grid=10, block=64) for _ in range(2)
    ]
    assert runs[0]["a0"].tobytes() == runs[1]["a0"].tobytes()
    assert runs[0].counters == runs[1].counters


def test_bits_of_a_nan_that_is_computed_are_those_of_a_gpu(compiler: Compiler) -> None:
    """One that is loaded stays as it is."""
    source = """
    __global__ void k(unsigned* out, const float* in) {
      const float loaded = in[threadIdx.x], large = in[32 + threadIdx.x];
      out[threadIdx.x] = __float_as_uint(loaded * 2.0f);
      out[32 + threadIdx.x] = __float_as_uint(large - large);
      out[64 + threadIdx.x] = __float_as_uint(loaded);
      out[96 + threadIdx.x] = __float_as_uint(__shfl_xor_sync(~0u, loaded + 1.0f, 1));
      out[128 + threadIdx.x] = __float_as_uint(large + 1.0f);
    }"""
    given = np.full(64, np.inf, F32)
    given[:32].view(np.uint32)[:] = 0xFFC1_2345
    given.view(np.uint32)[:2] = 0x3F80_0000
    ran = run_kernel(compiler, source, [np.zeros(160, np.uint32), given])
    found = ran["a0"].reshape(5, 32)
    assert [hex(n) for n in found[:, 5]] == [
        *("0x7fffffff", "0x7fffffff", "0xffc12345", "0x7fffffff", "0x7f800000")
    ]
    assert [hex(n) for n in found[:, 0]] == [
        *("0x40000000", "0x7fffffff", "0x3f800000", "0x40000000", "0x7f800000")
    ]
