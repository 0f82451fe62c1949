"""Gives each row a block, where a flat index is divided into row and column again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce

from tree_sitter import Node

from astra_tui.agents.playbook.api import Evidence, NotApplicable, Proposal
from astra_tui.agents.playbook.counted import evidence_of, lines_text, places_of, predicted, share
from astra_tui.agents.playbook.edits import (
    Edit,
    insert_before,
    remove_statement,
)
from astra_tui.agents.playbook.edits import replace as put
from astra_tui.agents.playbook.invariance import plain_locals
from astra_tui.agents.playbook.kernel_text import KernelText
from astra_tui.agents.playbook.launching import factors, map_launches, plan_value
from astra_tui.agents.playbook.linear import (
    GLOBAL_THREAD,
    GRID_THREADS,
    INTEGER_TYPES,
    IndexReader,
    atom,
)
from astra_tui.agents.playbook.loops import Loop, loops_of
from astra_tui.agents.playbook.names import Function, fresh_name
from astra_tui.agents.playbook.syntax import (
    bare,
    contains,
    field,
    line_of,
    of_type,
    operator_of,
    text_of,
)
from astra_tui.model.launch import Launch
from astra_tui.model.launch.expression import Binary, Expression
from astra_tui.model.plan import Counter, Plan, Risk


class _Unsuitable(Exception):
    """Why a loop keeps its flat index."""


@dataclass(frozen=True)
class _Flat:
    """A loop over all elements, and where it finds row and column by division."""

    function: Function
    loop: Loop
    quotients: tuple[Node, ...]
    remainders: tuple[Node, ...]
    width: Node
    """The length of a row, as the source writes it."""


class RowPerBlock:
    """Launch geometry: a block a row, threads along the row, no division an element."""

    name = "row_per_block"
    summary = "a block a row in place of a flat index that is divided again"

    def propose(self, source: KernelText, evidence: Evidence) -> Proposal | NotApplicable:
        """The first kernel whose flat loop divides by the length of a row."""
        reasons = []
        for kernel in source.kernels:
            try:
                flat = _find(kernel)
                grids = {id(e): _rows(flat, e) for e in source.launches_of(kernel)}
            except _Unsuitable as reason:
                reasons.append(f"{kernel.name}: {reason}")
                continue
            return self._proposal(source, evidence, flat, grids)
        return NotApplicable(self.name, "; ".join(reasons) or "no kernel")

    def _proposal(
        self,
        source: KernelText,
        evidence: Evidence,
        flat: _Flat,
        grids: dict[int, tuple[Expression, ...]],
    ) -> Proposal:
        nodes = [*flat.quotients, *flat.remainders]
        part = share(evidence.counters, Counter.WARP_INSTRUCTIONS, nodes)
        plan = Plan(
            title="Give each row a block",
            bottleneck="every element divides a flat index to learn its row and column; integer "
            "division takes dozens of instructions",
            evidence=evidence_of(evidence.counters, nodes, Counter.WARP_INSTRUCTIONS),
            change=f"{lines_text(nodes)}: the row is the block's index and the column the "
            "thread's, and the grid has as many blocks as there are rows, without a cap.",
            prediction=predicted(Counter.WARP_INSTRUCTIONS, part, 0.1, (1.2, 3.0), 0.5),
            risk=Risk.MEDIUM,
            places=places_of([flat.loop.node]),
            move=self.name,
        )

        def by_rows(launch: Launch) -> Launch:
            grid = grids.get(id(launch))
            return launch if grid is None else replace(launch, grid=grid)

        edits = _rewrite(source, flat)
        return Proposal(plan, source.changed(edits, map_launches(source.plan, by_rows)))


def _find(function: Function) -> _Flat:
    reader = IndexReader(function)
    flat = [
        loop for loop in loops_of(function)
        if loop.counts_up()
        and (loop.start_form(reader), loop.step_form(reader)) == (GLOBAL_THREAD, GRID_THREADS)
    ]  # fmt: skip
    if not flat:
        raise _Unsuitable("no loop over all elements of the grid")
    if len(flat) > 1:
        raise _Unsuitable(f"line {line_of(flat[1].node)}: a second loop over all elements")
    loop = flat[0]
    others = [
        u for u in of_type(function.body, "identifier") if text_of(u) in ("blockIdx", "gridDim")
    ]
    in_head = [*_nodes_behind(loop, function), loop.node]
    for use in others:
        if not any(contains(n, use) for n in in_head):
            raise _Unsuitable(f"line {line_of(use)}: the grid means something outside of the loop")
    return _read_divisions(function, loop, reader)


def _nodes_behind(loop: Loop, function: Function) -> list[Node]:
    """The declarations that the loop's head takes its start and step from."""
    found = [loop.declaration] if loop.declaration is not None else []
    for part in (loop.start, loop.step):
        for name in of_type(part, "identifier") if part is not None else ():
            variable = function.lookup(text_of(name), name)
            if variable is not None and not variable.is_parameter:
                found.append(variable.declaration)
    return found


