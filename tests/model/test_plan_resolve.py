"""A plan for one case: which launches run, with which numbers, and what only numbers can show."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tui.model.dtypes import DType
from astra_tui.model.errors import Place
from astra_tui.model.launch import (
    PlanError,
    Refused,
    ResolvedPlan,
    parse_plan,
    plan_of,
    resolve,
    validate_plan,
)
from astra_tui.model.launch.resolve import (
    MAX_WORKSPACE_BYTES,
    WORKSPACE_ALIGNMENT,
    BufferArgument,
    NumberArgument,
    ResolvedLaunch,
    contiguous_strides,
)
from astra_tui.model.launch.scope import DEVICE_ATTRIBUTES, Bindings, Layout
from astra_tui.model.task import KernelTask

from .helpers import PROPERTY, SCOPE, bindings, marked

KERNELS = Path(__file__).parents[2] / "kernels"


def outcome(text: str, element: DType = DType.FLOAT16, **dims: int) -> ResolvedPlan | Refused:
    plan = parse_plan(text)
    validate_plan(plan, SCOPE)
    return resolve(plan, bindings(element, **dims), "kernel.cu")


def resolved(text: str, element: DType = DType.FLOAT16, **dims: int) -> ResolvedPlan:
    found = outcome(text, element, **dims)
    assert isinstance(found, ResolvedPlan)
    return found


def launched(text: str, element: DType = DType.FLOAT16, **dims: int) -> ResolvedLaunch:
    (launch,) = resolved(text, element, **dims).launches
    return launch


def error_of(text: str) -> PlanError:
    with pytest.raises(PlanError) as caught:
        outcome(text)
    assert caught.value.file == "kernel.cu"
    return caught.value


# -- what comes out --------------------------------------------------------------------------------


def test_a_launch_has_its_numbers() -> None:
    assert launched("k grid=(n, m) block=ceil_div(n, 32) * 32 shared=n * 4 args=()") == (
        ResolvedLaunch("k", (100, 7, 1), (128, 1, 1), 400, (), Place(1, 1))
    )


def test_a_launch_is_dependent_where_its_condition_holds() -> None:
    for condition, holds in (("true", True), ("false", False), ("n > 4", False)):
        assert launched(f"k grid=1 block=1 args=() pdl={condition}", n=4).pdl is holds


def test_a_grid_is_a_multiple_of_its_clusters() -> None:
    assert launched("k grid=8 block=1 cluster=(n // 2) args=()", n=4).cluster == (2, 1, 1)
    assert launched("k grid=(8, 2) block=1 cluster=(8, 2) args=()").cluster == (8, 2, 1)
    assert launched("k grid=8 block=1 args=()").cluster == (1, 1, 1)
    for sizes, words in (
        ("3", "a grid of 8x2x1 blocks is no multiple of clusters of 3x1x1"),
        ("(8, 4)", "clusters of 32 blocks; at most 16 fit"),
        ("17", "cluster=17 of k is not between 1 and 16"),
    ):
        with pytest.raises(PlanError, match=words):
            launched(f"k grid=(8, 2) block=1 cluster={sizes} args=()")


def test_missing_sizes_are_one_and_missing_shared_memory_is_none() -> None:
    launch = launched("k grid=2 block=(4, 8) args=()")
    assert launch.grid == (2, 1, 1)
    assert launch.block == (4, 8, 1)
    assert launch.shared_bytes == 0


def test_arguments_are_buffers_and_numbers() -> None:
    passed = "x, w - 8 + n, n + 1, eps, count, n > 4, stride(x, 0)"
    text = f"workspace w: T[n]\nk grid=1 block=1 args=({passed})"
    assert launched(text).args == (
        BufferArgument("x"),
        BufferArgument("w", 92),
        NumberArgument(101),
        NumberArgument(1e-6),
        NumberArgument(3),
        NumberArgument(True),
        NumberArgument(7),
    )


@pytest.mark.parametrize(
    ("template", "name"),
    [
        ("", "k"),
        ("<T>", "k<__half>"),
        ("<T, 8, -1>", "k<__half, 8, -1>"),
        ("<float32, bool, int64>", "k<float, bool, long long>"),
        ("<(n > 4), not (n > 4)>", "k<true, false>"),
        ("<16 // sizeof(T), count>", "k<8, 3>"),
        ('<"Traits<T, 4>">', "k<Traits<__half, 4>>"),
        ('<"MyT", "T_", "U">', "k<MyT, T_, U>"),
        ('<"std::array<T, 2>", T>', "k<std::array<__half, 2>, __half>"),
        ('<"Pack<T, (1 < 2)>">', "k<Pack<__half, (1 < 2)>>"),
    ],
)
def test_template_arguments_become_cpp(template: str, name: str) -> None:
    assert launched(f"k{template} grid=1 block=1 args=()").kernel == name


@pytest.mark.parametrize("element", [DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32, DType.FLOAT64])
def test_t_is_the_element_type_of_the_case(element: DType) -> None:
    launch = launched('k<T, sizeof(T), "V<T>"> grid=1 block=1 args=()', element)
    assert launch.kernel == f"k<{element.cuda}, {element.size}, V<{element.cuda}>>"


def test_constants_of_the_plan_are_known_in_quoted_template_arguments() -> None:
    text = 'tune t = 4 in 2, 4\nlet u = t * 2\nk<"Pack<t, u>"> grid=1 block=1 args=()'
    assert launched(text).kernel == "k<Pack<4, 8>>"


def test_a_tuned_constant_has_its_present_value() -> None:
    assert launched("tune t = 64 in 32, 64\nk grid=1 block=t args=()").block == (64, 1, 1)


def test_let_may_use_what_stands_above_it() -> None:
    text = "tune t in 4\nlet a = t * 2\nlet b = a + 1\nk grid=b block=a args=()"
    assert launched(text).grid == (9, 1, 1)


def test_workspaces_have_sizes_and_strides() -> None:
    text = (
        "workspace w: float32[n, m]\nworkspace v: T[2]\n"
        "k grid=stride(w, 0) block=sizeof(T) args=(w, v, aligned(w, 256), aligned(w, 512))"
    )
    plan = resolved(text)
    assert [(w.name, w.dtype, w.shape) for w in plan.workspaces] == [
        ("w", DType.FLOAT32, (100, 7)),
        ("v", DType.FLOAT16, (2,)),
    ]
    assert plan.launches[0].grid == (7, 1, 1)
    assert plan.launches[0].args[2:] == (NumberArgument(True), NumberArgument(False))
    assert WORKSPACE_ALIGNMENT == 256


def test_an_empty_workspace_is_allowed() -> None:
    (workspace,) = resolved("workspace w: T[zero]\nk grid=1 block=1 args=(w)").workspaces
    assert workspace.shape == (0,)


# -- which launches run ----------------------------------------------------------------------------

CHOICE = """
when n > 50 and m > 5: a grid=1 block=1 args=()
when n > 50:
    b grid=1 block=1 args=()
    c grid=1 block=1 args=()
