"""Who may touch what others have touched: honest patterns pass, each with one thing less is caught.

A line with the mark `// --` is what the wrong version leaves out; `// <--` is where it shows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from astra_tui.lab.compiler import Compiler
from astra_tui.model.findings import FindingKind
from tests.emulator.harness import run_kernel

K = FindingKind
GONE, BLAMED = "// --", "// <--"


@dataclass(frozen=True)
class Pattern:
    """A kernel that is right, and wrong without its marked lines."""

    name: str
    source: str
    wrong: FindingKind | None
    grid: int = 1
    block: int = 128
    arrays: dict[str, Any] = field(default_factory=dict)
    check: Any = None


IN = np.random.default_rng(5).integers(-50, 50, 2048).astype(np.float32)


def last_block(fences: str, gone: str = "") -> str:
    return f"""
__global__ void k(float* out, const float* in, float* parts, unsigned* count) {{
  __shared__ float s[128];
  __shared__ bool last;
  float sum = 0;
  for (int i = blockIdx.x * 128 + threadIdx.x; i < 2048; i += gridDim.x * 128) sum += in[i];
  {fences}
  __syncthreads();
  if (last) {{
    sum = 0;
    for (int i = threadIdx.x; i < gridDim.x * WIDTH; i += 128) sum += parts[i];  // <--
    s[threadIdx.x] = sum;
    __syncthreads();
    for (int k = 64; k > 0; k >>= 1) {{
      if (threadIdx.x < k) s[threadIdx.x] += s[threadIdx.x + k];
      __syncthreads();
    }}
    if (threadIdx.x == 0) {{ out[0] = s[0]; parts[0] = s[0]; *count = 0; }}
  }}
}}"""


ONE = """
  s[threadIdx.x] = sum;
  __syncthreads();
  for (int k = 64; k > 0; k >>= 1) {
    if (threadIdx.x < k) s[threadIdx.x] += s[threadIdx.x + k];
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = s[0];
    __threadfence();  // --
    last = atomicInc(count, gridDim.x - 1) == gridDim.x - 1;
  }"""
MANY = """
  parts[blockIdx.x * 128 + threadIdx.x] = sum;
  __threadfence(); // F
  __syncthreads(); // B
  if (threadIdx.x == 0) { AFTER last = atomicAdd(count, 1u) == gridDim.x - 1; }"""

SUM = {"out": np.zeros(1, np.float32), "in": IN, "parts": np.zeros(2048, np.float32),
       "count": np.zeros(1, np.uint32)}  # fmt: skip


def summed(ran: Any) -> None:
    assert ran["a0"][0] == IN.sum()


RMS = """
__global__ void k(float* out, const float* in) {
  __shared__ float s[32];
  const int lane = threadIdx.x, warp = threadIdx.y;
  float v = in[blockIdx.x * 128 + warp * 32 + lane], sum = v * v;
  for (int k = 16; k > 0; k >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, k);
  s[warp] = sum;
  __syncthreads();
  if (warp == 0) {
    sum = lane < 4 ? s[lane] : 0.0f;
    for (int k = 16; k > 0; k >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, k);  // --
    s[0] = sum;  // <--
  }
  __syncthreads();
  out[blockIdx.x * 128 + warp * 32 + lane] = v * rsqrtf(s[0] / 128);
}"""

PATTERNS = (
    Pattern("the last block finishes", last_block(ONE).replace("WIDTH", "1"), K.GLOBAL_RACE, 16,
            arrays=SUM, check=summed),
    Pattern("all threads fence, one counts",
            last_block(MANY).replace("WIDTH", "128").replace("AFTER", "").replace("// F", GONE),
            K.GLOBAL_RACE, 16, arrays=SUM, check=summed),
    Pattern("a fence after the barrier",
            last_block(MANY).replace("WIDTH", "128").replace("AFTER", "__threadfence();")
            .replace("// B", GONE).replace("__threadfence(); // F", ""),
            K.GLOBAL_RACE, 16, arrays=SUM, check=summed),
    Pattern("readers wait for the one who counts", """
