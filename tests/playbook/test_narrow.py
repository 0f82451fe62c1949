"""Kernels whose results are bytes: each proposal for them compiles and passes its check."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from astra_tui.lab.check.suite import build_suite
from astra_tui.model.task import find_task, load_task
from astra_tui.playbook import Evidence, propose_all
from tests.conftest import ROOT, CheckerOf
from tests.playbook.path import GPU, require_pass, timed_path

pytestmark = pytest.mark.usefixtures("warm_processes")

INT8 = """\
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

/* @launch
   quantised<T> grid=num_tokens block=256 args=(input, output, scale, hidden_size)
*/

template <typename T>
__global__ void quantised(const T* __restrict__ input, int8_t* __restrict__ output,
                          const float* __restrict__ scale, int d) {
  const int64_t row = blockIdx.x;
  for (int i = threadIdx.x; i < d; i += blockDim.x) {
    const float x = rintf((float)input[row * d + i] / scale[0]);
    output[row * d + i] = (int8_t)fminf(fmaxf(x, -128.0f), 127.0f);
  }
}
"""
FP8 = (ROOT / "benchmarks/kernels/rmsnorm_quant.cu").read_text()


@pytest.mark.parametrize(
    ("task_name", "source", "pack", "path"),
    [
        (
            "vllm_static_int8_quant", INT8, "Pack<int8_t, WIDTH>",
            ["reciprocal", "fast_math", "wide_accesses", "flat_grid"],
        ),
        (
            "flashinfer_rmsnorm_quant", FP8, "Pack<__nv_fp8x2_e4m3, WIDTH / 2>",
            ["reciprocal", "wide_accesses", "keep_row", "overlap_launches", "early_loads"],
        ),
    ],
)  # fmt: skip
def test_every_move_on_results_of_a_byte_is_correct(
    task_name: str, source: str, pack: str, path: list[str], checker_of: CheckerOf, tmp_path: Path
) -> None:
    """Packs on all cases; other proposals for the first source, and steps of the path, on some."""
    folder = tmp_path / task_name
    left_out = shutil.ignore_patterns("upstream.toml", "yardsticks.toml", "__pycache__")
    shutil.copytree(find_task(task_name).folder, folder, ignore=left_out)
    (folder / "baseline.cu").write_text(source)
    task = load_task(folder)
    cases = build_suite(task)
    steps = timed_path(task, source, 12)
    assert [p.plan.move for p in steps if p.plan.move in path] == path
    assert pack in steps[-1].source
    offered, _ = propose_all(source, Evidence(task, device=GPU))
    wide = next(p for p in offered if p.plan.move == "wide_accesses")
    tried = [(wide, cases)]
    tried += [(p, cases[n::16]) for n, p in enumerate([*offered, *steps]) if p != wide]
    for proposal, some in tried:
        require_pass(checker_of(task), proposal.source, some, proposal.plan.move)
