"""The cases that a task gives rise to: what the floor suite holds, the same every time."""

from __future__ import annotations

import math
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tui.lab.check.combinations import scalar_levels, value_levels
from astra_tui.lab.check.inputs import DrawnInputs, draw_inputs, scalars_of
from astra_tui.lab.check.layout import layouts_of
from astra_tui.lab.check.runner import NoSuchCase, select_cases
from astra_tui.lab.check.suite import LARGE_ELEMENTS, build_suite
from astra_tui.model.bit_patterns import decode
from astra_tui.model.dtypes import DType
from astra_tui.model.task import ArgumentRole, ExtraCase, KernelTask, find_task, load_task

TASKS = ("fused_add_rmsnorm", "merge_attn_states_lse", "silu_and_mul")


@pytest.mark.parametrize("name", TASKS)
def test_floor_suite_has_every_kind_of_case(tasks: dict[str, KernelTask], name: str) -> None:
    task = tasks[name]
    for dtype in task.dtypes:
        cases = {c.name: c for c in build_suite(task) if c.dtype is dtype}
        assert cases["tokens=0"].dims["tokens"] == 0
        names = {"typical", "smallest", "all shifted by 1", "odd sizes shifted by 1"}
        names.add("smallest shifted by 1")
        assert names <= set(cases)
        # Where a workload has this type, it runs at its own size instead.
        assert ("large" in cases) == all(w.dtype is not dtype for w in task.workloads)
        assert {"tiny values", "subnormal values", "huge values", "outliers"} <= set(cases)
        assert any(n.startswith("nan in ") for n in cases)
        for workload in task.workloads:
            (small,) = (c for n, c in cases.items() if n.startswith(f"workload {workload.name}"))
            for name, size in workload.dims.items():
                shrunk = f"{name}={small.dims[name]} of {size}" in small.name
                assert shrunk is (small.dims[name] != size)
        assert ("values below float16" in cases) is (dtype is not DType.FLOAT16)
        for name in set(task.dims) - {task.rows}:
            most = max(w.dims[name] for w in task.workloads)
            beyond = [c.dims[name] for n, c in cases.items() if n.endswith("beyond all workloads")]
            assert max(beyond) >= 2 * most
        assert all(c.why for c in cases.values())


def changed_silu(tmp_path: Path, tasks: dict[str, KernelTask], old: str, new: str) -> KernelTask:
    """silu_and_mul with another text in its task.toml."""
    folder = tmp_path / "silu_and_mul"
    shutil.copytree(tasks["silu_and_mul"].folder, folder)
    file = folder / "task.toml"
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")
    return load_task(folder)


def test_without_a_limit_no_case_claims_to_reach_it(
    tmp_path: Path, tasks: dict[str, KernelTask]
) -> None:
    task = changed_silu(tmp_path, tasks, "limit = 60000.0", "")
    cases = {c.name: c for c in build_suite(task)}
    assert "outliers" not in cases
    assert "no argument a limit" in cases["huge values"].why


@pytest.mark.parametrize("name", TASKS)
def test_suite_is_deterministic_and_names_are_unique(
    tasks: dict[str, KernelTask], name: str
) -> None:
    first, second = build_suite(tasks[name]), build_suite(tasks[name])
    assert first == second
    assert max(Counter(c.id for c in first).values()) == 1


@pytest.mark.parametrize("name", TASKS)
def test_cases_stay_small_enough_for_the_emulator(tasks: dict[str, KernelTask], name: str) -> None:
    task = tasks[name]
    for case in build_suite(task):
        assert task.elements(case.dims, case.dtype) <= 2 * LARGE_ELEMENTS, case.id


def test_sizes_outside_the_contract_are_cases_that_have_to_be_refused(
    tasks: dict[str, KernelTask],
) -> None:
    outside = [c for c in build_suite(tasks["merge_attn_states_lse"]) if c.outside_contract]
    assert {(c.dtype, c.dims["head_dim"]) for c in outside} >= {
        (DType.FLOAT16, 50),
        (DType.FLOAT16, 12),
        (DType.FLOAT32, 50),
    }


def test_inputs_follow_from_the_case_alone(tasks: dict[str, KernelTask]) -> None:
    task = tasks["silu_and_mul"]
    cases = {c.id: c for c in build_suite(task)}
    case = cases["float16/typical"]
    once, again = draw_inputs(task, case), draw_inputs(task, case)
    other = draw_inputs(task, cases["float16/d=769"])
    assert (once.tensors["input"] == again.tensors["input"]).all()
    assert other.tensors["input"].shape == (16, 2 * 769)
    assert not (once.tensors["input"][0, :8] == other.tensors["input"][0, :8]).all()


@pytest.mark.parametrize("name", TASKS)
def test_inputs_are_what_the_case_says(tasks: dict[str, KernelTask], name: str) -> None:
    task = tasks[name]
    for case in build_suite(task):
        if case.dims["tokens"] == 0:
            continue
        inputs = draw_inputs(task, case)
        for argument in task.tensors:
            assert (argument.name in inputs.tensors) == argument.is_read
        planted = next((n for n in ("nan", "inf", "-inf") if case.name.startswith(f"{n} in ")), "")
        if planted:
            argument = task.args[case.name.removeprefix(f"{planted} in ")]
            values = decode(inputs.tensors[argument.name], task.dtype_of(argument, case.dtype))
            special = np.isnan(values) if planted == "nan" else values == float(planted)
            assert 0 < special.sum() < values.size


