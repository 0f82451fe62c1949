"""Blocks that meet a second time for what one warp reduces, and those that have to."""

from __future__ import annotations

import pytest

from astra_tui.lab.check.runner import select_cases
from astra_tui.model.task import KernelTask
from astra_tui.playbook import Evidence, KernelText, NotApplicable, Proposal
from astra_tui.playbook.moves.one_barrier import OneBarrier
from tests.conftest import CheckerOf
from tests.playbook.path import GPU, require_pass

BODY = """\
  __shared__ float of_warp[32];
  constexpr int warp_size = 32;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int warps = blockDim.x / warp_size;
  T* row_x = x + blockIdx.x * x_stride;
  T* row_r = residual + blockIdx.x * residual_stride;
  float sum = 0.0f;
  for (int i = threadIdx.x; i < d; i += blockDim.x) {
    const float z = (float)row_x[i] + (float)row_r[i];
    sum += z * z;
  }
#pragma unroll
  for (int offset = warp_size / 2; offset > 0; offset /= 2) {
    sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  }
  of_warp[warp] = sum;
  __syncthreads();
  // The first warp reduces what all have left.
  if (warp == 0) {
    sum = (lane < warps) ? of_warp[lane] : 0.0f;
#pragma unroll
    for (int offset = warp_size / 2; offset > 0; offset /= 2) {
      sum += __shfl_xor_sync(0xffffffffu, sum, offset);
    }
    of_warp[0] = sum;
  }
  __syncthreads();
  const float scale = rsqrtf(of_warp[0] / d + eps);
  for (int i = threadIdx.x; i < d; i += blockDim.x) {
    const float z = (float)row_x[i] + (float)row_r[i];
    row_r[i] = (T)z;
    row_x[i] = (T)(z * scale * (float)weight[i]);
  }
"""


def source(body: str, block: str = "128") -> str:
    return (
        f"#include <cuda_bf16.h>\n#include <cuda_fp16.h>\n#include <stdint.h>\n/* @launch\n"
        f"   k<T> grid=tokens block={block} args=(x, residual, weight, d, stride(x, 0), "
        "stride(residual, 0), eps)\n*/\ntemplate <typename T>\n"
        "__global__ void k(T* __restrict__ x, T* __restrict__ residual, "
        "const T* __restrict__ weight,\n    int d, int64_t x_stride, int64_t residual_stride, "
        f"float eps) {{\n{body}}}\n"
    )


def propose(text: str, task: KernelTask) -> Proposal | NotApplicable:
    return OneBarrier().propose(KernelText.read(text), Evidence(task, device=GPU))


@pytest.fixture
def task(tasks: dict[str, KernelTask]) -> KernelTask:
    return tasks["fused_add_rmsnorm"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ("if (warp == 0)", "if (threadIdx.x < 32)"),
        ("  of_warp[warp] = sum;", "  if (lane == 0) of_warp[warp] = sum;"),
        ("    of_warp[0] = sum;", "    if (lane == 0) { of_warp[0] = sum; }"),
        ("(lane < warps)", "(lane < (blockDim.x + 31) / 32)"),
        ("threadIdx.x / 32", "threadIdx.x >> 5"),
    ],
)
def test_every_warp_reduces_for_itself(
    old: str, new: str, task: KernelTask, checker_of: CheckerOf
) -> None:
    text = source(BODY.replace(old, new) if old else BODY)
    answer = propose(text, task)
    assert isinstance(answer, Proposal), answer
    assert answer.source.count("__syncthreads();") == 1
    assert "rsqrtf(sum / d + eps)" in answer.source
    assert "The first warp" not in answer.source
    assert "of_warp[0]" not in answer.source
    require_pass(checker_of(task), answer.source, select_cases(task, ("*",))[::40])
    assert isinstance(propose(answer.source, task), NotApplicable)


STEP = """\
    for (int offset = warp_size / 2; offset > 0; offset /= 2) {
      sum += __shfl_xor_sync"""
LAST = "    of_warp[0] = sum;"
AFTER = "  const float scale = "
REFUSED = {
    "a shuffle down": (STEP, STEP.replace("xor", "down")),
    "half a warp": (STEP, STEP.replace("warp_size / 2", "warp_size / 4")),
    "parts of a warp": (
        f"{STEP}(0xffffffffu, sum, offset)",
        f"{STEP}(0xffffffffu, sum, offset, 16)",
    ),
    "more than a reduction": (LAST, f"    if (lane == 0) x[0] = (T)sum;\n{LAST}"),
    "another value": (LAST, "    of_warp[0] = eps;"),
    "another place": (LAST, "    of_warp[1] = sum;"),
    "a warp's own sum": (AFTER, f"  if (sum < 0.0f) return;\n{AFTER}"),
    "a place of another warp": ("rsqrtf(of_warp[0] /", "rsqrtf(of_warp[warp] /"),
    "a later store": (AFTER, f"  of_warp[0] = 1.0f;\n{AFTER}"),
    "a pointer": (AFTER, f"  float* kept = of_warp + 1;\n{AFTER}"),
    "a value by thread": ("(lane < warps)", "(lane < (int)threadIdx.x)"),
    "another array": ("? of_warp[lane]", "? weight[lane]"),
    "a name twice": ("of_warp[0] / d", "[&] { float sum = 1.0f; return of_warp[0] + sum; }() / d"),
}


@pytest.mark.parametrize("why", REFUSED)
def test_a_block_has_to_meet_again(why: str, task: KernelTask) -> None:
    old, new = REFUSED[why]
    assert BODY.count(old) == 1, old
    answer = propose(source(BODY.replace(old, new)), task)
    assert isinstance(answer, NotApplicable), answer.source
    assert answer.reason.startswith("k: line ")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  if (warp == 0) {", "  if (warp == 1) {"),
        ("    of_warp[0] = sum;\n  }\n", "    of_warp[0] = sum;\n  } else {\n  }\n"),
        ("  }\n  __syncthreads();\n  const", "  }\n  __syncwarp();\n  const"),
    ],
)
def test_what_is_no_second_reduction(old: str, new: str, task: KernelTask) -> None:
    answer = propose(source(BODY.replace(old, new)), task)
    assert isinstance(answer, NotApplicable)
    assert answer.reason == "no block meets again for what its first warp reduces"


def test_a_block_is_a_whole_number_of_warps(task: KernelTask) -> None:
    answer = propose(source(BODY, block="min(d, 1024)"), task)
    assert isinstance(answer, NotApplicable)
    assert "a block is not a whole number of warps" in answer.reason
