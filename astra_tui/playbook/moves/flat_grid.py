"""Gives each element of all rows a thread of one flat grid, where threads never meet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial, reduce

from tree_sitter import Node

from astra_tui.cuda_source.effects import fresh_name
from astra_tui.cuda_source.functions import Function
from astra_tui.cuda_source.indices import (
    GLOBAL_THREAD,
    IndexReader,
)
from astra_tui.cuda_source.polynomial import of_atom
from astra_tui.cuda_source.syntax import (
    bare,
    contains,
    field,
    line_of,
    of_type,
    operator_of,
    statements_of,
    text_of,
)
from astra_tui.model.launch import Dispatch, Launch, LaunchPlan
from astra_tui.model.launch.expression import Binary, Call, Compare, Expression, Integer, Name
from astra_tui.model.plan import CodePlace, Counter, Plan, Prediction, Risk
from astra_tui.playbook.accesses import accesses_in, unknown_accesses
from astra_tui.playbook.api import Evidence, MoveKind, NotApplicable, Proposal, settable
from astra_tui.playbook.division import Divisor
from astra_tui.playbook.edits import Edit, indentation, remove_statement, rewritten
from astra_tui.playbook.edits import replace as put
from astra_tui.playbook.evidence import places_of
from astra_tui.playbook.grids import head_declarations, over_grid, over_row
from astra_tui.playbook.invariance import plain_locals
from astra_tui.playbook.kernel_text import KernelText, with_parameters
from astra_tui.playbook.launching import (
    Unsuitable,
    all_of,
    first_suitable,
    in_place,
    plan_value,
    values_on_workloads,
    with_branch,
)
from astra_tui.playbook.loops import loops_of
from astra_tui.playbook.moves.wide_accesses import WideAccesses

_ROW_OF_TWO = of_atom("blockIdx.y") * of_atom("gridDim.x") + of_atom("blockIdx.x")
_BLOCKS = (256, 128, 512, 64, 1024)
_FILLING = (256, 128, 64)
_LITTLE_IDLE = 0.05
"""With so few idle threads a grid of parts of rows was 1 to 2 % faster than a flat one, on an H200:
it finds its row without a product and a shift."""
_BUILT_IN = ("threadIdx", "blockIdx", "blockDim", "gridDim")


@dataclass(frozen=True)
class _Share:
    """A loop over a row, or a condition of one element a thread: what it declares and does."""

    node: Node
    body: Node
    bound: Node
    column: str
    type: str
    heads: tuple[Node, ...]
    """Where it asks for the thread's place."""
    removed: tuple[Node, ...]
    """Declarations that only it used."""


@dataclass(frozen=True)
class _Rows:
    """A launch whose threads take elements of rows, and what its kernel says of them."""

    kernel: Function
    launch: Launch
    shares: tuple[_Share, ...]
    row_uses: tuple[Node, ...]
    rows: Expression
    across: Expression
    of_block: bool
    """Whether a block has its row to itself."""


class FlatGrid:
    """Launch geometry: blocks are full whatever the length of a row, and rows cost no division."""

    name = "flat_grid"
    summary = "a flat grid of one element a thread, rows found by a product and a shift"
    kind = MoveKind.GEOMETRY
    needs_gpu = "needs a GPU: counters do not show how blocks fill it"
    gain = (0.98, 1.3)

    def propose(self, source: KernelText, evidence: Evidence) -> Proposal | NotApplicable:
        """The first launch of a kernel whose threads never meet."""
        rows = first_suitable(source, self.name, partial(_read, source, evidence))
        if isinstance(rows, NotApplicable):
            return rows
        if isinstance(WideAccesses().propose(source, evidence), Proposal):
            return NotApplicable(self.name, "the accesses of its loops can become wide first")
        idle = None if rows.of_block else _idle_share(source, rows, evidence)
        if idle is not None and idle <= _LITTLE_IDLE:
            line = rows.launch.place.line
            return NotApplicable(
                self.name,
                f"line {line}: blocks share out each row, and at most {100 * idle:.0f} % of their "
                "threads have nothing to do",
            )
        return self._proposal(source, evidence, rows)

    def _proposal(self, source: KernelText, evidence: Evidence, rows: _Rows) -> Proposal:
        best = _filling(source, rows, evidence)
        sizes = (best, *(size for size in _BLOCKS if size != best))
        block = evidence.one("block", "threads of a block", sizes)
        line = rows.launch.place.line
        plan = Plan(
            title="Flatten the grid",
            bottleneck="blocks belong to rows: the last of each row is partly empty, or its "
            "threads take several turns, and small rows make many small blocks",
            evidence=(f"line {line}: blocks that belong to one row each",),
            change=f"A grid of blocks of {block.value} threads over all rows, a thread an element. "
            "The row follows from the flat index by a product and a shift whose numbers the plan "
            "computes; sizes for which these are not exact keep the old kernel.",
            prediction=Prediction(*self.gain, Counter.WARP_INSTRUCTIONS, 1.0),
            risk=Risk.MEDIUM,
            places=(CodePlace(line, line), *places_of([s.node for s in rows.shares])),
            move=self.name,
            parameters=settable(block),
        )
        return Proposal(plan, _rewrite(source, rows, int(block.chosen[0])))


