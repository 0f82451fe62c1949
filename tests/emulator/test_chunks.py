"""How many blocks run together, and that nothing but time follows from it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from astra_tui.emulator import machine
from astra_tui.emulator.lanes import Chunk
from astra_tui.lab.compiler import Compiler
from astra_tui.model.findings import FindingKind
from tests.emulator.harness import Ran, run_kernel

BLOCKS, THREADS = 40, 1024

SEARCH = """
__global__ void k(float* out, const float* in) {
  __shared__ float parts[32];
  __shared__ float total;
  float low = 0.0f, value = in[blockIdx.x * blockDim.x + threadIdx.x];
  for (int turn = 0; turn <= blockIdx.x % 5; ++turn) {
    float mine = value > low ? value : 0.0f;
    for (int step = 16; step; step /= 2) mine += __shfl_down_sync(0xffffffffu, mine, step);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = mine;
    __syncthreads();
    if (threadIdx.x == 0) {
      total = 0.0f;
      for (int i = 0; i < 32; ++i) total += parts[i];
    }
    __syncthreads();  // --
    low += total / 4096.0f;
    if (low > 0.2f) break;
    __syncthreads();
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = low;
}
"""
NEIGHBOUR = """
__global__ void k(float* out, const float* in) {
  int at = blockIdx.x * blockDim.x + threadIdx.x;
  out[at] = in[at];
  if (blockIdx.x == 33) out[0] = in[at];
}
"""
TICKET = "__global__ void k(unsigned* count) { atomicAdd(count, 1u); }"
FENCE = "__global__ void k(float* out) { out[threadIdx.x % 32] = 1.0f; __threadfence(); }"
VOLATILE = "__global__ void k(float* out) { *(volatile float*)(out + threadIdx.x % 32) = 1.0f; }"

IN = np.random.default_rng(7).random(BLOCKS * THREADS).astype(np.float32)


@pytest.fixture
def chunks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many blocks each chunk has, as they come."""
    seen: list[int] = []
    begin = Chunk.__init__

    def note(self: Chunk, launch: Any, blocks: Any) -> None:
        seen.append(len(blocks))
        begin(self, launch, blocks)

    monkeypatch.setattr(Chunk, "__init__", note)
    return seen


def search(compiler: Compiler, source: str = SEARCH) -> Ran:
    out = np.zeros(BLOCKS * THREADS, np.float32)
    return run_kernel(
        compiler, source, [out, IN], grid=BLOCKS, block=THREADS, read_only=[1], undefined=[0]
    )


def test_large_blocks_run_together(compiler: Compiler, chunks: list[int]) -> None:
    search(compiler)
    assert chunks == [BLOCKS]


@pytest.mark.parametrize(
    ("limit", "size"),
    [("CHUNK_BLOCKS", 20), ("CHUNK_LANES_APART", 20 * THREADS), ("CHUNK_REGISTER_BYTES", 1)],
)
def test_memory_and_blocks_bound_a_chunk(
    compiler: Compiler, chunks: list[int], monkeypatch: pytest.MonkeyPatch, limit: str, size: int
) -> None:
    monkeypatch.setattr(machine, limit, size)
    search(compiler)
    assert chunks == ([16, 16, 8] if size == 1 else [20, 20])


@pytest.mark.parametrize("source", [TICKET, FENCE, VOLATILE])
def test_blocks_that_may_meet_run_as_few(
    compiler: Compiler, chunks: list[int], source: str
) -> None:
    of = np.uint32 if source is TICKET else np.float32
    run_kernel(compiler, source, [np.zeros(32, of)], grid=BLOCKS, block=THREADS)
    assert chunks == [16, 16, 8]


def test_what_is_moved_again_is_told_by_the_same_chunks(
    compiler: Compiler, chunks: list[int]
) -> None:
    out = np.zeros(BLOCKS * THREADS, np.float32)
    run_kernel(
        compiler, NEIGHBOUR.replace("out[0]", "out[at]"), [out, IN],
        grid=BLOCKS, block=THREADS, traffic=True,
    )  # fmt: skip
    assert chunks == [16, 16, 8]


@pytest.mark.parametrize(
    "source", [SEARCH, SEARCH.replace("__syncthreads();  // --", ""), NEIGHBOUR]
)
def test_results_findings_and_counters_do_not_follow_from_chunks(
    compiler: Compiler, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    together = search(compiler, source)
    monkeypatch.setattr(machine, "CHUNK_BLOCKS", 1)
    apart = search(compiler, source)
    assert [f.kind for f in together.findings] == [f.kind for f in apart.findings]
    if not together.findings:
        assert together.counters == apart.counters
        assert np.array_equal(together["a0"], apart["a0"])


def test_a_race_of_far_blocks_is_found_within_a_chunk(compiler: Compiler) -> None:
    assert search(compiler, NEIGHBOUR).findings[0].kind is FindingKind.GLOBAL_RACE