__global__ void k(float* out, const float* in, float* parts, unsigned* count) {
  __shared__ unsigned seen;
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = in[blockIdx.x];
    __threadfence();
    seen = atomicAdd(count, 1u);
  }
  __syncthreads();  // --
  if (threadIdx.x < gridDim.x && seen == gridDim.x - 1)  // <--
    out[threadIdx.x] = parts[threadIdx.x];
}""", K.SHARED_RACE, 16, arrays={**SUM, "out": np.zeros(16, np.float32)}),
    Pattern("a write after reads that a shuffle has passed on", RMS, K.SHARED_RACE, 2, 128,
            {"out": np.zeros(256, np.float32), "in": IN}),
    Pattern("lanes of a warp through shared memory", """
__global__ void k(float* out, const float* in) {
  __shared__ float s[128];
  const int lane = threadIdx.x % 32, first = threadIdx.x - lane;
  s[threadIdx.x] = in[threadIdx.x];
  if (lane < 16) __syncwarp(0x0000ffffu); else __syncwarp(0xffff0000u);
  __syncwarp();  // --
  out[threadIdx.x] = s[first + 31 - lane];  // <--
}""", K.SHARED_RACE, 1, 128, {"out": np.zeros(128, np.float32), "in": IN}),
    Pattern("halves of warps on their own", """
__global__ void k(float* out, const float* in) {
  __shared__ float s[128];
  const int lane = threadIdx.x % 16, first = threadIdx.x - lane;
  const unsigned mask = threadIdx.x % 32 < 16 ? 0xffffu : 0xffff0000u;
  float v = in[threadIdx.x];
  for (int k = 8; k > 0; k >>= 1) {
    s[threadIdx.x] = v;
    __syncwarp(mask);
    v += s[first + (lane + k) % 16];  // <--
    __syncwarp(mask);  // --
  }
  if (threadIdx.x % 32 < 20) out[threadIdx.x] = v;
}""", K.SHARED_RACE, 1, 128, {"out": np.zeros(128, np.float32), "in": IN}),
    Pattern("the last block overwrites what all have read", """
