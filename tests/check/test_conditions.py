"""Conditions of a source: found, seen, searched for and proved unreachable."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astra_tui.emulator.device import Emulator
from astra_tui.emulator.ptx.inline import inline_calls
from astra_tui.emulator.ptx.parser import parse_ptx
from astra_tui.lab.check import source_check
from astra_tui.lab.check.execution import Run, Source, read_source, resolve_case, run_case
from astra_tui.lab.check.inputs import draw_inputs, scalars_of
from astra_tui.lab.check.oracle import Oracle
from astra_tui.lab.check.runner import Checker
from astra_tui.lab.check.suite import build_suite
from astra_tui.lab.compiler import Compiler
from astra_tui.lab.conditions import closing
from astra_tui.lab.conditions.closing import (
    MAX_PROBE_STEPS,
    MAX_PROBE_THREADS,
    Closing,
    Probed,
)
from astra_tui.lab.conditions.contract import launches_of
from astra_tui.lab.conditions.coverage import Coverage, Reporting, compile_reporting
from astra_tui.lab.conditions.flow import ControlFlowGraph
from astra_tui.lab.conditions.query import DeadCode, query_for
from astra_tui.lab.conditions.source import instrument
from astra_tui.model.check import (
    CONDITION_OF,
    OWN_SIZE_OF,
    Case,
    CaseOutcome,
    CaseResult,
    CheckReport,
    CheckVerdict,
    ConditionResult,
    ConditionStatus,
)
from astra_tui.model.dtypes import DType
from astra_tui.model.events import CaseChecked
from astra_tui.model.launch import ResolvedPlan
from astra_tui.model.launch.resolve import ResolvedLaunch
from astra_tui.model.task import KernelTask, load_task, parse_task
from astra_tui.sessions.journal_lines import Record, decode_record, encode_record
from tests.conftest import ROOT, OracleHere
from tests.quick import write_quick_task

BEGIN = "  const int64_t token = blockIdx.x;\n"

# -- where conditions are --------------------------------------------------------------------------

MANY = r"""
#define BIG(x) ((x) > \
    4)
#define USED_BY_DIRECTIVE (1 > 0)
#if USED_BY_DIRECTIVE
#endif
struct S { int v = blockIdx.x > 2 ? 1 : 0; S(int t) : w(t == 7) {} bool w; };
template <int N, bool B = (N > 4)> __global__ void k(float* x, int n) {
  static_assert(N > 2, "");
  if constexpr (N > 3) x[0] = 1; else if (auto p = n; p > 3) x[1] = 2;
  if (int z = n - 1) x[2] = z;
  for (int i = 0; i < n && !(n == 3); ++i) {
    switch (n) { case 1: x[3] = 1; break; case 2: switch (i) { case 9: break; } default: break; }
  }
  do { ++n; } while (n < 8);
  while (true) { if (BIG(n)) break; n += (x[0] > 0) + 1; }
  float y[N > 2 ? 1 : 2];
  auto last = [&](int u) { return u and n; };
  y[0] = last(n);
  x[4] = y[0] + S(n).w + sizeof(n > 1);
  const int K = N > 4 ? 2 : 1;
  float z[K];
  z[0] = n;
  x[5] = z[0];
}
"""


def test_every_condition_is_found_once_at_its_place() -> None:
    found = instrument(MANY)
    assert not found.unseen
    lines = MANY.split("\n")
    texts = {}
    for condition in found.conditions:
        texts[condition.text] = condition
        if not condition.text.startswith(("case", "default")):
            here = lines[condition.line - 1].encode()[condition.column - 1 :].decode()
            assert here.split("\\")[0].strip().startswith(condition.text.split(" 4")[0][:5])
    assert list(texts) == [
        *("(x) > 4", "blockIdx.x > 2", "t == 7", "p > 3", "int z = n - 1", "i < n", "n == 3"),
        *("case 1", "case 2", "default of switch (n)", "case 9", "default of switch (i)"),
        *("n < 8", "BIG(n)", "x[0] > 0", "u", "n", "N > 4"),
    ]
    assert len({c.number for c in found.conditions}) == len(found.conditions)
    assert texts["(x) > 4"].function == "#BIG"
    assert texts["i < n"].function == "k"
    assert found.text.count("\n") == MANY.count("\n")


def test_comparisons_are_not_taken_for_the_arguments_of_a_template() -> None:
    text = """
