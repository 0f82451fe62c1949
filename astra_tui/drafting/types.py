"""Element types: what C++ names mean, and which ones a kernel is launched with."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from tree_sitter import Node

from astra_tui.cuda_source.functions import (
    Variable,
    function_name,
    parameters_of,
    template_of,
)
from astra_tui.cuda_source.syntax import (
    ancestors,
    arguments_of,
    cast_type,
    descendants,
    text_of,
)
from astra_tui.drafting.host_launches import HostLaunch
from astra_tui.drafting.reading import KernelFunction, SourceText, declared_types
from astra_tui.model.dtypes import FLOATS, OF_SPELLING, DType

_OF_TORCH = {dtype.torch_cuda.removeprefix("c10::"): dtype for dtype in DType if dtype.torch_cuda}
MAX_CALLERS = 3
_TYPES = OF_SPELLING | _OF_TORCH
_VECTORS = {
    name: (d, n) for d in DType for name, n in d.vectors.items() if not name.endswith("_raw")
}
_SCALAR_TYPES = {
    **_OF_TORCH,
    "Float": DType.FLOAT32, "Double": DType.FLOAT64, "Byte": DType.UINT8, "Char": DType.INT8,
    "Short": DType.INT16, "Int": DType.INT32, "Long": DType.INT64, "Bool": DType.BOOL,
}  # fmt: skip
"""PyTorch's names, as `reading_headers/host.h` writes a dispatch over them."""
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


def is_size_type(parameter: Variable, aliases: dict[str, str]) -> bool:
    """Whether a parameter is a whole number that may be a size."""
    dtype = dtype_of(parameter.type, aliases)
    return (
        not parameter.pointers
        and dtype is not None
        and not dtype.is_float
        and dtype is not DType.BOOL
    )


def template_types(
    source: SourceText, kernel: KernelFunction, launch: HostLaunch | None
) -> dict[str, tuple[DType, ...]]:
    """For each `typename` of a kernel, the element types that it is launched with.

    A dispatch over types has one copy of the launch a type; all of a host function count.
    """
    copies = [
        x for x in source.launches
        if launch and x.kernel == kernel.name and x.function == launch.function
    ]  # fmt: skip
    found: dict[str, tuple[DType, ...]] = {}
    for number, (kind, name, default) in enumerate(kernel.template):
        if kind != "typename":
            continue
        types = [d for x in copies for d in _given(source, kernel, x, number)]
        types = types or list(_resolved(source, launch, default))
        if any(d.is_float and d is not DType.FLOAT64 for d in types):
            types = [d for d in types if d is not DType.FLOAT64]  # Dispatched, and hardly used.
        # float16 first: it is what most cases are drawn in.
        found[name] = tuple(sorted(dict.fromkeys(types), key=_rank))
    return found


def torch_types(
    source: SourceText, kernel: KernelFunction, launch: HostLaunch | None
) -> frozenset[str]:
    """The type parameters for which a launch passes PyTorch's types: `c10::Half`, not `__half`."""
    given = zip(kernel.template, launch.template_args if launch is not None else (), strict=False)
    return frozenset(
        name for (kind, name, _), node in given
        if kind == "typename" and launch is not None and _is_torch(source, text_of(node), launch)
    )  # fmt: skip


def _is_torch(source: SourceText, text: str, launch: HostLaunch) -> bool:
    return any(
        "ScalarType::" in name or name.rpartition("::")[2] in _OF_TORCH
        for name in _meanings(source, text, launch.call, launch.function)
    )


def _meanings(
    source: SourceText, text: str, site: Node, function: Node, depth: int = 0
) -> Iterator[str]:
    """What a type's name stands for at a place of a function, and what callers pass for it."""
    name = _behind_aliases(text, site)
    yield name
    template = [parameter for _, parameter, _ in template_of(function)]
    if name not in template or depth == MAX_CALLERS:
        return
    for call in source.calls.get(function_name(function), ()):
        given = _template_arguments(call.child_by_field_name("function"))
        caller = next((a for a, _ in ancestors(call) if a.type == "function_definition"), None)
        place = template.index(name)
        if caller is None:
            continue
        texts: Iterable[str] = (text_of(given[place]),) if place < len(given) else ()
        for text in texts or _deduced(parameters_of(function), arguments_of(call), name, caller):
            yield from _meanings(source, text, call, caller, depth + 1)


def _behind_aliases(text: str, site: Node) -> str:
    for _ in range(4):
        alias = _alias_at(text, site) if text else ""
        if not alias:
            break
        text = alias
    return text


def _template_arguments(callee: Node | None) -> list[Node]:
    while callee is not None and callee.type == "qualified_identifier":
        callee = callee.child_by_field_name("name")
    listed = callee.child_by_field_name("arguments") if callee is not None else None
    return listed.named_children if listed is not None else []


def _rank(dtype: DType) -> int:
    return ELEMENTS.index(dtype) if dtype in ELEMENTS else len(ELEMENTS)


def _given(
    source: SourceText, kernel: KernelFunction, launch: HostLaunch, number: int
) -> Iterator[DType]:
    """The element types that one launch gives a template parameter."""
    given = launch.template_args
    texts = [text_of(given[number])] if number < len(given) else []
    name = kernel.template[number][1]
    for text in texts or _deduced(kernel.parameters, launch.arguments, name, launch.function):
        yield from _resolved(source, launch, text)


def _deduced(
    parameters: Sequence[Variable], arguments: Sequence[Node], name: str, caller: Node
) -> Iterator[str]:
    """The types of the arguments that a caller passes for parameters of type `T*`."""
    declared = declared_types(caller)
    for parameter, argument in zip(parameters, arguments, strict=False):
        if parameter.type != name:
            continue
        if cast := cast_type(argument):
            yield cast.replace("*", "")
            continue
        template = re.search(r"\bdata(?:_ptr)?\s*<\s*([\w:]+)\s*>", text_of(argument))
        if template:
            yield template[1]
        for node in descendants(argument):
            if node.type == "identifier" and text_of(node) in declared:
                yield declared[text_of(node)]


def _resolved(source: SourceText, launch: HostLaunch | None, text: str) -> Iterator[DType]:
    """The element types behind a name at a launch."""
    found = False
    meanings = (text,) if launch is None else _meanings(source, text, launch.call, launch.function)
    for meaning in meanings:
        scalar = re.search(r"ScalarType::(\w+)", meaning)
        dtype = _SCALAR_TYPES.get(scalar[1]) if scalar else dtype_of(meaning, source.aliases)
        if dtype is not None and (dtype in ELEMENTS or not dtype.is_float or scalar):
            found = True
            yield dtype
    if launch is None or found:
        return
    names = [name for _, name, _ in template_of(launch.function)]
    if text in names:  # A macro may hide the call, or what it passes.
        host = re.escape(function_name(launch.function))
        for match in re.finditer(rf"\b{host}\s*<([^;{{}}()<>]*)>\s*\(", source.original):
            parts = match[1].split(",")
            if names.index(text) < len(parts):
                named = dtype_of(parts[names.index(text)], source.aliases)
                if named is not None:
                    yield named


def _alias_at(name: str, site: Node) -> str:
    """The type that a block around a place calls by a name, "" for none."""
    for above, below in ancestors(site):
        for child in above.named_children:
            if child.start_byte >= below.start_byte:
                break
            if child.type == "alias_declaration" and (
                text_of(child.child_by_field_name("name")) == name
            ):
                return text_of(child.child_by_field_name("type"))
    return ""