otherwise: refuse "n is small"
d grid=1 block=1 args=()
"""


@pytest.mark.parametrize(
    ("n", "m", "kernels"), [(51, 6, ["a", "d"]), (51, 5, ["b", "c", "d"]), (99, 0, ["b", "c", "d"])]
)
def test_the_first_branch_that_holds_is_taken(n: int, m: int, kernels: list[str]) -> None:
    assert [launch.kernel for launch in resolved(CHOICE, n=n, m=m).launches] == kernels


def test_a_plan_refuses_with_its_reason() -> None:
    assert outcome(CHOICE, n=50) == Refused("n is small", Place(6, 12))


def test_a_case_that_no_branch_covers_is_refused() -> None:
    found = outcome("when n > 50: k grid=1 block=1 args=()", n=1)
    assert found == Refused("no branch of the launch plan covers this case", Place(1, 1))


def test_branches_that_are_not_taken_are_not_evaluated() -> None:
    text = "when zero == 0: k grid=1 block=1 args=()\notherwise: k grid=n // zero block=1 args=()"
    assert launched(text).grid == (1, 1, 1)


@pytest.mark.parametrize("grid", ["zero", "(n, zero)", "(n, m, zero)"])
def test_a_launch_with_an_empty_grid_is_skipped(grid: str) -> None:
    text = f"a grid={grid} block=1 args=()\nb grid=1 block=1 args=()"
    assert [launch.kernel for launch in resolved(text).launches] == ["b"]


# -- what only numbers show ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        "grid=2147483647 block=1",
        "grid=(1, 65535, 65535) block=1",
        "grid=1 block=1024",
        "grid=1 block=(1, 1024)",
        "grid=1 block=(16, 1, 64)",
        "grid=1 block=1 shared=232448",
        "grid=1 block=1 shared=0",
    ],
)
def test_the_largest_launches_pass(fields: str) -> None:
    launched(f"k {fields} args=()")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("k grid=▶2147483648 block=1 args=()", "grid=2147483648 of k is not between 0 and 214"),
        ("k grid=(1, ▶65536) block=1 args=()", "grid=65536 of k is not between 0 and 65535"),
        ("k grid=(1, 1, ▶65536) block=1 args=()", "grid=65536 of k is not between 0 and 65535"),
        ("k grid=▶-1 block=1 args=()", "grid=-1 of k is not between 0 and"),
        ("k grid=1 block=▶0 args=()", "block=0 of k is not between 1 and 1024"),
        ("k grid=1 block=▶1025 args=()", "block=1025 of k is not between 1 and 1024"),
        ("k grid=1 block=(1, ▶1025) args=()", "block=1025 of k is not between 1 and 1024"),
        ("k grid=1 block=(1, 1, ▶65) args=()", "block=65 of k is not between 1 and 64"),
        ("k grid=1 block=(▶64, 32) args=()", "block=(64, 32, 1) of k has 2048 threads; at most 10"),
        ("k grid=1 block=1 shared=▶232449 args=()", "shared=232449 of k is not between 0 and 23"),
        ("k grid=1 block=1 shared=▶-1 args=()", "shared=-1 of k is not between 0 and 232448"),
        ("▶workspace w: T[-1]\nk grid=1 block=1 args=(w)", "workspace w would have the shape [-1]"),
        ("k grid=n ▶// zero block=1 args=()", "division by zero"),
        ("k grid=n ▶% zero block=1 args=()", "division by zero"),
        ("let a = n ▶// zero\nk grid=a block=1 args=()", "division by zero"),
        ("when n ▶// zero > 1: k grid=1 block=1 args=()", "division by zero"),
        ("k<n ▶// zero> grid=1 block=1 args=()", "division by zero"),
        ("k grid=1 block=1 args=(n ▶// zero)", "division by zero"),
        ("k grid=1 block=1 args=(9223372036854775807 ▶+ n)", "does not fit in 64 bits"),
        ("k grid=▶ceil_div(n, zero) block=1 args=()", "needs a >= 0 and b > 0"),
        ("k grid=▶ceil_div(-n, 2) block=1 args=()", "needs a >= 0 and b > 0"),
        ("when ▶aligned(x, 3): k grid=1 block=1 args=()", "aligned() needs a power of two, not 3"),
        ("when ▶aligned(x, zero): k grid=1 block=1 args=()", "needs a power of two, not 0"),
    ],
)
def test_errors_name_the_place_and_the_numbers(text: str, message: str) -> None:
    text, place = marked(text)
    error = error_of(text)
    assert message in error.message
    assert error.place == place


def test_a_workspace_has_a_limit() -> None:
    most = MAX_WORKSPACE_BYTES // 2
    resolved(f"workspace w: T[{most}]\nk grid=1 block=1 args=(w)")
    error = error_of(f"workspace w: T[{most // 2}, 2 + 1]\nk grid=1 block=1 args=(w)")
    assert f"the shape [{most // 2}, 3]" in error.message


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("block=512", "has 512 threads; at most 256 fit"),
        ("block=1 shared=1001", "not between 0 and 1000 bytes"),
    ],
)
def test_limits_are_those_of_the_device(fields: str, message: str) -> None:
    small = {"max_threads_per_block": 256, "max_shared_memory_per_block": 1000}
    on_small_device = Bindings(DType.FLOAT16, {}, {}, device={**DEVICE_ATTRIBUTES, **small})
    plan = parse_plan(f"k grid=1 {fields} args=()")
    with pytest.raises(PlanError) as caught:
        resolve(plan, on_small_device)
    assert message in caught.value.message


def test_resolving_leaves_the_bindings_as_they_were() -> None:
    given_bindings = bindings()
    resolve(parse_plan("workspace w: T[n]\nk grid=1 block=1 args=(w)"), given_bindings)
    assert set(given_bindings.layouts) == {"x", "y"}


# -- properties ------------------------------------------------------------------------------------


@PROPERTY
@given(st.lists(st.integers(0, 50), max_size=4).map(tuple))
def test_contiguous_strides_count_the_elements_in_between(shape: tuple[int, ...]) -> None:
    strides = contiguous_strides(shape)
    assert len(strides) == len(shape)
    for axis, stride in enumerate(strides):
        elements = 1
        for size in shape[axis + 1 :]:
            elements *= size
        assert stride == elements


def _layouts(task: KernelTask, alignment: int) -> dict[str, Layout]:
    return {a.name: Layout(alignment, (64,) * (len(a.shape) - 1) + (1,)) for a in task.tensors}


@PROPERTY
@given(st.data())
def test_bundled_plans_cover_every_case_of_their_contract(
    tasks: dict[str, KernelTask], data: st.DataObject
) -> None:
    task = tasks[data.draw(st.sampled_from(sorted(tasks)))]
    element = data.draw(st.sampled_from(task.dtypes))
    dims = {name: data.draw(st.integers(0, 1_000)) for name in task.dims}
    source = data.draw(st.sampled_from((task.baseline_file, task.tuned_file)))
    scalars = {a.name: a.choices[0] for a in task.scalars}
    layouts = _layouts(task, data.draw(st.sampled_from((1, 2, 16, 256))))
    plan = plan_of(source.read_text(encoding="utf-8"))
    validate_plan(plan, task.scope)
    if not task.violated(dims, element):
        found = resolve(plan, Bindings(element, dims, layouts, scalars))
        assert isinstance(found, ResolvedPlan)
        assert all(min(launch.grid) > 0 for launch in found.launches)