template <bool B> __device__ int pick(int i) { return B ? i : -i; }
__global__ void k(int* x, int n, int i) {
  if (i < n && i > (2)) x[0] = 1;
  if ((n < 3 || *x < n) && n > -1) x[1] = pick<true && false>(i);
}
"""
    found = instrument(text)
    assert [c.text for c in found.conditions] == [
        *("B", "i < n", "i > (2)", "n < 3", "*x < n", "n > -1")
    ]
    assert "pick<true && false>(i)" in found.text


def test_comparisons_of_inline_assembly_report_under_their_guard(compiler: Compiler) -> None:
    text = r"""
#define PICK(d, v) asm("{ .reg .pred p, q; setp.gt.s32 p|q, %1, 3;\n" \
    "  @p set.eq.s32.s32 %0, %1, 4; @q mov.u32 %0, 9; }" : "=r"(d) : "r"(v))
__global__ void k(int* x, int n) {
  int y;
  PICK(y, n);
  asm volatile("setp.eq.u32 p" : : "r"(n > 2 ? 1 : 0));
  x[0] = y;
}
"""
    found = instrument(text)
    assert [(c.text, c.line, c.function) for c in found.conditions] == [
        ("setp.gt.s32 p|q, %1, 3", 2, "#PICK"), ("@p set.eq.s32.s32 %0, %1, 4", 3, "#PICK"),
        ("n > 2", 7, "k"),
    ]  # fmt: skip
    assert [c.line for c in found.unseen] == [7], "one that is not whole is named"
    whole = text.replace("setp.eq.u32 p", "")
    reporting = compile_reporting(compiler, whole, ("k",))
    assert reporting is not None
    assert "@p astra.cond" in reporting.compilation.ptx


def test_the_reporting_source_compiles_and_a_candidate_cannot_report(compiler: Compiler) -> None:
    reporting = compile_reporting(compiler, MANY, ("k<5>",))
    assert reporting is not None
    assert not reporting.source.unseen
    assert "astra.cond" in reporting.compilation.ptx
    forged = '__global__ void k() {\n  asm volatile("astra.cond 1, 1;");\n}'
    first, *_ = compiler.compile(forged, ("k",)).errors
    assert first.line == 2


# -- what is seen ----------------------------------------------------------------------------------

TASK = """
name = "grid"
summary = "any function of an index"
dtypes = ["float32"]
[dims.n]
typical = 40
sizes = [1, 3, 40, 65]
[args.out]
role = "out"
dtype = "int32"
shape = ["n"]
[args.at]
role = "in"
dtype = "int32"
shape = ["n"]
values = { kind = "integers", low = 0, high = "n - 1" }
[contract]
accepts = ["n >= 1", "n <= 70"]
[tolerance.float32]
atol = 0.0
rtol = 0.0
source = "whole numbers"
[cost]
bytes = "4 * n"
flops = "n"
[[workloads]]
dims = { n = 64 }
"""

KERNEL = """
/* @launch
   k grid=ceil_div(n, 32) block=32 args=(out, at, null, n)
*/
__global__ void k(int* out, const int* at, const int* none, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int r = i % 5;
  BODY
  out[i] = r;
}
"""

Truth = Callable[[dict[str, int], dict[str, set[bool]]], bool]
Written = tuple[str, Truth]


def leaves() -> st.SearchStrategy[Written]:
    """Comparisons of small integers; the same text may come twice."""
    compare = {
        "<": int.__lt__, "<=": int.__le__, ">": int.__gt__,
        ">=": int.__ge__, "==": int.__eq__, "!=": int.__ne__,
    }  # fmt: skip
    sides = {
        "i": lambda v: v["i"],
        "n": lambda v: v["n"],
        "i % 7": lambda v: v["i"] % 7,
        "n / 3": lambda v: v["n"] // 3,
        "(i & 12)": lambda v: v["i"] & 12,
        "at[i]": lambda v: v["at"],
        "at[at[i]]": lambda v: v["at at"],
        "i * 3 - n": lambda v: v["i"] * 3 - v["n"],
    }

    def make(left: str, operator: str, number: int) -> Written:
        text = f"{left} {operator} {number}"

        def truth(values: dict[str, int], seen: dict[str, set[bool]]) -> bool:
            holds = bool(compare[operator](sides[left](values), number))
            seen.setdefault(text, set()).add(holds)
            return holds

        return text, truth

    return st.builds(
        make, st.sampled_from(list(sides)), st.sampled_from(list(compare)), st.integers(-3, 71)
    )


def joined(parts: st.SearchStrategy[Written]) -> st.SearchStrategy[Written]:
    def both(a: Written, b: Written) -> Written:
        return f"({a[0]} && {b[0]})", lambda v, s: a[1](v, s) and b[1](v, s)

    def either(a: Written, b: Written) -> Written:
        return f"({a[0]} || {b[0]})", lambda v, s: a[1](v, s) or b[1](v, s)

    def neither(a: Written) -> Written:
        return f"!({a[0]})", lambda v, s: not a[1](v, s)

    return st.one_of(
        st.builds(both, parts, parts), st.builds(either, parts, parts), st.builds(neither, parts)
    )


CONDITIONS = st.recursive(leaves(), joined, max_leaves=4)
FORMS = (
    "if ({}) r += 10;",
    "r += ({}) ? 3 : 1;",
    "r += ({}) + 1;",
    "while ({}) {{ r += 2; break; }}",
    "{{ const bool kept = {}; for (int j = 0; j < r; ++j) if (kept) r -= 1; }}",
)
OWN = {"i >= n", "j < r", "kept"}
"""Conditions of the kernel and of the forms."""


@settings(max_examples=12, deadline=None)
@given(written=st.lists(st.tuples(CONDITIONS, st.sampled_from(FORMS)), min_size=1, max_size=3))
def test_what_is_seen_is_what_happens_and_no_proof_denies_it(
    compiler: Compiler, written: list[tuple[Written, str]]
) -> None:
    """Outputs stay the same bit for bit; the sides are those that the conditions had."""
    task = parse_task(TASK, ROOT / "kernels" / "silu_and_mul")  # Any: its files make the hash.
    text = KERNEL.replace(
        "BODY", "\n  ".join(form.format(condition[0]) for condition, form in written)
    )
    compilation = compiler.compile(text, ("k",))
    reporting = compile_reporting(compiler, text, ("k",))
    assert reporting is not None
    assert not reporting.source.unseen
    source, coverage = read_source(task, text, "k.cu"), Coverage(reporting.source)
    expected: dict[str, set[bool]] = {}
    for n in (1, 40, 65):
        case = Case(f"n={n}", "", DType.FLOAT32, {"n": n})
        inputs = draw_inputs(task, case)
        resolved = resolve_case(task, source, case, {})
        assert isinstance(resolved, ResolvedPlan)
        plain, seen = (
            run_case(task, source, c, resolved, case, inputs, Emulator())
            for c in (compilation, reporting.compilation)
        )
        assert plain.outputs["out"].tobytes() == seen.outputs["out"].tobytes()
        coverage.note(seen.outcome.sides, case.id)
        at = inputs.tensors["at"].tolist()
        for i in range(n):
            for condition, _ in written:
                condition[1]({"i": i, "n": n, "at": at[i], "at at": at[at[i]]}, expected)
    found: dict[str, set[bool]] = {}
    numbers = {c.number: c.text for c in reporting.source.conditions}
    for side in coverage.taken:
        found.setdefault(numbers[side.number], set()).add(side.side)
    assert {text: sides for text, sides in found.items() if text not in OWN} == expected
    _no_proof_denies(reporting.compilation.ptx, coverage, reporting, task, source)


def _no_proof_denies(
    ptx: str, coverage: Coverage, reporting: Reporting, task: KernelTask, source: Source
) -> None:
    kernel = reporting.compilation.kernel("k")
    flow = ControlFlowGraph(inline_calls(parse_ptx(ptx), kernel.symbol))
    assert flow.is_reducible()
    (launch,) = launches_of(task, source, kernel)
    dead = DeadCode(flow, launch)
    for side in coverage.taken:
        query = query_for(side.number, side.side, flow, launch, dead)
        assert not query.is_impossible(lambda: 100_000, thorough=True), side


def proved(
    compiler: Compiler,
    body: str,
    task_text: str = TASK,
    *,
    steps: int = 300_000,
    thorough: bool = True,
) -> set[str]:
    """The conditions of a body that are proved never to hold."""
    task = parse_task(task_text, Path())
    text = KERNEL.replace("BODY", body)
    reporting = compile_reporting(compiler, text, ("k",))
    assert reporting is not None
    source = read_source(task, text, "k.cu")
    kernel = reporting.compilation.kernel("k")
    flow = ControlFlowGraph(inline_calls(parse_ptx(reporting.compilation.ptx), kernel.symbol))
    (launch,) = launches_of(task, source, kernel)
    dead = DeadCode(flow, launch)
    return {
        c.text
        for c in reporting.source.conditions
        if query_for(c.number, True, flow, launch, dead).is_impossible(
            lambda: steps, thorough=thorough
        )
    }


def test_what_the_contract_and_the_plan_exclude_is_proved(compiler: Compiler) -> None:
    found = proved(
        compiler,
        "if (blockDim.x != 32) r = 1;\n if (n > 70) r = 2;\n if (gridDim.x > 3) r = 3;\n"
        "if (i > 69) r = 4; if (i + 1 > n) r = 5; if (((size_t)out & 2) == 2) r = 6;\n"
        "if (n > 69) r = 7; if (gridDim.x > 2) r = 8; if (((size_t)out & 4) == 4) r = 9;",
    )
    assert found == {
        *("blockDim.x != 32", "n > 70", "gridDim.x > 3", "i > 69", "i + 1 > n"),
        "((size_t)out & 2) == 2",
    }


def test_integers_of_inputs_keep_the_bounds_of_the_contract_and_nothing_else_does(
    compiler: Compiler,
) -> None:
    """A second pointer in an address, however it got there, may lead to any memory."""
    elsewhere = (
        *("at + (out - at)", "(int*)((size_t)at + ((size_t)out * 3 - (size_t)at * 3) / 3)"),
        *("at + hidden[0]", "at + __shfl_sync(~0u, (int)(out - at), 0)", "(n > 9 ? at : out)"),
    )
    found = proved(
        compiler,
        "__shared__ long long hidden[1]; hidden[0] = out - at; __syncthreads();\n"
        "if (at[i] < 0) r = 1; if (at[i] > 69) r = 2; if (at[i] >= n) r = 3;\n"
        "if (at[at[i]] < 0) r = 4; if ((at + n - 1 - i)[0] < 0) r = 5; if (at[i] > 68) r = 6;\n"
        "if (((const unsigned char*)at)[i] > 69) r = 7; if (out[i] < 0) r = 8;\n"
        + "\n".join(f"if (({address})[i] < 0) r += {i};" for i, address in enumerate(elsewhere)),
    )
    assert found == {
        *("at[i] < 0", "at[i] > 69", "at[i] >= n", "at[at[i]] < 0", "(at + n - 1 - i)[0] < 0")
    }


def test_nothing_is_asked_of_code_to_which_no_launch_leads(compiler: Compiler) -> None:
    """As in the kernels of libraries, which serve more than one operator."""
    found = proved(
        compiler,
        "const bool scaled = none != nullptr;\n"
        "for (int j = 0; j < i; ++j) {\n"
        "  if (scaled && j > 1) { r += none[j]; if (none[j] > 2) r += 1; }\n"
        "  for (int k = 0; k < j; ++k) { if (scaled) { if (i == 9) r += 2; } else r += 3; }\n"
        "  if (scaled || n > 70) while (r < i - 7) ++r;\n"
        "}\n"
        "if (scaled || i > 3) { if (i == 5) r = 4; }",
    )
    assert found == {
        *("none != nullptr", "scaled", "j > 1", "none[j] > 2", "i == 9", "n > 70", "r < i - 7"),
    }


KEPT = """
/* @launch
   let vec = min(8, 16 if n % 16 == 0 else 8 if n % 8 == 0 else 4)
   let warps = ceil_div(min(1024, n // vec), 32)
   let packs = (n + vec - 1) // vec
   let turns = 1 if packs <= 32 * warps else 2 if packs <= 2 * (32 * warps) else 4
   k<vec, turns> grid=1 block=(32 * warps) args=(out, at, n)
*/
template <int VEC, int TURNS> __global__ void k(int* out, const int* at, int n) {
  int r = 0;
  if (n % VEC == 0) r += 1;
  if (threadIdx.x % 32 < blockDim.x / 32) r += 2;
  if (blockDim.x > 512) r += 3;
  if (n > 8192 * TURNS) r += 4;
  if (n > 4 * 1024) r += 5;
  out[threadIdx.x] = r;
}
"""


@pytest.mark.parametrize("turns", [1, 2])
@pytest.mark.parametrize("vec", [8, 4])
def test_what_template_arguments_say_of_the_plan_is_part_of_a_proof(
    vec: int, turns: int, compiler: Compiler
) -> None:
    """Rows that take a second turn have all the warps of a block, with packs of either width."""
    task = parse_task(TASK.replace("n <= 70", "n % 4 == 0"), Path())
    kernel = f"k<{vec}, {turns}>"
    reporting = compile_reporting(compiler, KEPT, (kernel,))
    assert reporting is not None
    compiled = reporting.compilation.kernel(kernel)
    flow = ControlFlowGraph(inline_calls(parse_ptx(reporting.compilation.ptx), compiled.symbol))
    (launch,) = launches_of(task, read_source(task, KEPT, "k.cu"), compiled)
    dead, taken = DeadCode(flow, launch), set()
    for n in range(4, 20_000, 4):
        packs = n // vec
        warps = -(-min(1024, packs) // 32)
        turns_of_n = 1 if packs <= 32 * warps else 2 if packs <= 64 * warps else 4
        if vec == (8 if n % 8 == 0 else 4) and turns_of_n == turns:
            for lane in (0, 31):
                holds = (n % vec == 0, lane < warps, warps > 16, n > 8192 * turns, n > 4096)
                taken |= set(enumerate(holds))
    for condition in reporting.source.conditions:
        for side in (True, False):
            query = query_for(condition.number, side, flow, launch, dead)
            denied = query.is_impossible(lambda: 30_000, thorough=True)
            assert denied == ((condition.number, side) not in taken), (condition.text, side)


# -- what a check makes of it ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def silu(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A task whose file may be changed."""
    return write_quick_task(tmp_path_factory.mktemp("silu"))


