"""Loops over a row with a fixed number of turns a thread, which a template argument says."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping

from tree_sitter import Node

from astra_tui.cuda_source.functions import Function, variables_of
from astra_tui.cuda_source.indices import IndexReader, Polynomial
from astra_tui.cuda_source.syntax import LOOPS, ancestors, bare, contains, of_type, text_of
from astra_tui.model.launch.expression import (
    Binary,
    Compare,
    Conditional,
    Expression,
    Integer,
)
from astra_tui.playbook.accesses import Access, accesses_in, offset_of
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
from astra_tui.playbook.loops import Loop, loops_of

_ANY_TURN = "(any turn)"

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


# -- what is in such loops ------------------------------------------------------------------------


def fixed_loops(kernel: Function) -> Iterator[Loop]:
    """The outermost loops whose turns a template argument or a number counts from 0."""
    constants = {name for _, name, _ in kernel.template}
    for loop in loops_of(kernel):
        bound = bare(loop.bound)
        known = bound.type == "number_literal" or text_of(bound) in constants
        around = (above for above, _ in ancestors(loop.node))
        within = itertools.takewhile(lambda above: above != kernel.body, around)
        outermost = all(above.type == "compound_statement" for above in within)
        from_zero = text_of(bare(loop.start)) == "0" and loop.counts_up() and loop.step is None
        if outermost and known and from_zero and not loop.has_jump():
            yield loop


def declared_loads(kernel: Function, loop: Loop) -> Iterator[tuple[Access, Node]]:
    """Loads of global memory, once a turn, that a declaration of a loop is all about."""
    for declaration in (d for statement in loop.body for d in of_type(statement, "declaration")):
        variables = list(variables_of(declaration))
        if len(variables) != 1 or variables[0].value is None or is_repeated(declaration, loop):
            continue
        value = bare(variables[0].value)
        yield from (
            (access, declaration) for access in accesses_in(declaration, kernel)
            if access.node == value and access.is_load
            and not access.is_store and not access.root.is_array
        )  # fmt: skip


def is_repeated(statement: Node, loop: Loop) -> bool:
    """Whether a turn of the loop may run the statement several times."""
    return any(
        a.type in LOOPS and a != loop.node
        for a, _ in ancestors(statement)
        if contains(loop.node, a)
    )


def element_of(kernel: Function, access: Access, *names: str) -> Polynomial | None:
    """The element of an access, in terms of the turn, which has these names; None where it is not
    known.
    """
    reader = IndexReader(kernel)
    pointer = kernel.lookup(text_of(access.pointer), access.pointer)
    offset = offset_of(pointer, kernel, reader) if pointer is not None else None
    if offset is None:
        return None
    return with_any_turn(offset + reader.read(access.index), names)


def with_any_turn(form: Polynomial, names: tuple[str, ...]) -> Polynomial:
    """A form in terms of the turn, whatever it is called."""
    terms = {
        tuple(sorted(_ANY_TURN if a in names else a for a in m)): c for m, c in form.terms.items()
    }
    return Polynomial(dict(sorted(terms.items())))


def is_own(element: Polynomial) -> bool:
    """Whether each thread has other elements in every turn.

    The index is c * (thread + turn * threads) + b.
    """
    by_thread = _factors_of(element, ("threadIdx.x",))
    by_turn = _factors_of(element, ("blockDim.x", _ANY_TURN))
    return bool(by_thread) and by_thread == by_turn


def _factors_of(element: Polynomial, atoms: tuple[str, ...]) -> dict[tuple[str, ...], int]:
    found = {}
    for monomial, coefficient in element.terms.items():
        rest = list(monomial)
        if all(a in rest for a in atoms) and ("threadIdx.x" in rest) != (_ANY_TURN in rest):
            for each in atoms:
                rest.remove(each)
            found[tuple(rest)] = coefficient
    return found
