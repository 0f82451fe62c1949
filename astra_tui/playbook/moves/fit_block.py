"""Launches no more threads than a row has work for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce

from msgspec.structs import replace as replace_plan

from astra_tui.cuda_source.effects import fresh_name
from astra_tui.cuda_source.functions import Function
from astra_tui.cuda_source.indices import BLOCK_THREADS, THREAD, IndexReader
from astra_tui.cuda_source.syntax import bare, field, integer_of, line_of, text_of
from astra_tui.model.launch import Launch, Let, print_expression
from astra_tui.model.launch.expression import (
    Binary,
    Call,
    Compare,
    Conditional,
    Expression,
    Integer,
    Name,
)
from astra_tui.model.plan import CodePlace, Counter, Plan, Risk
from astra_tui.model.task import KernelTask
from astra_tui.playbook.api import Evidence, MoveKind, NotApplicable, Proposal, settable
from astra_tui.playbook.edits import Edit
from astra_tui.playbook.evidence import predicted
from astra_tui.playbook.kernel_text import KernelText
from astra_tui.playbook.launching import (
    all_of,
    multiple_of_warp,
    plan_value,
    values_on_workloads,
    whole_warps,
)
from astra_tui.playbook.loops import Loop, halves, loops_of
from astra_tui.playbook.thread_count import MAX_THREADS, why_count_matters

_WARP = 32


class _Unsuitable(Exception):
    """Why a launch keeps its block."""


@dataclass(frozen=True)
class _Fitted:
    """A launch with its new block, and what its plan declares for that."""

    launch: Launch
    declared: tuple[Let, ...]


class FitBlock:
    """Launch geometry: the block follows from the length of the row that it works on.

    Where counters decide it only shrinks. Where times decide it grows as well: to one iteration a
    thread, or to iterations of equal length, so that all loads of a row are on the way at once.
    """

    name = "fit_block"
    summary = "blocks as large as the row that they work on has use for"
    kind = MoveKind.GEOMETRY
    needs_gpu = ""
    gain = (0.95, 1.35)

    def propose(self, source: KernelText, evidence: Evidence) -> Proposal | NotApplicable:
        """Every launch of a fixed block whose kernel hands out one row to its threads."""
        reasons: list[str] = []
        found: list[tuple[Function, Launch, _Fitted]] = []
        taken = source.names()
        for kernel in source.kernels:
            for launch in source.launches_of(kernel):
                try:
                    new = (
                        _grown(source, kernel, launch, evidence.task, taken)
                        if evidence.timed
                        else _shrunk(kernel, launch)
                    )
                    found.append((kernel, launch, new))
                except _Unsuitable as reason:
                    reasons.append(f"{kernel.name}: {reason}")
        if not found:
            return NotApplicable(self.name, "; ".join(dict.fromkeys(reasons)) or "no kernel")
        kernels = evidence.kernels(launch.kernel for _, launch, _ in found)
        found = [each for each in found if each[1].kernel in kernels.chosen]
        fitted = {id(launch): new for _, launch, new in found}
        edits = [bounded(kernel) for kernel, _, _ in found] if evidence.timed else []
        lines = tuple(launch.place.line for _, launch, _ in found)

        def fit(launch: Launch) -> Launch:
            found = fitted.get(id(launch))
            return launch if found is None else found.launch

        plan = source.plan.with_launches(fit)
        lets = tuple(let for f in fitted.values() for let in f.declared)
        plan = replace(plan, declarations=(*plan.declarations, *lets))
        sizes = [f.launch.block[0] for f in fitted.values()]
        described = replace_plan(_describe(evidence, sizes, lines), parameters=settable(kernels))
        return Proposal(described, source.changed(dict.fromkeys(edits), plan))


def _describe(evidence: Evidence, sizes: list[Expression], lines: tuple[int, ...]) -> Plan:
    shown = ", ".join(dict.fromkeys(print_expression(s) for s in sizes))
    bottleneck = (
        "where a row has less work than the block has threads, whole warps start, find nothing to "
        "do and end"
    )
    asks = f"asks for {shown} threads"
    change = "the warps that a row can use, and never more than before."
    if evidence.timed:
        bottleneck = (
            "a block of fixed size takes a long row in many iterations, one load after the other, "
            "and leaves warps without work on a short one"
        )
        asks = f"computes {shown}"
        change = (
            "one iteration of the row a thread, equal iterations where the row is longer, and two "
            "iterations where all rows can run at once with half the threads."
        )
    return Plan(
        title="Fit the block to the row",
        bottleneck=bottleneck,
        evidence=tuple(f"line {n}: a block of fixed size for rows of any length" for n in lines),
        change=f"The launch plan {asks}: {change}",
        prediction=predicted(Counter.WARP_INSTRUCTIONS, None, 0.7, (1.0, 1.3), 0.3),
        risk=Risk.LOW,
        places=tuple(CodePlace(n, n) for n in lines),
        move=FitBlock.name,
    )


def _shrunk(kernel: Function, launch: Launch) -> _Fitted:
    size = _fixed_size(launch)
    halving = next((loop for loop in loops_of(kernel) if halves(loop)), None)
    if halving is not None:
        raise _Unsuitable(f"line {line_of(halving.node)}: a reduction over the whole block")
    if size.value == 32:
        raise _Unsuitable(f"line {launch.place.line}: the block is a single warp")
    warps = whole_warps(_longest(kernel, launch))
    return _Fitted(replace(launch, block=(Call("min", (size, warps)),)), ())


def _grown(
    source: KernelText, kernel: Function, launch: Launch, task: KernelTask, taken: set[str]
) -> _Fitted:
    """A thread for each element of a row, or for equal shares of a row that is too long for that.

    Half as many where all rows of the launch can run at once with them, and only with them: a row
    that waits for another's place costs more than a second iteration.
    """
    longest = _longest(kernel, launch)
    idle = _leaves_warps_idle(source, launch, longest, task)
    reason = why_count_matters(kernel, MAX_THREADS if idle else _fixed_size(launch).value)
    if reason:
        raise _Unsuitable(reason)
    if is_bounded(kernel):
        raise _Unsuitable(f"line {line_of(kernel.node)}: its bounds on blocks were chosen already")
    most, rows = Integer(MAX_THREADS), reduce(lambda a, b: Binary("*", a, b), launch.grid)
    turns = Call("ceil_div", (Call("max", (longest, Integer(1))), most))
    equal = _let("equal", whole_warps(Call("ceil_div", (longest, turns))), taken)
    half = _let("half", whole_warps(Call("ceil_div", (longest, Integer(2)))), taken)
    room = Binary("*", Name("sm_count"), Name("max_threads_per_sm"))
    conditions: list[Expression] = [
        Compare(longest, (("<=", most),)),
        Compare(Binary("*", rows, Name(equal.name)), ((">", room),)),
        Compare(Binary("*", rows, Name(half.name)), (("<=", room),)),
    ]
    chosen = Conditional(all_of(conditions), Name(half.name), Name(equal.name))
    threads = _let("threads", chosen, taken)
    return _Fitted(replace(launch, block=(Name(threads.name),)), (equal, half, threads))


def _leaves_warps_idle(
    source: KernelText, launch: Launch, longest: Expression, task: KernelTask
) -> bool:
    """Whether a block that follows from the sizes has warps on a workload for which its row has no
    element, as where it counts elements of which a thread takes several.
    """
    size = launch.block[0]
    if len(launch.block) != 1 or isinstance(size, Integer):
        return False
    have, need = (values_on_workloads(value, source, task) for value in (size, longest))
    of_warps = multiple_of_warp(size, source.plan) and len(have) == len(need)
    return of_warps and any(h - n >= _WARP for h, n in zip(have, need, strict=True))


def _let(wanted: str, value: Expression, taken: set[str]) -> Let:
    return Let(fresh_name(wanted, taken), value)


def bounded(kernel: Function) -> Edit:
    """Tells the compiler how large blocks may be, so that registers do not keep one from running.

    Without it a thread may have so many registers that a block of 1024 cannot be launched.
    """
    start = field(kernel.node, "declarator").start_byte
    return Edit(start, start, f"__launch_bounds__({MAX_THREADS}) ")


def is_bounded(kernel: Function) -> bool:
    """Whether a kernel says how large its blocks may be."""
    head = text_of(kernel.node)[: kernel.body.start_byte - kernel.node.start_byte]
    return "__launch_bounds__" in head


def _fixed_size(launch: Launch) -> Integer:
    size = launch.block[0]
    if len(launch.block) != 1 or not isinstance(size, Integer) or size.value % 32:
        raise _Unsuitable(f"line {launch.place.line}: the block is no fixed number of warps")
    return size


def _longest(kernel: Function, launch: Launch) -> Expression:
    """How many elements the longest of the rows has that the threads of a block share out."""
    bounds = []
    for loop in loops_of(kernel):
        if halves(loop) and not _within_warp(loop):
            raise _Unsuitable(
                f"line {line_of(loop.node)}: the tree needs a power of two of threads"
            )
        if _walks_row(loop, kernel):
            bounds.append(_bound(loop, kernel, launch))
    if not bounds:
        raise _Unsuitable("no loop hands out a row to the threads of a block")
    return reduce(lambda a, b: Call("max", (a, b)), dict.fromkeys(bounds))


def _within_warp(loop: Loop) -> bool:
    """Whether a halving loop begins at a number, as one over the lanes of a warp does."""
    return integer_of(bare(loop.start)) is not None


def _walks_row(loop: Loop, kernel: Function) -> bool:
    reader = IndexReader(kernel)
    forms = (loop.start_form(reader), loop.step_form(reader))
    return loop.counts_up() and forms == (THREAD, BLOCK_THREADS)


def _bound(loop: Loop, kernel: Function, launch: Launch) -> Expression:
    bound = plan_value(loop.bound, kernel, launch)
    if bound is None:
        raise _Unsuitable(f"line {line_of(loop.node)}: the plan cannot say how long a row is")
    return bound