def checked(folder: Path, compiler: Compiler, old: str, new: str) -> CheckReport:
    text = (folder / "tuned.cu").read_text()
    assert old in text
    task = load_task(folder)
    with OracleHere(task) as oracle:
        *_, report = Checker(task, Emulator(), compiler, oracle).check(
            text.replace(old, new, 1), "planted.cu"
        )
    assert isinstance(report, CheckReport)
    return report


UP = "    const float up = (float)"
SCALAR = "  for (int64_t i = threadIdx.x; i < d; i"


@pytest.mark.parametrize(
    ("old", "new", "reached"),
    [
        (BEGIN, BEGIN + "  if (gridDim.x > 200 && token % 4 == 3) return;\n", "token % 4 == 3"),
        (SCALAR, "  if (((uint64_t)input & 15) == 6) return;\n" + SCALAR, "input"),
        # A case of the source itself, before conditions are looked at.
        ("silu(gate) * up)", "silu(gate) * up * (1 - (d == 1234)))", ""),
        (UP, "    if (gate == 3.25f) return;\n" + UP, ""),
    ],
    ids=["large grid", "alignment", "one size", "one value"],
)  # fmt: skip
def test_a_path_that_no_case_of_the_suite_takes_is_reached(
    silu: Path, compiler: Compiler, old: str, new: str, reached: str
) -> None:
    report = checked(silu, compiler, old, new)
    assert report.verdict is CheckVerdict.FAILED
    found = [c for c in report.conditions if reached and reached in c.text and c.side]
    assert [c.status for c in found] == [ConditionStatus.REACHED] * bool(reached)
    assert any(
        not r.outcome.ok and (r.case.is_of_plan or "3.25" in r.case.name) for r in report.cases
    )


