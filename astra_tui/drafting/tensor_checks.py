"""What host code checks before it launches: shapes, by SGLang's `TensorMatcher({N, D}).verify(x)`,
and conditions on sizes, by `CHECK(d % 8 == 0)`, branches and early returns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tree_sitter import Node

from astra_tui.cuda_source.syntax import (
    all_of_type,
    ancestors,
    arguments_of,
    called_name,
    declarators,
    of_type,
    text_of,
)
from astra_tui.drafting.body import conditions_at
from astra_tui.drafting.host_launches import HostLaunch, is_reached

_ANY = "-1"
_CHECK = re.compile(r"(?i)\w*(?:check|assert|require|enforce|ensure)\w*")


@dataclass(frozen=True)
class TensorCheck:
    """One tensor of the host code with the texts of its sizes and strides, "-1" for any."""

    tensor: str
    sizes: tuple[str, ...]
    strides: tuple[str, ...]
    types: tuple[str, ...] = ()
    """The element types that it may have, as they are written."""
    type_variable: str = ""
    """The variable that holds its element type from then on, "" for none."""
    alignment: Node | None = None
    """The bytes of which its address and its strides are multiples."""


def tensor_checks(launch: HostLaunch) -> Iterator[TensorCheck]:
    """Every check of a host function that launches, in order."""
    for call in all_of_type(launch.function, "call_expression"):
        if _method(call) == "verify":
            if not is_reached(call, launch.given):
                continue
            chain = dict(_chain(call))
            sizes = chain.get("TensorMatcher")
            if sizes is not None:
                strides, types = chain.get("with_strides"), chain.get("with_dtype")
                aligned = chain.get("ensure_alignment")
                yield TensorCheck(
                    text_of(arguments_of(call)[0]) if arguments_of(call) else "",
                    _texts(sizes),
                    _texts(strides) if strides is not None else (),
                    _types(types) if types is not None else (),
                    next(map(text_of, arguments_of(types)), "") if types is not None else "",
                    next(iter(arguments_of(aligned)), None) if aligned is not None else None,
                )


def checked_conditions(launch: Node, function: Node) -> Iterator[tuple[Node, bool]]:
    """What a launch may rely on: conditions, and whether each holds or does not hold there."""
    yield from conditions_at(launch, function)
    for above, below in ancestors(launch):
        if above.type == "compound_statement":
            for statement in above.named_children:
                if statement.start_byte >= below.start_byte:
                    break
                yield from ((condition, True) for condition in _checks(statement))
        if above == function:
            break


def _checks(statement: Node) -> Iterator[Node]:
    """What a statement requires: `CHECK(condition)`, `if (condition) {} else fail`."""
    if statement.type == "if_statement":
        body = statement.child_by_field_name("consequence")
        condition = statement.child_by_field_name("condition")
        if body is not None and body.type == "attributed_statement":  # `if (...) [[likely]] {}`
            body = body.named_children[-1]
        empty = body is not None and body.type == "compound_statement" and not body.named_children
        if empty and condition is not None:
            yield condition
    elif statement.type == "expression_statement":
        for call in of_type(statement, "call_expression"):
            if _CHECK.fullmatch(called_name(call)):
                yield from arguments_of(call)[:1]
                return


def symbolic_sizes(function: Node) -> dict[str, str]:
    """Variables that stand for a size, with the name that the source gives the size."""
    found: dict[str, str] = {}
    for node in of_type(function, "declaration"):
        for name, declarator in declarators(node):
            match = re.search(r'SymbolicSize\s*\{\s*"(\w+)"', text_of(declarator))
            if match:
                found[name] = match[1]
    return found


def fixed_sizes(function: Node) -> dict[str, Node]:
    """Variables of symbolic sizes that are set: `D.set_value(kDim)`."""
    found: dict[str, Node] = {}
    for call in all_of_type(function, "call_expression"):
        if _method(call) == "set_value" and arguments_of(call):
            name = text_of(call.child_by_field_name("function")).partition(".")[0]
            found[name] = arguments_of(call)[0]
    return found


def _method(call: Node) -> str:
    function = call.child_by_field_name("function")
    field = function.child_by_field_name("field") if function is not None else None
    return text_of(field).partition("<")[0]


def _chain(call: Node) -> Iterator[tuple[str, Node]]:
    """The calls of `a(...).b(...).c(...)` by name, the last first."""
    current: Node | None = call
    while current is not None:
        if current.type == "call_expression":
            yield _method(current) or called_name(current), current
        current = current.child_by_field_name("function") or current.child_by_field_name("argument")


def _texts(call: Node) -> tuple[str, ...]:
    listed = arguments_of(call)
    return tuple(text_of(n) for n in arguments_of(listed[0])) if listed else ()


def _types(call: Node) -> tuple[str, ...]:
    """The template arguments of a method's call."""
    function = call.child_by_field_name("function")
    method = function.child_by_field_name("field") if function is not None else None
    listed = method.child_by_field_name("arguments") if method is not None else None
    return tuple(map(text_of, listed.named_children)) if listed is not None else ()


def is_any(text: str) -> bool:
    """Whether a size or stride is not checked."""
    return text == _ANY
