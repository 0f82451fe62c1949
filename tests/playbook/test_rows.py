"""Moves by the length of a row: what a warp takes, and what one pass takes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from astra_tui.lab.check.suite import build_suite
from astra_tui.model.errors import UserError
from astra_tui.model.task import KernelTask, load_task
from astra_tui.playbook import Evidence, KernelText, Move, NotApplicable, Proposal
from astra_tui.playbook.moves.online_softmax import OnlineSoftmax
from astra_tui.playbook.moves.warp_rows import ITERATIONS, ROWS, THREADS, WarpRows
from tests.conftest import ROOT, CheckerOf
from tests.playbook.path import GPU, require_pass, timed_path

UNSEEN = Path(__file__).parent / "unseen"


def made(move: Move, task: KernelTask, text: str, **set_: int) -> Proposal:
    answer = move.propose(KernelText.read(text), Evidence(task, device=GPU, settings=set_))
    assert isinstance(answer, Proposal), answer
    return answer


ROW_TASKS = {
    "tests/playbook/unseen/layernorm": "n",
    "kernels/fused_add_rmsnorm": "hidden_size",
}


@pytest.mark.parametrize("folder", ROW_TASKS)
def test_a_warp_a_row_is_right_on_all_cases(folder: str, checker_of: CheckerOf) -> None:
    """From the first source and from the one that other moves have made of it."""
    checker = checker_of(load_task(ROOT / folder))
    source = checker.task.baseline_file.read_text()
    steps = [p.source for p in timed_path(checker.task, source) if p.plan.move == "keep_row"]
    cases = build_suite(checker.task)
    require_pass(checker, made(WarpRows(), checker.task, source).source, cases)
    for threads in THREADS:
        part = made(WarpRows(), checker.task, steps[-1], threads=threads)
        require_pass(checker, part.source, cases[threads % 5 :: 12])


@pytest.mark.parametrize("folder", ROW_TASKS)
@settings(max_examples=3, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    threads=st.sampled_from(THREADS),
    rows=st.sampled_from(ROWS[:3]),
    iterations=st.sampled_from(ITERATIONS),
    skip=st.integers(0, 11),
)
def test_a_warp_a_row_is_right_as_it_is_set(
    folder: str, threads: int, rows: int, iterations: int, skip: int, checker_of: CheckerOf
) -> None:
    checker = checker_of(load_task(ROOT / folder))
    source = checker.task.baseline_file.read_text()
    shape = {"threads": threads, "rows": rows, "iterations": iterations}
    proposal = made(WarpRows(), checker.task, source, **shape)
    assert f"block=({threads}, {rows})" in proposal.source
    assert f"<= {threads * iterations}" in proposal.source
    require_pass(checker, proposal.source, build_suite(checker.task)[skip::12])


REDUCING = """\
/* @launch
   {let}k<T{more}> grid=tokens block={block} args=(out, d)
*/
{before}
template <typename T{parameter}>
__global__ void k(T* out, int d) {{
  __shared__ float sums[{size}];
  float sum = 0.0f;
  for (int i = threadIdx.x; i < d; i += blockDim.x) sum += (float)i;
  {body}
  __syncthreads();
  for (int i = threadIdx.x; i < d; i += blockDim.x) out[blockIdx.x * (long)d + i] = (T)sum;
}}
"""
PLAIN = {
    **dict.fromkeys(("let", "more", "before", "parameter", "body"), ""),
    "block": "128",
    "size": "128",
}


def test_functions_in_which_threads_meet_are_copied_too(tasks: dict[str, KernelTask]) -> None:
    helper = (
        "__device__ float total(float v) {\n  __shared__ float part[32];\n"
        "  part[threadIdx.x / 32] = v;\n  __syncthreads();\n  return part[0];\n}"
    )
    text = REDUCING.format(**PLAIN | {"before": helper, "body": "sum = total(sum);"})
    source = made(WarpRows(), tasks["silu_and_mul"], text).source
    assert "sum = total_warp(sum);" in source
    assert "part[threadIdx.y][threadIdx.x / 32] = v;\n  __syncwarp();" in source
    assert "__shared__ float part[4][32];" in source
    assert source.index("float total_warp(") < source.index("void k_warp(")


SHUFFLES = """\
for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = threadIdx.x < blockDim.x / 32 ? sums[threadIdx.x] : 0.0f;
"""


def test_the_shortest_rows_of_all_workloads_share_a_warp(tasks: dict[str, KernelTask]) -> None:
    task, text = tasks["silu_and_mul"], REDUCING.format(**PLAIN | {"body": SHUFFLES})
    for longest, block in ((8, "(8, 16)"), (9, "(16, 8)"), (17, "(32, 4)")):
        short = tuple(replace(w, dims={**w.dims, "d": longest}) for w in task.workloads)
        source = made(WarpRows(), replace(task, workloads=short), text).source
        assert f"block={block}" in source
        threads = int(block[1:].partition(",")[0])
        assert f"step = {threads // 2};" in source
        assert ("threadIdx.x < 1 ?" in source) == (threads < 32)
    for other in ("sum += threadIdx.x & 31;", "if (__any_sync(0xffffffffu, d > 9)) sum = 0.0f;"):
        body = REDUCING.format(**PLAIN | {"body": f"{SHUFFLES}  {other}"})
        with pytest.raises(UserError):
            made(WarpRows(), task, body, threads=8)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"body": "sum = sums[threadIdx.x / 128];"}, "may count on the block's threads"),
        ({"body": "if (__syncthreads_or(d)) return;"}, "what __syncthreads_or does is not known"),
        ({"body": "sum = blockReduce(sum);"}, "what blockReduce does is not known"),
        ({"body": "sum = sums[threadIdx.y];"}, "more than one size"),
        ({"body": "extern __shared__ float more[]; sum = more[0];"}, "the plan's size"),
        ({"body": 'asm volatile("bar.sync 0;");'}, "cannot be followed"),
        ({"body": "MEET;", "before": "#define MEET __syncthreads()"}, "a macro"),
        ({"size": "8192"}, "no shared memory for several rows"),
        ({"size": "d_max", "before": "constexpr int d_max = 9;"}, "of unknown size"),
        ({"more": ", 128", "parameter": ", int N"}, "a template argument follows"),
        ({"more": ", d // 8", "parameter": ", int N"}, "a template argument follows"),
        ({"block": "(32, 4)"}, "not one block a row"),
    ],
)
def test_rows_that_keep_a_block(
    change: dict[str, str], why: str, tasks: dict[str, KernelTask]
) -> None:
    text = REDUCING.format(**PLAIN | change)
    answer = WarpRows().propose(KernelText.read(text), Evidence(tasks["silu_and_mul"], device=GPU))
    assert isinstance(answer, NotApplicable)
    assert why in answer.reason


SOFTMAX = ("tests/playbook/unseen/softmax", "tests/playbook/unseen/log_softmax")


@pytest.mark.parametrize("folder", SOFTMAX)
def test_the_largest_and_the_sum_in_one_pass_are_right_on_all_cases(
    folder: str, checker_of: CheckerOf
) -> None:
    """And with what other moves make of it."""
    checker = checker_of(load_task(ROOT / folder))
    source = checker.task.baseline_file.read_text()
    once = made(OnlineSoftmax(), checker.task, source).source
    assert "for (int i = threadIdx.x" in source or "for (int64_t k = threadIdx.x" in source
    assert once.count("= threadIdx.x; ") == source.count("= threadIdx.x; ") - 1
    cases = build_suite(checker.task)
    require_pass(checker, once, cases)
    path = timed_path(checker.task, once)
    assert "wide_accesses" in [p.plan.move for p in path]
    require_pass(checker, path[-1].source, cases[::9])
    again = OnlineSoftmax().propose(KernelText.read(once), Evidence(checker.task))
    assert isinstance(again, NotApplicable)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("sum += expf(below);", "sum += expf(below) * 2.0f;", "does not sum exponentials alone"),
        ("sum += expf(below);", "sum += expf(below); out[i] = (T)below;", "exponentials alone"),
        ("sum += expf(below);", "if (below > 0.0f) break;\n    sum += expf(below);", "alone"),
        (
            "const float below = (float)row[i]",
            "const float below = (float)row[0]",
            "other elements",
        ),
        ("float sum = 0.0f;", "float sum = 1e-6f;", "does not begin at zero"),
        ("float sum = 0.0f;", "float sum = 0.0f; sum += n;", "does not begin at zero"),
        ("float sum = 0.0f;", "float sum = 0.0f; scale *= 2.0f;", "scale changes between"),
        ("float sum = 0.0f;", "float sum = 0.0f; out[n] = (T)top;", "memory (line"),
        ("top = fmaxf(top, v);", "top = fmaxf(top, v * v);", "other elements"),
        ("top = fmaxf(top, v);", "top = fminf(top, v);", "does not look for the largest"),
        ("float top = -INFINITY;", "double top = -INFINITY;", "does not look for the largest"),
    ],
)
def test_passes_that_stay_two(old: str, new: str, why: str) -> None:
    task = load_task(ROOT / SOFTMAX[0])
    source = task.baseline_file.read_text()
    assert source.count(old) == 1
    answer = OnlineSoftmax().propose(KernelText.read(source.replace(old, new)), Evidence(task))
    assert isinstance(answer, NotApplicable)
    assert why in answer.reason
