"""Loops over a row with a fixed number of turns a thread, which a template argument says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tree_sitter import Node

from astra_tui.cuda_source.syntax import contains, text_of
from astra_tui.model.launch.expression import (
    Binary,
    Compare,
    Conditional,
    Expression,
    Integer,
)
from astra_tui.playbook.edits import (
    Edit,
    dedented,
    indentation,
    indented,
    indented_lines,
    line_start,
    pragma_of,
    remove_statement,
    rewritten,
)
from astra_tui.playbook.edits import replace as put
from astra_tui.playbook.kernel_text import KernelText
from astra_tui.playbook.loops import Loop

TURNS = (8, 4, 2, 1)
"""Turns that a thread may take: 8 with two 16-byte packs are 64 registers."""


def turns_of(elements: Expression, threads: Expression, most: int) -> Expression:
    """How many turns it takes threads to go through elements, rounded up to one of TURNS."""
    count: Expression = Integer(most)
    for size in (size for size in TURNS if size < most):
        count = Conditional(within(elements, threads, size), Integer(size), count)
    return count


def within(elements: Expression, threads: Expression, turns: int) -> Expression:
    """Whether so many turns are enough."""
    most = threads if turns == 1 else Binary("*", Integer(turns), threads)
    if isinstance(threads, Integer):
        most = Integer(turns * threads.value)
    return Compare(elements, (("<=", most),))


def unrolled(
    source: KernelText,
    loop: Loop,
    names: tuple[str, str],
    places: Mapping[Node, str],
    *,
    fill: bool = False,
) -> list[str]:
    """A loop with a fixed number of turns, each under the condition that the row reaches it.

    `names` are those of the turn and of their number. Nodes of `places` are put into other words;
    with `fill`, these words are set to what the nodes were before.
    """
    turn, count = names
    lines: list[str] = []
    for statement in loop.body:
        inside = [n for n in places if contains(statement, n)]
        if fill:
            lines += [f"{places[n]} = {text_of(n)};" for n in inside]
        text = rewritten(source.data, statement, [put(n, places[n]) for n in inside])
        lines.append(dedented(source.data, statement, text))
    step = "1" if loop.step is None else text_of(loop.step)
    first = f"{text_of(loop.start)} + {turn} * {step}"
    return [
        "#pragma unroll",
        f"for (int {turn} = 0; {turn} < {count}; ++{turn}) {{",
        f"  const {loop.variable.type} {loop.name} = {first};",
        f"  if ({loop.name} < {text_of(loop.bound)}) {{",
        indented_lines([indented_lines(lines)]),
        "  }",
        "}",
    ]


def in_place_of(source: bytes, loop: Loop, lines: Iterable[str]) -> list[Edit]:
    """Puts lines where a loop stands, in place of its `#pragma` and its declaration too."""
    first = pragma_of(loop.node) or loop.node
    text = indented("\n".join(lines), indentation(source, loop.node))
    edits = [Edit(line_start(source, first), loop.node.end_byte, text)]
    if loop.declaration is not None:
        edits.append(remove_statement(source, loop.declaration))
    return edits