__global__ void k(float* out, const float* in, float* parts, unsigned* count) {
  float v = parts[threadIdx.x] + in[threadIdx.x];
  out[blockIdx.x * 128 + threadIdx.x] = v;
  __shared__ bool last;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();  // --
    last = atomicAdd(count, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (last) parts[threadIdx.x] = 7.0f;  // <--
}""", K.GLOBAL_RACE, 16, arrays={**SUM, "out": np.zeros(2048, np.float32)}),
    Pattern("two buffers in shared memory", """
__global__ void k(float* out, const float* in) {
  __shared__ float s[2][128];
  float sum = 0;
  s[0][threadIdx.x] = in[threadIdx.x];
  for (int i = 0; i < 8; ++i) {
    __syncthreads();  // --
    sum += s[i & 1][127 - threadIdx.x];  // <--
    if (i < 7) s[(i + 1) & 1][threadIdx.x] = in[(i + 1) * 128 + threadIdx.x];
  }
  out[threadIdx.x] = sum;
}""", K.SHARED_RACE, arrays={"out": np.zeros(128, np.float32), "in": IN}),
    Pattern("one atomic for the lanes of a warp", """
__global__ void k(float* out, const float* in, float* parts, unsigned* count) {
  const float v = in[blockIdx.x * 128 + threadIdx.x];
  if (v > 0) {
    const unsigned mask = __activemask(), lane = threadIdx.x % 32;
    const int leader = __ffs(mask) - 1;
    unsigned place = 0;
    if (lane == leader) place = atomicAdd(count, __popc(mask));
    place = __shfl_sync(mask, place, leader) + __popc(mask & ((1u << lane) - 1));
    out[place] = v;
  }
}""", None, 16, arrays={**SUM, "out": np.zeros(2048, np.float32)}),
)  # fmt: skip


def run(compiler: Compiler, pattern: Pattern, source: str) -> Any:
    block: Any = (32, 4) if "threadIdx.y" in source else pattern.block
    arrays = [a.copy() for a in pattern.arrays.values()]
    return run_kernel(compiler, source, arrays, grid=pattern.grid, block=block, read_only=(1,))


NORM = """
__global__ void k(float* out, const float* in) {{
  __shared__ float s[32];
  const int lane = threadIdx.x, warp = threadIdx.y;
  float v = in[blockIdx.x * 128 + warp * 32 + lane], sum = v * v, other = v;
  for (int k = 16; k > 0; k >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, k);
  s[warp] = sum;
  __syncthreads();
  if (warp == 0) {{
    sum = lane < 4 ? s[lane] : 0.0f;
    {exchange}
    {store}
  }}
  __syncthreads();
  out[blockIdx.x * 128 + warp * 32 + lane] = v * rsqrtf(s[0] / 128) + (sum + other) * 1e-30f;
}}"""
TOTAL = "for (int k = 16; k > 0; k >>= 1) sum += __shfl_xor_sync(~0u, sum, k);"
OTHER = TOTAL.replace("sum", "other")
VOTED = "const bool some = __any_sync(~0u, sum > 0);"
OWN = (
    "float mine[4]; for (int i = 0; i < 4; ++i) mine[(i + lane) % 4] = sum; sum = mine[(int)v & 3];"
)


@pytest.mark.parametrize(
    ("exchange", "store", "racing"),
    [
        (TOTAL, "s[0] = sum;", False),
        (TOTAL, "if (lane == 3) s[0] = sum;", False),
        (TOTAL, "if (sum > 1) s[lane & 3] = 5;", False),
        (TOTAL, "s[sum > 1 ? lane & 3 : 9] = 5;", False),
        (TOTAL + OWN, "s[0] = sum;", False),
        (VOTED, "if (some) s[1] = 4;", False),
        ("", "s[0] = sum;", True),
        (TOTAL, "s[lane & 3] = 5 + lane / 4;", True),
        (TOTAL, "s[1] = v * 3;", True),
        (OTHER, "s[0] = other;", True),
        (OTHER, "s[lane & 3 ^ 1] = sum + 1;", True),
        (VOTED, "s[1] = 4;", True),
        (OTHER + "__syncwarp();", "s[0] = other;", False),
    ],
)
def test_a_write_after_a_read_is_ordered_by_what_it_follows_from(
    compiler: Compiler, exchange: str, store: str, racing: bool
) -> None:
    """The last step of the norms that serving frameworks ship, and stores that may pass reads."""
    source = NORM.format(exchange=exchange, store=store)
    arrays = [np.zeros(256, np.float32), IN]
    ran = run_kernel(compiler, source, arrays, grid=2, block=(32, 4), read_only=(1,))
    assert [f.kind for f in ran.findings] == [K.SHARED_RACE] * racing, ran.findings


def test_a_shuffle_orders_nothing_for_another_warp(compiler: Compiler) -> None:
    source = NORM.format(exchange=TOTAL, store="").replace("if (warp == 0) {", "{")
    source = source.replace("    \n  }", "    if (warp == 1) s[0] = sum;\n  }")
    arrays = [np.zeros(256, np.float32), IN]
    ran = run_kernel(compiler, source, arrays, grid=2, block=(32, 4), read_only=(1,))
    assert [f.kind for f in ran.findings] == [K.SHARED_RACE]


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda p: p.name)
def test_a_pattern_passes_and_fails_without_what_orders_it(
    compiler: Compiler, pattern: Pattern
) -> None:
    right = run(compiler, pattern, pattern.source)
    assert not right.findings, right.findings[0].describe()
    if pattern.check:
        pattern.check(right)
    if pattern.wrong is None:
        return
    lines = [
        line.partition("__")[0] if GONE in line else line for line in pattern.source.split("\n")
    ]
    lines = [
        line + ";" if "for (" in line and line.rstrip().endswith(")") else line for line in lines
    ]
    (finding, *_) = run(compiler, pattern, "\n".join(lines)).findings
    assert finding.kind is pattern.wrong, finding.describe()
    assert BLAMED in lines[finding.line - 1] or finding.kind is K.SHARED_RACE
