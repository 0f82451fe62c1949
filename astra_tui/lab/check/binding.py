"""Fits a resolved launch to its compiled kernel: types of arguments, packed bytes.

What does not fit is a PlanError at the launch, before anything runs.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import NoReturn

from astra_tui.model.bit_patterns import encode
from astra_tui.model.c_layout import Extent
from astra_tui.model.compilation import CompiledKernel, Parameter
from astra_tui.model.device import PackedLaunch
from astra_tui.model.dtypes import DType
from astra_tui.model.launch import PlanError
from astra_tui.model.launch.resolve import (
    BufferArgument,
    NullArgument,
    NumberArgument,
    ResolvedArgument,
    ResolvedLaunch,
    ResolvedLeaf,
    StructArgument,
)

_UNTYPED = {"void", "char", "unsigned char", "signed char"}
_CARRIERS = {
    f"{base}{n}" for base in ("char", "uchar", "short", "ushort", "int", "uint") for n in (2, 4)
} | {
    "unsigned int",
    "uint1",
    "int1",
    "unsigned short",
    "float4",
    "float2",
    "longlong2",
    "ulonglong2",
}
"""Types that kernels use to move bytes of any element type."""
_VECTORS = {name for dtype in DType for name in dtype.vectors}


def bind_launch(
    kernel: CompiledKernel,
    launch: ResolvedLaunch,
    buffer_types: Mapping[str, DType],
    file: str = "",
) -> PackedLaunch:
    """The launch with its parameter buffer. Raises PlanError where arguments do not fit."""
    if len(launch.args) != len(kernel.parameters):
        _fail(
            launch,
            file,
            f"{kernel.expression} takes {len(kernel.parameters)} arguments, the plan passes "
            f"{len(launch.args)}",
            f"the kernel's parameters: {_signature(kernel)}",
        )
    packed = bytearray(kernel.parameter_bytes)
    pointers: list[tuple[int, str]] = []
    for number, (argument, parameter) in enumerate(
        zip(launch.args, kernel.parameters, strict=True), 1
    ):
        try:
            for leaf in _leaves(argument, parameter):
                offset, value = parameter.offset + leaf.offset, leaf.value
                if isinstance(value, BufferArgument):
                    pointers.append((offset, value.name))
                    packed[offset : offset + 8] = _distance(value, buffer_types[value.name])
                    if parameter.kind != "struct":
                        _check_pointer(value.name, buffer_types[value.name], parameter)
                elif isinstance(value, NumberArgument):
                    data = _number_bytes(value, leaf.dtype, parameter.type)
                    packed[offset : offset + len(data)] = data
        except _Unfit as problem:
            _fail(
                launch,
                file,
                f"argument {number} of {kernel.expression}: {problem}",
                f"the kernel's parameters: {_signature(kernel)}",
            )
    return PackedLaunch(
        kernel,
        launch.grid,
        launch.block,
        launch.shared_bytes,
        bytes(packed),
        tuple(pointers),
        launch.place.line,
        launch.pdl,
        launch.cluster,
    )


class _Unfit(Exception):
    """An argument that is not what the kernel takes; the message says why."""


def _leaves(argument: ResolvedArgument, parameter: Parameter) -> tuple[ResolvedLeaf, ...]:
    """The values that a parameter gets, at their offsets in it. Raises _Unfit."""
    takes = _takes(parameter)
    match argument:
        case StructArgument(extent=extent, leaves=leaves):
            if parameter.kind != "struct":
                raise _Unfit(f"this is a structure, the kernel takes {takes}")
            wanted = Extent(parameter.size, parameter.alignment)
            if extent != wanted:
                raise _Unfit(
                    f"this structure has {_shown(extent)}, {parameter.type} has {_shown(wanted)}"
                )
            return leaves
        case BufferArgument(name=name) if parameter.kind != "pointer":
            raise _Unfit(f"'{name}' is a tensor, the kernel takes {takes}")
        case NullArgument() if parameter.kind != "pointer":
            raise _Unfit(f"null is a pointer, the kernel takes {takes}")
        case NumberArgument(value=value) if parameter.kind in ("pointer", "struct"):
            hint = "; write null for a pointer to nothing" if value == 0 else ""
            raise _Unfit(f"{value} is a number, the kernel takes {takes}{hint}")
        case _:
            return (ResolvedLeaf(0, parameter.dtype, argument),)


def _takes(parameter: Parameter) -> str:
    match parameter.kind:
        case "pointer":
            return f"a pointer to {parameter.type}"
        case "struct":
            return f"the structure {parameter.type}, written as {{member, ...}}"
        case _:
            return parameter.type


def _shown(extent: Extent) -> str:
    return f"{extent.size} bytes aligned to {extent.alignment}"


def _check_pointer(name: str, dtype: DType, parameter: Parameter) -> None:
    """Raises _Unfit where a pointer cannot be to elements of a tensor."""
    pointee = parameter.type
    same = parameter.dtype is dtype
    carrier = pointee in _UNTYPED or pointee in _CARRIERS
    is_class = parameter.dtype is None and pointee not in _VECTORS and "*" not in pointee
    if same or carrier or pointee in dtype.vectors or is_class:
        return
    raise _Unfit(f"'{name}' holds {dtype.value}, the kernel takes a pointer to {pointee}")


def _distance(value: BufferArgument, dtype: DType) -> bytes:
    """How far from its buffer's address a pointer is, as the parameter's word. Raises _Unfit."""
    try:
        return (value.elements * dtype.size).to_bytes(8, "little", signed=True)
    except OverflowError:
        raise _Unfit(f"no address is {value.elements} elements from '{value.name}'") from None


def _number_bytes(argument: NumberArgument, dtype: DType | None, type_: str) -> bytes:
    """The bytes of a number; a float is rounded once. Raises _Unfit."""
    value = argument.value
    if dtype is None:
        raise _Unfit(f"{value} is a number, {type_} has a pointer there")
    if dtype.is_float:
        return bytes(encode([float(value)], dtype).tobytes())
    if isinstance(value, float):
        raise _Unfit(f"{value} is a floating-point number, the kernel takes {dtype.value}")
    low, high = dtype.integer_range
    if not low <= value <= high:
        raise _Unfit(f"{value} does not fit in {dtype.value}")
    code = {1: "b", 2: "h", 4: "i", 8: "q"}[dtype.size]
    return struct.pack("<" + (code if low < 0 else code.upper()), int(value))


def _signature(kernel: CompiledKernel) -> str:
    parts = []
    for parameter in kernel.parameters:
        text = f"{'const ' if parameter.const else ''}{parameter.type}"
        parts.append(f"{text}*" if parameter.kind == "pointer" else text)
    return ", ".join(parts) or "none"


def _fail(launch: ResolvedLaunch, file: str, message: str, hint: str) -> NoReturn:
    raise PlanError(message, file=file, place=launch.place, hint=hint)
