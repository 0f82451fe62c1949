"""Draws the inputs of a case, the same every time: seeds follow from names, not from order."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import msgspec
import numpy as np

from astra_tui.gpu import drawing
from astra_tui.gpu.messages import Fill
from astra_tui.lab.cache import Kept
from astra_tui.model.bit_patterns import decode, encode
from astra_tui.model.check import Case
from astra_tui.model.dtypes import DType, item_shape
from astra_tui.model.task import Argument, KernelTask

VERSION = "2"
"""Raised whenever the same case would get other numbers."""

KEPT_BYTES = 64 << 20
"""Bytes of drawn inputs that are kept."""

_MOST_PARTS = 1024
"""Parts of one read beyond which none is kept."""

_SPECIAL = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf, "-0": -0.0}


Draw = Callable[[Any, int], Any]
"""Bytes of an input from each of some offsets on, and how many, a row for each offset."""


@dataclass(frozen=True)
class Inputs:
    """The values of a case: tensors as bit patterns in their logical shape, scalars as numbers."""

    tensors: Mapping[str, Any]
    scalars: Mapping[str, int | float]


def draw_inputs(task: KernelTask, case: Case) -> Inputs:
    """The inputs of a case. Tensors that are only written are left out."""
    tensors = {}
    for argument in task.tensors:
        if argument.is_read:
            dtype = task.dtype_of(argument, case.dtype)
            shape = item_shape(task.shape_of(argument, case.dims, case.dtype), dtype)
            drawn = draw_elements(task, case, argument.name, range(math.prod(shape)))
            tensors[argument.name] = drawn.reshape(shape)
    return Inputs(tensors, scalars_of(task, case))


class DrawnInputs:
    """Draws the inputs of a task's cases once, as far as they fit: they are the same for all
    sources. What it gives is not to be written to.
    """

    def __init__(self, task: KernelTask, max_bytes: int = KEPT_BYTES):
        self.task = task
        self._cases: Kept[Inputs] = Kept(max_bytes // 2)
        self._parts: Kept[Any] = Kept(max_bytes // 2)

    def of(self, case: Case) -> Inputs:
        """As `draw_inputs`."""
        key = msgspec.json.encode(case)
        inputs = self._cases.get(key)
        if inputs is None:
            inputs = draw_inputs(self.task, case)
            for bits in inputs.tensors.values():
                bits.flags.writeable = False
            self._cases.put(key, inputs, sum(bits.nbytes for bits in inputs.tensors.values()))
        return inputs

    def read(self, key: Hashable, draw: Draw, first: Any, size: int) -> Any:
        """`size` bytes of an input from each of some different offsets on, a row each.

        `draw` draws them, of an input that `key` names.
        """
        if len(first) > _MOST_PARTS:
            return draw(first, size)
        names = [(key, offset, size) for offset in first.tolist()]
        found: list[Any] = [self._parts.get(name) for name in names]
        missing = [k for k, part in enumerate(found) if part is None]
        if missing:
            for k, part in zip(missing, draw(first[missing], size), strict=True):
                found[k] = part
                self._parts.put(names[k], part, size)
        return np.stack(found)


def draw_elements(task: KernelTask, case: Case, name: str, places: Any) -> Any:
    """Items of one input of a case as bit patterns, without the others.

    `places` are flat indices into the tensor's shape in items (row-major, gaps between rows do not
    count), of any shape and in any order, or a range; the answer has their shape. The whole tensor
    is `draw_elements(task, case, name, range(items)).reshape(shape)`.
    """
    return drawer_of(task, case, name)(places)


def drawer_of(task: KernelTask, case: Case, name: str) -> Callable[[Any], Any]:
    """`draw_elements` for one input of a case, which is drawn from more than once."""
    return partial(drawing.draw, fill_of(task, case, name), seed_of_input(task, case, name), 0)


def seed_of_input(task: KernelTask, case: Case, name: str) -> int:
    """The generator's seed for one input of a case, 64 bits; its values are those of set 0."""
    text = f"{VERSION}|{task.name}|{case.id}|{sorted(case.dims.items())}"
    return drawing.seed_of(f"{text}|{case.seed}" if case.seed else text, name)


def fill_of(task: KernelTask, case: Case, name: str) -> Fill:
    """What the generator takes for an input: a distribution in numbers, with the input's limit."""
    argument = task.args[name]
    dtype = task.dtype_of(argument, case.dtype)
    asked = case.values.get(name, argument.values)
    values = task.values_at(asked, case.dims, case.dtype)
    return Fill(
        dtype=dtype.value,
        kind=values.kind.value,
        low=values.low,
        high=values.high,
        limit=argument.limit or 0.0,
        planted=tuple(planted_value(planted, argument, dtype) for planted in values.planted),
        group=task.group_size(values, argument, case.dims, case.dtype),
        apart=values.apart,
    )


def scalars_of(task: KernelTask, case: Case) -> dict[str, int | float]:
    """The numbers that a case passes, rounded to the type that the task declares."""
    found: dict[str, int | float] = {}
    for argument in task.scalars:
        value = case.scalars.get(argument.name, argument.choices[0])
        assert argument.dtype is not None
        found[argument.name] = _rounded(value, argument.dtype)
    return found


@cache
def _rounded(value: float, dtype: DType) -> int | float:
    """A number as an argument of a type has it."""
    return float(decode(encode([value], dtype), dtype)[0]) if dtype.is_float else int(value)


def planted_value(name: str, argument: Argument, dtype: DType) -> float:
    """The number that the name of a special value stands for; "limit" is the argument's largest.

    A suite's own cases also plant plain numbers, which a source compares with.
    """
    if name == "limit":
        return argument.limit if argument.limit is not None else dtype.largest / 4
    return _SPECIAL[name] if name in _SPECIAL else float(name)
