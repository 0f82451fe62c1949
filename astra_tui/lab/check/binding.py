"""Fits a resolved launch to its compiled kernel: types of arguments, packed bytes.

Whatever does not fit is a PlanError at the launch, before anything runs.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import NoReturn

from astra_tui.model.compilation import CompiledKernel, Parameter
from astra_tui.model.device import PackedLaunch
from astra_tui.model.dtypes import DType
from astra_tui.model.encoding import encode
from astra_tui.model.launch import PlanError
from astra_tui.model.launch.resolve import BufferArgument, NumberArgument, ResolvedLaunch

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
        problem = ""
        if isinstance(argument, BufferArgument):
            problem = _pointer_problem(argument.name, buffer_types[argument.name], parameter)
            pointers.append((parameter.offset, argument.name))
        else:
            data = _number_bytes(argument, parameter)
            if isinstance(data, str):
                problem = data
            else:
                packed[parameter.offset : parameter.offset + parameter.size] = data
        if problem:
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
    )


def _pointer_problem(name: str, dtype: DType, parameter: Parameter) -> str:
    if parameter.kind != "pointer":
        return f"'{name}' is a tensor, the kernel takes a {parameter.type}"
    pointee = parameter.type
    same = parameter.dtype is dtype
    carrier = pointee in _UNTYPED or pointee in _CARRIERS
    if same or carrier or pointee in dtype.vectors:
        return ""
    return f"'{name}' holds {dtype.value}, the kernel takes a pointer to {pointee}"


def _number_bytes(argument: NumberArgument, parameter: Parameter) -> bytes | str:
    """The bytes of a number, or what is wrong with it."""
    value, dtype = argument.value, parameter.dtype
    if parameter.kind == "pointer" or dtype is None:
        return f"{value} is a number, the kernel takes a pointer to {parameter.type}"
    if parameter.kind == "float":
        return bytes(encode([float(value)], dtype).tobytes())
    if isinstance(value, float):
        return f"{value} is a floating-point number, the kernel takes {parameter.type}"
    low, high = dtype.integer_range
    if not low <= value <= high:
        return f"{value} does not fit in {parameter.type}"
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
