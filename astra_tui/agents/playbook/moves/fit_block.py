"""Launches no more threads than a row has work for."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

from astra_tui.agents.playbook.api import Evidence, NotApplicable, Proposal
from astra_tui.agents.playbook.counted import predicted
from astra_tui.agents.playbook.kernel_text import KernelText
from astra_tui.agents.playbook.launching import map_launches, plan_value
from astra_tui.agents.playbook.linear import BLOCK_THREADS, THREAD, IndexReader
from astra_tui.agents.playbook.loops import Loop, halves, loops_of
from astra_tui.agents.playbook.names import Function
from astra_tui.agents.playbook.syntax import line_of
from astra_tui.model.launch import Launch, print_expression
from astra_tui.model.launch.expression import Binary, Call, Expression, Integer
from astra_tui.model.plan import CodePlace, Counter, Plan, Risk


class _Unsuitable(Exception):
    """Why a launch keeps its block."""


class FitBlock:
    """Launch geometry: the block shrinks to the warps that a short row can use."""

    name = "fit_block"
    summary = "blocks no larger than the row that they work on"

    def propose(
        self,
        source: KernelText,
        evidence: Evidence,  # noqa: ARG002
    ) -> Proposal | NotApplicable:
        """Every launch of a fixed block whose kernel hands out one row to its threads."""
        reasons: list[str] = []
        blocks: dict[int, Expression] = {}
        lines: list[int] = []
        for kernel in source.kernels:
            for launch in source.launches_of(kernel):
                try:
                    blocks[id(launch)] = _fitted(kernel, launch)
                    lines.append(launch.place.line)
                except _Unsuitable as reason:
                    reasons.append(f"{kernel.name}: {reason}")
        if not blocks:
            return NotApplicable(self.name, "; ".join(dict.fromkeys(reasons)) or "no kernel")

        def fit(launch: Launch) -> Launch:
            block = blocks.get(id(launch))
            return launch if block is None else replace(launch, block=(block,))

        sizes = ", ".join(dict.fromkeys(print_expression(b) for b in blocks.values()))
        plan = Plan(
            title="Fit the block to the row",
            bottleneck="where a row has less work than the block has threads, whole warps start, "
            "find nothing to do and end",
            evidence=tuple(
                f"line {n}: a block of fixed size for rows of any length" for n in lines
            ),
            change=f"The launch plan asks for {sizes} threads: the warps that a row can use, and "
            "never more than before.",
            prediction=predicted(Counter.WARP_INSTRUCTIONS, None, 0.7, (1.0, 1.3), 0.3),
            risk=Risk.LOW,
            places=tuple(CodePlace(n, n) for n in lines),
            move=self.name,
        )
        return Proposal(plan, source.changed([], map_launches(source.plan, fit)))


def _fitted(kernel: Function, launch: Launch) -> Expression:
    size = launch.block[0]
    if len(launch.block) != 1 or not isinstance(size, Integer) or size.value % 32:
        raise _Unsuitable(f"line {launch.place.line}: the block is no fixed number of warps")
    if size.value == 32:
        raise _Unsuitable(f"line {launch.place.line}: the block is a single warp")
    bounds = []
    for loop in loops_of(kernel):
        if halves(loop):
            raise _Unsuitable(
                f"line {line_of(loop.node)}: the tree needs a power of two of threads"
            )
        if _walks_row(loop, kernel):
            bounds.append(_bound(loop, kernel, launch))
    if not bounds:
        raise _Unsuitable("no loop hands out a row to the threads of a block")
    longest = reduce(lambda a, b: Call("max", (a, b)), dict.fromkeys(bounds))
    warps = Binary("*", Call("ceil_div", (longest, Integer(32))), Integer(32))
    return Call("min", (size, Call("max", (warps, Integer(32)))))


def _walks_row(loop: Loop, kernel: Function) -> bool:
    reader = IndexReader(kernel)
    forms = (loop.start_form(reader), loop.step_form(reader))
    return loop.counts_up() and forms == (THREAD, BLOCK_THREADS)


def _bound(loop: Loop, kernel: Function, launch: Launch) -> Expression:
    bound = plan_value(loop.bound, kernel, launch)
    if bound is None:
        raise _Unsuitable(f"line {line_of(loop.node)}: the plan cannot say how long a row is")
    return bound
