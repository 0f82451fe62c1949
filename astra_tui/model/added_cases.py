"""What a case that an agent or a user adds has to be: checked before anything is recorded.

An added case is never withdrawn and runs with every candidate from then on, so one that cannot be
run would end its session for good.
"""

from __future__ import annotations

import math

from astra_tui.model.check import Case
from astra_tui.model.dtypes import DType
from astra_tui.model.errors import UserError, nearest
from astra_tui.model.task import Argument, KernelTask, ValueKind, Values

MAX_ELEMENTS = 1 << 16
"""Elements of the largest tensor of a case, so that the emulator answers in milliseconds."""

LARGEST_SIZE = 1 << 31
LARGEST_WHOLE = 2.0**53
PLANTED_ANYWHERE = ("-0", "limit")


def check_added_case(case: Case, task: KernelTask) -> None:
    """Raises UserError, without the case's name, for a case that the task cannot be tried with."""
    if not case.name.strip():
        raise UserError("it has no name")
    if not case.name.isprintable():
        raise UserError("its name has characters that cannot be shown")
    if case.dtype not in task.dtypes:
        offered = [d.value for d in task.dtypes]
        hint = nearest(case.dtype.value, offered)
        raise UserError(f"{task.name} has no type {case.dtype.value}", hint=hint)
    _check_dims(case, task)
    _check_contract(case, task)
    _check_layout(case, task)
    for name, values in case.values.items():
        argument = task.args.get(name)
        if argument is None or not argument.is_tensor or not argument.is_read:
            inputs = [a.name for a in task.tensors if a.is_read]
            raise UserError(f"'{name}' is no input tensor", hint=nearest(name, inputs))
        _check_values(values, argument, task, case)
    _check_scalars(case, task)


def _check_dims(case: Case, task: KernelTask) -> None:
    for name in case.dims.keys() ^ task.dims.keys():
        problem = "is missing" if name in task.dims else "is no dimension of the task"
        needed = f"it needs a size for each of {', '.join(task.dims)}, and no others"
        raise UserError(f"{name} {problem}: {needed}", hint=nearest(name, task.dims))
    for name, size in case.dims.items():
        if not 0 <= size <= LARGEST_SIZE:
            raise UserError(f"{name} is {size}; sizes go from 0 to {LARGEST_SIZE}")


def _check_contract(case: Case, task: KernelTask) -> None:
    """Where a case says that it lies outside the contract, it has to."""
    try:
        violated = task.violated(case.dims, case.dtype)
        if violated and not case.outside_contract:
            raise UserError(f"it breaks the contract: {violated}")
        if case.outside_contract and not violated:
            raise UserError("it is marked to break the contract, and keeps it")
        elements = task.elements(case.dims, case.dtype)
        cut = task.cut_item(case.dims, case.dtype)
    except UserError as error:  # One of an expression names a place in the task's file.
        raise UserError(error.message, hint=error.hint) from None
    if cut is not None:
        raise UserError(f"a row of {cut.name} would end inside of a byte")
    if elements > MAX_ELEMENTS:
        raise UserError(f"its largest tensor has {elements} elements; the most are {MAX_ELEMENTS}")


def _check_layout(case: Case, task: KernelTask) -> None:
    tensors = {a.name: a for a in task.tensors}
    for name, offset in case.offsets.items():
        if name not in tensors:
            raise UserError(f"'{name}' is no tensor", hint=nearest(name, tensors))
        if not 0 <= offset <= MAX_ELEMENTS:
            raise UserError(f"'{name}' begins {offset} elements on, not 0 to {MAX_ELEMENTS}")
    strided = {name: a for name, a in tensors.items() if a.strided}
    for name, padding in case.row_padding.items():
        if name not in strided:
            hint = nearest(name, strided)
            raise UserError(f"the rows of '{name}' cannot lie apart", hint=hint)
        *rows, _ = task.shape_of(strided[name], case.dims, case.dtype)
        gaps = max(math.prod(rows), 1) * padding
        if not 0 <= gaps <= MAX_ELEMENTS:
            where = f"rows of '{name}' apart by {padding}"
            raise UserError(f"{where} leave {gaps} elements free, not 0 to {MAX_ELEMENTS}")
    if case.offsets or case.row_padding:
        asked = task.placements(
            case.dims, case.dtype, case.offsets, case.row_padding, within_contract=False
        )
        broken = task.broken(task.bindings(case.dims, case.dtype, asked))
        if broken and not case.outside_contract:
            raise UserError(f"its layout breaks the contract: {broken}")