@pytest.mark.parametrize(
    ("does", "verdict"),
    [("return;", CheckVerdict.FAILED), ('asm volatile("");', CheckVerdict.PASSED)],
    ids=["wrong", "right"],
)
def test_sizes_too_large_for_a_case_are_looked_at_in_part(
    silu: Path, compiler: Compiler, does: str, verdict: CheckVerdict
) -> None:
    planted = f"  if (token > 899 && d % 1024 == 1016) {does}\n"
    report = checked(silu, compiler, BEGIN, BEGIN + planted)
    assert report.verdict is verdict, report.message
    large = [f for f in report.full_size if f.workload.startswith(CONDITION_OF)]
    if verdict is CheckVerdict.PASSED:
        reached = {c.why for c in report.conditions if c.status is ConditionStatus.REACHED}
        assert reached & {OWN_SIZE_OF + f.workload for f in large}
    else:
        assert CaseOutcome.WRONG in {f.outcome for f in large}


PLAN = "   let width = 16 // sizeof(T)\n"
BEHIND_A_THRESHOLD = """\
   let equal = max(ceil_div(ceil_div(d // width, ceil_div(max(d // width, 1), 256)), 32) * 32, 32)
   let turns = 1 if d // width <= equal else 2
   when tokens * d >= 600000 and d % width == 0 and aligned(out, 16) and aligned(input, 16)
        and d // width <= 2 * equal:
       silu_and_mul_turns<T, width, turns> grid=tokens block=equal args=(out, input, d)
"""
IN_TURNS = """
template <typename T, int N, int TURNS>
__global__ void silu_and_mul_turns(T* __restrict__ out, const T* __restrict__ input, int64_t d) {
#pragma unroll
  for (int turn = 0; turn < TURNS; ++turn) {
    const int64_t i = threadIdx.x + turn * blockDim.x, at = blockIdx.x * 2 * d + i * N;
    if (i < d / N) {
      for (int k = 0; k < N; ++k) {
        const float gate = (float)input[at + k];
        out[blockIdx.x * d + i * N + k] = (T)(silu(gate) * (float)input[at + d + k]);
      }
    }
  }
}
"""


