"""Inputs that hold indices: bounded by a dimension, and distinct where they are written to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from astra_tui.emulator.device import Emulator
from astra_tui.lab.check.inputs import draw_inputs
from astra_tui.lab.check.runner import Checker, select_cases
from astra_tui.lab.check.suite import build_suite
from astra_tui.lab.compiler import Compiler
from astra_tui.lab.on_gpu.workload import WorkloadBuffers
from astra_tui.model.added_cases import check_added_case
from astra_tui.model.check import Case, CaseOutcome, CheckReport, CheckVerdict
from astra_tui.model.dtypes import DType
from astra_tui.model.errors import UserError
from astra_tui.model.task import KernelTask, TaskError, ValueKind, Values, parse_task
from tests.conftest import OracleHere

TASK = """
name = "move_rows"
summary = "rows of a table, found by an index, into slots of a cache"
dtypes = ["float32"]
[dims.tokens]
typical = 6
sizes = [0, 1, 9]
[dims.pages]
typical = 20
sizes = [1, 9, 50]
[dims.d]
typical = 8
sizes = [1, 33]
[args.cache]
role = "inout"
shape = ["pages", "d"]
[args.table]
role = "in"
shape = ["pages", "d"]
[args.index]
role = "in"
dtype = "int32"
shape = ["tokens"]
values = { kind = "integers", low = "0", high = "pages - 1" }
[args.slots]
role = "in"
dtype = "int64"
shape = ["tokens"]
values = { kind = "integers", high = "pages - 1", distinct = "tensor" }
[args.begins]
role = "in"
dtype = "int32"
shape = ["tokens + 1"]
values = { kind = "offsets", high = "pages" }
[contract]
accepts = ["pages >= 1"]
[tolerance.float32]
atol = 1e-6
rtol = 1e-6
source = "copies"
[cost]
bytes = "2 * tokens * d * sizeof(T)"
flops = "0"
[[workloads]]
dims = { tokens = 16, pages = 20, d = 8 }
"""

REFERENCE = """
def reference(cache, table, index, slots, begins):
    moved = cache.clone()
    moved[slots] = table[index] + begins.diff()[:, None]
    return {"cache": moved}
