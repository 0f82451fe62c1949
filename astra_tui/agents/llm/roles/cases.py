"""Cases that a model proposes, held to the task's contract before anything runs."""

from __future__ import annotations

import math
from typing import Annotated

import msgspec
from msgspec import Meta

from astra_tui.model.check import Case
from astra_tui.model.dtypes import DType
from astra_tui.model.errors import UserError
from astra_tui.model.task import Argument, KernelTask, ValueKind, Values

MOST_ELEMENTS = 1 << 16
"""Elements of the largest tensor of a case, so that the emulator answers in milliseconds."""

LARGEST_WHOLE = 2.0**53
PLANTED_ANYWHERE = ("-0", "limit")


class SizeOf(msgspec.Struct, frozen=True):
    """One dimension's size."""

    name: str
    size: Annotated[int, Meta(ge=0, le=1 << 31)]


class ValuesOf(msgspec.Struct, frozen=True):
    """How the elements of one input are drawn."""

    argument: str
    kind: ValueKind
    low: float
    high: float
    planted: Annotated[
        tuple[str, ...], Meta(max_length=5, description='of "nan", "inf", "-inf", "-0", "limit"')
    ]


class ProposedCase(msgspec.Struct, frozen=True):
    """A case that could break the candidate."""

    name: Annotated[str, Meta(description="a few words")]
    why: Annotated[str, Meta(description="what in the code it aims at, in one sentence")]
    dtype: Annotated[str, Meta(description="an element type of the task")]
    dims: Annotated[tuple[SizeOf, ...], Meta(max_length=16, description="every dimension once")]
    values: Annotated[
        tuple[ValuesOf, ...],
        Meta(max_length=16, description="inputs that are not drawn as the task says"),
    ]


class NotACase(ValueError):
    """A proposed case that cannot be run or lies outside the contract; the message says why."""


def case_of(proposed: ProposedCase, task: KernelTask, round_: int) -> Case:
    """The case that was meant. Raises NotACase."""
    dtype = _dtype(proposed, task)
    dims = _dims(proposed, task)
    _check_contract(task, dims, dtype)
    name = " ".join(proposed.name.split())[:60]
    if not name:
        raise NotACase("it has no name")
    return Case(
        # Its round makes the name one that no case of the floor suite has.
        name=f"round {round_}: {name}",
        why=" ".join(proposed.why.split())[:300],
        dtype=dtype,
        dims=dims,
        values=_values(proposed, task, dtype),
    )


def _dtype(proposed: ProposedCase, task: KernelTask) -> DType:
    for dtype in task.dtypes:
        if dtype.value == proposed.dtype:
            return dtype
    raise NotACase(f"'{proposed.dtype}' is no element type of the task")


def _dims(proposed: ProposedCase, task: KernelTask) -> dict[str, int]:
    dims = {d.name: d.size for d in proposed.dims}
    if len(dims) < len(proposed.dims):
        raise NotACase("a dimension has two sizes")
    if dims.keys() != task.dims.keys():
        raise NotACase(f"it needs a size for each of {', '.join(task.dims)}, and no others")
    return {name: dims[name] for name in task.dims}


def _check_contract(task: KernelTask, dims: dict[str, int], dtype: DType) -> None:
    try:
        violated = task.violated(dims, dtype)
        elements = 0 if violated else task.elements(dims, dtype)
    except UserError as error:
        raise NotACase(error.message) from None
    if violated:
        raise NotACase(f"it breaks the contract: {violated}")
    if elements > MOST_ELEMENTS:
        raise NotACase(f"its largest tensor has {elements} elements; the most are {MOST_ELEMENTS}")


def _values(proposed: ProposedCase, task: KernelTask, element: DType) -> dict[str, Values]:
    found: dict[str, Values] = {}
    for wanted in proposed.values:
        argument = task.args.get(wanted.argument)
        if argument is None or not argument.is_tensor or not argument.is_read:
            raise NotACase(f"'{wanted.argument}' is no input tensor")
        if wanted.argument in found:
            raise NotACase(f"'{wanted.argument}' is drawn twice")
        _check_values(wanted, argument, task.dtype_of(argument, element))
        found[wanted.argument] = Values(wanted.kind, wanted.low, wanted.high, wanted.planted)
    return found


def _check_values(wanted: ValuesOf, argument: Argument, dtype: DType) -> None:
    where = f"the values of '{wanted.argument}'"
    if not (math.isfinite(wanted.low) and math.isfinite(wanted.high)):
        raise NotACase(f"{where} are not finite; plant special values instead")
    _check_order(wanted, where)
    planted = (*argument.special, *PLANTED_ANYWHERE) if dtype.is_float else ()
    for name in wanted.planted:
        if name not in planted:
            allowed = ", ".join(planted) or "nothing"
            raise NotACase(f"'{name}' cannot be planted into '{wanted.argument}', only {allowed}")
    if not dtype.is_float:
        _check_integers(wanted, argument, where, dtype)
    elif wanted.kind is not ValueKind.NORMAL:
        limit = argument.limit if argument.limit is not None else dtype.largest / 4
        if max(abs(wanted.low), abs(wanted.high)) > limit:
            raise NotACase(f"{where} pass the limit of {limit:g}")


def _check_order(wanted: ValuesOf, where: str) -> None:
    kind = wanted.kind
    if kind in (ValueKind.UNIFORM, ValueKind.INTEGERS) and wanted.low > wanted.high:
        raise NotACase(f"{where}: low is above high")
    if kind in (ValueKind.NORMAL, ValueKind.ARANGE) and wanted.high < 0:
        raise NotACase(f"{where}: high is negative")
    if kind in (ValueKind.INTEGERS, ValueKind.ARANGE):
        for bound in (wanted.low, wanted.high):
            if bound != int(bound) or abs(bound) > LARGEST_WHOLE:
                raise NotACase(f"{where}: bounds have to be whole numbers")


def _check_integers(wanted: ValuesOf, argument: Argument, where: str, dtype: DType) -> None:
    """Integers may be indices: they stay within the range that the task draws them from."""
    if wanted.kind not in (ValueKind.INTEGERS, ValueKind.ARANGE, ValueKind.CONSTANT):
        raise NotACase(f"{where} have to be whole numbers: integers, arange or constant")
    low, high = (0.0, wanted.high) if wanted.kind is ValueKind.ARANGE else (wanted.low, wanted.high)
    high = wanted.low if wanted.kind is ValueKind.CONSTANT else high
    if wanted.low != int(wanted.low):
        raise NotACase(f"{where} have to be whole numbers")
    task_low, task_high = _task_range(argument, dtype)
    if low < task_low or high > task_high:
        raise NotACase(f"{where} leave the task's range of {task_low:g} to {task_high:g}")


def _task_range(argument: Argument, dtype: DType) -> tuple[float, float]:
    values = argument.values
    if values.kind is ValueKind.INTEGERS:
        return values.low, values.high
    if values.kind is ValueKind.ARANGE:
        return 0.0, values.high
    if values.kind is ValueKind.CONSTANT:
        return values.low, values.low
    low, high = dtype.integer_range
    return float(low), float(high)
