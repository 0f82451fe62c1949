"""Properties that need no reference: rows may be permuted, and a batch may be split.

Outputs that are hard-coded, cached or keyed by shape fail them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
import numpy as np

from astra_tui.lab.check.encoding import decode
from astra_tui.lab.check.inputs import Inputs
from astra_tui.lab.check.judge import judge_output
from astra_tui.model.check import Case, PropertyResult
from astra_tui.model.launch.expression import Name
from astra_tui.model.task import Argument, KernelTask

RunOnInputs = Callable[[Case, Inputs], Mapping[str, Any]]
"""Runs the candidate on given inputs; outputs as bit patterns."""


def check_properties(
    task: KernelTask, case: Case, inputs: Inputs, outputs: Mapping[str, Any], run: RunOnInputs
) -> Iterator[PropertyResult]:
    """Checks the properties of a task with independent rows on one case that passed."""
    rows = case.dims.get(task.rows, 0) if task.rows else 0
    if rows < 2:
        return
    random = np.random.Generator(np.random.Philox(rows))
    order = random.permutation(rows)
    permuted = run(case, _select_rows(task, inputs, order))
    wanted = {name: value[order] for name, value in outputs.items()}
    yield _compare(task, case, "rows permuted", permuted, wanted)
    cut = int(random.integers(1, rows))
    for name, part in (("first rows alone", slice(0, cut)), ("last rows alone", slice(cut, rows))):
        chosen = np.arange(rows)[part]
        smaller = msgspec.structs.replace(case, dims={**case.dims, task.rows: len(chosen)})
        alone = run(smaller, _select_rows(task, inputs, chosen))
        wanted = {n: value[chosen] for n, value in outputs.items()}
        yield _compare(task, case, name, alone, wanted)


def _select_rows(task: KernelTask, inputs: Inputs, rows: Any) -> Inputs:
    tensors = {
        name: np.ascontiguousarray(value[rows]) if _has_rows(task, task.args[name]) else value
        for name, value in inputs.tensors.items()
    }
    return Inputs(tensors, inputs.scalars)


def _has_rows(task: KernelTask, argument: Argument) -> bool:
    first = argument.shape[0]
    return isinstance(first, Name) and first.id == task.rows


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
            argument.name, got[argument.name], reference, dtype, task.tolerances.get(dtype)
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