def _check_scalars(case: Case, task: KernelTask) -> None:
    scalars = {a.name: a for a in task.scalars}
    for name, number in case.scalars.items():
        if name not in scalars:
            raise UserError(f"'{name}' is no scalar argument", hint=nearest(name, scalars))
        if number not in scalars[name].choices:
            offered = ", ".join(f"{choice:g}" for choice in scalars[name].choices)
            raise UserError(f"'{name}' cannot be {number:g}, only {offered}")


def _check_values(values: Values, argument: Argument, task: KernelTask, case: Case) -> None:
    dtype = task.dtype_of(argument, case.dtype)
    where = f"the values of '{argument.name}'"
    if not (math.isfinite(values.low) and math.isfinite(values.high)):
        raise UserError(f"{where} are not finite; plant special values instead")
    _check_order(values, where)
    if argument.values.kind.is_of_rows and values != argument.values:
        raise UserError(f"{where} have to be {argument.values.kind.value}, as the task has them")
    planted = (*argument.special, *PLANTED_ANYWHERE) if dtype.is_float else ()
    for name in values.planted:
        if name not in planted:
            allowed = ", ".join(planted) or "nothing"
            raise UserError(f"'{name}' cannot be planted into '{argument.name}', only {allowed}")
    if not dtype.is_float:
        own = task.values_at(argument.values, case.dims, case.dtype)
        if own.distinct and values != own:
            raise UserError(f"{where} have to be distinct: a case cannot give others")
        _check_integers(values, own, where, dtype)
    elif values.kind is ValueKind.NORMAL and argument.values.kind is ValueKind.UNIFORM:
        raise UserError(f"{where} have to be drawn from the task's range: uniform")
    elif values.kind is not ValueKind.NORMAL:
        limit = argument.limit if argument.limit is not None else dtype.largest / 4
        if max(abs(values.low), abs(values.high)) > limit:
            raise UserError(f"{where} pass the limit of {limit:g}")
        ends = (values.low, values.low if values.kind is ValueKind.CONSTANT else values.high)
        if not all(map(argument.allows, ends)):
            own = argument.values
            raise UserError(f"{where} leave the task's range of {own.low:g} to {own.high:g}")


def _check_order(values: Values, where: str) -> None:
    kind = values.kind
    if kind in (ValueKind.UNIFORM, ValueKind.INTEGERS) and values.low > values.high:
        raise UserError(f"{where}: low is above high")
    if kind in (ValueKind.NORMAL, ValueKind.ARANGE) and values.high < 0:
        raise UserError(f"{where}: high is negative")
    if kind in (ValueKind.INTEGERS, ValueKind.ARANGE):
        for bound in (values.low, values.high):
            if bound != int(bound) or abs(bound) > LARGEST_WHOLE:
                raise UserError(f"{where}: bounds have to be whole numbers")


def _check_integers(values: Values, own: Values, where: str, dtype: DType) -> None:
    """Integers may be indices: they stay within the range that the task draws them from."""
    if values.kind not in (ValueKind.INTEGERS, ValueKind.ARANGE, ValueKind.CONSTANT):
        raise UserError(f"{where} have to be whole numbers: integers, arange or constant")
    low, high = (0.0, values.high) if values.kind is ValueKind.ARANGE else (values.low, values.high)
    high = values.low if values.kind is ValueKind.CONSTANT else high
    if values.low != int(values.low):
        raise UserError(f"{where} have to be whole numbers")
    task_low, task_high = _task_range(own, dtype)
    if low < task_low or high > task_high:
        raise UserError(f"{where} leave the task's range of {task_low:g} to {task_high:g}")


def _task_range(values: Values, dtype: DType) -> tuple[float, float]:
    if values.kind is ValueKind.INTEGERS:
        return values.low, values.high
    if values.kind is ValueKind.ARANGE:
        return 0.0, values.high
    if values.kind is ValueKind.CONSTANT:
        return values.low, values.low
    low, high = dtype.integer_range
    return float(low), float(high)