def test_a_guard_behind_a_threshold_of_many_elements_is_reached_near_a_workload(
    tmp_path: Path, compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in what a sweep joins: no case is as large, and rows of the workload fill their blocks.

    The solver has no steps for questions that leave sizes open, as behind divisions of divisions.
    """
    monkeypatch.setattr(closing, "_SOLVER_STEPS", 1)
    monkeypatch.setattr(closing, "_MANY_STEPS", 1)
    folder = write_quick_task(tmp_path)
    (folder / "tuned.cu").write_text((folder / "tuned.cu").read_text() + IN_TURNS)
    report = checked(folder, compiler, PLAN, PLAN + BEHIND_A_THRESHOLD)
    (guard,) = [c for c in report.conditions if c.text == "i < d / N" and not c.side]
    assert (guard.status, guard.why) == (
        ConditionStatus.REACHED,
        OWN_SIZE_OF + CONDITION_OF + "256x4096, tokens=256, d=4088",
    )


@pytest.mark.parametrize("threshold", ["4100000", "2500000"])
def test_a_guard_behind_a_threshold_that_no_workload_reaches_is_reached(
    tmp_path: Path, compiler: Compiler, monkeypatch: pytest.MonkeyPatch, threshold: str
) -> None:
    """Of few sizes a solver finds one. Of many it needs none: a workload's size and another that is
    found launch the kernel, and sizes close to them lead there.
    """
    if threshold == "2500000":
        monkeypatch.setattr(closing.Closing, "_steps_up_to", lambda closing, most: 1)
    folder = write_quick_task(tmp_path)
    (folder / "tuned.cu").write_text((folder / "tuned.cu").read_text() + IN_TURNS)
    plan = BEHIND_A_THRESHOLD.replace("600000", threshold)
    report = checked(folder, compiler, PLAN, PLAN + plan)
    assert report.verdict is CheckVerdict.PASSED, report.message
    (guard,) = [c for c in report.conditions if c.text == "i < d / N" and not c.side]
    assert guard.status is ConditionStatus.REACHED
    assert guard.why.startswith(OWN_SIZE_OF + CONDITION_OF)


def test_a_guard_behind_many_rows_is_reached_with_a_part_of_a_workloads_width(
    tmp_path: Path, compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a threshold of rows a case has narrow ones, of less than two warps. A workload's own
    width takes another kernel, half of it this one.
    """
    monkeypatch.setattr(closing.Closing, "_steps_up_to", lambda closing, most: 1)
    folder = write_quick_task(tmp_path)
    in_warps = IN_TURNS.replace("#pragma", '  if (threadIdx.x < 32) asm volatile("");\n#pragma')
    (folder / "tuned.cu").write_text((folder / "tuned.cu").read_text() + in_warps)
    many_rows = BEHIND_A_THRESHOLD.replace("tokens * d >= 600000", "tokens > 720")
    report = checked(folder, compiler, PLAN, PLAN + many_rows)
    assert report.verdict is CheckVerdict.PASSED, report.message
    (guard,) = [c for c in report.conditions if c.text == "threadIdx.x < 32" and not c.side]
    assert guard.status is ConditionStatus.REACHED
    assert guard.why.startswith(OWN_SIZE_OF + CONDITION_OF)
    assert "d=2048" in guard.why


MARKED = """\
name = "marked"
summary = "x + 1, and nothing in a marked row"
dtypes = ["float32"]
rows = "rows"

[dims.rows]
sizes = [0, 1, 7]

[dims.d]
sizes = [1, 8, 40]

[args.out]
role = "out"
shape = ["rows", "d"]

[args.x]
role = "in"
shape = ["rows", "d"]

[args.kind]
role = "in"
dtype = "int32"
shape = ["rows"]
values = { kind = "integers", low = 0, high = 1000000 }

[args.none]
role = "scalar"
dtype = "int32"
choices = [777777, 5]

[contract]
accepts = ["rows >= 0", "d >= 1"]

[tolerance.float32]
atol = 1e-06
rtol = 1e-06
source = "a sum is rounded once"

[cost]
bytes = "8 * rows * d"
flops = "rows * d"

[[workloads]]
dims = { rows = 7, d = 40 }
"""
MARKED_SOURCE = """\
/* @launch
   k grid=rows block=64 args=(out, x, kind, none, d)
*/
__global__ void k(float* out, const float* x, const int* kind, int none, int d) {
  for (int i = threadIdx.x; i < d; i += blockDim.x) {
    const long at = blockIdx.x * (long)d + i;
    out[at] = kind[blockIdx.x] == none ? 0.0f : x[at] + 1.0f;
  }
}
"""


def test_integers_of_inputs_are_tried_at_what_scalars_may_be(
    tmp_path: Path, compiler: Compiler
) -> None:
    (tmp_path / "task.toml").write_text(MARKED)
    (tmp_path / "baseline.cu").write_text(MARKED_SOURCE)
    (tmp_path / "reference.py").write_text(
        "import torch\n\n\ndef reference(x, kind, none):\n"
        "    return {'out': torch.where((kind == none)[:, None], torch.zeros_like(x), x + 1)}\n"
    )
    task = load_task(tmp_path)
    with OracleHere(task) as oracle:
        *_, report = Checker(task, Emulator(), compiler, oracle).check(MARKED_SOURCE, "k.cu")
    assert isinstance(report, CheckReport)
    assert report.verdict is CheckVerdict.PASSED, report.message
    assert "kind all 777777" in {c.why.rpartition(", ")[2] for c in report.conditions}


def test_what_stays_open_is_inconclusive_until_an_engineer_rules(
    silu: Path, compiler: Compiler
) -> None:
    never = "gate == 12345.0f && __float_as_int(gate) % 7 == 3"
    in_asm = "setp.eq.f32 p, %1, 0f4640E600"
    asm = f'asm("{{.reg .pred p; {in_asm}; selp.f32 %0, 0f40000000, 0f3F800000, p;}}"'
    edit = (
        UP,
        f'    if ({never}) return;\n    float one;\n    {asm} : "=f"(one) : "f"(gate));\n'
        f"{UP.replace('(float)', 'one * (float)')}",
    )
    report = checked(silu, compiler, *edit)
    assert report.verdict is CheckVerdict.INCONCLUSIVE
    assert {c.text for c in report.open_conditions} == {*never.split(" && "), in_asm}
    assert "never true" in report.message
    file = silu / "task.toml"
    text = file.read_text()
    rulings = "".join(
        f'[[accept]]\ncondition = "{c.text}"\nreason = "never in our data"\n'
        for c in report.open_conditions
    )
    file.write_text(text + "\n" + rulings)
    try:
        ruled = checked(silu, compiler, *edit)
    finally:
        file.write_text(text)
    assert ruled.verdict is CheckVerdict.PASSED
    assert {c.status for c in ruled.conditions} == {ConditionStatus.ACCEPTED}
    assert all(c.why == "never in our data" for c in ruled.conditions)


def test_cases_for_open_conditions_end_with_the_steps_that_they_may_take(
    silu: Path, compiler: Compiler
) -> None:
    """However dear each is; and none has more threads than a case may, whatever it would show."""
    edit = (UP, "    if (gate == 12345.0f && gridDim.x % 3 > 1) return;\n" + UP)
    probed, closed = closed_without_a_hit(silu, compiler, edit, "all shifted by 1")
    assert len(probed) == MAX_PROBE_STEPS // 1_000_000
    assert any("steps for more are spent" in c.why for c in closed)
    for _, launches in probed:
        threads = sum(math.prod((*r.grid, *r.block)) for r in launches)
        assert threads <= MAX_PROBE_THREADS


def test_large_cases_have_sizes_that_the_solver_does_not_rule_out(
    silu: Path, compiler: Compiler
) -> None:
    """Each takes longer to run than the solver for its sizes, and all have one budget."""
    edit = (BEGIN, BEGIN + '  if (d % 64 == 16) asm volatile("");\n')
    probed, _ = closed_without_a_hit(silu, compiler, edit, "typical")
    large = [c.dims for c, _ in probed if c.dims["tokens"] * c.dims["d"] > 1 << 13]
    assert large
    assert all(dims["d"] % 64 == 16 for dims in large)


def closed_without_a_hit(
    folder: Path, compiler: Compiler, edit: tuple[str, str], name: str
) -> tuple[list[tuple[Case, tuple[ResolvedLaunch, ...]]], tuple[ConditionResult, ...]]:
    """The cases made for what the cases of a name leave open, each of which costs a million steps
    and takes no side; with what is said of the sides.
    """
    task = load_task(folder)
    text = (folder / "tuned.cu").read_text().replace(*edit, 1)
    source = read_source(task, text, "k.cu")
    cases = [c for c in build_suite(task) if c.name == name]
    (launch, *_) = resolved_launches(task, source, cases[0])
    reporting = compile_reporting(compiler, text, (launch.kernel,))
    assert reporting is not None
    results = tuple(CaseResult(c, CaseOutcome.PASSED, kernels=(launch.kernel,)) for c in cases)
    probed: list[tuple[Case, tuple[ResolvedLaunch, ...]]] = []

    def probe(case: Case) -> Probed:
        probed.append((case, resolved_launches(task, source, case)))
        return Probed(took=False, steps=1_000_000)

    coverage, inputs = Coverage(reporting.source), draw_inputs(task, cases[0])
    resolved = resolve_case(task, source, cases[0], inputs.scalars)
    assert isinstance(resolved, ResolvedPlan)
    parts = task, source, reporting.compilation, resolved, cases[0], inputs, Emulator()
    coverage.note(run_case(*parts).outcome.sides, cases[0].id)
    parts = task, source, reporting, coverage, results, probe
    closed = Closing(*parts, lambda case: None, ()).close()
    return probed, closed


def resolved_launches(task: KernelTask, source: Source, case: Case) -> tuple[ResolvedLaunch, ...]:
    resolved = resolve_case(task, source, case, scalars_of(task, case))
    assert isinstance(resolved, ResolvedPlan)
    return resolved.launches


def test_a_source_with_a_side_out_of_reach_does_not_take_twice_the_steps(
    silu: Path, compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Past the steps for it, only cases of the source's own run again for open conditions."""
    steps: list[int] = []
    report = source_check.SourceCheck._report

    def noting(check: source_check.SourceCheck, *rest: Any) -> CheckReport:
        steps.append(check.steps)
        return report(check, *rest)

    monkeypatch.setattr(source_check.SourceCheck, "_report", noting)
    edit = (UP, "    if (gate == 12345.0f && __float_as_int(gate) % 7 == 3) return;\n" + UP)
    assert checked(silu, compiler, *edit).verdict is CheckVerdict.INCONCLUSIVE
    monkeypatch.setattr(source_check, "SEEKING_STEPS", 0)
    assert checked(silu, compiler, *edit).verdict is CheckVerdict.INCONCLUSIVE
    assert steps[1] < 0.8 * steps[0]


def test_a_check_that_was_cut_off_continues_without_its_cases(
    silu: Path, compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its report is that of a check in one go, also of the sides that the first cases took."""
    task, ran = load_task(silu), list[tuple[str, bool]]()
    source = (silu / "tuned.cu").read_text().replace(
        "silu(gate) * up)", "silu(gate) * up * (1 - (d == 1234)))"
    )  # fmt: skip

    def noted(*args: Any, **options: Any) -> Run:
        ran.append((args[4].id, options.get("checked", True)))
        return run_case(*args, **options)

    monkeypatch.setattr(source_check, "run_case", noted)

    def report(oracle: Oracle, known: tuple[CaseResult, ...] = ()) -> CheckReport:
        ran.clear()
        checker = Checker(task, Emulator(), compiler, oracle)
        *_, last = checker.check(source, "planted.cu", known=known)
        assert isinstance(last, CheckReport)
        return msgspec.structs.replace(last, counters=None, seconds=0.0)

    def as_kept(results: tuple[CaseResult, ...]) -> tuple[CaseResult, ...]:
        lean = (msgspec.structs.replace(r, counters=None) for r in results)
        lines = (encode_record(Record(0, "", 0.0, CaseChecked("", r))).strip() for r in lean)
        return tuple(decode_record(line).event.result for line in lines)  # type: ignore

    with OracleHere(task) as oracle:
        whole = report(oracle)
        results = as_kept(whole.cases)
        assert any(r.case.is_of_plan and not r.outcome.ok for r in results)
        for kept in (len(results) // 3, len(results)):
            resumed = report(oracle, results[:kept])
            assert str(as_kept(resumed.cases)) == str(results), "NaN is not equal to itself"
            assert msgspec.structs.replace(resumed, cases=whole.cases) == whole
            done = {r.case.id for r in results[:kept] if r.trail is not None}
            assert not [name for name, checked in ran if checked and name in done]
            assert len({name for name, checked in ran if checked}) == len(
                {r.case.id for r in results[kept:] if r.trail is not None}
            )


def test_a_remainder_in_the_contract_is_proved_without_the_budget(compiler: Compiler) -> None:
    task = TASK.replace('"n <= 70"', '"n <= 70", "n * 2 % 16 == 0"')
    body = "if (n == 4) r = 1;\n if (n == 16) r = 2;"
    assert proved(compiler, body, task, steps=1, thorough=False) == {"n == 4"}
