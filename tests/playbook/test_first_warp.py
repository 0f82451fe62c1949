"""Blocks in which every warp reduces what all have left, and those where it has to."""

from __future__ import annotations

import pytest

from astra_tui.lab.check.runner import select_cases
from astra_tui.model.task import KernelTask
from astra_tui.playbook import Evidence, KernelText, NotApplicable, Proposal
from astra_tui.playbook.moves.first_warp import FirstWarp
from astra_tui.playbook.moves.one_barrier import OneBarrier
from astra_tui.playbook.moves.warp_rows import WarpRows
from astra_tui.playbook.shipped.written_out import written_out
from astra_tui.playbook.space import space_of
from tests.conftest import CheckerOf
from tests.playbook.path import GPU, require_pass
from tests.playbook.test_one_barrier import BODY, source

BEGIN, SCALE = (
    "  // The first warp reduces",
    "  const float scale = rsqrtf(of_warp[0] / d + eps);\n",
)
FIRST = BODY[BODY.index(BEGIN) : BODY.index(SCALE) + len(SCALE)]
EVERY = """\
  sum = (lane < warps) ? of_warp[lane] : 0.0f;
#pragma unroll
  for (int offset = warp_size / 2; offset > 0; offset /= 2) {
    sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  }
  const float scale = rsqrtf(sum / d + eps);
"""
OWN = BODY.replace(FIRST, EVERY)


def propose(text: str, task: KernelTask) -> Proposal | NotApplicable:
    return FirstWarp().propose(KernelText.read(text), Evidence(task, device=GPU))


@pytest.fixture
def task(tasks: dict[str, KernelTask]) -> KernelTask:
    return tasks["fused_add_rmsnorm"]


@pytest.mark.parametrize("block", ["128", "(32 * ceil_div(min(d, 512), 32) if d > 9 else 64)"])
def test_the_first_warp_reduces_alone(block: str, task: KernelTask, checker_of: CheckerOf) -> None:
    answer = propose(source(OWN, block), task)
    assert isinstance(answer, Proposal), answer
    assert answer.source.count("__syncthreads();") == 2
    assert "  sum = of_warp[0];\n" in answer.source
    require_pass(checker_of(task), answer.source, select_cases(task, ("*",))[::40])
    assert isinstance(propose(answer.source, task), NotApplicable)


def test_a_function_that_kernels_share_does_too(task: KernelTask, checker_of: CheckerOf) -> None:
    answer = propose(task.tuned_file.read_text(encoding="utf-8"), task)
    assert isinstance(answer, Proposal), answer
    assert "    of_warp[0] = warp_sum(v);\n  }\n  __syncthreads();\n" in answer.source
    assert "  return of_warp[0];\n" in answer.source
    require_pass(checker_of(task), answer.source, select_cases(task, ("*",))[::40])


def test_what_one_barrier_made_goes_back(task: KernelTask) -> None:
    once = OneBarrier().propose(KernelText.read(source(BODY)), Evidence(task, device=GPU))
    assert isinstance(once, Proposal), once
    again = propose(once.source, task)
    assert isinstance(again, Proposal), again
    assert "very warp for itself" not in again.source


def test_a_sweep_tries_both(task: KernelTask) -> None:
    evidence = Evidence(task, device=GPU)
    for text, name in ((source(OWN), "first_warp"), (source(BODY), "one_barrier")):
        assert name in [d.name for d in space_of(text, evidence).dimensions]


REFUSED = {
    "a shuffle down": ("    sum += __shfl_xor_sync", "    sum += __shfl_down_sync"),
    "a later use": ("  const float scale", "  if (of_warp[1] < 0.0f) return;\n  const float scale"),
    "another type": ("  __shared__ float of_warp", "  __shared__ double of_warp"),
}


@pytest.mark.parametrize("why", REFUSED)
def test_every_warp_has_to(why: str, task: KernelTask) -> None:
    old, new = REFUSED[why]
    text = source(OWN)
    begin = text.rindex(old)
    answer = propose(text[:begin] + new + text[begin + len(old) :], task)
    assert isinstance(answer, NotApplicable), answer.source


@pytest.mark.parametrize("why", ["a block of parts of warps", "a helper that shuffles down"])
def test_blocks_and_helpers_have_to_be_right(why: str, task: KernelTask) -> None:
    text = source(OWN, "min(d, 1024)")
    if why == "a helper that shuffles down":
        text = task.tuned_file.read_text(encoding="utf-8").replace("shfl_xor", "shfl_down")
    answer = propose(text, task)
    assert isinstance(answer, NotApplicable), answer.source
    assert "line " in answer.reason


def test_blocks_of_kernels_whose_functions_read_their_place_stay(task: KernelTask) -> None:
    text = task.tuned_file.read_text(encoding="utf-8")
    rows = WarpRows().propose(KernelText.read(text), Evidence(task, device=GPU))
    assert isinstance(rows, Proposal), rows
    assert "block=(32, 4)" in rows.source
    assert "of_warp[threadIdx.y]" in rows.source
    found = written_out(rows.source, {}, dependent_launches=True)
    assert found is None or "block=(32, 4)" in found.text
    answer = propose(rows.source, task)
    assert isinstance(answer, Proposal), answer
    assert answer.source.count("of_warp[0] = ") == 1
