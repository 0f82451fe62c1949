"""Wrong kernels that a fixed suite lets through: each fails, whatever the session's seed is.

They are edits of the shipped sources: a path or an instance of its own for many rows that is right
for friendly inputs alone, and kernels that are right for the sizes and scalars that a task lists.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from astra_tui.emulator.device import Emulator
from astra_tui.lab.check.combinations import cover_pairs, draw_dims, draw_size
from astra_tui.lab.check.constants import around, compared_constants
from astra_tui.lab.check.execution import read_source
from astra_tui.lab.check.oracle import Oracle
from astra_tui.lab.check.paths import source_cases
from astra_tui.lab.check.runner import Checker
from astra_tui.lab.check.suite import LARGE_ELEMENTS, build_suite
from astra_tui.lab.compiler import Compiler
from astra_tui.model.check import CaseOutcome, CaseResult
from astra_tui.model.launch import DEVICE_ATTRIBUTES
from astra_tui.model.task import KernelTask, load_task
from tests.conftest import ROOT, OracleHere

SEEDS = (2,)
"""One of those that were tried: each takes some seconds."""

SILU, NORM, MERGE = "silu_and_mul", "fused_add_rmsnorm", "merge_attn_states_lse"

SILU_WHEN = "   when d % width == 0 and aligned(out, 16) and aligned(input, 16):\n"
SILU_MANY = """   when tokens >= 64:
       silu_many<T> grid=tokens block=128 args=(out, input, d)
