"""Whatever a launch plan launches for a workload is tried by a case, and nothing ends a check."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator

import pytest

from astra_tui.emulator.device import Emulator
from astra_tui.lab.check import fullsize, paths
from astra_tui.lab.check.beyond import many_rows
from astra_tui.lab.check.constants import cases_of_plan_sides, open_plan_side
from astra_tui.lab.check.evidence import verdict_of
from astra_tui.lab.check.execution import read_source, resolve_case
from astra_tui.lab.check.inputs import scalars_of
from astra_tui.lab.check.paths import (
    PAIR_THREADS,
    SourceCases,
    source_cases,
    untried_paths,
)
from astra_tui.lab.check.properties import split_cases
from astra_tui.lab.check.runner import Checker
from astra_tui.lab.check.source_check import SourceCheck
from astra_tui.lab.check.suite import LARGE_ELEMENTS, build_suite
from astra_tui.lab.check.ways import Finder
from astra_tui.lab.compiler import Compiler
from astra_tui.lab.conditions.untaken import parts_of_plan
from astra_tui.model.check import (
    PAIR_AT,
    PLAN_AT,
    CaseOutcome,
    CheckReport,
    CheckVerdict,
    ConditionStatus,
)
from astra_tui.model.launch import DEVICE_ATTRIBUTES, ResolvedPlan
from astra_tui.model.task import KernelTask, load_task
from tests.conftest import OracleHere

PLAN = """   silu_and_mul<T> grid=min(ceil_div(tokens * d, 128), 256) block=128
       args=(out, input, tokens * d, d)
