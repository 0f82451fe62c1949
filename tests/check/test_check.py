"""Whole checks: shipped sources pass, wrong ones fail in the right place, fakes are rejected."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NoReturn

import pytest

from astra_tui.emulator.device import Emulator
from astra_tui.lab.check import basis
from astra_tui.lab.check.basis import ROUNDING_L2
from astra_tui.lab.check.oracle import Oracle, ReferenceFailed
from astra_tui.lab.check.oracle_worker import call, load_reference
from astra_tui.lab.check.runner import Checker, select_cases
from astra_tui.lab.compiler import Compiler
from astra_tui.model.check import Case, CaseOutcome, CaseResult, CheckReport, CheckVerdict
from astra_tui.model.dtypes import DType
from astra_tui.model.findings import FindingKind
from astra_tui.model.launch import PlanError
from astra_tui.model.task import KernelTask, ValueKind, Values, find_task, load_task
from tests.conftest import OWN_SOURCES, CheckerOf, OracleHere
from tests.quick import write_quick_task

pytestmark = pytest.mark.usefixtures("warm_processes")

KERNELS = Path(__file__).resolve().parents[2] / "kernels"
MARK = "// <--"


@pytest.fixture(scope="module")
def checkers(checker_of: CheckerOf, tasks: dict[str, KernelTask]) -> dict[str, Checker]:
    """A checker for each bundled task."""
    return {name: checker_of(task) for name, task in tasks.items()}


def report_of(checker: Checker, text: str, patterns: tuple[str, ...] = ()) -> CheckReport:
    """The report of a check, of all cases or of some."""
    cases = select_cases(checker.task, patterns) if patterns else None
    *events, report = checker.check(text, "candidate.cu", cases)
    assert isinstance(report, CheckReport)
    assert [e for e in events if isinstance(e, CaseResult)] == list(report.cases)
    return report


WHOLE = [f for f in OWN_SOURCES if f.name == "tuned.cu"]
"""Checked in full; baselines, one template for all types, on the cases of one and typical ones."""
OF_BASELINES = ("float16/*", "*typical*")


@pytest.mark.parametrize("file", OWN_SOURCES, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_shipped_source_passes_without_a_finding(checkers: dict[str, Checker], file: Path) -> None:
    report = report_of(
        checkers[file.parent.name], file.read_text(), () if file in WHOLE else OF_BASELINES
    )
    assert report.verdict is CheckVerdict.PASSED, report.message
    assert not [f for r in report.cases for f in r.findings]
    if file not in WHOLE:
        return
    assert report.properties
    assert all(p.ok and p.bitwise for p in report.properties)
    assert report.fakes
    assert all(f.rejected >= 0.8 * f.cases for f in report.fakes)
    assert report.counters is not None
    assert report.counters.sectors > 0


def edited(name: str, *edits: tuple[str, str]) -> str:
    """A shipped source with some text replaced."""
    text = (KERNELS / name).read_text()
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    return text


def test_unwritten_tail(checkers: dict[str, Checker]) -> None:
    text = edited(
        "silu_and_mul/tuned.cu",
        ("when d % width == 0 and aligned(out, 16) and aligned(input, 16):", "when d >= 64:"),
    )
    report = report_of(checkers["silu_and_mul"], text, ("float16/d=500",))
    (case,) = report.cases
    (fault,) = case.findings
    assert fault.kind is FindingKind.MISALIGNED or fault.kind is FindingKind.UNWRITTEN_OUTPUT


def test_a_plan_with_too_few_blocks(checkers: dict[str, Checker]) -> None:
    text = edited(
        "merge_attn_states_lse/tuned.cu",
        (
            "grid=ceil_div(tokens * heads * (head_dim // width), 128)",
            "grid=tokens * heads * (head_dim // width) // 128",
        ),
    )
    report = report_of(checkers["merge_attn_states_lse"], text, ("float16/heads=3",))
    fault, *_ = report.cases[0].findings
    assert fault.kind is FindingKind.UNWRITTEN_OUTPUT
    plan_line = 1 + text[: text.index("merge_attn_states<T, width>")].count("\n")
    assert fault.launch_line == plan_line
    assert "grid (1, 1, 1)" in fault.message


def test_wrote_an_input(checkers: dict[str, Checker]) -> None:
    text = edited(
        "silu_and_mul/baseline.cu",
        ("const T* __restrict__ input", "T* __restrict__ input"),
        ("out[i] = (T)(silu * up);", f"out[i] = (T)(silu * up);\n    input[i] = out[i];  {MARK}"),
    )
    report = report_of(checkers["silu_and_mul"], text, ("float16/typical",))
    (fault,) = report.cases[0].findings
    assert fault.kind is FindingKind.WROTE_INPUT
    assert MARK in text.splitlines()[fault.line - 1]


def test_off_by_one_at_odd_widths(checkers: dict[str, Checker]) -> None:
    text = edited(
        "silu_and_mul/tuned.cu",
        ("for (int64_t i = threadIdx.x; i < d; i += blockDim.x) {\n    const float gate",
         "for (int64_t i = threadIdx.x; i < d - d % 2; i += blockDim.x) {\n    const float gate"),
    )  # fmt: skip
    report = report_of(checkers["silu_and_mul"], text, ("float16/d=500", "float16/d=769"))
    outcomes = {r.case.name: r for r in report.cases}
    assert outcomes["d=500"].outcome is CaseOutcome.PASSED
    (fault,) = outcomes["d=769"].findings
    assert fault.kind is FindingKind.UNWRITTEN_OUTPUT
    assert "byte 1536 of out" in fault.message


def test_residual_not_updated_in_place(checkers: dict[str, Checker]) -> None:
    text = edited("fused_add_rmsnorm/baseline.cu", ("row_r[i] = (T)z;", ""))
    report = report_of(checkers["fused_add_rmsnorm"], text, ("float16/typical",))
    (case,) = report.cases
    assert case.outcome is CaseOutcome.WRONG
    assert case.message.startswith("residual:")


def test_log_sum_exp_in_base_two(checkers: dict[str, Checker]) -> None:
    text = edited("merge_attn_states_lse/baseline.cu", ("logf(total)", "log2f(total)"))
    report = report_of(checkers["merge_attn_states_lse"], text, ("float16/typical",))
    (case,) = report.cases
    assert case.message.startswith("s_out:")


def test_both_sides_empty_without_the_guard(checkers: dict[str, Checker]) -> None:
    text = edited("merge_attn_states_lse/tuned.cu", ("top == -INFINITY ? 0.0f : top", "top"))
    report = report_of(checkers["merge_attn_states_lse"], text, ("float16/both sides empty",))
    assert "NaN where the reference is a number" in report.cases[0].message


def test_a_kernel_that_knows_its_row_fails_the_permutation(checkers: dict[str, Checker]) -> None:
    """It is right on the rows that the other cases use, and shows when they trade places."""
    text = edited(
        "silu_and_mul/tuned.cu",
        ("r.value[k] = (T)(silu((float)g.value[k]) * (float)u.value[k]);",
         "r.value[k] = (T)(silu((float)g.value[k]) * (float)u.value[k] * (1.0f + token * 4e-5f));"),
    )  # fmt: skip
    report = report_of(checkers["silu_and_mul"], text, ("float16/typical",))
    assert report.cases[0].outcome is CaseOutcome.PASSED
    assert not all(p.bitwise for p in report.properties)


def test_result_that_depends_on_undefined_memory(checkers: dict[str, Checker]) -> None:
    text = edited(
        "silu_and_mul/baseline.cu",
        ("/* @launch\n", "/* @launch\n   workspace junk: float32[64]\n"),
        ("args=(out, input, tokens * d, d)", "args=(out, input, tokens * d, d, junk)"),
        ("int64_t d) {", "int64_t d, const float* junk) {"),
        ("out[i] = (T)(silu * up);", f"out[i] = (T)(silu * up + junk[0]);  {MARK}"),
    )
    report = report_of(checkers["silu_and_mul"], text, ("float16/typical",))
    (fault,) = report.cases[0].findings
    assert fault.kind is FindingKind.UNINITIALISED_GLOBAL
    assert MARK in text.splitlines()[fault.line - 1]


def test_a_workspace_that_is_written_first_is_fine(checkers: dict[str, Checker]) -> None:
    text = edited(
        "silu_and_mul/baseline.cu",
        ("/* @launch\n", "/* @launch\n   workspace ones: float32[tokens]\n"
         "   fill<<".replace("<<", "") + " grid=tokens block=32 args=(ones)\n"),
        ("args=(out, input, tokens * d, d)", "args=(out, input, tokens * d, d, ones)"),
        ("int64_t d) {", "int64_t d, const float* ones) {"),
        ("(T)(silu * up)", "(T)(silu * up * ones[token])"),
    )  # fmt: skip
    text += "\n__global__ void fill(float* p) { if (threadIdx.x == 0) p[blockIdx.x] = 1.0f; }\n"
    report = report_of(checkers["silu_and_mul"], text, ("*typical", "*tokens=0", "*tokens=7"))
    assert report.verdict is CheckVerdict.PASSED, report.message


def test_a_case_of_the_contract_that_the_plan_refuses(checkers: dict[str, Checker]) -> None:
    text = edited(
        "merge_attn_states_lse/baseline.cu",
        ("when head_dim * sizeof(T) % 16 != 0:", "when head_dim * sizeof(T) % 64 != 0:"),
    )
    report = report_of(checkers["merge_attn_states_lse"], text, ("float16/head_dim=48",))
    assert report.cases[0].outcome is CaseOutcome.WRONGLY_REFUSED


def test_a_case_outside_the_contract_has_to_be_refused_or_right(
    checkers: dict[str, Checker],
) -> None:
    text = edited(
        "merge_attn_states_lse/baseline.cu",
        ("when head_dim * sizeof(T) % 16 != 0:", "when head_dim == 0:"),
    )
    report = report_of(checkers["merge_attn_states_lse"], text, ("float16/head_dim=50",))
    assert report.cases[0].outcome is CaseOutcome.PASSED
    report = report_of(
        checkers["merge_attn_states_lse"],
        text.replace("weight_a * x + weight_b * y", "weight_a * x"),
        ("float16/head_dim=50",),
    )
    assert report.cases[0].message.startswith("outside the contract, and not refused")


def test_arguments_that_do_not_fit_are_plan_errors_before_anything_runs(
    checkers: dict[str, Checker],
) -> None:
    text = edited("silu_and_mul/baseline.cu", ("args=(out, input, tokens * d, d)", "args=(out, d)"))
    report = report_of(checkers["silu_and_mul"], text, ("*typical",))
    assert report.verdict is CheckVerdict.PLAN_ERROR
    assert "takes 4 arguments, the plan passes 2" in report.message
    assert "__half*, const __half*, long" in report.message
    swapped = edited("silu_and_mul/baseline.cu", ("(out, input, tokens", "(input, tokens, out"))
    with pytest.raises(PlanError):
        report_of(checkers["silu_and_mul"], swapped.replace("out, *", "out *"))


def test_a_kernel_that_the_source_does_not_have(checkers: dict[str, Checker]) -> None:
    text = edited(
        "silu_and_mul/baseline.cu", ("   silu_and_mul<T> grid", "   silu_and_mull<T> grid")
    )
    report = report_of(checkers["silu_and_mul"], text)
    assert report.verdict is CheckVerdict.COMPILE_ERROR
    assert "the launch plan asks for 'silu_and_mull<__half>'" in report.message
    assert report.message.startswith("line 9")


def test_an_instruction_that_is_not_emulated_is_no_failure_of_the_kernel(
    checkers: dict[str, Checker],
) -> None:
    text = edited(
        "silu_and_mul/baseline.cu",
        ("const int64_t step", '  asm volatile("bar.arrive 1, 64;");\n  const int64_t step'),
    )
    report = report_of(checkers["silu_and_mul"], text, ("float16/typical",))
    assert report.verdict is CheckVerdict.UNSUPPORTED
    assert "__syncthreads()" in report.message


def test_a_reference_that_fails_is_named_with_its_line(tmp_path: Path, compiler: Compiler) -> None:
    for file in (KERNELS / "silu_and_mul").iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    reference = tmp_path / "reference.py"
    for opened, text, words in (
        (
            Oracle,
            "def reference(input):\n    return {'out': input / nothing}\n",
            "line 2: NameError",
        ),
        (OracleHere, "def reference(input):\n    return {}\n", "returns no 'out'"),
        (OracleHere, "def reference(input):\n    return {'out': input}\n", "of shape"),
        (Oracle, "def reference(input:\n", "SyntaxError"),
    ):
        reference.write_text(text)
        task = load_task(tmp_path)
        with opened(task) as oracle:
            checker = Checker(task, Emulator(), compiler, oracle)
            with pytest.raises(ReferenceFailed) as failed:
                report_of(checker, task.baseline_file.read_text(), ("float16/typical",))
            assert words in str(failed.value)
            assert str(reference) in str(failed.value)
    for text, words in (
        ("def reference(inputs):\n    return {}\n", "asks for 'inputs'"),
        ("def reference(input):\n    return input\n", "has to return a dict"),
        ("x = 1\n", "has to define a function reference"),
    ):
        reference.write_text(text)
        with pytest.raises(TypeError, match=words):
            call(load_reference(reference), {"input": 0})


def test_a_suite_that_accepts_fakes_is_no_proof(tmp_path: Path, compiler: Compiler) -> None:
    """An operator whose result is always zero cannot be told from a kernel that writes zeros."""
    folder = write_quick_task(tmp_path)
    (folder / "reference.py").write_text(
        "import torch\n\n\ndef reference(input, d):\n"
        "    return {'out': torch.zeros(input.shape[0], d, dtype=torch.float64)}\n"
    )
    task = load_task(folder)
    text = edited("silu_and_mul/baseline.cu", ("(T)(silu * up)", "(T)0.0f"))
    with OracleHere(task) as oracle:
        report = report_of(Checker(task, Emulator(), compiler, oracle), text)
    assert report.verdict is CheckVerdict.FAILED
    assert "accepts a fake (zeros)" in report.message


def test_a_suite_is_put_to_the_proof_once(compiler: Compiler) -> None:
    """No candidate takes part in it, so that every later check gives the same."""
    task = find_task("silu_and_mul")
    suite = select_cases(task, ("float16/typical",))
    with OracleHere(task) as oracle:
        checker = Checker(task, Emulator(), compiler, oracle)
        first = list(checker.prove(suite))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(basis, "prove_suite", _never)
        assert list(checker.prove(suite)) == first
        assert first


def _never(*_: object) -> NoReturn:
    pytest.fail("the suite was put to the proof again")


@pytest.mark.parametrize("factor", ["1.3f", "0.5f"])
def test_a_baseline_that_is_wrong_excuses_nobody(
    tmp_path: Path, compiler: Compiler, quick_task: KernelTask, factor: str
) -> None:
    folder = tmp_path / quick_task.folder.name
    shutil.copytree(quick_task.folder, folder)
    baseline = (folder / "baseline.cu").read_text(encoding="utf-8")
    wrong = baseline.replace("(silu * up)", f"(silu * up * {factor})")
    assert wrong != baseline
    (folder / "baseline.cu").write_text(wrong, encoding="utf-8")
    task = load_task(folder)
    with OracleHere(task) as oracle:
        checker = Checker(task, Emulator(), compiler, oracle)
        report = report_of(checker, wrong, ("float16/t*",))
        assert report.verdict is CheckVerdict.FAILED
        assert all(o.allowed == 1.0 for r in report.cases for o in r.outputs)
        assert report_of(checker, baseline, ("float16/t*",)).verdict is CheckVerdict.PASSED
        other = report_of(checker, f"{wrong}// not the same file\n", ("float16/typical",))
        assert other.verdict is CheckVerdict.INCONCLUSIVE
        assert "the task's own baseline fails this case as well" in other.message


def test_rounding_where_one_element_cancels_is_no_fault_of_a_kernel(
    checkers: dict[str, Checker],
) -> None:
    near_zero = Values(ValueKind.CONSTANT, -0.693)
    case = Case(
        "two equal sides", "log(2 e^s) is next to 0", DType.FLOAT32,
        {"tokens": 1, "heads": 1, "head_dim": 16}, values={"s_a": near_zero, "s_b": near_zero},
    )  # fmt: skip
    checker = checkers["merge_attn_states_lse"]
    text = edited("merge_attn_states_lse/tuned.cu")
    *_, report = checker.check(text, "candidate.cu", (case,))
    assert isinstance(report, CheckReport)
    assert not report.failed_cases, report.message
    (s_out,) = (o for o in report.cases[0].outputs if o.argument == "s_out")
    assert 1e-5 < s_out.relative_l2 < ROUNDING_L2
    wrong = text.replace("if (piece == 0) s_out[pair] = __logf(total) + base", "s_out[pair] = 0.0f")
    assert wrong != text
    *_, report = checker.check(wrong, "candidate.cu", (case,))
    assert isinstance(report, CheckReport)
    assert report.failed_cases, "the relative error of a zero is 1"
