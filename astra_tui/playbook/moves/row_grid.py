"""Spreads each row over blocks, where a flat index is divided into row and column again."""

from __future__ import annotations

from dataclasses import dataclass, replace

from astra_tui.cuda_source.effects import fresh_name
from astra_tui.cuda_source.functions import Function, Variable
from astra_tui.cuda_source.syntax import contains, of_type, text_of
from astra_tui.model.launch import Launch
from astra_tui.model.launch.expression import Call, Expression, Integer
from astra_tui.model.launch.plan import KernelArgument
from astra_tui.model.plan import Counter, Parameter, Plan, Risk
from astra_tui.playbook.api import Evidence, MoveKind, NotApplicable, Proposal, settable
from astra_tui.playbook.edits import Edit, indentation, indented_deeper, insert_after, insert_before
from astra_tui.playbook.edits import replace as put
from astra_tui.playbook.evidence import evidence_of, lines_text, places_of, predicted, share
from astra_tui.playbook.flat_rows import (
    ColumnLoop,
    FlatRows,
    NotFlat,
    by_columns,
    find_flat_rows,
    rows_of,
)
from astra_tui.playbook.kernel_text import KernelText
from astra_tui.playbook.launching import plan_value
from astra_tui.playbook.thread_count import BLOCKS, why_count_matters

_MAX_ROWS = 65535
"""The largest grid along y (CUDA C++ Programming Guide, compute capabilities)."""


@dataclass(frozen=True)
class _Grid:
    """One launch on a grid of rows and blocks along a row."""

    rows: Expression
    width: Expression


class RowGrid:
    """Launch geometry: blocks along a row and rows along y, for one element a thread."""

    name = "row_grid"
    summary = "a grid of rows in place of a flat index that is divided again"
    kind = MoveKind.GEOMETRY
    needs_gpu = "needs a GPU: counters do not show occupancy"
    gain = (1.2, 3.8)

    def propose(self, source: KernelText, evidence: Evidence) -> Proposal | NotApplicable:
        """The first kernel whose flat loop divides by the length of a row."""
        reasons = []
        for kernel in source.kernels:
            try:
                flat = find_flat_rows(kernel)
                launches = tuple(source.launches_of(kernel))
                grids = {id(e): _grid(flat, e) for e in launches}
            except NotFlat as reason:
                reasons.append(f"{kernel.name}: {reason}")
                continue
            block = _block(kernel, launches, evidence)
            return self._proposal(source, evidence, flat, grids, block)
        return NotApplicable(self.name, "; ".join(reasons) or "no kernel")

    def _proposal(
        self,
        source: KernelText,
        evidence: Evidence,
        flat: FlatRows,
        grids: dict[int, _Grid],
        block: Parameter | None,
    ) -> Proposal:
        nodes = flat.divisions
        part = share(evidence.counters, Counter.WARP_INSTRUCTIONS, nodes)
        plan = Plan(
            title="A grid of rows",
            bottleneck="every element divides a flat index to learn its row and column, and a "
            "grid that does not grow with the sizes keeps few loads on the way",
            evidence=evidence_of(evidence.counters, nodes, Counter.WARP_INSTRUCTIONS),
            change=f"{lines_text(nodes)}: the row is the block's index along y, the column comes "
            "from the thread's along x, and the grid has a thread for each element, however few "
            "the rows are.",
            prediction=predicted(Counter.WARP_INSTRUCTIONS, part, 0.1, (1.2, 3.0), 0.5),
            risk=Risk.MEDIUM,
            places=places_of([flat.loop.node]),
            move=self.name,
            parameters=settable(block) if block else (),
        )
        count = _count_parameter(flat)

        def by_rows(launch: Launch) -> Launch:
            grid = grids.get(id(launch))
            if grid is None:
                return launch
            threads = (
                launch.block if block is None else tuple(Integer(int(c)) for c in block.chosen)
            )
            blocks = Call("ceil_div", (grid.width, threads[0]))
            size = (blocks, Call("min", (grid.rows, Integer(_MAX_ROWS))))
            args = _args(flat, launch, count, grid.rows)
            return replace(launch, grid=size, block=threads, args=args)

        edits = _rewrite(source, flat, count)
        return Proposal(plan, source.changed(edits, source.plan.with_launches(by_rows)))


def _grid(flat: FlatRows, launch: Launch) -> _Grid:
    rows = rows_of(flat, launch)
    width = plan_value(flat.width, flat.function, launch)
    assert width is not None  # rows_of has divided by it.
    return _Grid(rows, width)


def _block(kernel: Function, launches: tuple[Launch, ...], evidence: Evidence) -> Parameter | None:
    """The size of blocks, where all launches have the same and the code does not count on it."""
    sizes = {e.block[0] for e in launches}
    (size, *others) = sizes
    if others or not isinstance(size, Integer) or why_count_matters(kernel, size.value):
        return None
    choices = sorted({*BLOCKS, size.value})
    return evidence.one("block", "threads of a block", choices, size.value)


def _count_parameter(flat: FlatRows) -> Variable | None:
    """The parameter that only says how many elements there are: the rows' number replaces it."""
    variable = flat.function.lookup(text_of(flat.loop.bound), flat.loop.bound)
    if variable is None or not variable.is_parameter:
        return None
    uses = flat.function.uses(variable)
    return variable if all(contains(flat.loop.bound, use) for use in uses) else None


def _args(
    flat: FlatRows, launch: Launch, count: Variable | None, rows: Expression
) -> tuple[KernelArgument, ...]:
    parameters = flat.function.parameters
    return tuple(
        rows if parameter == count else given
        for parameter, given in zip(parameters, launch.args, strict=True)
    )


def _rewrite(source: KernelText, flat: FlatRows, count: Variable | None) -> list[Edit]:
    names, loop = source.names(), flat.loop
    kind = loop.variable.type
    share_out = ColumnLoop(
        f"({kind})blockIdx.x * blockDim.x + threadIdx.x",
        f"({kind})gridDim.x * blockDim.x",
        indentation(source.data, loop.node) + "    ",
    )
    row, edits = by_columns(source, flat, share_out, names)
    rows = fresh_name("rows", names)
    lines = [f"for ({kind} {row} = blockIdx.y; {row} < {rows}; {row} += gridDim.y) {{"]
    if count is None:
        total = f"({text_of(loop.bound)}) / {text_of(flat.width)}"
        lines.insert(0, f"const {kind} {rows} = {total};")
    else:
        named = (n for n in of_type(count.declarator, "identifier") if text_of(n) == count.name)
        edits += [put(n, rows) for n in named]
    deeper = indented_deeper(source.data, loop.node)
    edits += [d for d in deeper if not any(e.start <= d.start < e.end for e in edits)]
    edits.append(insert_before(source.data, loop.node, lines))
    edits.append(Edit(loop.node.start_byte, loop.node.start_byte, "  "))
    edits.append(insert_after(source.data, loop.node, ["}"]))
    return edits
