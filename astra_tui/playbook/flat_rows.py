"""Loops over all elements of a matrix whose flat index is divided to find row and column again."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from tree_sitter import Node

from astra_tui.cuda_source.effects import fresh_name
from astra_tui.cuda_source.functions import Function
from astra_tui.cuda_source.indices import IndexReader
from astra_tui.cuda_source.polynomial import of_atom
from astra_tui.cuda_source.syntax import (
    bare,
    contains,
    field,
    line_of,
    of_type,
    operator_of,
    text_of,
)
from astra_tui.cuda_source.types import INTEGER_TYPES
from astra_tui.model.launch import Launch
from astra_tui.model.launch.expression import Binary, Expression
from astra_tui.playbook.edits import Edit, remove_statement
from astra_tui.playbook.edits import replace as put
from astra_tui.playbook.grids import flat_loops, head_declarations, other_grid_use
from astra_tui.playbook.invariance import plain_locals
from astra_tui.playbook.kernel_text import KernelText
from astra_tui.playbook.launching import factors, plan_value
from astra_tui.playbook.loops import Loop


class NotFlat(Exception):
    """Why a loop keeps its flat index."""


@dataclass(frozen=True)
class FlatRows:
    """A loop over all elements, and where it finds row and column by division."""

    function: Function
    loop: Loop
    quotients: tuple[Node, ...]
    remainders: tuple[Node, ...]
    width: Node
    """The length of a row, as the source writes it."""

    @property
    def divisions(self) -> list[Node]:
        """Every division of the flat index."""
        return [*self.quotients, *self.remainders]


def find_flat_rows(function: Function) -> FlatRows:
    """The one flat loop of a kernel. Raises NotFlat."""
    flat = flat_loops(function)
    if not flat:
        raise NotFlat("no loop over all elements of the grid")
    if len(flat) > 1:
        raise NotFlat(f"line {line_of(flat[1].node)}: a second loop over all elements")
    loop = flat[0]
    other = other_grid_use(function, [loop])
    if other is not None:
        raise NotFlat(f"line {line_of(other)}: the grid means something outside of the loop")
    return _read_divisions(function, loop, IndexReader(function))


def _read_divisions(function: Function, loop: Loop, reader: IndexReader) -> FlatRows:
    found: dict[str, list[Node]] = {"/": [], "%": []}
    widths: list[Node] = []
    for statement in loop.body:
        for node in of_type(statement, "binary_expression"):
            operator = operator_of(node)
            if operator in found and reader.read(field(node, "left")) == of_atom(loop.name):
                found[operator].append(node)
                widths.append(bare(field(node, "right")))
    if not widths:
        raise NotFlat(f"line {line_of(loop.node)}: no element divides the index of the loop")
    if len({str(reader.read(w)) for w in widths}) > 1:
        raise NotFlat(f"line {line_of(widths[1])}: the index is divided by different sizes")
    if not _is_size(widths[0], function):
        raise NotFlat(f"line {line_of(widths[0])}: the length of a row is no parameter")
    return FlatRows(function, loop, tuple(found["/"]), tuple(found["%"]), widths[0])


def _is_size(node: Node, function: Function) -> bool:
    variable = function.lookup(text_of(node), node)
    if variable is None or not variable.is_parameter or variable.type not in INTEGER_TYPES:
        return False
    return function.is_constant(variable)


def rows_of(flat: FlatRows, launch: Launch) -> Expression:
    """How many rows a launch covers: its element count without a row's length. Raises NotFlat."""
    count = plan_value(flat.loop.bound, flat.function, launch)
    width = plan_value(flat.width, flat.function, launch)
    if count is None or width is None or len(launch.grid) != 1 or len(launch.block) != 1:
        raise NotFlat(f"line {launch.place.line}: the launch is not one row of blocks")
    rest = list(factors(count))
    if width not in rest or len(rest) < 2:
        raise NotFlat(f"line {launch.place.line}: the count is no product with the row's length")
    rest.remove(width)
    return reduce(lambda a, b: Binary("*", a, b), rest)


def _named(
    source: KernelText, flat: FlatRows, nodes: tuple[Node, ...], wanted: str, names: set[str]
) -> tuple[str, list[Edit]]:
    """The name for a row or column: the source's own where it declares one."""
    declared = None
    for statement in flat.loop.body:
        variables = plain_locals(statement)
        if not variables or len(variables) != 1 or variables[0].value is None:
            continue
        if bare(variables[0].value) in nodes and flat.function.is_constant(variables[0]):
            declared = declared or (statement, variables[0].name)
    name = declared[1] if declared else fresh_name(wanted, names)
    edits = [remove_statement(source.data, declared[0])] if declared else []
    for node in nodes:
        if declared is None or not contains(declared[0], node):
            edits.append(put(node, name))
    return name, edits


def _is_mentioned(flat: FlatRows, edits: list[Edit]) -> bool:
    """Whether the flat index is still used when the divisions are gone."""
    gone = [(e.start, e.end) for e in edits if e.end > e.start]
    for use in flat.function.uses(flat.loop.variable):
        inside = any(contains(s, use) for s in flat.loop.body)
        if inside and not any(a <= use.start_byte < b for a, b in gone):
            return True
    return False


def _without_update(source: KernelText, loop: Loop) -> list[Edit]:
    """Takes away what a `while` loop does for its variable."""
    if loop.node.type != "while_statement":
        return []
    edits = []
    last = [c for c in field(loop.node, "body").named_children if c.type != "comment"][-1]
    if last not in loop.body:
        edits.append(remove_statement(source.data, last))
    return edits


def _only_for_head(flat: FlatRows) -> list[Node]:
    """Declarations that only the old head of the loop used."""
    found = [flat.loop.declaration] if flat.loop.declaration is not None else []
    for declaration in head_declarations(flat.loop, flat.function):
        variables = plain_locals(declaration) or []
        if declaration in found or len(variables) != 1:
            continue
        uses = flat.function.uses(variables[0])
        head = [n for n in (flat.loop.start, flat.loop.step) if n is not None]
        if all(any(contains(h, u) for h in head) for u in uses):
            found.append(declaration)
    return found


@dataclass(frozen=True)
class ColumnLoop:
    """How the threads share out the columns of a row: start and step of the new loop."""

    start: str
    step: str
    indent: str = "    "
    """Before the lines of its body."""


def by_columns(
    source: KernelText, flat: FlatRows, wanted: ColumnLoop, names: set[str]
) -> tuple[str, list[Edit]]:
    """The row's name, and the edits that turn the flat loop into one over the row's columns.

    The caller has to declare the row before it.
    """
    loop = flat.loop
    row, row_edits = _named(source, flat, flat.quotients, "row", names)
    column, column_edits = _named(source, flat, flat.remainders, "column", names)
    edits = [*row_edits, *column_edits]
    kind, width = loop.variable.type, text_of(flat.width)
    header = (
        f"for ({kind} {column} = {wanted.start}; {column} < {width}; {column} += {wanted.step}) {{"
    )
    if _is_mentioned(flat, edits):
        header += f"\n{wanted.indent}const {kind} {loop.name} = {row} * {width} + {column};"
    body = field(loop.node, "body")
    if body.type == "compound_statement":
        edits.append(Edit(loop.node.start_byte, body.start_byte + 1, header))
    else:
        edits.append(Edit(loop.node.start_byte, body.start_byte, f"{header}\n    "))
        edits.append(Edit(body.end_byte, body.end_byte, "\n  }"))
    edits += _without_update(source, loop)
    edits += [remove_statement(source.data, node) for node in _only_for_head(flat)]
    return row, edits