"""

KERNEL = """
__global__ void move_rows(float* cache, const float* table, const int* index,
                          const long long* slots, const int* begins, int d) {
  const long long from = index[blockIdx.x], to = slots[blockIdx.x];
  const float length = begins[blockIdx.x + 1] - begins[blockIdx.x];
  for (int i = threadIdx.x; i < d; i += blockDim.x)
    cache[to * d + i] = table[from * d + i] + length;
}
/* @launch
   when tokens <= pages: move_rows grid=tokens block=32 args=(cache, table, index, slots, begins, d)
   otherwise: refuse "more tokens than slots"
*/
"""


def task_of(folder: Path, text: str = TASK) -> KernelTask:
    """The task in a folder of its own."""
    folder.mkdir()
    (folder / "reference.py").write_text(REFERENCE)
    (folder / "baseline.cu").write_text(KERNEL)
    return parse_task(text, folder)


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> KernelTask:
    """The task as it is."""
    return task_of(tmp_path_factory.mktemp("tasks") / "move_rows")


@pytest.fixture(scope="module")
def check(compiler: Compiler, task: KernelTask) -> Iterator[Callable[..., CheckReport]]:
    """Checks a source, on the cases that patterns name."""
    with closing(OracleHere(task)) as oracle:
        checker = Checker(task, Emulator(), compiler, oracle)

        def run(source: str, *cases: str) -> CheckReport:
            chosen = select_cases(task, cases) if cases else None
            *_, report = checker.check(source, "new.cu", chosen)
            assert isinstance(report, CheckReport)
            return report

        yield run


def test_a_gather_and_scatter_passes(check: Callable[..., CheckReport]) -> None:
    report = check(KERNEL)
    assert report.verdict is CheckVerdict.PASSED, report.message
    assert CaseOutcome.REFUSED in {r.outcome for r in report.cases}, "9 tokens have no 1 slot"


def test_values_are_bounded_by_the_dimension_and_distinct(task: KernelTask) -> None:
    largest = set()
    for case in build_suite(task):
        if not case.outside_contract and case.dims["tokens"]:
            drawn = draw_inputs(task, case).tensors
            pages = case.dims["pages"]
            assert drawn["index"].max() < pages
            assert drawn["slots"].max() < pages
            assert len(np.unique(drawn["slots"])) == case.dims["tokens"]
            assert (drawn["begins"][0], drawn["begins"][-1]) == (0, pages)
            largest.add(pages)
    assert len(largest) > 3
    buffers = WorkloadBuffers(task, task.workloads[0], 5)
    fills = {b.name: (b.fill.high, b.fill.group) for b in buffers.buffers if b.fill is not None}
    found = (fills["index"], fills["slots"], fills["begins"])
    assert found == ((19, 0), (19, 16), (20, 17))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("from = index[blockIdx.x]", "from = blockIdx.x"),
        ("to = slots[blockIdx.x]", "to = blockIdx.x"),
        ("from = index[blockIdx.x]", "from = index[blockIdx.x] % gridDim.x"),
    ],
)
def test_a_kernel_that_does_not_follow_its_indices_is_wrong(
    check: Callable[..., CheckReport], old: str, new: str
) -> None:
    report = check(KERNEL.replace(old, new), "float32/typical")
    assert report.verdict is CheckVerdict.FAILED


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"pages - 1" }', '"page - 1" }', "unknown name 'page'"),
        ('"pages - 1" }', '"pages / 2" }', "is a floating-point number"),
        ('kind = "integers", low = "0"', 'kind = "uniform"', "only whole numbers follow"),
        ('distinct = "tensor"', 'distinct = "all"', "distinct"),
        (
            'integers", high = "pages - 1", dis',
            'arange", high = 9, dis',
            "only integers are distinct",
        ),
        ('"integers", low = "0"', '"distribution"', "only whole numbers follow"),
        ('"integers", low = "0", high = "pages - 1"', '"distribution"', "floating-point numbers"),
        (
            'shape = ["pages", "d"]\n[args.index]',
            'shape = ["pages", "d"]\nvalues = { kind = "offsets" }\n[args.index]',
            "offsets are whole numbers",
        ),
        (
            'shape = ["pages", "d"]\n[args.index]',
            'shape = ["pages", "d"]\nlimit = 2.0\nvalues = { kind = "distribution" }\n[args.index]',
            "nor do they have a limit",
        ),
        ('"offsets", high', '"integers", apart = 1, high', "other values have no such key"),
        (
            '"offsets", high = "pages"',
            '"offsets", high = "pages", apart = 2',
            "pages - 0 + 1 >= (tokens + 1 - 1) * 2 + 1",
        ),
        ('name = "move_rows"', 'name = "m"\nrows = "pages"', "rows whose values do are not"),
        (
            "tokens = 16, pages = 20",
            "tokens = 16, pages = 15",
            "contract: tokens == 0 or pages - 1 - 0 + 1 >= tokens",
        ),
    ],
)
def test_values_that_cannot_be_drawn_are_an_error(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    assert old in TASK
    with pytest.raises(TaskError) as caught:
        task_of(tmp_path / "task", TASK.replace(old, new))
    assert message in caught.value.message
    assert caught.value.place.line


def test_an_added_case_keeps_the_bounds_of_its_own_sizes(task: KernelTask) -> None:
    def case(**values: Values) -> Case:
        return Case("mine", "", DType.FLOAT32, {"tokens": 2, "pages": 3, "d": 1}, values=values)

    check_added_case(case(index=Values(ValueKind.CONSTANT, 2)), task)
    with pytest.raises(UserError, match="leave the task's range of 0 to 2"):
        check_added_case(case(index=Values(ValueKind.CONSTANT, 3)), task)
    with pytest.raises(UserError, match="have to be offsets, as the task has them"):
        check_added_case(case(begins=Values(ValueKind.CONSTANT, 0)), task)
    with pytest.raises(UserError, match="have to be distinct"):
        check_added_case(case(slots=Values(ValueKind.INTEGERS, 0, 2)), task)
