"""Workloads at their own sizes: what is wrong in large launches alone is found."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from astra_tui.emulator import device, whole
from astra_tui.emulator.device import Emulator
from astra_tui.emulator.machine import Machine
from astra_tui.emulator.step import side_bit
from astra_tui.lab.audit.zoo import read_zoo
from astra_tui.lab.check.execution import read_source, resolve_case
from astra_tui.lab.check.fullsize import FullSize
from astra_tui.lab.check.in_part import InPart
from astra_tui.lab.check.inputs import scalars_of
from astra_tui.lab.check.kernels import kernels_to_compile, workload_cases
from astra_tui.lab.check.runner import Checker
from astra_tui.lab.check.suite import build_suite
from astra_tui.lab.compiler import Compiler
from astra_tui.lab.conditions.coverage import compile_reporting
from astra_tui.model.check import FAR, MANY_ROWS, CaseOutcome, FullSizeResult
from astra_tui.model.findings import Acceptance
from astra_tui.model.launch import ResolvedPlan
from astra_tui.model.task import KernelTask
from tests.conftest import ROOT, OracleHere

NAMES = ("silu_and_mul", "fused_add_rmsnorm", "merge_attn_states_lse")


@pytest.fixture(scope="module")
def checkers(compiler: Compiler, tasks: dict[str, KernelTask]) -> Iterator[dict[str, Checker]]:
    oracles = {name: OracleHere(tasks[name]) for name in NAMES}
    yield {n: Checker(tasks[n], Emulator(), compiler, o) for n, o in oracles.items()}
    for oracle in oracles.values():
        oracle.close()


def at_full_size(checker: Checker, text: str, workload: str, seed: int = 0) -> FullSizeResult:
    result, _ = with_sides(checker, text, workload, seed, report=False)
    return result


def with_sides(
    checker: Checker, text: str, workload: str, seed: int = 0, *, report: bool = True
) -> tuple[FullSizeResult, set[tuple[str, bool]]]:
    """The result of a workload, and the sides of conditions that threads took, with `report`."""
    task = checker.task
    assert isinstance(checker.device, Emulator)
    source = read_source(task, text, "candidate.cu")
    (case,) = (c for c in workload_cases(task) if c.name == workload)
    resolved = resolve_case(task, source, case, scalars_of(task, case))
    assert isinstance(resolved, ResolvedPlan)
    kernels = tuple(launch.kernel for launch in resolved.launches)
    compilation = checker.compiler.compile(text, kernels)
    assert compilation.ok, compilation.errors
    reporting = compile_reporting(checker.compiler, text, kernels) if report else None
    reports = reporting.compilation if reporting is not None else None
    run = FullSize(task, checker.device, source, compilation, case, seed, reports)

    def judge(*arguments: Any) -> Any:
        assert threading.current_thread() is threading.main_thread(), "confined"
        return checker.judge_rows(*arguments)

    result = run.run(resolved, judge)
    if reporting is None:
        return result, set()
    texts = {c.number: c.text for c in reporting.source.conditions}
    taken = {(texts[n], s) for sides in run.sides.values() for n, s in sides_of(sides.taken)}
    return result, taken


def sides_of(taken: Mapping[int, int]) -> Iterator[tuple[int, bool]]:
    for number, bits in taken.items():
        yield from ((number, side) for side in (False, True) if bits & side_bit(side))


def test_what_an_engineer_accepts_is_accepted_at_full_size(
    checkers: dict[str, Checker], tasks: dict[str, KernelTask]
) -> None:
    checker = checkers["silu_and_mul"]
    begin = "  const int64_t token = blockIdx.x;\n"
    racing = f"{begin}  __shared__ volatile int last;\n  last = threadIdx.x;\n"
    text = shipped(checker, "tuned.cu", (begin, racing))
    found = at_full_size(checker, text, "16x4096")
    assert found.outcome is CaseOutcome.FAULT
    (fault,) = found.findings
    ruling = Acceptance("its value is not used", finding=fault.kind, text="last = threadIdx.x;")
    task = replace(tasks["silu_and_mul"], accepted=(ruling,))
    with OracleHere(task) as oracle:
        other = Checker(task, Emulator(), checker.compiler, oracle)
        ruled = at_full_size(other, text, "16x4096")
    assert ruled.outcome is CaseOutcome.PASSED, ruled.message
    assert [f.accepted for f in ruled.findings] == ["its value is not used"]


def beyond(checker: Checker, text: str) -> Iterator[FullSizeResult]:
    """Far sizes, and many rows on all kinds of inputs, as a check runs them."""
    task = checker.task
    assert isinstance(checker.device, Emulator)
    source = read_source(task, text, "candidate.cu")
    found = checker.beyond(source, build_suite(task))
    cases = tuple(case for case, _ in found)
    compilation = checker.compiler.compile(text, kernels_to_compile(task, source, cases))
    for case, in_part in found:
        resolved = resolve_case(task, source, case, scalars_of(task, case))
        assert isinstance(resolved, ResolvedPlan)
        kind = InPart if in_part else FullSize
        run = kind(task, checker.device, source, compilation, case, 0)
        yield run.run(resolved, checker.judge_rows)


def shipped(checker: Checker, file: str, *changes: tuple[str, str]) -> str:
    text = (checker.task.folder / file).read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    return text


@pytest.mark.parametrize(
    ("name", "file", "workload"),
    [
        ("silu_and_mul", "tuned.cu", "4096x14336"),
        ("silu_and_mul", "baseline.cu", "256x11008"),
        ("fused_add_rmsnorm", "tuned.cu", "4096x8192"),
        ("fused_add_rmsnorm", "baseline.cu", "512x14336"),
        ("merge_attn_states_lse", "tuned.cu", "4096x32x128"),
        ("merge_attn_states_lse", "baseline.cu", "512x40x128"),
    ],
)
def test_shipped_sources_pass(
    checkers: dict[str, Checker], name: str, file: str, workload: str
) -> None:
    checker = checkers[name]
    result = at_full_size(checker, shipped(checker, file), workload)
    assert (result.outcome, result.message) == (CaseOutcome.PASSED, "")
    assert 0 < result.blocks_run < result.blocks
    assert all(0 < share.judged < share.elements for share in result.shares)
    # Which of two stores runs is up to the data in the baseline of the merge alone.
    assert result.covered == ((name, file) != ("merge_attn_states_lse", "baseline.cu"))


GATE = "  const P* gate = "
VALUE = "(T)(silu((float)g.value[k]) * (float)u.value[k]);"
STORE = "    result[i] = r;"
PLANTED = {
    "rows left out": (GATE, f"  if (gridDim.x > 200 && token % 4 == 3) return;\n{GATE}"),
    "late rows left out": (GATE, f"  if (token >= 1000) return;\n{GATE}"),
    "a capped grid": ("grid=tokens block", "grid=min(tokens, 1024) block"),
    "wrong from row 300": (VALUE, VALUE[:-2] + " * (token > 300 ? 1.1f : 1.0f));"),
    "wrong in row 2077": (VALUE, VALUE[:-2] + " * (token == 2077 ? 1.1f : 1.0f));"),
    "wrong late, without a condition": (VALUE, VALUE[:-2] + " * (1.0f + 0.1f * (token / 4000)));"),
    "one vector wrong": (STORE, f"    if (token == 777 && i == 55) r.value[3] = (T)1.0f;\n{STORE}"),
    "left out where the data say so": (
        STORE, f"    if (gridDim.x > 200 && (float)g.value[0] > 3.5f) continue;\n{STORE}",
    ),
    "offsets that wrap": ("out + token * d", "out + (token * d) % 33554432"),
}  # fmt: skip


@pytest.mark.parametrize("planted", PLANTED)
def test_planted_kernels_fail(checkers: dict[str, Checker], planted: str) -> None:
    checker = checkers["silu_and_mul"]
    text = shipped(checker, "tuned.cu", PLANTED[planted])
    result = at_full_size(checker, text, "4096x14336")
    assert result.outcome is CaseOutcome.WRONG, result.message


OF_DATA = "    if ((float)g.value[0] > 9.0f) { result[i] = r; continue; }"


@pytest.mark.parametrize(
    ("change", "taken"),
    [
        ((GATE, f"  if (token > 4000) gate_row();\n{GATE}"), {False, True}),
        ((GATE, f"  if (token > 5000) gate_row();\n{GATE}"), {False}),
        # Both sides store the same, and which runs is up to data: neither counts.
        ((STORE, f"{OF_DATA.replace('> 9.0f', '> 9.0f && token > 4000')}\n{STORE}"), set()),
    ],
)
def test_sides_that_sizes_and_indices_decide_count(
    checkers: dict[str, Checker], change: tuple[str, str], taken: set[bool]
) -> None:
    checker = checkers["silu_and_mul"]
    text = shipped(checker, "tuned.cu", change)
    text = text.replace("gate_row();", "__threadfence_block();")
    result, sides = with_sides(checker, text, "4096x14336")
    assert (result.outcome, result.message) == (CaseOutcome.PASSED, "")
    assert {side for condition, side in sides if "token >" in condition} == taken


def test_ptx_is_read_and_run_in_the_confined_thread_alone(
    checkers: dict[str, Checker], monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = set()

    def seen(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            threads.add(threading.current_thread())
            return function(*arguments, **named)

        return call

    monkeypatch.setattr(device, "parse_ptx", seen(device.parse_ptx))
    monkeypatch.setattr(device, "slice_of", seen(device.slice_of))
    monkeypatch.setattr(whole, "run_skeleton", seen(whole.run_skeleton))
    monkeypatch.setattr(Machine, "run", seen(Machine.run))
    checker = checkers["silu_and_mul"]
    text = shipped(checker, "tuned.cu", (GATE, f"  // Another text.\n{GATE}"))
    assert with_sides(checker, text, "16x4096")[0].outcome is CaseOutcome.PASSED
    assert len(threads) == 1
    assert threading.main_thread() not in threads


def test_rows_left_unchanged_in_place_fail(checkers: dict[str, Checker]) -> None:
    begin = "  float sum = 0.0f;\n  for (int i = threadIdx.x; i < d / N;"
    change = (begin, f"  if (blockIdx.x == 3333) return;\n{begin}")
    text = shipped(checkers["fused_add_rmsnorm"], "tuned.cu", change)
    result = at_full_size(checkers["fused_add_rmsnorm"], text, "4096x8192")
    assert result.outcome is CaseOutcome.WRONG
    assert {o.at[0] for o in result.outputs if not o.ok} == {3333}


TEMPLATE = "template <typename T, int N>\n__global__ void silu_and_mul_vec"
ROW_TYPES = """template <typename T> struct Row { using type = int64_t; };
template <> struct Row<__nv_bfloat16> { using type = uint16_t; };
"""
BY_PAIRS = """   when d % 2 == 0 and aligned(out, 4) and aligned(input, 4):
       silu_and_mul_vec<T, 2> grid=tokens block=256 args=(out, input, d)
   otherwise:"""
ROW = "token = blockIdx.x;"
BEYOND = {
    "rows of 16 bits": (FAR, ((ROW, "token = (uint16_t)blockIdx.x;"),)),
    "rows of 24 bits": (FAR, ((ROW, "token = (int64_t)(float)blockIdx.x;"),)),
    "offsets of 32 bits": (
        FAR,
        (("input + token * 2 * d)", "input + (unsigned)(token * 2 * d))"),),
    ),
    "packs of 31 bits": (
        FAR,
        (
            (
                "reinterpret_cast<P*>(out + token * d)",
                "reinterpret_cast<P*>(out) + (int)(token * (d / N))",
            ),
        ),
    ),
    "packs of a row in 16 bits": (FAR, (("i < d / N;", "i < (uint16_t)(d / N);"),)),
    "one type's rows in 16 bits": (
        FAR,
        ((TEMPLATE, ROW_TYPES + TEMPLATE), (ROW, "token = (typename Row<T>::type)blockIdx.x;")),
    ),
    "another path's rows in 16 bits": (
        FAR,
        (("   otherwise:", BY_PAIRS), (ROW, "token = N == 2 ? blockIdx.x & 0xffff : blockIdx.x;")),
    ),
    "no alignment": (
        MANY_ROWS,
        (
            (
                "d % width == 0 and aligned(out, 16) and aligned(input, 16)",
                "d % width == 0 and (tokens >= 512 or aligned(out, 16) and aligned(input, 16))",
            ),
        ),
    ),
}


def test_far_sizes_and_many_rows_of_every_kind(checkers: dict[str, Checker]) -> None:
    checker = checkers["silu_and_mul"]
    results = list(beyond(checker, shipped(checker, "tuned.cu")))
    assert {r.outcome for r in results} == {CaseOutcome.PASSED}, [r.message for r in results]
    assert all(r.blocks_run and not r.reduced for r in results)
    for name, (begins, edits) in BEYOND.items():
        text = shipped(checker, "tuned.cu", *edits)
        bad = [r for r in beyond(checker, text) if not r.outcome.ok]
        assert bad, name
        assert {r.outcome for r in bad} <= {CaseOutcome.WRONG, CaseOutcome.FAULT}
        assert all(r.workload.startswith(begins) for r in bad)
        if name == "offsets of 32 bits":
            assert 'accepts = [..., "tokens * 2 * d <= 2147483647"]' in bad[-1].message


def test_strided_rows_are_read_and_judged_in_place(checkers: dict[str, Checker]) -> None:
    checker = checkers["fused_add_rmsnorm"]
    results = list(beyond(checker, shipped(checker, "tuned.cu")))
    assert {r.outcome for r in results} == {CaseOutcome.PASSED}, [r.message for r in results]
    assert any("apart" in r.workload for r in results)


TWO_LAUNCHES = """
/* @launch
   workspace sums: float32[tokens]
   sum_rows<T> grid=tokens block=256 args=(x, residual, sums, d)
   scale_rows<T> grid=(ceil_div(d, 256), tokens) block=256
       args=(x, residual, weight, sums, d, eps)
*/
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <typename T>
__global__ void sum_rows(const T* x, const T* residual, float* sums, int d) {
  __shared__ float partial[256];
  float sum = 0.0f;
  for (int i = threadIdx.x; i < d; i += 256) {
    const float z = (float)x[blockIdx.x * d + i] + (float)residual[blockIdx.x * d + i];
    sum += z * z;
  }
  partial[threadIdx.x] = sum;
  for (int half = 128; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = partial[0];
}

template <typename T>
__global__ void scale_rows(T* x, T* residual, const T* weight, const float* sums, int d,
                           float eps) {
  const int i = blockIdx.x * 256 + threadIdx.x, row = blockIdx.y;
  if (i >= d) return;
  const float z = (float)x[row * d + i] + (float)residual[row * d + i];
  residual[row * d + i] = (T)z;
  x[row * d + i] = (T)(z * rsqrtf(sums[row] / d + eps) * (float)weight[i]);
}
"""


def test_what_several_blocks_make_together_is_not_judged_in_part(
    checkers: dict[str, Checker],
) -> None:
    zoo = read_zoo(ROOT / "tests" / "zoo")
    (honest,) = (entry for entry in zoo.honest if entry.id == "rms-float-atomics")
    results = list(beyond(checkers["fused_add_rmsnorm"], honest.text))
    assert not {r.outcome for r in results} & {CaseOutcome.WRONG, CaseOutcome.FAULT}
    assert any("depend on others" in r.reduced for r in results)


def test_blocks_of_earlier_launches_run_for_what_later_ones_read(
    checkers: dict[str, Checker],
) -> None:
    checker = checkers["fused_add_rmsnorm"]
    result = at_full_size(checker, TWO_LAUNCHES, "1024x4096")
    assert (result.outcome, result.message) == (CaseOutcome.PASSED, "")
    assert result.covered
    assert result.blocks_run < result.blocks // 50
    stale = TWO_LAUNCHES.replace("sums[row] / d", "sums[row < 1000 ? row : 0] / d")
    assert at_full_size(checker, stale, "1024x4096").outcome is CaseOutcome.WRONG
    unsummed = TWO_LAUNCHES.replace("threadIdx.x == 0)", "threadIdx.x == 0 && blockIdx.x < 1000)")
    assert at_full_size(checker, unsummed, "1024x4096").outcome is CaseOutcome.FAULT
