"""Cases that someone adds: what cannot be run is refused before it is recorded."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from astra_tui.lab.check.inputs import draw_inputs
from astra_tui.lab.check.layout import layouts_of
from astra_tui.lab.check.suite import build_suite
from astra_tui.model.added_cases import MAX_ELEMENTS, check_added_case
from astra_tui.model.check import Case
from astra_tui.model.dtypes import DType
from astra_tui.model.errors import UserError
from astra_tui.model.task import KernelTask, ValueKind, Values, load_task
from tests.conftest import ROOT

SILU = load_task(ROOT / "kernels" / "silu_and_mul")
NORM = load_task(ROOT / "kernels" / "fused_add_rmsnorm")
MERGE = load_task(ROOT / "kernels" / "merge_attn_states_lse")


def case(**changes: Any) -> Case:
    return replace(Case("mine", "", DType.FLOAT16, {"tokens": 3, "d": 40}), **changes)


def sizes(tokens: int, d: int) -> Case:
    return case(dims={"tokens": tokens, "d": d})


def drawn(*values: Any, name: str = "input") -> Case:
    return case(values={name: Values(*values)})


REFUSED = [
    (case(name=" "), "it has no name"),
    (case(name="a\x1b[2J"), "its name has characters that cannot be shown"),
    (case(dtype=DType.FLOAT64), "silu_and_mul has no type float64"),
    (case(dims={"tokens": 3}), "d is missing: it needs a size for each of tokens, d"),
    (sizes(100_000, 100_000), "has 20000000000 elements; the most are 65536"),
    (sizes(-1, 8), "tokens is -1; sizes go from 0 to 2147483648"),
    (sizes(1 << 70, 8), "sizes go from 0 to 2147483648"),
    (sizes(1, 0), "it breaks the contract: d >= 1"),
    (case(outside_contract="d >= 1"), "is marked to break the contract, and keeps it"),
    (replace(sizes(1 << 20, 0), outside_contract="d >= 1", offsets={"out": -1}), "not 0 to"),
    (drawn(name="out"), "'out' is no input tensor"),
    (drawn(name="inptu"), "'inptu' is no input tensor"),
    (drawn(ValueKind.UNIFORM, 2.0, 1.0), "low is above high"),
    (drawn(ValueKind.NORMAL, 0.0, -1.0), "high is negative"),
    (drawn(ValueKind.UNIFORM, 0.0, 70000.0), "the limit of 60000"),
    (drawn(ValueKind.CONSTANT, float("inf")), "plant special values instead"),
    (drawn(ValueKind.NORMAL, 0.0, 1.0, ("nam",)), "'nam' cannot be planted into 'input', only"),
    (case(offsets={"outt": 1}), "'outt' is no tensor"),
    (case(offsets={"out": 1 << 40}), "'out' begins 1099511627776 elements on, not 0 to 65536"),
    (case(row_padding={"input": 8}), "the rows of 'input' cannot lie apart"),
    (case(scalars={"eps": 1.0}), "'eps' is no scalar argument"),
]


@pytest.mark.parametrize(("wrong", "problem"), REFUSED, ids=[p for _, p in REFUSED])
def test_what_cannot_be_run_is_refused_with_the_bound(wrong: Case, problem: str) -> None:
    with pytest.raises(UserError, match=re.escape(problem)):
        check_added_case(wrong, SILU)


def test_scalars_and_gaps_are_those_of_the_task() -> None:
    (scalar,) = NORM.scalars
    strided = next(a.name for a in NORM.tensors if a.strided)
    good = next(c for c in build_suite(NORM) if c.name == "typical")
    check_added_case(replace(good, scalars={scalar.name: scalar.choices[0]}), NORM)
    check_added_case(replace(good, row_padding={strided: 8}), NORM)
    with pytest.raises(UserError, match=rf"'{scalar.name}' cannot be 0\.5, only"):
        check_added_case(replace(good, scalars={scalar.name: 0.5}), NORM)
    for padding in (-1, 1 << 40):
        with pytest.raises(UserError, match=f"rows of '{strided}' apart by {padding} leave"):
            check_added_case(replace(good, row_padding={strided: padding}), NORM)


@pytest.mark.parametrize("task", [SILU, NORM, MERGE], ids=lambda t: t.name)
def test_what_the_suite_tries_may_be_added(task: KernelTask) -> None:
    too_large, not_finite, no_choice = "the most are 65536", "are not finite", "cannot be"
    for known in build_suite(task):
        try:
            check_added_case(known, task)
        except UserError as error:
            if known.name == "large" or known.name.endswith(", beyond all workloads"):
                reason = too_large
            elif known.name == "both sides empty":
                reason = not_finite
            else:
                assert known.scalars
                assert known.name.startswith("drawn ")
                reason = no_choice
            assert reason in str(error), known.name  # noqa: PT017 - most are not refused


NUMBERS = st.integers() | st.integers(-2, 200)
VALUES = st.builds(
    Values,
    st.sampled_from(ValueKind),
    st.floats() | st.integers(-50, 50).map(float),
    st.floats() | st.integers(-50, 50).map(float),
    st.lists(st.sampled_from(["nan", "inf", "-inf", "-0", "limit", "x"]), max_size=3).map(tuple),
)


def cases(task: KernelTask) -> st.SearchStrategy[Case]:
    names = st.sampled_from([*task.args, "other"])
    return st.builds(
        Case,
        name=st.text(max_size=5),
        why=st.just(""),
        dtype=st.sampled_from(task.dtypes),
        dims=st.fixed_dictionaries(dict.fromkeys(task.dims, st.just(8) | NUMBERS)),
        values=st.dictionaries(names, VALUES, max_size=2),
        offsets=st.dictionaries(names, NUMBERS, max_size=2),
        row_padding=st.dictionaries(names, NUMBERS, max_size=2),
        outside_contract=st.sampled_from(["", "head_dim % 8 == 0"]),
    )


@pytest.mark.parametrize("task", [NORM, MERGE], ids=lambda t: t.name)
@given(data=st.data())
def test_every_case_that_is_taken_can_be_laid_out_and_drawn(
    task: KernelTask, data: st.DataObject
) -> None:
    proposed = data.draw(cases(task))
    try:
        check_added_case(proposed, task)
    except UserError:
        return
    assert all(t.elements <= 2 * MAX_ELEMENTS for t in layouts_of(task, proposed).values())
    draw_inputs(task, proposed)
