"""How a kernel's loops share out their work between the blocks of a grid."""

from __future__ import annotations

from tree_sitter import Node

from astra_tui.cuda_source.functions import Function
from astra_tui.cuda_source.indices import GLOBAL_THREAD, GRID_THREADS, IndexReader
from astra_tui.cuda_source.syntax import contains, field, of_type, text_of
from astra_tui.playbook.loops import Loop, loops_of


def flat_loops(function: Function) -> list[Loop]:
    """The loops whose iterations all threads along x of the grid share out between them."""
    reader = IndexReader(function)
    return [
        loop for loop in loops_of(function)
        if loop.counts_up()
        and (loop.start_form(reader), loop.step_form(reader)) == (GLOBAL_THREAD, GRID_THREADS)
    ]  # fmt: skip


def head_declarations(loop: Loop, function: Function) -> list[Node]:
    """The declarations that a loop's head takes its start and step from."""
    found = [loop.declaration] if loop.declaration is not None else []
    for part in (loop.start, loop.step):
        for name in of_type(part, "identifier") if part is not None else ():
            variable = function.lookup(text_of(name), name)
            if variable is not None and not variable.is_parameter:
                found.append(variable.declaration)
    return found


def grid_uses(function: Function, axis: str = "") -> list[Node]:
    """Where a kernel asks for its place in the grid or the grid's size, along one axis or any."""
    return [
        use for use in of_type(function.body, "field_expression")
        if text_of(field(use, "argument")) in ("blockIdx", "gridDim")
        and axis in ("", text_of(field(use, "field")))
    ]  # fmt: skip


def other_grid_use(function: Function, loops: list[Loop], axis: str = "") -> Node | None:
    """The first use of the grid that is not for the heads of some loops, None without any."""
    heads: list[Node] = []
    for loop in loops:
        parts = (loop.start, loop.step)
        heads += [*head_declarations(loop, function), *(p for p in parts if p is not None)]
    uses = grid_uses(function, axis)
    return next((u for u in uses if not any(contains(h, u) for h in heads)), None)
