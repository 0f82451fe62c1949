"""Floats of 8 and 4 bits end to end: honest kernels pass, wrong ones are caught, by numbers."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from astra_tui.emulator.device import Emulator
from astra_tui.export.exporting import require_addresses
from astra_tui.lab.check.runner import Checker, select_cases
from astra_tui.lab.compiler import Compiler
from astra_tui.model.check import CheckReport, CheckVerdict
from astra_tui.model.errors import UserError
from astra_tui.model.task import load_task
from astra_tui.playbook import Evidence, propose_all
from tests.conftest import OracleHere

TASKS = Path(__file__).with_name("tasks")
INT8 = Path(__file__).parents[1] / "zoo" / "tasks" / "quantize_rows"
NAMES = ("quantize_fp8", "dequantize", "quantize_fp4")


@pytest.fixture(scope="module")
def checkers(compiler: Compiler) -> Iterator[dict[str, Checker]]:
    tasks = {name: load_task(TASKS / name) for name in NAMES}
    made = {n: Checker(t, Emulator(), compiler, OracleHere(t)) for n, t in tasks.items()}
    yield made
    for checker in made.values():
        checker.oracle.close()


def report_of(checker: Checker, *edits: tuple[str, str], few: bool = False) -> CheckReport:
    """The report of a task's baseline with some text replaced, on all cases or on a few."""
    text = checker.task.baseline_file.read_text(encoding="utf-8")
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    cases = select_cases(checker.task, ("typical", "bound=1")) if few else None
    *_, report = checker.check(text, "candidate.cu", cases)
    assert isinstance(report, CheckReport)
    return report


@pytest.mark.parametrize("name", NAMES)
def test_an_honest_kernel_passes(checkers: dict[str, Checker], name: str) -> None:
    report = report_of(checkers[name])
    assert report.verdict is CheckVerdict.PASSED, report.message
    assert report.fakes
    assert all(f.rejected for f in report.fakes)


def test_a_reciprocal_is_as_good_as_a_division(checkers: dict[str, Checker]) -> None:
    report = report_of(checkers["quantize_fp8"], ("/ scale)", "* (1.0f / scale))"))
    assert report.verdict is CheckVerdict.PASSED, report.message


OFF, NAN = "off by more than is allowed", "NaN where the reference is a number"
WRONG = {
    "the scale of another row": (
        "quantize_fp8",
        ("scales[blockIdx.x];", "scales[blockIdx.x - (blockIdx.x > 0)];"),
        OFF,
    ),
    "no saturation": (
        "quantize_fp8",
        ("= Q(", "= Unsaturated("),
        NAN,
    ),
    "rounded towards zero": ("quantize_fp8", ("= Q(", "= Truncated("), OFF),
    "the pairs' elements exchanged": (
        "quantize_fp4",
        ("(moved[k] / scale, moved[k + 1] / scale)", "(moved[k + 1] / scale, moved[k] / scale)"),
        OFF,
    ),
    "a code too low": ("quantize_fp4", ("__nv_fp4x2_e2m1(pair)", "Lower(pair)"), OFF),
}
HELPERS = """
struct Unsaturated : __nv_fp8_e4m3 {
  __device__ Unsaturated(float v) { __x = __nv_cvt_float_to_fp8(v, __NV_NOSAT, __NV_E4M3); }
};
struct Truncated : __nv_fp8_e4m3 {
  __device__ Truncated(float v) : __nv_fp8_e4m3(v) {
    if (fabsf(float(*this)) > fabsf(v)) --__x;
  }
};
"""
LOWER = """
struct Lower : __nv_fp4x2_e2m1 {
  __device__ Lower(float2 v) : __nv_fp4x2_e2m1(v) { if (__x & 7) --__x; }
};
"""


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_quantisation_is_caught(checkers: dict[str, Checker], name: str) -> None:
    task, edit, problem = WRONG[name]
    mark = "template <typename T>\n"
    helpers = (mark, (HELPERS if task == "quantize_fp8" else LOWER) + mark)
    report = report_of(checkers[task], edit, helpers, few=True)
    assert report.verdict is CheckVerdict.FAILED, report.message
    outputs = [o for result in report.cases for o in result.outputs if not o.ok]
    assert {o.argument for o in outputs} == {"q"}
    assert any(problem in o.problem for o in outputs), outputs


def test_a_kernel_of_another_format_does_not_fit(checkers: dict[str, Checker]) -> None:
    report = report_of(checkers["quantize_fp8"], ("float8_e4m3fn>", "float8_e5m2>"))
    assert report.verdict is CheckVerdict.PLAN_ERROR
    assert "'q' holds float8_e4m3fn, the kernel takes a pointer to __nv_fp8_e5m2" in report.message


@pytest.mark.parametrize(
    ("name", "fires"), [("quantize_fp8", "wide_accesses"), ("dequantize", "hoist_invariants")]
)
def test_moves_know_the_sizes_of_narrow_types(
    checkers: dict[str, Checker], name: str, fires: str
) -> None:
    """And leave out what CUDA does not have for them, such as a load of fp8 with a hint."""
    checker = checkers[name]
    text = checker.task.baseline_file.read_text(encoding="utf-8")
    proposals, _ = propose_all(text, Evidence(checker.task))
    assert fires in {p.plan.move for p in proposals}
    for proposal in proposals:
        *_, report = checker.check(
            proposal.source, "candidate.cu", select_cases(checker.task, ("typical",))
        )
        assert isinstance(report, CheckReport)
        assert report.verdict is CheckVerdict.PASSED, (proposal.plan.move, report.message)


def test_a_package_cannot_be_made_of_pairs(checkers: dict[str, Checker]) -> None:
    with pytest.raises(UserError, match="two elements in a byte") as caught:
        require_addresses(checkers["quantize_fp4"].task)
    assert caught.value.hint == "export the source or a patch"


def test_whole_numbers_are_the_nearest_where_the_reference_is_not_rounded(
    tmp_path: Path, compiler: Compiler
) -> None:
    """`atol = 1` would take any neighbour, and so what is cut off instead of rounded."""
    folder = shutil.copytree(INT8, tmp_path / "quantize_rows")
    for file, old, new in (
        ("task.toml", "atol = 1.0", "atol = 0.501"),
        ("reference.py", "torch.round(x / scales.unsqueeze(-1))", "(x / scales.unsqueeze(-1))"),
        ("reference.py", "q.to(torch.int64)", "q"),
    ):
        text = (folder / file).read_text(encoding="utf-8")
        assert old in text
        (folder / file).write_text(text.replace(old, new), encoding="utf-8")
    with OracleHere(task := load_task(folder)) as oracle:
        checker = Checker(task, Emulator(), compiler, oracle)
        assert report_of(checker, few=True).verdict is CheckVerdict.PASSED
        cut = report_of(checker, ("rintf(", "truncf("), few=True)
    assert cut.verdict is CheckVerdict.FAILED
