"""Outputs that no honest kernel produces, to prove that the suite would notice.

A suite that accepts zeros, a copy of an input or last run's output tests nothing, whatever its
tolerances say (KernelBench issue 165: zeros passed 4 of 60 problems).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from astra_tui.lab.check.inputs import DrawnInputs, Inputs
from astra_tui.lab.check.judge import judge_output
from astra_tui.lab.check.oracle import Expected, Oracle
from astra_tui.model.bit_patterns import decode, encode, raw_dtype
from astra_tui.model.check import Case, FakeResult
from astra_tui.model.task import Argument, KernelTask

Fake = Callable[[KernelTask, Case, Inputs, Expected, Argument], Any]
"""The bit patterns of one output."""


def prove_suite(
    task: KernelTask, cases: tuple[Case, ...], oracle: Oracle, drawn: DrawnInputs
) -> Iterator[FakeResult]:
    """Judges each fake on each case; a fake that no case rejects shows a hole in the suite."""
    inside = [case for case in cases if not case.outside_contract]
    rejected = dict.fromkeys(FAKES, 0)
    for case in inside:
        inputs = drawn.of(case)
        expected = oracle.expected(case, inputs)
        for name, fake in FAKES.items():
            rejected[name] += not _accepted(task, case, fake, inputs, expected)
    for name, count in rejected.items():
        yield FakeResult(name, len(inside), count)


def _accepted(task: KernelTask, case: Case, fake: Fake, inputs: Inputs, expected: Expected) -> bool:
    for argument in task.outputs:
        dtype = task.dtype_of(argument, case.dtype)
        judged = judge_output(
            argument.name,
            fake(task, case, inputs, expected, argument),
            expected.outputs[argument.name],
            dtype,
            task.tolerances.get(dtype),
            nearest=expected.nearest(argument.name, dtype),
        )
        if not judged.ok:
            return False
    return True


def _zeros(
    task: KernelTask, case: Case, inputs: Inputs, expected: Expected, output: Argument
) -> Any:
    return _filled(task, case, output, 0)


def _ones(
    task: KernelTask, case: Case, inputs: Inputs, expected: Expected, output: Argument
) -> Any:
    return _filled(task, case, output, 1)


def _untouched(
    task: KernelTask, case: Case, inputs: Inputs, expected: Expected, output: Argument
) -> Any:
    """In-place arguments as they were, other outputs zero: a kernel that does nothing."""
    return inputs.tensors[output.name] if output.is_read else _filled(task, case, output, 0)


def _copy_of_input(
    task: KernelTask, case: Case, inputs: Inputs, expected: Expected, output: Argument
) -> Any:
    """The output filled from the first input, cut or repeated to its size."""
    first = next(a for a in task.tensors if a.is_read)
    values = decode(inputs.tensors[first.name], task.dtype_of(first, case.dtype)).reshape(-1)
    shape = task.shape_of(output, case.dims, case.dtype)
    dtype = task.dtype_of(output, case.dtype)
    data = np.resize(values, shape) if values.size else np.zeros(shape)
    return encode(np.nan_to_num(data) if not dtype.is_float else data, dtype)


def _stale(
    task: KernelTask, case: Case, inputs: Inputs, expected: Expected, output: Argument
) -> Any:
    """The right numbers of a neighbouring row, as from a cache that was not refreshed."""
    rolled = np.roll(expected.outputs[output.name], 1, axis=0)
    return encode(rolled, task.dtype_of(output, case.dtype))


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
