"""What the emulator does at once for many threads leaves what it would for each alone."""

from __future__ import annotations

import numpy as np
import pytest

from astra_tui.emulator import asides, scheduler
from astra_tui.emulator.races import LateLoad
from astra_tui.lab.compiler import Compiler
from astra_tui.model.findings import FindingKind
from tests.emulator.harness import Ran, run_kernel

BLOCKS = 3

# Forward branches over what only computes, one within another and one out of the middle.
NESTED = """
__global__ void k(float* out, const float* in) {
  int at = blockIdx.x * blockDim.x + threadIdx.x;
  float value = in[at], other = __shfl_xor_sync(0xffffffffu, value, 1);
  asm volatile(
    "{ .reg .pred p, q, r; .reg .f32 t;"
    "setp.gt.f32 p, %0, %1; @p bra L3_%=;"
    "add.f32 t, %0, %1; setp.gt.f32 q, t, 0f3F800000; @q bra L2_%=;"
    "mul.f32 %0, t, 0f40000000; setp.gt.f32 r, %1, 0f3E800000; @r bra L2_%=;"
    "@!r add.f32 %0, %0, %1; @q neg.f32 %0, %0;"
    "L2_%=: sub.f32 %0, %0, 0f3F000000;"
    "L3_%=: }"
    : "+f"(value) : "f"(other));
  out[at] = value;
}
"""
READ_BY_ALL = """
__global__ void k(float* out) {
  __shared__ float total;
  if (threadIdx.x == 0) total = 1.0f;
  __syncthreads();
  float seen = total;
  if (threadIdx.x == WRITER) total = seen + 1.0f;
  __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = seen + total;
}
"""


def nested(compiler: Compiler, threads: int) -> Ran:
    values = np.random.default_rng(3).random(BLOCKS * threads).astype(np.float32)
    out = np.zeros_like(values)
    return run_kernel(
        compiler, NESTED, [out, values], grid=BLOCKS, block=threads, read_only=[1], undefined=[0]
    )


@pytest.mark.parametrize("threads", [64, 96, 32])
def test_results_and_counters_do_not_follow_from_asides(
    compiler: Compiler, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    ran: list[int] = []
    run = asides.Aside.run

    def noted(aside: asides.Aside) -> None:
        ran.append(aside.end)
        run(aside)

    monkeypatch.setattr(asides.Aside, "run", noted)
    together = nested(compiler, threads)
    assert ran
    monkeypatch.setattr(scheduler, "is_cheap", lambda running, steps: False)
    ran.clear()
    apart = nested(compiler, threads)
    assert not ran
    assert np.array_equal(together["a0"], apart["a0"])
    assert together.counters == apart.counters


@pytest.mark.parametrize("writer", [0, 63, 64, 126, 127])
@pytest.mark.parametrize("brief", [True, False])
def test_a_store_races_with_a_load_of_the_whole_block(
    compiler: Compiler, monkeypatch: pytest.MonkeyPatch, writer: int, brief: bool
) -> None:
    if not brief:
        monkeypatch.setattr(LateLoad, "brief", lambda load: load)
    source = READ_BY_ALL.replace("WRITER", str(writer))
    ran = run_kernel(compiler, source, [np.zeros(BLOCKS * 128, np.float32)], grid=BLOCKS, block=128)
    assert [f.kind for f in ran.findings] == [FindingKind.SHARED_RACE]
