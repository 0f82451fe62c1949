"""Whether a kernel stays right with more threads in a block than its source had in mind."""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from astra_tui.cuda_source.functions import Function, Variable
from astra_tui.cuda_source.indices import IndexReader
from astra_tui.cuda_source.syntax import (
    ancestors,
    bare,
    cast_of,
    contains,
    field,
    integer_of,
    line_of,
    named,
    of_type,
    operator_of,
    text_of,
)
from astra_tui.playbook.accesses import accesses_in

MAX_THREADS = 1024
"""In a block (CUDA C++ Programming Guide, compute capabilities)."""


BLOCKS = (64, 128, 256, 512, MAX_THREADS)
"""Sizes of a block that are worth a try."""


def launch_bound(kernel: Function) -> int | None:
    """Most threads that a block of a kernel may have by its `__launch_bounds__`.

    None where no number says it.
    """
    bounds = next(of_type(kernel.node, "launch_bounds"), None)
    return MAX_THREADS if bounds is None else integer_of(named(bounds)[0])


def why_count_matters(kernel: Function, size: int) -> str:
    """What in a kernel for blocks of `size` threads does not bear 1024 of them, "" for nothing.

    The number itself in the code, or a shared array that could be too short.
    """
    arrays = [v for v in kernel.locals if v.is_shared and v.is_array]
    for node in of_type(kernel.body, "number_literal"):
        declared = any(contains(a.declaration, node) for a in arrays)
        if integer_of(node) == size and not declared:
            return f"line {line_of(node)}: the code counts on {size} threads"
    for access in accesses_in(kernel.body, kernel):
        if not access.root.is_shared:
            continue
        length, last = _length(access.root), _most(access.index, kernel)
        if length is None or last is None or last >= length:
            return f"line {line_of(access.node)}: {access.root.name} may be too short"
    return ""


def _length(array: Variable) -> int | None:
    sizes = [integer_of(c) for c in named(array.declarator) if c.type == "number_literal"]
    return sizes[0] if len(sizes) == 1 else None


def _most(node: Node, kernel: Function) -> int | None:
    """The largest value that an index can have, None where that is not known."""
    bounds = [b for b in (_plain(node, kernel), *_guards(node, kernel)) if b is not None]
    return min(bounds, default=None)


def _plain(node: Node, kernel: Function) -> int | None:
    """The same from the expression alone."""
    node = bare(node)
    value = integer_of(node)
    if value is not None:
        return value
    cast = cast_of(node)
    if cast is not None:
        return _plain(cast[1], kernel)
    match node.type:
        case "field_expression":
            return {"threadIdx.x": MAX_THREADS - 1, "blockDim.x": MAX_THREADS}.get(text_of(node))
        case "identifier":
            variable = kernel.lookup(text_of(node), node)
            if variable is None or variable.value is None or not kernel.is_constant(variable):
                return None
            return _plain(variable.value, kernel)
        case "binary_expression":
            return _of_binary(node, kernel)
    return None


def _of_binary(node: Node, kernel: Function) -> int | None:
    left, right = (_plain(field(node, side), kernel) for side in ("left", "right"))
    by = integer_of(bare(field(node, "right")))
    if by is not None and by > 0:
        match operator_of(node):
            case "%":
                return by - 1
            case "&":
                return by
            case "/":
                return None if left is None else left // by
            case ">>":
                return None if left is None else left >> by
    if left is None or right is None:
        return None
    return {"+": left + right, "*": left * right}.get(operator_of(node))


def _guards(node: Node, kernel: Function) -> Iterator[int]:
    """Bounds from the conditions that hold where an index is used."""
    reader = IndexReader(kernel)
    form = reader.read(node)
    for above, _ in ancestors(node):
        if above.type not in ("if_statement", "conditional_expression"):
            continue
        if not contains(field(above, "consequence"), node):
            continue
        condition = bare(field(above, "condition"))
        if condition.type != "binary_expression" or operator_of(condition) not in ("<", ">"):
            continue
        less, more = field(condition, "left"), field(condition, "right")
        if operator_of(condition) == ">":
            less, more = more, less
        bound = _plain(more, kernel)
        if bound is not None and reader.read(less) == form:
            yield bound - 1
