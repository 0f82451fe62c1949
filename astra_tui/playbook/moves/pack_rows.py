"""Lets several short rows share a block, where each had a block to itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce

from tree_sitter import Node

from astra_tui.cuda_source.effects import fresh_name
from astra_tui.cuda_source.functions import Function
from astra_tui.cuda_source.indices import BLOCK_THREADS, THREAD, IndexReader
from astra_tui.cuda_source.syntax import (
    contains,
    field,
    line_of,
    named,
    of_type,
    text_of,
)
from astra_tui.model.launch import Launch, Let
from astra_tui.model.launch.expression import Binary, Call, Integer, Name
from astra_tui.model.plan import CodePlace, Counter, Plan, Prediction, Risk
from astra_tui.playbook.api import Evidence, MoveKind, NotApplicable, Proposal
from astra_tui.playbook.edits import Edit
from astra_tui.playbook.edits import replace as put
from astra_tui.playbook.grids import grid_uses, head_declarations
from astra_tui.playbook.kernel_text import KernelText
from astra_tui.playbook.launching import plan_value
from astra_tui.playbook.loops import Loop, loops_of


class _Unsuitable(Exception):
    """Why every row keeps a block to itself."""


@dataclass(frozen=True)
class _Packed:
    """A launch with several rows a block, and the name that its plan has for a row's threads."""

    launch: Launch
    across: Let


class PackRows:
    """Launch geometry: threads along x for a row, rows along y, in blocks of the same size."""

    name = "pack_rows"
    summary = "several short rows in a block in place of a block a row"
    kind = MoveKind.GEOMETRY
    needs_gpu = "needs a GPU: counters do not show how many threads hide latency"
    gain = (1.1, 2.3)

    def propose(
        self,
        source: KernelText,
        evidence: Evidence,
    ) -> Proposal | NotApplicable:
        """The first kernel, with those that serve its other cases, whose threads never meet."""
        reasons: list[str] = []
        for kernel in source.kernels:
            together = _with_same_arguments(source, kernel)
            taken = source.names()
            try:
                packed = {
                    id(e): _packed(source, evidence, k, e, taken)
                    for k in together
                    for e in source.launches_of(k)
                }
            except _Unsuitable as reason:
                reasons.append(str(reason))
                continue
            return self._proposal(source, together, packed, taken)
        return NotApplicable(self.name, "; ".join(dict.fromkeys(reasons)) or "no kernel")

    def _proposal(
        self,
        source: KernelText,
        kernels: list[Function],
        packed: dict[int, _Packed],
        taken: set[str],
    ) -> Proposal:
        lines = [e.place.line for k in kernels for e in source.launches_of(k)]
        loops = [loop.node for k in kernels for loop in loops_of(k)]
        plan = Plan(
            title="Pack short rows into a block",
            bottleneck="a block has more threads than its row has work, and a multiprocessor "
            "holds only so many blocks: most of its threads are idle",
            evidence=tuple(f"line {n}: a fixed block for a row of any length" for n in lines),
            change="As many threads along x as the row has work for, and as many rows along y as "
            "the block has room for; rows past the last return at once.",
            prediction=Prediction(1.0, 2.0, Counter.WARP_INSTRUCTIONS, 1.0),
            risk=Risk.MEDIUM,
            places=tuple(CodePlace(line_of(n), line_of(n)) for n in loops),
            move=self.name,
        )

        def pack(launch: Launch) -> Launch:
            found = packed.get(id(launch))
            return launch if found is None else found.launch

        changed = source.plan.with_launches(pack)
        lets = tuple(p.across for p in packed.values())
        changed = replace(changed, declarations=(*changed.declarations, *lets))
        row, rows = fresh_name("row", taken), fresh_name("rows", taken)
        edits = [e for k in kernels for e in along_y(k, row, rows)]
        return Proposal(plan, source.changed(edits, changed))


def _with_same_arguments(source: KernelText, kernel: Function) -> list[Function]:
    """The kernels that the plan launches with the same arguments, for other sizes."""
    mine = {launch.args for launch in source.launches_of(kernel)}
    return [k for k in source.kernels if mine & {e.args for e in source.launches_of(k)}]


