"""Draws the inputs of a case, the same every time: seeds follow from names, not from order."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from astra_tui.lab.check.encoding import encode
from astra_tui.model.check import Case
from astra_tui.model.dtypes import DType
from astra_tui.model.task import Argument, KernelTask, ValueKind, Values

VERSION = "1"
"""Raised whenever the same case would get other numbers."""

_PLANT_EVERY = 16
_SPECIAL = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf, "-0": -0.0}


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
            shape = task.shape_of(argument, case.dims, case.dtype)
            values = case.values.get(argument.name, argument.values)
            tensors[argument.name] = encode(
                _draw(values, shape, dtype, argument, _generator(task, case, argument)), dtype
            )
    return Inputs(tensors, scalars_of(task, case))


def scalars_of(task: KernelTask, case: Case) -> dict[str, int | float]:
    """The numbers that a case passes, of the type that the task declares."""
    found: dict[str, int | float] = {}
    for argument in task.scalars:
        value = case.scalars.get(argument.name, argument.choices[0])
        assert argument.dtype is not None
        found[argument.name] = float(value) if argument.dtype.is_float else int(value)
    return found


def _generator(task: KernelTask, case: Case, argument: Argument) -> np.random.Generator:
    text = f"{VERSION}|{task.name}|{case.id}|{sorted(case.dims.items())}|{argument.name}"
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "little")
    return np.random.Generator(np.random.Philox(seed))


def _draw(
    values: Values,
    shape: tuple[int, ...],
    dtype: DType,
    argument: Argument,
    random: np.random.Generator,
) -> Any:
    data: Any
    match values.kind:
        case ValueKind.NORMAL:
            data = random.normal(values.low, values.high, shape)
        case ValueKind.UNIFORM:
            data = random.uniform(values.low, values.high, shape)
        case ValueKind.INTEGERS:
            data = random.integers(int(values.low), int(values.high), shape, endpoint=True)
        case ValueKind.CONSTANT:
            data = np.full(shape, values.low)
        case ValueKind.ARANGE:
            data = (np.arange(math.prod(shape)) % (int(values.high) + 1)).reshape(shape)
    if argument.limit is not None and values.kind is not ValueKind.CONSTANT:
        data = np.clip(data, -argument.limit, argument.limit)
    if values.planted and data.size:
        data = data.astype(np.float64)
        count = max(1, data.size // _PLANT_EVERY)
        places = random.choice(data.size, count, replace=False)
        pool = [planted_value(name, argument, dtype) for name in values.planted]
        data.reshape(-1)[places] = np.array(pool)[np.arange(count) % len(pool)]
    return data


def planted_value(name: str, argument: Argument, dtype: DType) -> float:
    """The number behind the name of a special value; "limit" is the argument's largest."""
    if name == "limit":
        return argument.limit if argument.limit is not None else dtype.largest / 4
    return _SPECIAL[name]