def _read(source: KernelText, evidence: Evidence, kernel: Function, launch: Launch) -> _Rows:
    _check(source, evidence, kernel)
    shares = tuple(_shares(kernel, launch))
    if not shares:
        raise Unsuitable("no loop in which threads take the elements of a row")
    bounds = {plan_value(s.bound, kernel, launch, evidence.task) for s in shares}
    across = bounds.pop() if len(bounds) == 1 else None
    if across is None:
        raise Unsuitable(f"line {launch.place.line}: the plan cannot say how long a row is")
    if launch.shared_bytes is not None or launch.cluster or len(launch.block) != 1:
        raise Unsuitable(f"line {launch.place.line}: its blocks are more than a row of threads")
    for access in accesses_in(kernel.body, kernel):
        if not any(contains(s.body, access.node) for s in shares):
            raise Unsuitable(f"line {line_of(access.node)}: an access outside of the loop")
    in_block = {_is_of_block(s) for s in shares}
    if len(in_block) > 1:
        raise Unsuitable("its loops share out rows in different ways")
    of_block = in_block.pop()
    row_uses, rows = _row(kernel, launch, shares, of_block=of_block)
    return _Rows(kernel, launch, shares, row_uses, rows, across, of_block)


def _filling(source: KernelText, rows: _Rows, evidence: Evidence) -> int:
    """The threads of a block: fewer where no workload has a block for each multiprocessor."""
    total = Binary("*", rows.rows, rows.across)
    counts = values_on_workloads(total, source, evidence.task)
    processors = values_on_workloads(Name("sm_count"), source, evidence.task)
    most = max(counts, default=None)
    for size in _FILLING:
        if most is None or most > size * (processors[0] - 1):
            return size
    return _FILLING[-1]


def _idle_share(source: KernelText, rows: _Rows, evidence: Evidence) -> float | None:
    """The share of threads without an element, on the workload with most; None where some threads
    have several.
    """
    threads = Binary("*", rows.launch.grid[0], rows.launch.block[0])
    have, need = (
        values_on_workloads(value, source, evidence.task) for value in (threads, rows.across)
    )
    if not have or any(n > h for h, n in zip(have, need, strict=True)):
        return None
    return max(1 - n / h for h, n in zip(have, need, strict=True))


def _check(source: KernelText, evidence: Evidence, kernel: Function) -> None:
    """Threads may not know each other."""
    call = source.meeting(kernel.body, evidence.included)
    if call is not None:
        raise Unsuitable(f"line {line_of(call)}: the threads of a block meet")
    shared = next((v for v in kernel.locals if v.is_shared), None)
    if shared is not None:
        raise Unsuitable(f"line {line_of(shared.declaration)}: the threads share memory")
    unknown = unknown_accesses(kernel.body, kernel)
    if unknown:
        raise Unsuitable(f"line {line_of(unknown[0])}: an access that cannot be followed")
    leaving = next(of_type(kernel.body, "return_statement"), None)
    if leaving is not None:
        raise Unsuitable(f"line {line_of(leaving)}: threads return before the end")


def _shares(kernel: Function, launch: Launch) -> Iterator[_Share]:
    """Outermost loops over a row, and conditions in their place."""
    reader = IndexReader(kernel)
    for loop in loops_of(kernel):
        is_plain = loop.node.type == "for_statement" and loop.node.parent == kernel.body
        if not is_plain or not loop.counts_up() or loop.has_jump():
            continue
        if over_row(loop, kernel, [launch]) or over_grid(loop, kernel):
            heads = [loop.start, *([loop.step] if loop.step is not None else [])]
            removed = head_declarations(loop, kernel)
            yield _Share(
                loop.node, field(loop.node, "body"), loop.bound, loop.name, loop.variable.type,
                (*heads, *removed), tuple(removed),
            )  # fmt: skip
    for statement in statements_of(kernel.body):
        found = _condition(kernel, statement, reader)
        if found is not None:
            yield found


def _condition(kernel: Function, statement: Node, reader: IndexReader) -> _Share | None:
    """`if (column < bound) {...}` where a column is the thread's place in a row of blocks."""
    if statement.type != "if_statement" or statement.child_by_field_name("alternative") is not None:
        return None
    condition = bare(field(statement, "condition"))
    body = field(statement, "consequence")
    if condition.type != "binary_expression" or operator_of(condition) != "<":
        return None
    left, bound = bare(field(condition, "left")), bare(field(condition, "right"))
    variable = kernel.lookup(text_of(left), left) if left.type == "identifier" else None
    if variable is None or variable.value is None or body.type != "compound_statement":
        return None
    alone = plain_locals(variable.declaration)
    if reader.read(left) != GLOBAL_THREAD or alone is None or len(alone) != 1:
        return None
    outside = [u for u in kernel.uses(variable) if not contains(statement, u)]
    if outside or not kernel.is_constant(variable):
        return None
    declared = (variable.declaration,)
    return _Share(statement, body, bound, variable.name, variable.type, declared, declared)