def _packed(
    source: KernelText, evidence: Evidence, kernel: Function, launch: Launch, taken: set[str]
) -> _Packed:
    _check_kernel(source, evidence, kernel)
    size = launch.block[0]
    if len(launch.block) != 1 or not isinstance(size, Integer) or size.value < 64:
        raise _Unsuitable(f"line {launch.place.line}: the block is no fixed number of warps")
    bounds = [plan_value(loop.bound, kernel, launch) for loop in _row_loops(kernel)]
    known = [b for b in bounds if b is not None]
    if not bounds or len(known) < len(bounds):
        raise _Unsuitable(f"{kernel.name}: the plan cannot say how long a row is")
    longest = reduce(lambda a, b: Call("max", (a, b)), dict.fromkeys(known))
    across = Let(
        fresh_name("across", taken), Call("min", (size, Call("max", (longest, Integer(1)))))
    )
    along = Name(across.name)
    rows, *others = launch.grid
    together = Binary("//", size, along)
    changed = replace(
        launch,
        grid=(Call("ceil_div", (rows, together)), *others),
        block=(along, together),
        args=(*launch.args, rows),
    )
    return _Packed(changed, across)


def _row_loops(kernel: Function) -> list[Loop]:
    """The loops in which the threads of a block take the elements of a row in turns."""
    reader = IndexReader(kernel)
    return [
        loop for loop in loops_of(kernel)
        if loop.counts_up()
        and (loop.start_form(reader), loop.step_form(reader)) == (THREAD, BLOCK_THREADS)
    ]  # fmt: skip


def _check_kernel(source: KernelText, evidence: Evidence, kernel: Function) -> None:
    """Threads may know each other by nothing but their share of the row. Raises _Unsuitable."""
    call = source.meeting(kernel.body, evidence.included)
    if call is not None:
        raise _Unsuitable(f"line {line_of(call)}: the threads of a block meet")
    shared = next((v for v in kernel.locals if v.is_shared), None)
    if shared is not None:
        raise _Unsuitable(
            f"line {line_of(shared.declaration)}: the threads of a block share memory"
        )
    heads: list[Node] = []
    for loop in _row_loops(kernel):
        parts = (loop.start, loop.step)
        heads += [*head_declarations(loop, kernel), *(p for p in parts if p is not None)]
    for use in of_type(kernel.body, "field_expression"):
        if text_of(field(use, "argument")) not in ("threadIdx", "blockDim"):
            continue
        if text_of(field(use, "field")) != "x":
            raise _Unsuitable(f"line {line_of(use)}: the block has rows already")
        if not any(contains(h, use) for h in heads) and not _asks_for_first(use):
            raise _Unsuitable(f"line {line_of(use)}: a thread's place means more than its share")


def _asks_for_first(use: Node) -> bool:
    """Whether it is `threadIdx.x == 0`, which holds for one thread of each row."""
    parent = use.parent
    return parent is not None and text_of(parent).replace(" ", "") in (
        *("threadIdx.x==0", "0==threadIdx.x", "!threadIdx.x"),
    )


def along_y(kernel: Function, row: str, rows: str) -> list[Edit]:
    """The edits by which rows lie along y of a kernel's blocks; `rows` is a further parameter."""
    names = {"blockIdx": row, "gridDim": rows}
    edits = [put(u, names[text_of(field(u, "argument"))]) for u in grid_uses(kernel, "x")]
    listed = next(of_type(field(kernel.node, "declarator"), "parameter_list"))
    last = named(listed)[-1]
    edits.append(Edit(last.end_byte, last.end_byte, f", unsigned {rows}"))
    begin = kernel.body.start_byte + 1
    lines = [
        f"const unsigned {row} = blockIdx.x * blockDim.y + threadIdx.y;",
        f"if ({row} >= {rows}) return;",
    ]
    return [*edits, Edit(begin, begin, "".join(f"\n  {line}" for line in lines))]