def test_numbers_outside_of_a_range_are_tried_alone_and_where_values_meet(
    tmp_path: Path, tasks: dict[str, KernelTask]
) -> None:
    special = 'special = ["nan", "inf", "-inf"]'
    ranged = 'values = { kind = "uniform", low = 0.5, high = 2.0 }\nspecial = ["0", "-3.5"]'
    task = changed_silu(tmp_path, tasks, special, ranged)
    (argument,) = (a for a in task.tensors if a.special)
    cases = {c.id: c for c in build_suite(task)}
    for dtype in task.dtypes:
        words = {w.words for group in value_levels(task, dtype) for w in group}
        for number in ("0", "-3.5"):
            name = f"{number} in {argument.name}"
            assert name in words
            bits = draw_inputs(task, cases[f"{dtype.value}/{name}"]).tensors[argument.name]
            values = decode(bits, task.dtype_of(argument, dtype))
            assert 0 < (values == float(number)).sum() < values.size
            assert all(map(argument.allows, values.flat[:64]))


@given(seed=st.integers(0, 1 << 40))
def test_a_scalar_is_drawn_between_the_ends_that_a_task_gives(seed: int) -> None:
    task = find_task("sglang_topk_softmax")
    argument = task.args["moe_softcapping"]
    assert argument.between is not None
    *_, last = scalar_levels(task, Random(seed))
    assert argument.between[0] <= last.scalars[argument.name] <= argument.between[1]


def test_scalars_have_their_declared_type_and_every_choice_is_tried(
    tasks: dict[str, KernelTask],
) -> None:
    task = tasks["fused_add_rmsnorm"]
    tried = {scalars_of(task, case)["eps"] for case in build_suite(task)}
    assert {float(np.float32(choice)) for choice in (1e-6, 1e-5)} < tried


def test_layouts_follow_offsets_and_padding(tasks: dict[str, KernelTask]) -> None:
    task = tasks["fused_add_rmsnorm"]
    cases = {c.id: c for c in build_suite(task)}
    apart = layouts_of(task, cases["float16/rows apart by 3"])["x"]
    assert apart.strides == (515, 1)
    assert apart.elements == 15 * 515 + 512
    assert not apart.is_contiguous
    shifted = layouts_of(task, cases["float16/all shifted by 1"])["weight"]
    assert (shifted.offset, shifted.alignment) == (1, 2)
    round_rows = layouts_of(task, cases["float16/odd rows at round distances"])["x"]
    assert round_rows.shape[1] % 2 == 1
    assert round_rows.strides[0] % 16 == 0


def test_cases_are_selected_by_pattern(tasks: dict[str, KernelTask]) -> None:
    task = tasks["silu_and_mul"]
    assert [c.id for c in select_cases(task, ("*/typical",))] == [
        "float16/typical",
        "bfloat16/typical",
    ]
    assert all("shifted" in c.name for c in select_cases(task, ("*shifted*",)))
    with pytest.raises(NoSuchCase, match="--list"):
        select_cases(task, ("nonsense",))


def test_written_arguments_are_covered_by_a_tolerance(tasks: dict[str, KernelTask]) -> None:
    for task in tasks.values():
        for argument in task.outputs:
            assert argument.role in (ArgumentRole.OUT, ArgumentRole.INOUT)
            for dtype in task.dtypes:
                assert task.dtype_of(argument, dtype) in task.tolerances
        assert math.isfinite(task.compulsory_bytes(task.workloads[0].dims, task.dtypes[0]))


def test_an_added_case_never_replaces_one_of_the_floor_suite(
    tasks: dict[str, KernelTask],
) -> None:
    task = tasks["silu_and_mul"]
    easy = ExtraCase("typical", "an easier one", {"tokens": 1, "d": 1}, {}, task.dtypes)
    cases = {c.id: c for c in build_suite(replace(task, cases=(easy, *task.cases)))}
    assert cases["float16/typical"].dims == {"tokens": 16, "d": 512}
    assert cases["float16/typical (added)"].dims == {"tokens": 1, "d": 1}


def test_inputs_that_are_kept_are_those_that_are_drawn() -> None:
    silu = find_task("silu_and_mul")
    case = next(c for c in build_suite(silu, 5) if c.name == "typical")
    drawn, kept = draw_inputs(silu, case), DrawnInputs(silu)
    for _ in range(2):
        again = kept.of(case)
        assert again.scalars == drawn.scalars
        for name, bits in drawn.tensors.items():
            assert np.array_equal(again.tensors[name], bits)
            with pytest.raises(ValueError, match="read-only"):
                again.tensors[name][...] = 0
    assert kept.of(case) is again


@given(st.lists(st.lists(st.integers(0, 40), min_size=1, max_size=8, unique=True), max_size=8))
def test_parts_of_an_input_are_drawn_once_and_read_alike(reads: list[list[int]]) -> None:
    every = np.random.default_rng(1).integers(0, 256, 64 * 40 + 64, np.uint8)
    asked: list[int] = []

    def draw(first: Any, size: int) -> Any:
        asked.extend(first.tolist())
        return every[first[:, None] + np.arange(size)]

    kept = DrawnInputs(find_task("silu_and_mul"))
    for read in reads:
        first = np.array(read) * 64
        assert np.array_equal(
            kept.read("x", draw, first, 64), every[first[:, None] + np.arange(64)]
        )
    assert sorted(asked) == sorted({64 * k for read in reads for k in read})
