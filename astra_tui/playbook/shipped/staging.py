"""Rows that a kernel puts into shared memory only to find its own loads there again.

A load of the same element says as much, and moves see what it loads: registers may keep it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tree_sitter import Node

from astra_tui.cuda_source.functions import Function, Variable, functions_of
from astra_tui.cuda_source.indices import IndexReader
from astra_tui.cuda_source.syntax import (
    bare,
    contains,
    field,
    identifiers_in,
    named,
    of_type,
    operator_of,
    parse,
    subscript_of,
    text_of,
)
from astra_tui.model.launch import Launch
from astra_tui.playbook.accesses import Access, accesses_in, may_alias, pointer_in, unknown_accesses
from astra_tui.playbook.edits import Edit, remove_statement
from astra_tui.playbook.edits import replace as put
from astra_tui.playbook.grids import over_row
from astra_tui.playbook.kernel_text import KernelText
from astra_tui.playbook.loops import Loop, loops_of

_DYNAMIC = re.compile(r"\bextern\s+__shared__\b")


class _NotStaged(Exception):
    """An array in shared memory has more than what its threads loaded."""


@dataclass(frozen=True)
class _Staged:
    """A pointer into dynamic shared memory, the statement that fills it, and what reads it."""

    array: Variable
    pointer: Variable
    filling: Node
    load: Access
    reads: tuple[Node, ...]


def without_staging(source: KernelText, texts: Mapping[str, str]) -> str:
    """The source in which such rows are loaded again, and have no shared memory; `texts` are what
    its kernels may call.
    """
    if any(map(_functions_share, texts.values())):
        return source.text
    edits: list[Edit] = []
    names: set[str] = set()
    for kernel in source.kernels:
        try:
            staged = _staged(source, kernel)
        except _NotStaged:
            continue
        names.add(kernel.name)
        removed = {v.declaration for v in (staged.array, staged.pointer)} | {staged.filling}
        edits += [remove_statement(source.data, node) for node in removed]
        edits += [put(read, text_of(staged.load.node)) for read in staged.reads]

    def unshared(launch: Launch) -> Launch:
        return replace(launch, shared_bytes=None) if launch.kernel in names else launch

    return source.changed(edits, source.plan.with_launches(unshared))


def _functions_share(text: str) -> bool:
    """Whether a function that is no kernel has dynamic shared memory."""
    if _DYNAMIC.search(text) is None:
        return False
    functions = (f for f in functions_of(parse(text)) if not f.is_kernel)
    return any(_DYNAMIC.search(text_of(f.body)) is not None for f in functions)


def _staged(source: KernelText, kernel: Function) -> _Staged:
    dynamic = [v for v in kernel.locals if v.is_shared and "extern" in text_of(v.declaration)]
    if len(dynamic) != 1 or unknown_accesses(kernel.body, kernel):
        raise _NotStaged
    (array,) = dynamic
    pointer = _pointer_to(array, kernel)
    filling: list[tuple[Node, Loop]] = []
    reads: list[tuple[Node, Loop]] = []
    for use in kernel.uses(pointer):
        place = use.parent
        loop = _loop_around(use, source, kernel)
        parts = subscript_of(place) if place is not None else None
        if place is None or parts is None or parts[0] != use or text_of(parts[1]) != loop.name:
            raise _NotStaged
        is_load = all(a.is_load for a in accesses_in(place, kernel) if a.node == place)
        (reads if is_load else filling).append((place, loop))
    if len(filling) != 1 or not reads:
        raise _NotStaged
    ((place, first),) = filling
    reader = IndexReader(kernel)
    for read, loop in reads:
        is_later = read.start_byte > first.node.end_byte
        same = reader.read(loop.bound) == reader.read(first.bound) and loop.name == first.name
        if not is_later or not same or loop.variable.type != first.variable.type:
            raise _NotStaged
    statement, load = _load_of(source, kernel, place, first)
    if load.element != pointer.type:
        raise _NotStaged
    return _Staged(array, pointer, statement, load, tuple(read for read, _ in reads))


def _pointer_to(array: Variable, kernel: Function) -> Variable:
    """The one name under which a kernel uses an array: a pointer to it, or its own."""
    for variable in kernel.locals:
        value = variable.value
        if value is None or not variable.is_pointer or pointer_in(value, kernel) != array:
            continue
        is_all = next(of_type(value, "binary_expression"), None) is None
        if is_all and kernel.is_constant(variable) and len(kernel.uses(array)) == 1:
            return variable
    return array


def _loop_around(use: Node, source: KernelText, kernel: Function) -> Loop:
    launches = list(source.launches_of(kernel))
    for loop in loops_of(kernel):
        if contains(loop.node, use) and over_row(loop, kernel, launches) and not loop.has_jump():
            return loop
    raise _NotStaged


def _load_of(source: KernelText, kernel: Function, place: Node, loop: Loop) -> tuple[Node, Access]:
    """The statement that fills the array, and the load whose value it puts there."""
    change = place.parent
    statement = change.parent if change is not None else None
    if change is None or statement is None or operator_of(change) != "=":
        raise _NotStaged
    value = bare(field(change, "right"))
    variable = kernel.lookup(text_of(value), value) if value.type == "identifier" else None
    if statement not in loop.body or variable is None or variable.value is None:
        raise _NotStaged
    loads = [a for a in accesses_in(variable.value, kernel) if a.node == bare(variable.value)]
    if not kernel.is_constant(variable) or len(loads) != 1 or variable.type != loads[0].element:
        raise _NotStaged
    (load,) = loads
    stores = [a for a in accesses_in(kernel.body, kernel) if a.is_store]
    if load.root.is_array or any(may_alias(source, kernel, load.root, s.root) for s in stores):
        raise _NotStaged
    for name in identifiers_in(load.node) - {loop.name}:
        found = kernel.lookup(name, load.node)
        if found is None and name not in ("blockIdx", "blockDim", "gridDim"):
            raise _NotStaged
        if found is not None and not _is_known_everywhere(found, kernel):
            raise _NotStaged
    return statement, load


def _is_known_everywhere(variable: Variable, kernel: Function) -> bool:
    """Whether a name means the same value in all of the kernel that follows its declaration."""
    others = [v for v in (*kernel.parameters, *kernel.locals) if v.name == variable.name]
    at_top = variable.is_parameter or variable.declaration in named(kernel.body)
    return others == [variable] and at_top and kernel.is_constant(variable)
