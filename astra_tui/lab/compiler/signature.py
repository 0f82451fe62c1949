"""Reads a kernel's parameter types out of its mangled name: PTX knows only their widths."""

from __future__ import annotations

from typing import Any

import itanium_demangler

from astra_tui.model.compilation import Parameter
from astra_tui.model.dtypes import DType

POINTER_BYTES = 8


class SignatureError(Exception):
    """A kernel whose parameters a launch plan cannot pass; the message says why."""


_SCALARS: dict[str, tuple[str, DType]] = {
    "bool": ("bool", DType.BOOL),
    "char": ("integer", DType.INT8),
    "signed char": ("integer", DType.INT8),
    "unsigned char": ("integer", DType.UINT8),
    "short": ("integer", DType.INT16),
    "unsigned short": ("integer", DType.UINT16),
    "int": ("integer", DType.INT32),
    "unsigned int": ("integer", DType.UINT32),
    "long": ("integer", DType.INT64),
    "unsigned long": ("integer", DType.UINT64),
    "long long": ("integer", DType.INT64),
    "unsigned long long": ("integer", DType.UINT64),
    "__half": ("float", DType.FLOAT16),
    "__nv_bfloat16": ("float", DType.BFLOAT16),
    "float": ("float", DType.FLOAT32),
    "double": ("float", DType.FLOAT64),
}


def parse_parameters(symbol: str) -> tuple[tuple[Parameter, ...], int]:
    """The parameters of a mangled kernel name, and the size of their packed buffer in bytes.

    Raises SignatureError for names that carry no types and for types that a plan cannot fill.
    """
    if not symbol.startswith("_Z"):
        raise SignatureError(
            f'{symbol} is declared extern "C", so its name does not say which types it takes; '
            'remove extern "C"'
        )
    try:
        function = itanium_demangler.parse(symbol)
    except Exception:
        function = None
    if function is None or function.kind != "func":
        raise SignatureError(f"the types of {symbol} could not be read")
    parameters: list[Parameter] = []
    offset = 0
    for number, node in enumerate(function.arg_tys, 1):
        parameter = _parameter(node, number)
        if parameter is None:
            continue
        offset = -(-offset // parameter.size) * parameter.size
        parameters.append(
            Parameter(
                kind=parameter.kind,
                type=parameter.type,
                size=parameter.size,
                offset=offset,
                dtype=parameter.dtype,
                const=parameter.const,
            )
        )
        offset += parameter.size
    return tuple(parameters), offset


def _parameter(node: Any, number: int) -> Parameter | None:
    if node.kind == "builtin" and node.value == "void":
        return None
    if node.kind == "pointer":
        const, pointee = _strip(node.value)
        dtype = _SCALARS.get(pointee, ("", None))[1]
        return Parameter("pointer", pointee, POINTER_BYTES, 0, dtype, const)
    _, name = _strip(node)
    if name not in _SCALARS:
        raise SignatureError(
            f"parameter {number} has the type '{name}'; a launch plan passes pointers and numbers"
        )
    kind, dtype = _SCALARS[name]
    return Parameter(kind, name, dtype.size, 0, dtype)


def _strip(node: Any) -> tuple[bool, str]:
    """Whether a type is const, and its name without qualifiers."""
    if node.kind == "cv_qual":
        return "const" in node.qual, str(node.value)
    return False, str(node)
