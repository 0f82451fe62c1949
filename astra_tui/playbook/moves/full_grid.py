"""Launches as many blocks as there is work, where a capped grid walks over it in turns."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

from astra_tui.cuda_source.functions import Function
from astra_tui.cuda_source.syntax import line_of
from astra_tui.model.launch import Launch, print_expression
from astra_tui.model.launch.expression import Binary, Call, Expression, Integer, Name
from astra_tui.model.launch.scope import DEVICE_ATTRIBUTES
from astra_tui.model.plan import CodePlace, Counter, Plan, Prediction, Risk
from astra_tui.playbook.api import Evidence, MoveKind, NotApplicable, Proposal, settable
from astra_tui.playbook.grids import flat_loops, other_grid_use
from astra_tui.playbook.kernel_text import KernelText
from astra_tui.playbook.launching import plan_value


class _Unsuitable(Exception):
    """Why a launch keeps its grid."""


class FullGrid:
    """Launch geometry: a thread for each element, so that more loads are on the way at once."""

    name = "full_grid"
    summary = "as many blocks as there is work in place of a capped grid"
    kind = MoveKind.GEOMETRY
    needs_gpu = "needs a GPU: counters do not show occupancy"
    gain = (1.0, 2.3)

    def propose(
        self,
        source: KernelText,
        evidence: Evidence,
    ) -> Proposal | NotApplicable:
        """Every launch with a cap whose kernel walks over its elements in strides of the grid."""
        reasons: list[str] = []
        found: list[tuple[Launch, Expression]] = []
        for kernel in source.kernels:
            for launch in source.launches_of(kernel):
                try:
                    found.append((launch, _full(kernel, launch)))
                except _Unsuitable as reason:
                    reasons.append(f"{kernel.name}: {reason}")
        if not found:
            return NotApplicable(self.name, "; ".join(dict.fromkeys(reasons)) or "no kernel")
        kernels = evidence.kernels(launch.kernel for launch, _ in found)
        found = [(e, blocks) for e, blocks in found if e.kernel in kernels.chosen]
        blocks = {id(launch): grid for launch, grid in found}
        lines = [launch.place.line for launch, _ in found]

        def filled(launch: Launch) -> Launch:
            grid = blocks.get(id(launch))
            return launch if grid is None else replace(launch, grid=(grid,))

        sizes = ", ".join(dict.fromkeys(print_expression(b) for b in blocks.values()))
        plan = Plan(
            title="Fill the grid",
            bottleneck="the grid does not grow with the work: each thread waits for the loads of "
            "one iteration before it asks for those of the next",
            evidence=tuple(f"line {n}: a grid that does not follow from the sizes" for n in lines),
            change=f"The launch plan asks for {sizes} blocks, a thread for each iteration.",
            prediction=Prediction(1.0, 2.0, Counter.WARP_INSTRUCTIONS, 1.0),
            risk=Risk.LOW,
            places=tuple(CodePlace(n, n) for n in lines),
            move=self.name,
            parameters=settable(kernels),
        )
        return Proposal(plan, source.changed([], source.plan.with_launches(filled)))


def _full(kernel: Function, launch: Launch) -> Expression:
    """The blocks that give each iteration of a kernel's loops a thread of its own."""
    if len(launch.grid) != 1 or len(launch.block) != 1:
        raise _Unsuitable(f"line {launch.place.line}: the launch is not one row of blocks")
    if not _is_capped(launch.grid[0]):
        raise _Unsuitable(f"line {launch.place.line}: the grid grows with the sizes already")
    loops = flat_loops(kernel)
    if not loops:
        raise _Unsuitable("no loop over all elements of the grid")
    other = other_grid_use(kernel, loops)
    if other is not None:
        raise _Unsuitable(f"line {line_of(other)}: the grid means something outside of the loops")
    bounds = [plan_value(loop.bound, kernel, launch) for loop in loops]
    known = [b for b in bounds if b is not None]
    if len(known) != len(bounds):
        raise _Unsuitable(f"line {line_of(loops[0].node)}: the plan cannot say how much there is")
    most = reduce(lambda a, b: Call("max", (a, b)), dict.fromkeys(known))
    return Call("ceil_div", (most, launch.block[0]))


def _is_capped(grid: Expression) -> bool:
    """Whether a grid has the same size for all large sizes."""
    match grid:
        case Integer():
            return True
        case Name(id=name):
            return name in DEVICE_ATTRIBUTES
        case Call(function="min", args=args):
            return any(_is_capped(a) for a in args)
        case Binary(left=left, right=right):
            return _is_capped(left) and _is_capped(right)
    return False