"""
OTHERWISE = "   otherwise:\n" + "".join(f"    {line}\n" for line in PLAN.splitlines())
BROKEN = """
template <typename T>
__global__ void broken(T* out, int64_t count) {
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) out[i] = (T)1.0f;
}
"""
WRONG = "broken<T> grid=1 block=128 args=(out, tokens * d)"


@pytest.fixture(scope="module")
def checker(
    compiler: Compiler, tasks: dict[str, KernelTask], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Checker]:
    """silu_and_mul with its contract and its largest workloads, of one type and few sizes."""
    folder = tmp_path_factory.mktemp("kernels") / "silu_and_mul"
    shutil.copytree(tasks["silu_and_mul"].folder, folder)
    text = (folder / "task.toml").read_text(encoding="utf-8")
    for whole, part in SMALLER.items():
        assert whole in text
        text = text.replace(whole, part)
    (folder / "task.toml").write_text(text, encoding="utf-8")
    task = load_task(folder)
    with OracleHere(task) as oracle:
        yield Checker(task, Emulator(), compiler, oracle)


SMALLER = {
    'dtypes = ["float16", "bfloat16"]': 'dtypes = ["float16"]',
    "sizes = [0, 1, 2, 7, 19, 83, 613]": "sizes = [0, 1, 83]",
    "sizes = [1, 2, 3, 7, 8, 16, 31, 64, 111, 500, 769, 1031, 4096, 5125, 11008]": (
        "sizes = [1, 8, 111, 1031]"
    ),
    "[[workloads]]\ndims = { tokens = 64, d = 8192 }\n": "",
    "[[workloads]]\ndims = { tokens = 256, d = 11008 }\n": "",
    "[[workloads]]\ndims = { tokens = 4096, d = 14336 }\n": "",
}


def branching(task: KernelTask, condition: str, branch: str) -> str:
    """The baseline with another branch of its launch plan."""
    text = task.baseline_file.read_text(encoding="utf-8")
    assert text.count(PLAN) == 1
    return text.replace(PLAN, f"   when {condition}:\n       {branch}\n{OTHERWISE}") + BROKEN


def report_of(checker: Checker, text: str) -> CheckReport:
    *_, report = checker.check(text, "candidate.cu")
    assert isinstance(report, CheckReport)
    return report


@pytest.mark.parametrize(
    ("condition", "dims"),
    [
        ("tokens % 4 == 0 and d > 12000", {"tokens": 4, "d": 12288}),
        ("tokens % 32 == 0 and d > 4096", {"tokens": 32, "d": 5120}),
        ("tokens >= 1000 and tokens % 1024 == 0 and d > 100", {"tokens": 1024, "d": 111}),
    ],
)
def test_a_wrong_kernel_for_some_workloads_is_found(
    checker: Checker, condition: str, dims: dict[str, int]
) -> None:
    report = report_of(checker, branching(checker.task, condition, WRONG))
    assert report.verdict is CheckVerdict.FAILED
    wrong = [r for r in report.cases if not r.outcome.ok]
    assert (CaseOutcome.WRONG, dims) in [(r.outcome, r.case.dims) for r in wrong]
    assert all(r.case.is_of_plan or r.case.why.startswith("drawn") for r in wrong)


def test_a_path_that_only_large_sizes_take_is_not_called_right(
    checker: Checker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fullsize, "SKELETON_BUDGET", fullsize.SKELETON_BUDGET // 40)
    monkeypatch.setattr(fullsize, "RUN_BUDGET", fullsize.RUN_BUDGET // 40)
    report = report_of(checker, branching(checker.task, "tokens * d >= 10000000", WRONG))
    assert report.verdict is CheckVerdict.INCONCLUSIVE
    assert "workload 1024x13824 at its own size" in report.message


def test_a_workload_that_is_refused_at_its_own_size_fails(checker: Checker) -> None:
    refusing = branching(checker.task, "tokens * d >= 10000000", 'refuse "too much"')
    report = report_of(checker, refusing)
    assert report.verdict is CheckVerdict.FAILED
    wrong = {r.case.name: r.outcome for r in report.cases if not r.outcome.ok}
    assert wrong == {"own size of workload 1024x13824": CaseOutcome.WRONGLY_REFUSED}


@pytest.mark.parametrize("name", ["silu_and_mul", "fused_add_rmsnorm", "merge_attn_states_lse"])
@pytest.mark.parametrize("file", ["baseline.cu", "tuned.cu"])
def test_the_suite_takes_every_path_of_the_shipped_sources(
    name: str, file: str, tasks: dict[str, KernelTask]
) -> None:
    task = tasks[name]
    source = read_source(task, (task.folder / file).read_text(encoding="utf-8"), file)
    assert not untried_paths(task, source, build_suite(task), DEVICE_ATTRIBUTES)


def test_on_a_gpu_a_path_with_many_rows_meets_every_kind_of_values(
    tasks: dict[str, KernelTask],
) -> None:
    """Layouts of the fallback do so at the width of the fallback."""
    task = tasks["fused_add_rmsnorm"]
    source = read_source(task, task.tuned_file.read_text(encoding="utf-8"), "tuned.cu")
    seen: dict[str, set[str]] = {"fused_add_rmsnorm_vec": set(), "fused_add_rmsnorm_scalar": set()}
    for case in many_rows(task, source, DEVICE_ATTRIBUTES, 5, every_value=True):
        resolved = resolve_case(task, source, case, scalars_of(task, case))
        assert isinstance(resolved, ResolvedPlan)
        (launch,) = resolved.launches
        seen[launch.kernel.partition("<")[0]].add(str(case.values))
    wide, scalar = seen.values()
    assert wide == scalar
    assert len(wide) == 10


def test_a_part_of_the_batch_that_the_plan_refuses_fails_the_property(checker: Checker) -> None:
    suite = build_suite(checker.task)
    (typical,) = (c for c in suite if c.name == "typical")
    part, _ = split_cases(checker.task, typical)
    assert part.dims not in [c.dims for c in suite]
    conditions = " and ".join(f"{name} == {size}" for name, size in part.dims.items())
    report = report_of(checker, branching(checker.task, conditions, 'refuse "not these"'))
    assert report.verdict is CheckVerdict.FAILED
    failed = [p for p in report.properties if not p.ok]
    assert failed
    assert all("the launch plan refuses tokens=" in p.message for p in failed)


def test_a_kernel_of_its_own_for_a_part_of_the_batch_is_compiled(checker: Checker) -> None:
    text = checker.task.baseline_file.read_text(encoding="utf-8")
    text = text.replace("   silu_and_mul<T> grid", "   silu_and_mul<T, min(tokens, 32)> grid")
    text = text.replace("template <typename T>", "template <typename T, int ROWS>", 1)
    report = report_of(checker, text)
    assert report.verdict is CheckVerdict.PASSED, report.message
    assert [p.ok for p in report.properties] == [True] * 3
    assert not report.untried_lines


def test_inputs_meet_in_pairs_where_few_threads_are_launched(checker: Checker) -> None:
    """A block of a thousand threads for a row of eight costs as much as one for a long row."""
    text = checker.task.tuned_file.read_text(encoding="utf-8")
    wide = re.sub(r"block=min\(max\(.*\), 1024\)", "block=1024", text)
    suite = build_suite(checker.task, checker.seed)

    def most_rows(text: str) -> int:
        source = read_source(checker.task, text, "candidate.cu")
        found = source_cases(checker.task, source, suite, DEVICE_ATTRIBUTES, 1).cases
        return max(case.dims["tokens"] for case in found if case.name.startswith(PAIR_AT))

    assert most_rows(wide) * 1024 <= PAIR_THREADS
    assert most_rows(text) * 1024 > PAIR_THREADS


BY_EIGHT = """   when d % width == 0 and aligned(out, 8) and aligned(input, 8):
       silu_and_mul_vec<T, width // 2> grid=tokens block=256 args=(out, input, d)
   otherwise:"""


def test_a_path_that_one_shift_alone_takes_meets_every_kind_of_values(checker: Checker) -> None:
    text = tuned(checker.task, ("   otherwise:", BY_EIGHT))
    source = read_source(checker.task, text, "candidate.cu")
    suite = build_suite(checker.task, checker.seed)
    own = source_cases(checker.task, source, suite, DEVICE_ATTRIBUTES, 1)
    finder = Finder(checker.task, source, DEVICE_ATTRIBUTES)
    by_eight = "silu_and_mul_vec<__half, 4>"
    taking = [c for c in own.cases if any(k == by_eight for _, k in finder.path(c))]
    pairs = [c for c in taking if c.name.startswith(PAIR_AT)]
    kinds = ("NaN in input", "infinities in input", "tiny", "subnormal", "large")
    assert all(any(kind in c.name for c in pairs) for kind in kinds)
    assert len({tuple(c.dims.values()) for c in pairs}) > 2
    assert by_eight in {k for c in own.of_paths for _, k in finder.path(c)}


def test_a_branch_for_one_element_type_is_no_condition_of_the_others(checker: Checker) -> None:
    when = "   when T == bfloat16 and d % width == 0"
    branch = f"""{when} and aligned(out, 16) and aligned(input, 16):
       silu_and_mul_vec<T, width> grid=tokens block=512 args=(out, input, d)
   when d % width == 0"""
    text = tuned(checker.task, ("   when d % width == 0", branch))
    source = read_source(checker.task, text, "candidate.cu")
    untaken = checker.cases_of(source, build_suite(checker.task, checker.seed)).untaken
    assert untaken
    assert all(part.is_impossible for part in untaken)


def test_rows_further_apart_than_16_bits_count_packs_are_tried_on_every_path(
    tasks: dict[str, KernelTask],
) -> None:
    task = tasks["fused_add_rmsnorm"]
    source = read_source(task, task.tuned_file.read_text(encoding="utf-8"), "candidate.cu")
    cases = source_cases(task, source, build_suite(task), DEVICE_ATTRIBUTES, 1).cases
    apart = [c for c in cases if min(c.row_padding.values(), default=0) * 2 > 1 << 20]
    finder = Finder(task, source, DEVICE_ATTRIBUTES)
    kernels = {k for c in apart for _, k in finder.path(c)}
    assert {"fused_add_rmsnorm_vec<__half, 8>", "fused_add_rmsnorm_scalar<__half>"} <= kernels
    assert all(c.dims["tokens"] > 1 for c in apart)
    assert any(c.offsets for c in apart)


def test_added_cases_stay_small(checker: Checker) -> None:
    text = branching(checker.task, "d > 4096", WRONG)
    source = read_source(checker.task, text, "candidate.cu")
    found = untried_paths(checker.task, source, (), DEVICE_ATTRIBUTES)
    assert len(found) == 2
    for path in found:
        assert path.case is not None
        assert checker.task.elements(path.case.dims, path.case.dtype) <= LARGE_ELEMENTS


@pytest.mark.parametrize(
    ("condition", "name"),
    [
        pytest.param("d // 8 > 8192", "near d=65544", id="two sides are equal for several sizes"),
        pytest.param("d > 20000 and tokens * d % 7919 == 1", PLAN_AT, id="remainder of a product"),
    ],
)
def test_a_wrong_kernel_where_no_case_leads_is_found(
    checker: Checker, condition: str, name: str
) -> None:
    source = read_source(checker.task, branching(checker.task, condition, WRONG), "candidate.cu")
    suite = build_suite(checker.task, checker.seed)
    made = tuple(c for c in checker.cases_of(source, suite).cases if c.name.startswith(name))
    assert 1 <= len(made) <= 2
    *_, report = checker.check(source.text, "candidate.cu", made, whole_suite=False)
    assert isinstance(report, CheckReport)
    assert report.verdict is CheckVerdict.FAILED, report.message


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        pytest.param("i % d;", "min(i % d, (int64_t)60000);", id="an index that a minimum holds"),
        pytest.param("i % d;", "(unsigned short)(i % d);", id="an index of 16 bits"),
        pytest.param("i < count;", "i < count - (d >> 16);", id="a shift"),
        pytest.param("i < count;", "i < count - d / 90000;", id="a quotient"),
        pytest.param("tokens * d, d)", "tokens * d - d // 90000, d)", id="a quotient of the plan"),
    ],
)
def test_what_is_wrong_beyond_listed_sizes_without_a_condition_is_found(
    checker: Checker, right: str, wrong: str
) -> None:
    text = checker.task.baseline_file.read_text(encoding="utf-8")
    assert text.count(right) == 1
    source = read_source(checker.task, text.replace(right, wrong), "candidate.cu")
    own = checker.cases_of(source, build_suite(checker.task, checker.seed)).cases
    large = tuple(case for case in own if case.dims["d"] > 50_000)
    assert 1 <= len(large) <= 5
    *_, report = checker.check(source.text, "candidate.cu", large, whole_suite=False)
    assert isinstance(report, CheckReport)
    assert report.verdict is CheckVerdict.FAILED, report.message


def test_a_wrong_kernel_for_sizes_too_large_for_a_case_is_found(checker: Checker) -> None:
    report = report_of(checker, branching(checker.task, "d > 65536 and tokens % 4 == 3", WRONG))
    assert report.verdict is CheckVerdict.FAILED, report.message
    assert f"workload {PLAN_AT}" in report.message
    assert not report.untried_lines


def test_a_wrong_number_where_no_case_leads_is_found(checker: Checker) -> None:
    """A side of an `if else`, which launches what the other one does."""
    text = checker.task.baseline_file.read_text(encoding="utf-8")
    count = "   let count = tokens * d - 1 if d > 20000 and tokens % 8 == 5 else tokens * d\n"
    assert text.count("args=(out, input, tokens * d, d)") == 1
    text = text.replace("args=(out, input, tokens * d, d)", "args=(out, input, count, d)")
    report = report_of(checker, text.replace(PLAN.splitlines()[0], count + PLAN.splitlines()[0]))
    assert report.verdict is CheckVerdict.FAILED, report.message


def test_every_side_of_a_plan_is_a_part(checker: Checker) -> None:
    """Launches, operands of `or`, sides of `if else`, and values of template arguments."""
    text = checker.task.baseline_file.read_text(encoding="utf-8")
    plan = """   workspace w: float32[4 if d > 12 else 5]
   let n = 1 if d > 4 and tokens > 2 else 2 if d > 3 or tokens > 1 else 3
   when tokens > 5 or d > 6 or d > 7 and tokens > 8:
       k<T, (d > 9 or d > 10), n> grid=1 block=32 args=(out, w)
   otherwise:
       k<T, "n > 2", n> grid=(2 if d > 11 else 1) block=32 args=(out, w)
