"""Hints for caches: which packs and elements are touched once, and what their loads become."""

from __future__ import annotations

import pytest

from astra_tui.lab.check.runner import select_cases
from astra_tui.lab.compiler import Compiler
from astra_tui.model.task import KernelTask
from astra_tui.playbook import Evidence, KernelText, NotApplicable, Proposal
from astra_tui.playbook.moves.cache_hints import CacheHints
from astra_tui.playbook.moves.row_in_registers import RowInRegisters
from tests.conftest import CheckerOf
from tests.playbook.path import GPU, require_pass

PACKED = """/* @launch
   let width = 16 // sizeof(T)
   k<T, width> grid=tokens block=128 args=(x, residual, weight, d)
*/
#include <cuda_fp16.h>
template <typename T, int N>
struct alignas(sizeof(T) * N) Pack {
  T value[N];
};

// Twice a pack.
template <typename P>
__device__ P twice(P pack) {
  return pack;
}

template <typename T, int N>
__global__ void k(T* __restrict__ x, T* residual, const T* __restrict__ weight, int d) {
  using P = Pack<T, N>;
  P* row_x = reinterpret_cast<P*>(x + (long long)blockIdx.x * d);
  P* row_r = reinterpret_cast<P*>(residual + (long long)blockIdx.x * d);
  const P* row_w = reinterpret_cast<const P*>(weight);
  P turns[4];
#pragma unroll
  for (int turn = 0; turn < 4; ++turn) {
    const int i = threadIdx.x + turn * blockDim.x;
    if (i < d / N) turns[turn] = row_x[i];
  }
#pragma unroll
  for (int turn = 0; turn < 4; ++turn) {
    const int i = threadIdx.x + turn * blockDim.x;
    if (i < d / N) {
      P kept = turns[turn];
      const P w = row_w[i];
      kept.value[0] = (T)((float)kept.value[0] + (float)w.value[0]);
      row_x[i] = kept;
    }
  }
}
"""


@pytest.fixture
def evidence(tasks: dict[str, KernelTask]) -> Evidence:
    return Evidence(tasks["fused_add_rmsnorm"], device=GPU)


def hinted(text: str, evidence: Evidence) -> str:
    answer = CacheHints().propose(KernelText.read(text), evidence)
    assert isinstance(answer, Proposal), answer
    again = CacheHints().propose(KernelText.read(answer.source), evidence)
    assert isinstance(again, NotApplicable)
    return answer.source


def test_packs_that_are_stored_later_by_their_thread_are_streamed(evidence: Evidence) -> None:
    text = hinted(PACKED, evidence)
    assert "turns[turn] = load_once(&row_x[i]);" in text
    assert "const P w = row_w[i];" in text
    assert "row_x[i] = kept;" in text
    assert "store_once" not in text
    assert text.index("load_once(const E*") < text.index("// Twice a pack.\ntemplate")


def test_packs_are_streamed_as_wide_accesses_writes_them(evidence: Evidence) -> None:
    text = PACKED.replace("P* row_x = reinterpret_cast<P*>(x + (long long)blockIdx.x * d);", "")
    row = "x[(long long)blockIdx.x * d + i * N]"
    text = text.replace("= row_x[i];", f"= *reinterpret_cast<const P*>(&{row});")
    text = text.replace("row_x[i] = kept;", f"*reinterpret_cast<P*>(&{row}) = kept;")
    assert f"load_once(reinterpret_cast<const P*>(&{row}))" in hinted(text, evidence)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("P kept = turns[turn];", "P kept = row_x[i];"),
        ("row_x[i] = kept;", "row_x[i + 1] = kept;"),
        ("turns[turn] = row_x[i];", "{ row_x[i] = turns[0]; turns[turn] = row_x[i]; }"),
        ("turns[turn] = row_x[i];", "turns[turn].value[0] = row_x[i].value[0];"),
        ("turns[turn] = row_x[i];", "{ P& all = row_x[i]; turns[turn] = all; }"),
        ("turns[turn] = row_x[i];", "load(row_x + i);"),
        ("blockIdx.x", "0"),
        ("threadIdx.x + turn * blockDim.x", "0"),
        ("alignas(sizeof(T) * N) ", ""),
    ],
)
def test_packs_that_may_be_needed_again_stay(old: str, new: str, evidence: Evidence) -> None:
    assert old in PACKED
    answer = CacheHints().propose(KernelText.read(PACKED.replace(old, new)), evidence)
    assert isinstance(answer, NotApplicable), answer.source


@pytest.mark.parametrize(("count", "loads"), [(2, 4), (4, 4), (8, 4), (1, 0), (16, 0), (32, 0)])
def test_packs_of_every_size_compile_and_some_have_hints(
    count: int, loads: int, evidence: Evidence, compiler: Compiler
) -> None:
    compilation = compiler.compile(hinted(PACKED, evidence), (f"k<__half, {count}>",))
    assert compilation.ok, compilation.errors
    assert compilation.ptx.count("ld.global.cs.") == loads
    assert ".local" not in compilation.ptx


def test_whole_vectors_of_elements_are_streamed(evidence: Evidence) -> None:
    loads = "*reinterpret_cast<float4*>(&x[blockIdx.x * d + 4 * i])"
    body = PACKED.replace("P turns[4]", "float4 turns[4]").replace("row_x[i]", loads)
    text = hinted(body.replace("P kept", "float4 kept").replace("kept.value[0] =", "//"), evidence)
    assert "= load_once(reinterpret_cast<float4*>(&x[blockIdx.x * d + 4 * i]));" in text


def test_a_result_in_packs_is_streamed(tasks: dict[str, KernelTask], checker_of: CheckerOf) -> None:
    task = tasks["silu_and_mul"]
    text = hinted(task.tuned_file.read_text(), Evidence(task, device=GPU))
    assert "const P g = load_once(&gate[i]);" in text
    assert "store_once(&result[i], r);" in text
    require_pass(checker_of(task), text, select_cases(task, ("*",))[::15])


def test_a_row_in_registers_is_streamed(
    tasks: dict[str, KernelTask], checker_of: CheckerOf, evidence: Evidence
) -> None:
    task = tasks["fused_add_rmsnorm"]
    kept = RowInRegisters().propose(KernelText.read(task.tuned_file.read_text()), evidence)
    assert isinstance(kept, Proposal)
    text = hinted(kept.source, evidence)
    assert "row_x_turns[turn] = load_once(&row_x[i]);" in text
    assert "const P a = load_once(&row_x[i]);" in text
    require_pass(checker_of(task), text, select_cases(task, ("*",))[::15])
