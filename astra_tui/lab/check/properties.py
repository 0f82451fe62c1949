"""Properties that need no reference: rows may be permuted, and a batch may be split.

Outputs that are hard-coded, cached or keyed by shape fail them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
import numpy as np

from astra_tui.lab.check.inputs import Inputs
from astra_tui.lab.check.judge import judge_output
from astra_tui.model.bit_patterns import decode
from astra_tui.model.check import Case, PropertyResult
from astra_tui.model.launch import PlanError
from astra_tui.model.task import KernelTask

RunOnInputs = Callable[[Case, Inputs], Mapping[str, Any]]
"""Runs the candidate on given inputs; outputs as bit patterns."""


def split_cases(task: KernelTask, case: Case) -> tuple[Case, ...]:
    """The two parts of a case's batch; none where it cannot be split."""
    rows = _rows_of(task, case)
    cut = _order_and_cut(rows)[1] if rows > 1 else 0
    return tuple(
        msgspec.structs.replace(case, dims={**case.dims, task.rows: size})
        for size in (cut, rows - cut)
        if cut
    )


def check_properties(
    task: KernelTask, case: Case, inputs: Inputs, outputs: Mapping[str, Any], run: RunOnInputs
) -> Iterator[PropertyResult]:
    """Checks the properties of a task with independent rows on one case that passed.

    Where the launch plan fails on the changed inputs, so does the property.
    """
    rows = _rows_of(task, case)
    if rows < 2:
        return
    order, cut = _order_and_cut(rows)
    first, last = split_cases(task, case)
    for name, changed, chosen in (
        ("rows permuted", case, order),
        ("first rows alone", first, np.arange(cut)),
        ("last rows alone", last, np.arange(cut, rows)),
    ):
        try:
            got = run(changed, _select_rows(task, inputs, chosen))
        except PlanError as error:
            yield PropertyResult(name, case.dtype, False, False, error.describe())
            continue
        yield _compare(task, case, name, got, {n: value[chosen] for n, value in outputs.items()})


def _rows_of(task: KernelTask, case: Case) -> int:
    return case.dims.get(task.rows, 0) if task.rows else 0


def _order_and_cut(rows: int) -> tuple[Any, int]:
    random = np.random.Generator(np.random.Philox(rows))
    return random.permutation(rows), int(random.integers(1, rows))


def _select_rows(task: KernelTask, inputs: Inputs, rows: Any) -> Inputs:
    tensors = {
        name: np.ascontiguousarray(value[rows]) if task.has_rows(task.args[name]) else value
        for name, value in inputs.tensors.items()
    }
    return Inputs(tensors, inputs.scalars)


def _compare(
    task: KernelTask,
    case: Case,
    name: str,
    got: Mapping[str, Any],
    wanted: Mapping[str, Any],
) -> PropertyResult:
    bitwise = all(np.array_equal(got[n], wanted[n]) for n in wanted)
    if bitwise:
        return PropertyResult(name, case.dtype, ok=True, bitwise=True)
    for argument in task.outputs:
        dtype = task.dtype_of(argument, case.dtype)
        reference = decode(wanted[argument.name], dtype)
        judged = judge_output(
            argument.name,
            got[argument.name],
            reference,
            dtype,
            task.tolerances.get(dtype),
            rounded=True,
        )
        if not judged.ok:
            return PropertyResult(
                name,
                case.dtype,
                ok=False,
                bitwise=False,
                message=f"{argument.name}: {judged.problem}",
            )
    return PropertyResult(
        name,
        case.dtype,
        ok=True,
        bitwise=False,
        message="equal within the tolerance, not bit for bit",
    )