"""
    source = read_source(checker.task, text.replace(PLAN, plan), "candidate.cu")
    parts = list(parts_of_plan(checker.task, source))
    told = sorted((part.text, part.side) for part in parts)
    assert len(set(parts)) == len(parts) == len({p.choice for p in parts if p.choice}) + 2
    expected = [
        *(("d > 4 and tokens > 2", held) for held in (True, False)),
        *(("d > 3 or tokens > 1", held) for held in (True, False)),
        *(("d > 3", True), ("tokens > 1", True)),
        ("tokens > 5 or d > 6 or d > 7 and tokens > 8", True),
        *(("tokens > 5", True), ("d > 6", True)),
        *(("tokens > 5 or d > 6", True), ("d > 7 and tokens > 8", True)),
        ("otherwise", True),
        *(("d > 9", True), ("d > 10", True)),
        *(("d > 9 or d > 10", held) for held in (True, False)),
        *(("d > 11", held) for held in (True, False)),
        *(("d > 12", held) for held in (True, False)),
        ("n > 2", True),
    ]
    assert told == sorted(expected)


def test_what_quoted_text_decides_by_sizes_is_open(
    checker: Checker, tasks: dict[str, KernelTask]
) -> None:
    parts = tasks["silu_and_mul"], checker.device, checker.compiler, checker.oracle
    checker = Checker(*parts)
    text = checker.task.baseline_file.read_text(encoding="utf-8")
    text = text.replace("template <typename T>", "template <typename T, bool wrong>", 1)
    text = text.replace("silu_and_mul<T> grid", 'silu_and_mul<T, "(d > 70000 && d % 8 == 5)"> grid')
    source = read_source(checker.task, text, "candidate.cu")
    found = checker.cases_of(source, build_suite(checker.task, checker.seed)).untaken
    assert {u.dtype for u in found} == {*checker.task.dtypes}
    assert {u.part.text for u in found} == {"(d > 70000 && d % 8 == 5)"}
    check = SourceCheck(checker, source, build_suite(checker.task, checker.seed))
    check._close_plan()
    (told,) = check.seen.conditions  # Once, and not for each element type.
    assert told.status is ConditionStatus.OPEN
    assert "write it as an expression" in told.why
    assert verdict_of(check.seen)[0] is CheckVerdict.INCONCLUSIVE


def test_a_side_that_needs_too_many_kernels_is_open(
    checker: Checker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its cases are not run: each of their sizes is an instance of its own."""
    text = checker.task.baseline_file.read_text(encoding="utf-8")
    text = text.replace("template <typename T>", "template <typename T, int rows>", 1)
    plan = "silu_and_mul<T, (tokens + 9 if d > 70000 else 1)> grid="
    text = text.replace("silu_and_mul<T> grid=", plan)
    source = read_source(checker.task, text, "candidate.cu")
    suite = build_suite(checker.task, checker.seed)
    assert not checker.cases_of(source, suite).untaken
    monkeypatch.setattr(paths, "MAX_KERNELS", 1)
    own = source_cases(checker.task, source, suite, checker.device.attributes, checker.seed)
    assert {(u.part.text, u.part.side) for u in own.untaken} == {("d > 70000", True)}