"""
SILU_KERNEL = """
template <typename T>
__global__ void silu_many(T* __restrict__ out, const T* __restrict__ input, int64_t d) {
  const int64_t token = blockIdx.x;
  for (int64_t i = threadIdx.x; i < d; i += blockDim.x) {
    const float gate = (float)input[token * 2 * d + i];
    const float up = (float)input[token * 2 * d + d + i];
    out[token * d + i] = (T)(BODY);
  }
}
"""
NORM_WHEN = "   when d % width == 0 and stride(x, 0)"


def _silu_many(body: str) -> tuple[tuple[str, str], ...]:
    """A kernel of its own for many rows that computes `body`."""
    kernel = SILU_KERNEL.replace("BODY", body)
    first = "template <typename T, int N>\nstruct alignas"
    return (SILU_WHEN, SILU_MANY + SILU_WHEN), (first, kernel + first)


PLANTED: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = {
    "NaN of many rows becomes zero": (
        SILU, _silu_many("isnan(gate) ? 0.0f : silu(gate) * up"),
    ),
    "infinities of many rows are cut": (
        SILU, _silu_many("silu(fminf(gate, 65504.0f)) * up"),
    ),
    "tiny gates of many rows are flushed": (
        SILU, _silu_many("fabsf(gate) < 2e-3f ? 0.0f : silu(gate) * up"),
    ),
    "many rows are taken for aligned": (
        SILU,
        (
            (
                SILU_WHEN,
                "   when tokens >= 64 and d % width == 0 and aligned(out, 16):\n"
                "       silu_and_mul_vec<T, width> grid=tokens block=128 args=(out, input, d)\n"
                + SILU_WHEN,
            ),
        ),
    ),
    "right for the widths that the task lists": (
        SILU,
        (
            (
                "  const int64_t token = blockIdx.x;\n  for (int64_t i",
                "  const int64_t token = blockIdx.x;\n"
                "  if (d > 31 && d != 111 && d != 500 && d != 769 && d != 1031 && d != 5125 &&\n"
                "      d != 64 && d != 512) d -= 1;\n  for (int64_t i",
            ),
        ),
    ),
    "one width is left out": (
        SILU,
        (
            (
                "  const int64_t token = blockIdx.x;\n  for (int64_t i",
                "  const int64_t token = blockIdx.x;\n  if (d == 777) return;\n  for (int64_t i",
            ),
        ),
    ),
    "blocks beyond a number of rows are left out": (
        SILU, (("grid=tokens", "grid=min(tokens, 1000)"),) * 2,
    ),
    "eps is a constant": (NORM, (("/ d + eps)", "/ d + 1e-6f)"),) * 2),
    "eps is one of those that the task lists": (
        NORM,
        (
            ("/ d + eps)", "/ d + (eps < 9e-6f ? 1e-6f : 1e-5f))"),
            ("/ d + eps)", "/ d + (eps < 9e-6f ? 1e-6f : 1e-5f))"),
        ),
    ),
    "many rows are taken for contiguous": (
        NORM,
        (
            (
                NORM_WHEN,
                "   when tokens >= 64:\n"
                "       fused_add_rmsnorm_scalar<T> grid=tokens block=128\n"
                "           args=(x, residual, weight, d, d, stride(residual, 0), eps)\n"
                + NORM_WHEN,
            ),
        ),
    ),
    "tensors are taken to have the same stride": (
        NORM, (("args=(x, residual, weight, d, stride(x, 0), stride(residual, 0), eps)\n*/",
                "args=(x, residual, weight, d, stride(x, 0), stride(x, 0), eps)\n*/"),),
    ),
    "right for the lengths of heads that the task lists": (
        MERGE,
        (
            (
                "  if (pair >= pairs) return;",
                "  if (pair >= pairs) return;\n"
                "  if (N > 1 && head_dim > 64 && head_dim != 96 && head_dim != 128 &&\n"
                "      head_dim != 256 && piece == pieces - 1) return;",
            ),
        ),
    ),
}  # fmt: skip
_LISTED = "heads == 1 or heads == 3 or heads == 8 or heads == 16 or heads == 32 or heads == 40"
PLANTED["right for the numbers of heads that the task lists"] = (
    MERGE,
    (
        (
            "grid=ceil_div(tokens * heads * (head_dim // width), 128)",
            f"grid=ceil_div(tokens * heads * (head_dim // width), 128 if {_LISTED} else 256)",
        ),
    ),
)


@pytest.fixture(scope="module")
def oracles(tasks: dict[str, KernelTask]) -> Iterator[dict[str, Oracle]]:
    opened = {name: OracleHere(tasks[name]) for name in (SILU, NORM, MERGE)}
    yield opened
    for oracle in opened.values():
        oracle.close()


def planted(task: KernelTask, edits: tuple[tuple[str, str], ...]) -> str:
    text = task.tuned_file.read_text(encoding="utf-8")
    at = 0
    for old, new in edits:
        at = text.index(old, at)
        text = text[:at] + new + text[at + len(old) :]
        at += len(new)
    return text


@pytest.mark.parametrize("name", PLANTED)
def test_what_a_fixed_suite_lets_through_fails_for_any_seed(
    name: str, tasks: dict[str, KernelTask], compiler: Compiler, oracles: dict[str, Oracle]
) -> None:
    of_task, edits = PLANTED[name]
    task = tasks[of_task]
    text = planted(task, edits)
    source = read_source(task, text, "planted.cu")
    for seed in SEEDS:
        checker = Checker(task, Emulator(), compiler, oracles[of_task], seed)
        suite = build_suite(task, seed)
        drawn = [c for c in suite if c.seed] + list(checker.cases_of(source, suite).cases)
        events = checker.check(text, "planted.cu", tuple(drawn))
        results = (e for e in events if isinstance(e, CaseResult))
        assert any(r.outcome in (CaseOutcome.WRONG, CaseOutcome.FAULT) for r in results), seed


@settings(deadline=None)
@given(
    st.lists(st.integers(1, 4), min_size=2, max_size=5).flatmap(
        lambda sizes: st.lists(
            st.tuples(*(st.integers(0, size - 1) for size in sizes)), min_size=1, max_size=60
        )
    )
)
def test_every_pair_of_levels_is_covered(rows: list[tuple[int, ...]]) -> None:
    def pairs(some: list[tuple[int, ...]]) -> set[tuple[int, int, int, int]]:
        return {(i, row[i], j, row[j]) for row in some for i, j in combinations(range(len(row)), 2)}

    chosen = [rows[k] for k in cover_pairs(rows)]
    assert pairs(chosen) == pairs(rows)
    assert len(chosen) == len(set(chosen)) <= len(pairs(rows))


@pytest.mark.parametrize("name", [SILU, NORM, MERGE])
@pytest.mark.parametrize("seed", [0, 5, 2**48 - 1])
def test_drawn_cases_are_within_the_contract_and_follow_from_the_seed(
    name: str, seed: int, tasks: dict[str, KernelTask]
) -> None:
    task = tasks[name]
    text = task.tuned_file.read_text(encoding="utf-8")
    source = read_source(task, text, "tuned.cu")
    suite = build_suite(task, seed)
    own = source_cases(task, source, suite, DEVICE_ATTRIBUTES, seed).cases
    assert own == source_cases(task, source, suite, DEVICE_ATTRIBUTES, seed).cases
    added = [c for c in suite if "drawn" in c.why]
    for case in (*added, *own):
        assert not case.outside_contract
        assert not task.violated(case.dims, case.dtype)
        assert task.elements(case.dims, case.dtype) <= LARGE_ELEMENTS
        assert (case.seed != 0) is (seed != 0)
        for scalar, value in case.scalars.items():
            choices = task.args[scalar].choices
            assert min(choices) <= value <= max(choices)
    floor = [c for c in suite if "drawn" not in c.why]
    assert floor == [c for c in build_suite(task, seed + 1) if "drawn" not in c.why]
    sizes = {tuple(c.dims.values()) for c in added}
    assert sizes != {tuple(c.dims.values()) for c in build_suite(task, seed + 1) if c not in floor}


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**32), st.integers(1, 200_000))
@example(seed=17219, constant=1367)  # With that many rows, only the narrowest are small enough.
def test_what_a_source_compares_a_size_with_is_a_size_of_a_case(seed: int, constant: int) -> None:
    task = load_task(ROOT / "kernels" / SILU)
    text = task.tuned_file.read_text(encoding="utf-8")
    text += f"__device__ bool f(int64_t d) {{ return d == {constant}; }}\n"
    suite = build_suite(task, seed)
    own = source_cases(task, read_source(task, text, "f.cu"), suite, DEVICE_ATTRIBUTES, seed).cases
    for name in task.dims:
        near = {constant - 1, constant, constant + 1} - {0}
        assert near <= {case.dims[name] for case in (*suite, *own)}


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 2000))
def test_sizes_are_drawn_around_one_that_is_given(seed: int, rows: int) -> None:

    task = load_task(ROOT / "kernels" / MERGE)
    dims = draw_dims(task, task.dtypes[0], 1 << 17, Random(seed), {"tokens": rows})
    assert dims is not None
    assert dims["tokens"] == rows
    assert list(dims) == list(task.dims)


def test_sizes_are_drawn_where_a_contract_allows_few() -> None:
    """Of four heads' widths, and of rotated parts that divide them, each draw finds some."""
    task = load_task(ROOT / "kernels" / "flashinfer_rope")
    dtype = task.dtypes[0]
    allowed = [size for size in range(1, 1025) if task.allows("head_dim", size, dtype)]
    assert allowed == [64, 128, 256, 512]
    assert task.allows("nnz", 5, dtype)
    found = [draw_dims(task, dtype, 1 << 13, Random(seed)) for seed in range(40)]
    assert all(dims is not None and not task.violated(dims, dtype) for dims in found)


@given(st.integers(0, 1 << 20), st.integers(0, 1 << 32))
def test_a_size_is_drawn_up_to_the_largest_even_where_that_is_none(most: int, seed: int) -> None:
    assert min(most, 1) <= draw_size(most, Random(seed)) <= most


def test_constants_are_read_from_comparisons_alone() -> None:
    text = """
#define LIMIT 777
constexpr int WIDE = 1 << 12;
enum { FEW = 5 };
__global__ void k(float* o, int d, int tokens) {
  if (d == 123 || tokens % 4 == 3) return;
  for (int i = 0; i < min(d, 1'000); ++i) o[i] = d >= 0x40 ? 99.0f : o[i + 31];
  switch (d) { case 55: break; }
  while ((d) != (2*33)) {}
}"""
    assert compared_constants(text) == {777, 4096, 5, 123, 4, 3, 1000, 1001, 64, 55, 66}
    assert compared_constants("((((" * 5000) == set()


def test_neighbours_of_a_size_are_within_the_contract() -> None:
    assert around({1, 64}, lambda size: True) == [1, 2, 63, 64, 65]
    assert around({64, 97}, lambda size: size % 8 == 0) == [56, 64, 72, 96, 97, 104]
    assert around({5}, lambda size: False) == [5]
