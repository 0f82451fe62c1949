"""Outputs that no honest kernel produces, to prove that the suite would notice.

A suite that accepts zeros, a copy of an input or last run's output tests nothing, whatever its
tolerances say (KernelBench issue 165: zeros passed 4 of 60 problems).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from astra_tui.lab.check.inputs import Inputs, draw_inputs
from astra_tui.lab.check.judge import judge_output
from astra_tui.lab.check.oracle import Expected, Oracle
from astra_tui.model.check import Case, FakeResult
from astra_tui.model.encoding import decode, encode, raw_dtype
from astra_tui.model.task import Argument, KernelTask

Outputs = Mapping[str, Any]
Fake = Callable[[KernelTask, Case, Inputs, Expected], Outputs]


def prove_suite(task: KernelTask, cases: tuple[Case, ...], oracle: Oracle) -> Iterator[FakeResult]:
    """Judges each fake on each case; a fake that no case rejects shows a hole in the suite."""
    inside = [case for case in cases if not case.outside_contract]
    drawn = [(case, draw_inputs(task, case)) for case in inside]
    for name, fake in FAKES.items():
        rejected = 0
        for case, inputs in drawn:
            expected = oracle.expected(case, inputs)
            rejected += not _accepted(task, case, fake(task, case, inputs, expected), expected)
        yield FakeResult(name, len(drawn), rejected)


def _accepted(task: KernelTask, case: Case, outputs: Outputs, expected: Expected) -> bool:
    for argument in task.outputs:
        dtype = task.dtype_of(argument, case.dtype)
        judged = judge_output(
            argument.name,
            outputs[argument.name],
            expected.outputs[argument.name],
            dtype,
            task.tolerances.get(dtype),
        )
        if not judged.ok:
            return False
    return True


def _zeros(task: KernelTask, case: Case, inputs: Inputs, expected: Expected) -> Outputs:
    return {a.name: _filled(task, case, a, 0) for a in task.outputs}


def _ones(task: KernelTask, case: Case, inputs: Inputs, expected: Expected) -> Outputs:
    return {a.name: _filled(task, case, a, 1) for a in task.outputs}


def _untouched(task: KernelTask, case: Case, inputs: Inputs, expected: Expected) -> Outputs:
    """In-place arguments as they were, other outputs zero: a kernel that does nothing."""
    return {
        a.name: inputs.tensors[a.name] if a.is_read else _filled(task, case, a, 0)
        for a in task.outputs
    }


def _copy_of_input(task: KernelTask, case: Case, inputs: Inputs, expected: Expected) -> Outputs:
    """Each output filled from the first input, cut or repeated to its size."""
    first = next(a for a in task.tensors if a.is_read)
    values = decode(inputs.tensors[first.name], task.dtype_of(first, case.dtype)).reshape(-1)
    found = {}
    for argument in task.outputs:
        shape = task.shape_of(argument, case.dims, case.dtype)
        dtype = task.dtype_of(argument, case.dtype)
        data = np.resize(values, shape) if values.size else np.zeros(shape)
        found[argument.name] = encode(np.nan_to_num(data) if not dtype.is_float else data, dtype)
    return found


def _stale(task: KernelTask, case: Case, inputs: Inputs, expected: Expected) -> Outputs:
    """The right numbers of a neighbouring row, as from a cache that was not refreshed."""
    return {
        a.name: encode(np.roll(expected.outputs[a.name], 1, axis=0), task.dtype_of(a, case.dtype))
        for a in task.outputs
    }


FAKES: Mapping[str, Fake] = {
    "zeros": _zeros,
    "ones": _ones,
    "does nothing": _untouched,
    "copy of an input": _copy_of_input,
    "stale output": _stale,
}


def _filled(task: KernelTask, case: Case, argument: Argument, value: float) -> Any:
    shape = task.shape_of(argument, case.dims, case.dtype)
    dtype = task.dtype_of(argument, case.dtype)
    return encode(np.full(shape, value), dtype).view(raw_dtype(dtype))
