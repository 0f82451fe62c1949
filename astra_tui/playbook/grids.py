"""How a kernel's loops share out their work between the blocks of a grid."""

from __future__ import annotations

from collections.abc import Iterable

from tree_sitter import Node

from astra_tui.cuda_source.functions import Function
from astra_tui.cuda_source.indices import (
    BLOCK_THREADS,
    GLOBAL_THREAD,
    GRID_THREADS,
    THREAD,
    IndexReader,
)
from astra_tui.cuda_source.syntax import contains, field, of_type, text_of
from astra_tui.model.launch import Launch
from astra_tui.playbook.launching import plan_value
from astra_tui.playbook.loops import Loop, loops_of


def over_row(loop: Loop, function: Function, launches: Iterable[Launch]) -> bool:
    """Whether the threads of a block take the elements from 0 to the bound in turns.

    The step is the number of threads: what the block has, or what all `launches` give it.
    """
    reader = IndexReader(function)
    if not loop.counts_up() or loop.start_form(reader) != THREAD:
        return False
    if loop.step_form(reader) == BLOCK_THREADS:
        return True
    sizes = {(plan_value(loop.step, function, e) if loop.step else None, e.block) for e in launches}
    return bool(sizes) and all(len(block) == 1 and step == block[0] for step, block in sizes)


def over_grid(loop: Loop, function: Function) -> bool:
    """Whether all threads along x of the grid take the elements from 0 to the bound in turns."""
    reader = IndexReader(function)
    forms = (loop.start_form(reader), loop.step_form(reader))
    return loop.counts_up() and forms == (GLOBAL_THREAD, GRID_THREADS)


def flat_loops(function: Function) -> list[Loop]:
    """The loops whose iterations all threads along x of the grid share out between them."""
    return [loop for loop in loops_of(function) if over_grid(loop, function)]


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
