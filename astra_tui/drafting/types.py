"""Element types: what C++ names mean, and which ones a kernel is launched with."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from astra_tui.cuda_source.syntax import ancestors, called_name, cast_type, descendants, text_of
from astra_tui.drafting.reading import (
    HostLaunch,
    KernelParameter,
    KernelText,
    SourceText,
    declared_types,
    function_name,
    template_of,
)
from astra_tui.model.dtypes import FLOATS, OF_SPELLING, DType

_OF_TORCH = {
    "Half": DType.FLOAT16, "BFloat16": DType.BFLOAT16,
    "Float8_e4m3fn": DType.FLOAT8_E4M3FN, "Float8_e5m2": DType.FLOAT8_E5M2,
}  # fmt: skip
_TYPES = OF_SPELLING | _OF_TORCH
_VECTORS = {
    name: (d, n) for d in DType for name, n in d.vectors.items() if not name.endswith("_raw")
}
_DISPATCHED = (
    ("BFLOAT16|BFloat16|VLLM_DISPATCH|DTYPE_TO_CTYPE", DType.BFLOAT16),
    ("HALF|Half|REDUCED_FLOATING|VLLM_DISPATCH|FP16|DTYPE_TO_CTYPE", DType.FLOAT16),
    ("FLOATING_TYPES|ALL_TYPES|FLOAT_FP16", DType.FLOAT32),
)
ELEMENTS = tuple(FLOATS.values())
"""The types that `T` can be."""

DTYPE_BYTES = {name: dtype.size for name, dtype in _TYPES.items()}
"""Bytes of each C++ type that is an element type."""


def vector_of(name: str, aliases: dict[str, str]) -> tuple[DType | None, int]:
    """The element type behind a C++ type's name, and how many elements it holds."""
    for _ in range(8):
        plain = " ".join(re.sub(r"\b(const|volatile|typename)\b", " ", name).split())
        last = plain.rpartition("::")[2]
        if last in _VECTORS:
            return _VECTORS[last]
        if last in _TYPES:
            return _TYPES[last], _TYPES[last].per_item
        if last not in aliases:
            break
        name = aliases[last]
    return None, 1


def dtype_of(name: str, aliases: dict[str, str]) -> DType | None:
    """The element type that a C++ name stands for, None for anything else."""
    found, count = vector_of(name, aliases)
    return found if count == 1 else None


def is_size_type(parameter: KernelParameter, aliases: dict[str, str]) -> bool:
    """Whether a parameter is a whole number that may be a size."""
    dtype = dtype_of(parameter.type, aliases)
    return (
        not parameter.pointers
        and dtype is not None
        and not dtype.is_float
        and dtype is not DType.BOOL
    )


def template_types(
    source: SourceText, kernel: KernelText, launch: HostLaunch | None
) -> dict[str, tuple[DType, ...]]:
    """For each `typename` of a kernel, the element types that it is launched with."""
    found: dict[str, tuple[DType, ...]] = {}
    given = launch.template_args if launch is not None else ()
    for number, (kind, name, default) in enumerate(kernel.template):
        if kind != "typename":
            continue
        texts: list[str] = []
        if number < len(given):
            texts = [text_of(given[number])]
        elif launch is not None:
            texts = list(_deduced(kernel, launch, name))
        types = [d for text in [*texts, default] for d in _resolved(source, launch, text)]
        found[name] = tuple(dict.fromkeys(types))
    return found


def _deduced(kernel: KernelText, launch: HostLaunch, name: str) -> Iterator[str]:
    """The types of the arguments that are passed for parameters of type `T*`."""
    declared = declared_types(launch.function)
    for parameter, argument in zip(kernel.parameters, launch.arguments, strict=False):
        if parameter.type != name:
            continue
        if cast := cast_type(argument):
            yield cast.replace("*", "")
            continue
        template = re.search(r"data_ptr\s*<\s*([\w:]+)\s*>", text_of(argument))
        if template:
            yield template[1]
        for node in descendants(argument):
            if node.type == "identifier" and text_of(node) in declared:
                yield declared[text_of(node)]


def _resolved(source: SourceText, launch: HostLaunch | None, text: str) -> Iterator[DType]:
    """The element types behind a name at a launch."""
    dtype = dtype_of(text, source.aliases)
    if dtype is not None:
        if dtype in ELEMENTS or not dtype.is_float:
            yield dtype
        return
    if launch is None or not text:
        return
    for macro in _dispatches(launch.call):
        yield from _dispatched(text_of(macro).partition("[&")[0])
    names = [name for _, name, _ in template_of(launch.function)]
    if text in names:
        host = re.escape(function_name(launch.function))
        for match in re.finditer(rf"\b{host}\s*<([^;{{}}()<>]*)>\s*\(", text_of(source.root)):
            parts = match[1].split(",")
            if names.index(text) < len(parts):
                found = dtype_of(parts[names.index(text)], source.aliases)
                if found is not None:
                    yield found


def _dispatches(call: Node) -> Iterator[Node]:
    for above, _ in ancestors(call):
        if above.type == "call_expression" and "DISPATCH" in called_name(above):
            yield above


def _dispatched(text: str) -> Iterator[DType]:
    """The types that a macro such as AT_DISPATCH_FLOATING_TYPES_AND_HALF goes through."""
    found = [dtype for pattern, dtype in _DISPATCHED if re.search(pattern, text)]
    yield from sorted(found, key=lambda d: d is not DType.FLOAT16)
