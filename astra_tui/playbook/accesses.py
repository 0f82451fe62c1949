"""Loads and stores of memory: which buffer, which element, under which conditions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tree_sitter import Node

from astra_tui.cuda_source.functions import Function, Variable, is_written
from astra_tui.cuda_source.indices import IndexReader, Polynomial
from astra_tui.cuda_source.polynomial import constant
from astra_tui.cuda_source.syntax import (
    LOOPS,
    arguments_of,
    bare,
    called_name,
    cast_of,
    contains,
    field,
    of_type,
    operator_of,
    subscript_of,
    text_of,
)
from astra_tui.playbook.kernel_text import KernelText


@dataclass(frozen=True)
class Access:
    """One load or store of `pointer[index]`."""

    node: Node
    pointer: Node
    index: Node
    root: Variable
    """The parameter or array that the pointer comes from."""
    element: str
    """The type of what is accessed."""
    is_store: bool
    is_load: bool
    """Both for `a[i] += v`."""


def accesses_in(node: Node, function: Function) -> Iterator[Access]:
    """The loads and stores at or below a node whose buffer is known, in the order of the text.

    `a[i]`, of an array also `a[i][j]`, which counts by its first index;
    `*reinterpret_cast<P*>(&a[i])`; and `f(&a[i], ...)`, which loads where `f` is `__ldg` or
    `__ldcs`, stores where it is `__stcs`, and does both where it is anything else.
    """
    for subscript in of_type(node, "subscript_expression"):
        parts = subscript_of(subscript)
        if parts is None or parts[0].type != "identifier":
            continue
        variable = function.lookup(text_of(parts[0]), parts[0])
        root = root_of(variable, function) if variable is not None else None
        if variable is None or root is None:
            continue
        element_of = _outermost(subscript) if variable.is_array else subscript
        whole, element = _whole(element_of, variable.type)
        store, load = _direction(whole)
        yield Access(whole, *parts, root, element, store, load)


def _outermost(subscript: Node) -> Node:
    """`a[i][j]` of an array for its `a[i]`."""
    above = subscript.parent
    while above is not None and above.type == "subscript_expression":
        if field(above, "argument") != subscript:
            break
        subscript, above = above, above.parent
    return subscript


def _whole(subscript: Node, element: str) -> tuple[Node, str]:
    """The access that a subscript belongs to, and the type of what is accessed."""
    address = subscript.parent
    if address is None or address.type != "pointer_expression" or operator_of(address) != "&":
        return subscript, element
    call = address.parent.parent if address.parent is not None else None
    if call is None or call.type != "call_expression":
        return address, element
    cast = cast_of(call)
    if cast is None:
        return call, element
    outer = call.parent
    if outer is None or outer.type != "pointer_expression" or operator_of(outer) != "*":
        return call, element
    return outer, " ".join(cast[0].replace("const", "").replace("*", "").split())


def unknown_accesses(node: Node, function: Function) -> list[Node]:
    """Loads and stores through pointers that cannot be followed to a parameter or an array, and
    calls that are given the address of a parameter's memory.
    """
    known = [a.node for a in accesses_in(node, function)]
    pointers = (p for p in of_type(node, "pointer_expression") if operator_of(p) == "*")
    subscripts = (
        s for s in of_type(node, "subscript_expression")
        if not _is_member(s) and not _is_own(field(s, "argument"), function)
    )  # fmt: skip
    calls = (c for c in of_type(node, "call_expression") if _hands_on(c, function))
    return [n for n in (*subscripts, *pointers, *calls) if not any(contains(k, n) for k in known)]


def _is_own(name: Node, function: Function) -> bool:
    """Whether it is a local object, or a pointer that only ever points at one."""
    variable = function.lookup(text_of(name), name) if name.type == "identifier" else None
    if variable is None or variable.value is None or not variable.is_pointer:
        return _is_object(name, function)
    value, cast = bare(variable.value), cast_of(bare(variable.value))
    address = bare(cast[1]) if cast is not None else value
    if address.type != "pointer_expression" or operator_of(address) != "&":
        return False
    place = bare(field(address, "argument"))
    owner = function.local(text_of(place), place) if place.type == "identifier" else None
    is_thread_s = owner is not None and not (owner.is_reference or owner.is_shared)
    is_object = is_thread_s and owner is not None and owner.is_scalar
    return is_object and function.is_constant(variable)


def _is_object(name: Node, function: Function) -> bool:
    """Whether it is a local object of a template type that holds what is in it, as a vector does:
    nothing but whole objects in memory is ever assigned to it.
    """
    variable = function.lookup(text_of(name), name) if name.type == "identifier" else None
    if variable is None or not variable.is_scalar or variable.is_parameter:
        return False
    if variable.is_reference or "<" not in variable.type:
        return False
    values = [variable.value] if variable.value is not None else []
    for use in function.uses(variable):
        change = use.parent
        if change is not None and change.type == "assignment_expression" and is_written(use):
            values.append(field(change, "right"))
    return all(map(_is_whole_object, values))


def _is_whole_object(value: Node) -> bool:
    """Whether a value is an object in memory or in an array: `*p` or `a[i]`."""
    is_pointed_at = value.type == "pointer_expression" and operator_of(value) == "*"
    return is_pointed_at or value.type == "subscript_expression"


def _hands_on(call: Node, function: Function) -> bool:
    """Whether a call gets a pointer to memory that the kernel was given."""
    if cast_of(call) is not None:
        return False
    found = (pointer_in(argument, function) for argument in arguments_of(call))
    roots = (root_of(pointer, function) for pointer in found if pointer is not None)
    return any(root is None or root.is_parameter for root in roots)


def _is_member(subscript: Node) -> bool:
    """Whether it indexes an array inside of a local struct, as in `pack.value[k]`."""
    return field(subscript, "argument").type == "field_expression"


def _direction(access: Node) -> tuple[bool, bool]:
    """Whether it is stored to, and whether it is loaded from."""
    if access.type == "call_expression" and cast_of(access) is None:
        name = called_name(access)
        return (name == "__stcs", True) if name in _HINTED else (True, True)
    if access.type in ("call_expression", "pointer_expression") and operator_of(access) != "*":
        return True, True
    node, parent = access, access.parent
    while parent is not None and parent.type == "parenthesized_expression":
        node, parent = parent, parent.parent
    if parent is not None and parent.type == "update_expression":
        return True, True
    if parent is None or parent.type != "assignment_expression":
        return False, True
    if parent.child_by_field_name("left") != node:
        return False, True
    return True, operator_of(parent) != "="


_HINTED = ("__ldg", "__ldcs", "__stcs")


def root_of(variable: Variable, function: Function) -> Variable | None:
    """The parameter or array that a pointer variable leads to."""
    for _ in range(8):
        if variable.is_array or variable.is_parameter:
            return variable if variable.is_array or variable.is_pointer else None
        if variable.value is None or not function.is_constant(variable):
            return None
        found = pointer_in(variable.value, function)
        if found is None:
            return None
        variable = found
    return None


def pointer_in(expression: Node, function: Function) -> Variable | None:
    """The one pointer that an address is computed from."""
    expression = bare(expression)
    cast = cast_of(expression)
    if cast is not None:
        return pointer_in(cast[1], function)
    if expression.type == "binary_expression" and operator_of(expression) in ("+", "-"):
        sides = (field(expression, "left"), field(expression, "right"))
        found = [p for p in (pointer_in(s, function) for s in sides) if p is not None]
        return found[0] if len(found) == 1 else None
    if expression.type == "pointer_expression" and operator_of(expression) == "&":
        parts = subscript_of(bare(field(expression, "argument")))
        return pointer_in(parts[0], function) if parts else None
    if expression.type == "identifier":
        variable = function.lookup(text_of(expression), expression)
        if variable is not None and (variable.is_pointer or variable.is_array):
            return variable
    return None


def offset_of(variable: Variable, function: Function, reader: IndexReader) -> Polynomial | None:
    """How many elements a pointer variable lies after its root; None where it is not known."""
    if variable.is_array or variable.is_parameter:
        return constant(0)
    if variable.value is None:
        return None
    return _offset(variable.value, function, reader)


def _offset(expression: Node, function: Function, reader: IndexReader) -> Polynomial | None:
    expression = bare(expression)
    if expression.type == "identifier":
        variable = function.lookup(text_of(expression), expression)
        return offset_of(variable, function, reader) if variable is not None else None
    if expression.type == "pointer_expression" and operator_of(expression) == "&":
        parts = subscript_of(bare(field(expression, "argument")))
        if parts is None:
            return None
        base = _offset(parts[0], function, reader)
        return None if base is None else base + reader.read(parts[1])
    if expression.type != "binary_expression" or operator_of(expression) != "+":
        return None
    left, right = field(expression, "left"), field(expression, "right")
    if pointer_in(right, function) is not None:
        left, right = right, left
    base = _offset(left, function, reader)
    return None if base is None else base + reader.read(right)


def may_alias(source: KernelText, function: Function, a: Variable, b: Variable) -> bool:
    """Whether two roots can be the same memory: the launch plan passes one buffer for both."""
    if a == b:
        return True
    if a.is_array or b.is_array:
        return False
    if not source.buffers(function, a) or not source.buffers(function, b):
        return True
    return bool(source.buffers(function, a) & source.buffers(function, b))


_BRANCHING = frozenset({"if_statement", "conditional_expression", *LOOPS})


def is_conditional(node: Node, within: Node) -> bool:
    """Whether a node below a statement is evaluated only sometimes when the statement runs."""
    below, above = node, node.parent
    while above is not None and below != within:
        chosen = above.type in _BRANCHING and above.child_by_field_name("condition") != below
        circuit = above.type == "binary_expression" and operator_of(above) in ("&&", "||")
        if chosen or (circuit and above.child_by_field_name("right") == below):
            return True
        below, above = above, above.parent
    return False