def _read_divisions(function: Function, loop: Loop, reader: IndexReader) -> _Flat:
    found: dict[str, list[Node]] = {"/": [], "%": []}
    widths: list[Node] = []
    for statement in loop.body:
        for node in of_type(statement, "binary_expression"):
            operator = operator_of(node)
            if operator in found and reader.read(field(node, "left")) == atom(loop.name):
                found[operator].append(node)
                widths.append(bare(field(node, "right")))
    if not widths:
        raise _Unsuitable(f"line {line_of(loop.node)}: no element divides the index of the loop")
    if len({str(reader.read(w)) for w in widths}) > 1:
        raise _Unsuitable(f"line {line_of(widths[1])}: the index is divided by different sizes")
    if not _is_size(widths[0], function):
        raise _Unsuitable(f"line {line_of(widths[0])}: the length of a row is no parameter")
    return _Flat(function, loop, tuple(found["/"]), tuple(found["%"]), widths[0])


def _is_size(node: Node, function: Function) -> bool:
    variable = function.lookup(text_of(node), node)
    if variable is None or not variable.is_parameter or variable.type not in INTEGER_TYPES:
        return False
    return function.is_constant(variable)


def _rows(flat: _Flat, launch: Launch) -> tuple[Expression, ...]:
    """How many rows a launch covers: its element count without the factor of a row's length."""
    count = plan_value(flat.loop.bound, flat.function, launch)
    width = plan_value(flat.width, flat.function, launch)
    if count is None or width is None or len(launch.grid) != 1 or len(launch.block) != 1:
        raise _Unsuitable(f"line {launch.place.line}: the launch is not one row of blocks")
    rest = list(factors(count))
    if width not in rest or len(rest) < 2:
        raise _Unsuitable(
            f"line {launch.place.line}: the count is no product with the row's length"
        )
    rest.remove(width)
    return (reduce(lambda a, b: Binary("*", a, b), rest),)


def _rewrite(source: KernelText, flat: _Flat) -> list[Edit]:
    loop, names = flat.loop, source.names()
    edits: list[Edit] = []
    row, row_edits = _named(source, flat, flat.quotients, "row", names)
    column, column_edits = _named(source, flat, flat.remainders, "column", names)
    edits += [*row_edits, *column_edits]
    kind, width = loop.variable.type, text_of(flat.width)
    edits.append(insert_before(source.data, loop.node, [f"const {kind} {row} = blockIdx.x;"]))
    header = f"for ({kind} {column} = threadIdx.x; {column} < {width}; {column} += blockDim.x) {{"
    if _is_mentioned(flat, edits):
        header += f"\n    const {kind} {loop.name} = {row} * {width} + {column};"
    body = field(loop.node, "body")
    if body.type == "compound_statement":
        edits.append(Edit(loop.node.start_byte, body.start_byte + 1, header))
    else:
        edits.append(Edit(loop.node.start_byte, body.start_byte, f"{header}\n    "))
        edits.append(Edit(body.end_byte, body.end_byte, "\n  }"))
    edits += _without_update(source, loop)
    for node in _only_for_head(flat):
        edits.append(remove_statement(source.data, node))
    return edits


def _named(
    source: KernelText, flat: _Flat, nodes: tuple[Node, ...], wanted: str, names: set[str]
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


def _is_mentioned(flat: _Flat, edits: list[Edit]) -> bool:
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


def _only_for_head(flat: _Flat) -> list[Node]:
    """Declarations that only the old head of the loop used."""
    found = [flat.loop.declaration] if flat.loop.declaration is not None else []
    for declaration in _nodes_behind(flat.loop, flat.function):
        variables = plain_locals(declaration) or []
        if declaration in found or len(variables) != 1:
            continue
        uses = flat.function.uses(variables[0])
        head = [n for n in (flat.loop.start, flat.loop.step) if n is not None]
        if all(any(contains(h, u) for h in head) for u in uses):
            found.append(declaration)
    return found