def test_a_launch_of_no_blocks_is_not_taken(checker: Checker) -> None:
    text = checker.task.baseline_file.read_text(encoding="utf-8") + BROKEN
    only_for_long_rows = WRONG.replace("grid=1", "grid=(d // 65537)")
    text = text.replace(PLAN, f"{PLAN}   {only_for_long_rows}\n")
    source = read_source(checker.task, text, "candidate.cu")
    suite = build_suite(checker.task, checker.seed)
    own = checker.cases_of(source, suite).cases
    long = [case for case in own if case.dims["d"] >= 65537][:2]
    *_, report = checker.check(text, "candidate.cu", (*suite[:20], *long), whole_suite=False)
    assert isinstance(report, CheckReport)
    assert report.verdict is CheckVerdict.FAILED, report.message
    assert {r.case.id for r in report.cases if not r.outcome.ok} == {case.id for case in long}


def test_a_launch_that_could_not_be_judged_leaves_it_open(
    checker: Checker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One block would store all elements of sizes that are too large for a case."""
    monkeypatch.setattr(fullsize, "SKELETON_BUDGET", fullsize.SKELETON_BUDGET // 4)
    monkeypatch.setattr(fullsize, "RUN_BUDGET", fullsize.RUN_BUDGET // 4)
    text = branching(checker.task, "tokens * d > 100000000", WRONG)
    report = report_of(checker, text)
    assert report.verdict is CheckVerdict.INCONCLUSIVE
    (line,) = report.untried_lines
    assert text.splitlines()[line - 1].strip() == WRONG
    (launch,) = (c for c in report.conditions if c.line == line)
    assert launch.status is ConditionStatus.OPEN
    assert launch.why.endswith("leads there, which could not be checked")


def test_a_launch_that_nothing_leads_to_is_proved(checker: Checker) -> None:
    report = report_of(checker, branching(checker.task, "d // 8 > 40 and d < 321", WRONG))
    assert report.verdict is CheckVerdict.PASSED, report.message
    assert not report.untried_lines
    (launch,) = (c for c in report.conditions if c.kernel == "the launch plan")
    assert launch.status is ConditionStatus.UNREACHABLE


def test_what_a_branch_says_of_its_block_is_known_to_proofs(checker: Checker) -> None:
    """Rows too long for the first branch leave 32 warps, and a side of a condition with nothing
    that leads to it, though the branch asks for more than that.
    """
    fallback = """
template <typename T>
__global__ void in_warps(T* out, const T* input, int64_t count, int64_t d) {
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (threadIdx.x % 32 < blockDim.x / 32 && i < count) {
    float g = (float)input[i / d * 2 * d + i % d];
    out[i] = (T)(g / (1.0f + expf(-g)) * (float)input[i / d * 2 * d + d + i % d]);
  }
}
"""
    text = checker.task.baseline_file.read_text(encoding="utf-8")
    shared = "when aligned(out, 2) and stride(input, 0) > 0"
    long_rows = f"""   {shared}:
       in_warps<T> grid=ceil_div(tokens * d, 32 * warps) block=(32 * warps)
           args=(out, input, tokens * d, d)
"""
    short = f"   {shared} and d <= 64 * warps:\n"
    short += "".join(f"    {line}\n" for line in PLAN.splitlines())
    declared = "   let warps = ceil_div(min(1024, d), 32)\n"
    report = report_of(checker, text.replace(PLAN, declared + short + long_rows) + fallback)
    assert report.verdict is CheckVerdict.PASSED, report.message
    (side,) = (c for c in report.conditions if c.kernel.startswith("in_warps"))
    assert side.status is ConditionStatus.UNREACHABLE


def tuned(task: KernelTask, *edits: tuple[str, str]) -> str:
    text = task.tuned_file.read_text(encoding="utf-8")
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


SCALAR_GRID = "silu_and_mul_scalar<T> grid=tokens"
VECTOR_STORE = "r.value[k] = (T)(silu((float)g.value[k]) * (float)u.value[k]);"
VECTOR_LOOP = "for (int64_t i = threadIdx.x; i < d / N; i += blockDim.x) {"


@pytest.mark.parametrize(
    ("edits", "name"),
    [
        pytest.param(
            [
                (
                    VECTOR_STORE,
                    VECTOR_STORE.replace("(T)(", "(float)g.value[0] == 0.0f ? (T)0 : (T)("),
                )
            ],
            "0, 1",
            id="a zero decides about its neighbours",
        ),
        pytest.param(
            [
                (
                    VECTOR_STORE,
                    VECTOR_STORE.replace("(T)(", "(float)gate[0].value[1] == 1.5f ? (T)0 : (T)("),
                )
            ],
            "input mostly 1.5",
            id="one place decides about a row",
        ),
        pytest.param(
            [(SCALAR_GRID, "silu_and_mul_scalar<T> grid=min(tokens, 29)")],
            "tokens=30",
            id="a grid is capped on one path",
        ),
        pytest.param(
            [
                (
                    VECTOR_LOOP,
                    "int64_t i = threadIdx.x;\n"
                    "  for (int pass = 0; pass < 2 && i < d / N; ++pass, i += blockDim.x) {",
                )
            ],
            "beyond all workloads",
            id="two passes are enough for the workloads",
        ),
    ],
)
def test_cases_that_a_source_makes_necessary_find_it(
    checker: Checker, edits: list[tuple[str, str]], name: str
) -> None:
    text = tuned(checker.task, *edits)
    suite = build_suite(checker.task, checker.seed)
    own = checker.cases_of(read_source(checker.task, text, "candidate.cu"), suite).cases
    cases = tuple(c for c in (*suite, *own) if name in c.name)
    assert 1 <= len(cases) <= 8
    *_, report = checker.check(text, "candidate.cu", cases, whole_suite=False)
    assert isinstance(report, CheckReport)
    assert report.verdict is CheckVerdict.FAILED


def test_what_other_code_leaves_as_it_is_gives_the_same_cases(checker: Checker) -> None:
    """Until it compares with other numbers, or its launches stand on other lines."""
    text = checker.task.baseline_file.read_text(encoding="utf-8")
    suite = build_suite(checker.task, checker.seed)

    def found(text: str) -> SourceCases:
        return checker.cases_of(read_source(checker.task, text, "candidate.cu"), suite)

    first = found(text)
    assert found(text + "\n// the same\n") is first
    other = found(text + "\n__device__ bool far(int d) { return d == 777; }\n").cases
    assert {c.id for c in other} - {c.id for c in first.cases}
    assert any(777 in c.dims.values() for c in other)
    assert found("\n" + text).cases == first.cases


def test_a_side_of_a_minimum_without_a_case_gets_one_or_stays_open(
    checker: Checker,
) -> None:
    text = checker.task.baseline_file.read_text(encoding="utf-8")
    assert "grid=min(ceil_div(tokens * d, 128), 256) block=128" in text
    text = text.replace(
        "min(ceil_div(tokens * d, 128), 256) block=128", "min(tokens, 200) block=max(0, 64)"
    )
    source = read_source(checker.task, text, "candidate.cu")
    suite = build_suite(checker.task, checker.seed)
    own = checker.cases_of(source, suite).cases
    taken = {
        case.dims["tokens"]: resolved.sides
        for case in own
        if isinstance(resolved := resolve_case(checker.task, source, case, {}), ResolvedPlan)
    }
    assert {199, 200, 201} <= taken.keys()
    parts, attributes = (checker.task, source), Emulator().attributes
    ((case, sides),) = cases_of_plan_sides(*parts, taken[200] | taken[201], attributes)
    (side,) = (open_plan_side(source, s, case) for s in sides)
    assert side.describe_alone() == "'tokens < 200' was never true in the launch plan"
    check = SourceCheck(checker, source, suite)
    check.seen.conditions = (side,)
    assert verdict_of(check.seen)[0] is CheckVerdict.INCONCLUSIVE
    assert not [*cases_of_plan_sides(*parts, taken[199] | taken[200] | taken[201], attributes)]


def test_a_side_whose_kernel_no_case_has_stays_open(checker: Checker) -> None:
    """Its instance was not compiled: sizes are its template argument."""
    text = checker.task.baseline_file.read_text(encoding="utf-8")
    text = text.replace("template <typename T>", "template <typename T, int N>")
    text = text.replace(
        "silu_and_mul<T> grid=", "silu_and_mul<T, min(tokens, 2)> grid=min(tokens, 2) * "
    )
    source = read_source(checker.task, text, "candidate.cu")
    compilation = checker.compiler.compile(text, ("silu_and_mul<__half, 2>",))
    assert compilation.ok
    check = SourceCheck(checker, source, ())
    run = [*check._close_plan_sides(compilation)]
    assert all(result.case.dims["tokens"] >= 2 for result in run)
    open_ = {side.describe_alone() for side in check.seen.conditions}
    assert "'tokens < 2' was never true in the launch plan" in open_


@pytest.mark.parametrize("seed", range(4))
def test_what_a_plan_does_from_some_rows_on_meets_rows_that_lie_apart(
    seed: int, tasks: dict[str, KernelTask]
) -> None:
    """On the path of typical sizes, which few of the drawn ones take."""
    task = tasks["fused_add_rmsnorm"]
    text = task.tuned_file.read_text(encoding="utf-8")
    strided = "stride(x, 0), stride(residual, 0), eps)"
    assert strided in text
    text = text.replace(strided, strided.replace("stride(x, 0)", "x_stride"), 1)
    text = text.replace(
        "/* @launch", "/* @launch\n   let x_stride = d if tokens >= 300 else stride(x, 0)"
    )
    source, suite = read_source(task, text, "x.cu"), build_suite(task, seed)
    cases = source_cases(task, source, suite, DEVICE_ATTRIBUTES, seed).cases
    apart = [c for c in cases if c.dims["tokens"] >= 300 and c.row_padding.get("x")]
    resolved = [
        resolve_case(task, source, c, scalars_of(task, c), DEVICE_ATTRIBUTES) for c in apart
    ]
    launched = {one.kernel for r in resolved if isinstance(r, ResolvedPlan) for one in r.launches}
    assert any("_vec<" in kernel for kernel in launched)
