"""What a contract requires of addresses, strides and sizes: every case keeps it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from astra_tui.emulator.device import Emulator
from astra_tui.lab.check.counting import PROFILE_ELEMENTS, workload_case
from astra_tui.lab.check.layout import layouts_of
from astra_tui.lab.check.runner import Checker, select_cases
from astra_tui.lab.check.suite import build_suite
from astra_tui.lab.compiler import Compiler
from astra_tui.model.added_cases import check_added_case
from astra_tui.model.check import Case, CaseOutcome, CheckReport, CheckVerdict
from astra_tui.model.dtypes import DType
from astra_tui.model.errors import UserError
from astra_tui.model.task import KernelTask, TaskError, find_task, parse_task
from tests.conftest import OracleHere

TASK = """
name = "twice"
summary = "rows doubled"
dtypes = ["float16", "float32"]
rows = "n"
[dims.n]
typical = 5
sizes = [0, 1, 33]
[dims.d]
typical = 64
sizes = [7, 8, 104]
[args.out]
role = "out"
shape = ["n", "d"]
[args.input]
role = "in"
shape = ["n", "d"]
strided = true
limit = 64.0
[contract]
accepts = [
  "d % 8 == 0",
  "aligned(out, 16) and aligned(input, 16)",
  "stride(input, 0) * sizeof(T) % 16 == 0",
]
[tolerance.float16]
atol = 1e-3
rtol = 1e-3
source = "the tests"
[tolerance.float32]
atol = 1e-5
rtol = 1e-5
source = "the tests"
[cost]
bytes = "2 * n * d * sizeof(T)"
flops = "n * d"
[[workloads]]
dims = { n = 40, d = 64 }
"""

KERNEL = """
#include <cuda_fp16.h>
template <typename T>
__global__ void twice(T* out, const T* input, int packs, long long row) {
  constexpr int width = 16 / sizeof(T);
  for (int i = threadIdx.x; i < packs; i += blockDim.x) {
    float4 pack = reinterpret_cast<const float4*>(input + blockIdx.x * row)[i];
    T* values = reinterpret_cast<T*>(&pack);
    for (int k = 0; k < width; ++k) values[k] = values[k] + values[k];
    reinterpret_cast<float4*>(out)[blockIdx.x * (long long)packs + i] = pack;
  }
}
/* @launch
   let width = 16 // sizeof(T)
   when d % 8 == 0:
       twice<T> grid=n block=32 args=(out, input, d // width, stride(input, 0))
   otherwise:
       refuse "rows of whole packs"
*/
"""

Check = Callable[..., CheckReport]


def task_of(folder: Path, text: str = TASK) -> KernelTask:
    """The task in a folder of its own."""
    folder.mkdir()
    (folder / "reference.py").write_text("def reference(input):\n    return {'out': 2 * input}\n")
    (folder / "baseline.cu").write_text(KERNEL)
    return parse_task(text, folder)


@pytest.fixture
def check(compiler: Compiler, tmp_path: Path) -> Check:
    """Checks a source on the cases that patterns name, of a task with the given contract."""

    def run(source: str, task_text: str, *cases: str) -> CheckReport:
        task = task_of(tmp_path / "twice", task_text)
        with closing(OracleHere(task)) as oracle:
            chosen = select_cases(task, cases) if cases else None
            *_, report = Checker(task, Emulator(), compiler, oracle).check(source, "new.cu", chosen)
            assert isinstance(report, CheckReport)
            return report

    return run


def test_a_kernel_may_rely_on_what_the_contract_requires(check: Check) -> None:
    report = check(KERNEL, TASK)
    assert report.verdict is CheckVerdict.PASSED, report.message
    assert any(r.outcome is CaseOutcome.REFUSED and r.case.dims["d"] == 7 for r in report.cases)


def test_no_case_breaks_the_contract_and_bases_are_shifted_all_the_same(tmp_path: Path) -> None:
    task = task_of(tmp_path / "twice")
    alignments, strides = set(), set()
    for case in build_suite(task, 1):
        layouts = layouts_of(task, case)
        if not case.outside_contract:
            alignments |= {one.alignment for one in layouts.values() if one.offset}
            strides.add(layouts["input"].strides[0] - case.dims["d"])
            call = task.placements(case.dims, case.dtype, case.offsets, case.row_padding)
            assert not task.broken(task.bindings(case.dims, case.dtype, call))
    assert min(alignments) == 16
    assert len(strides) > 2


def test_without_the_contract_the_same_kernel_fails(check: Check) -> None:
    without = TASK.replace('  "aligned(out, 16) and aligned(input, 16)",\n', "")
    report = check(KERNEL, without, "float16/all shifted*")
    assert {r.outcome for r in report.cases} == {CaseOutcome.FAULT}


def test_alignment_that_the_plan_alone_requires_is_refused_wrongly(check: Check) -> None:
    without = TASK.replace('  "aligned(out, 16) and aligned(input, 16)",\n', "")
    asking = KERNEL.replace("when d % 8 == 0:", "when d % 8 == 0 and aligned(out, 16):")
    report = check(asking, without, "float16/all shifted*")
    assert {r.outcome for r in report.cases} == {CaseOutcome.WRONGLY_REFUSED}


@pytest.mark.parametrize(
    "condition", ["d % 8 == 0 and aligned(out, 32)", "d % 16 == 0", "stride(input, 0) == d"]
)
def test_a_plan_that_refuses_more_than_the_contract_excludes_is_wrong(
    check: Check, condition: str
) -> None:
    refusing = KERNEL.replace("when d % 8 == 0:", f"when {condition}:")
    report = check(refusing, TASK, "float16/d=104", "float16/all shifted*", "float16/rows apart*")
    assert report.verdict is CheckVerdict.FAILED
    assert CaseOutcome.WRONGLY_REFUSED in {r.outcome for r in report.cases}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("aligned(out, 16)", "aligned(outer, 16)", "unknown name 'outer'"),
        ("aligned(out, 16)", "out % 16 == 0", "the left side of '%' is a tensor"),
        ("aligned(out, 16)", "aligned(out, 512)", "workload 40x64 breaks the contract: aligned"),
        ("aligned(out, 16)", "aligned(out, 12)", "aligned() needs a power of two, not 12"),
        ("stride(input, 0) *", "stride(input, 2) *", "a number from 0 to 1 for input"),
        ("stride(input, 0) * sizeof(T) % 16", "stride(input, 0) % 128", "breaks the contract"),
    ],
)
def test_a_contract_that_cannot_be_kept_is_an_error(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    with pytest.raises(TaskError) as caught:
        task_of(tmp_path / "twice", TASK.replace(old, new))
    assert message in caught.value.message
    assert caught.value.place.line


def test_an_added_case_keeps_the_contract(tmp_path: Path) -> None:
    task = task_of(tmp_path / "twice")
    case = Case("mine", "", DType.FLOAT16, {"n": 3, "d": 8}, offsets={"out": 8})
    check_added_case(case, task)
    with pytest.raises(UserError, match="its layout breaks the contract: aligned"):
        check_added_case(Case("mine", "", DType.FLOAT16, case.dims, offsets={"out": 4}), task)


def test_a_profile_has_as_few_rows_as_the_contract_has() -> None:
    """Of few long rows FlashInfer's softmax has another kernel, which the contract leaves out."""
    task = find_task("flashinfer_softmax")
    assert workload_case(task, None, None, PROFILE_ELEMENTS).dims["batch_size"] == 129
    with pytest.raises(UserError, match="these sizes break the contract"):
        workload_case(task, None, 8)