def _is_of_block(share: _Share) -> bool:
    """Whether the threads of one block have the row to themselves."""
    return not any(
        text_of(field(use, "argument")) in ("blockIdx", "gridDim")
        for head in share.heads
        for use in of_type(head, "field_expression")
    )


def _row(
    kernel: Function, launch: Launch, shares: tuple[_Share, ...], *, of_block: bool
) -> tuple[tuple[Node, ...], Expression]:
    """Where the kernel says which row it is at, and how many rows there are."""
    heads = [h for s in shares for h in s.heads]
    heads += [v.declaration for v in kernel.locals if not kernel.uses(v)]
    reader = IndexReader(kernel)
    sums = [
        n for n in of_type(kernel.body, "binary_expression")
        if not any(contains(h, n) for h in heads) and reader.read(n) == _ROW_OF_TWO
    ]  # fmt: skip
    two = of_block and len(launch.grid) == 2 and bool(sums)
    allowed = "blockIdx.x" if of_block else "blockIdx.y"
    found: list[Node] = list(sums) if two else []
    for use in of_type(kernel.body, "field_expression"):
        if text_of(field(use, "argument")) not in _BUILT_IN or any(contains(h, use) for h in heads):
            continue
        if any(contains(n, use) for n in found):
            continue
        if two or text_of(use) != allowed:
            raise Unsuitable(f"line {line_of(use)}: {text_of(use)} means more than a row")
        found.append(use)
    if len(launch.grid) != (2 if two or not of_block else 1):
        raise Unsuitable(f"line {launch.place.line}: its grid is no row of rows")
    product = reduce(lambda a, b: Binary("*", a, b), launch.grid)
    return tuple(found), product if of_block else launch.grid[1]


def _rewrite(source: KernelText, rows: _Rows, block: int) -> str:
    taken = source.names()
    name = fresh_name(f"{rows.kernel.name}_flat", taken)
    flat, row, column = (fresh_name(n, taken) for n in ("flat", "flat_row", "flat_column"))
    row_count = fresh_name("flat_rows", taken)
    divisor = Divisor.of(rows.across, "across", taken)
    total = Binary("*", rows.rows, Name(divisor.size.name))
    launch = replace(
        rows.launch,
        kernel=name,
        grid=(Call("ceil_div", (Call("max", (total, Integer(1))), Integer(block))),),
        block=(Integer(block),),
        args=(*rows.launch.args, rows.rows, *divisor.args),
    )
    # Threads of the last block that have no element divide their number as well.
    divided = Binary("+", total, Integer(block))
    conditions = [*divisor.conditions(divided), Compare(total, ((">", Integer(0)),))]
    place = in_place if _is_served_later(source.plan, rows.launch) else with_branch
    plan = place(source.plan, rows.launch, launch, all_of(conditions), divisor.lets)
    lines = [
        f"const unsigned {flat} = blockIdx.x * blockDim.x + threadIdx.x;",
        f"const unsigned {row} = {divisor.quotient(flat)};",
        f"const unsigned {column} = {flat} - {row} * {divisor.size.name};",
    ]
    kernel = rows.kernel
    begin = kernel.body.start_byte + 1
    edits = [
        *with_parameters(kernel, name, (f"unsigned {row_count}", *divisor.parameters)),
        Edit(begin, begin, "".join(f"\n  {line}" for line in lines)),
        *(put(use, row) for use in rows.row_uses),
    ]
    removed: dict[Node, None] = {}
    for share in rows.shares:
        removed |= dict.fromkeys(share.removed)
        # By the row: before a wait for the launches before, the division is done as well.
        edits.append(_as_condition(source, share, column, f"{row} < {row_count}"))
    edits += [remove_statement(source.data, node) for node in removed]
    end = kernel.outer.end_byte
    text = rewritten(source.data, kernel.outer, edits)
    return source.changed([Edit(end, end, f"\n\n{text}")], plan)


def _is_served_later(plan: LaunchPlan, launch: Launch) -> bool:
    """Whether `otherwise` serves what the flat kernel leaves, and the old launch is to go.

    A block that `min` and `max` choose has sides that no case of so many elements can take.
    """
    if isinstance(launch.block[0], Integer):
        return False
    branches = [step.branches for step in plan.steps if isinstance(step, Dispatch)]
    return any(
        found[-1].condition is None
        and isinstance(found[-1].body[-1], Launch)
        and any(item is launch for branch in found[:-1] for item in branch.body)
        for found in branches
    )


def _as_condition(source: KernelText, share: _Share, column: str, asked: str) -> Edit:
    declared = f"const {share.type} {share.column} = {column};"
    indent = indentation(source.data, share.node)
    if share.body.type == "compound_statement":
        head = f"if ({asked}) {{\n{indent}  {declared}"
        return Edit(share.node.start_byte, share.body.start_byte + 1, head)
    raise Unsuitable(f"line {line_of(share.node)}: a loop without braces")
