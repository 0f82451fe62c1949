"""Turns a fixed block size into a constant to sweep."""

from __future__ import annotations

from dataclasses import replace

from tree_sitter import Node

from astra_tui.cuda_source.effects import fresh_name
from astra_tui.cuda_source.functions import Function
from astra_tui.cuda_source.syntax import integer_of, line_of, named, of_type
from astra_tui.model.launch import Dispatch, Launch, LaunchPlan, Let, Tune
from astra_tui.model.launch.expression import Expression, Integer, Name, map_expressions, names_in
from astra_tui.model.launch.plan import Verbatim
from astra_tui.model.plan import CodePlace, Counter, Parameter, Plan, Prediction, Risk
from astra_tui.playbook.api import Evidence, MoveKind, NotApplicable, Proposal, settable
from astra_tui.playbook.kernel_text import KernelText
from astra_tui.playbook.thread_count import BLOCKS, launch_bound


class _Unsuitable(Exception):
    """Why a block size is not free to change."""


class TuneBlock:
    """Launch geometry: block sizes to sweep.

    The constant has twice its value at first, for the timing to say what that is worth.
    """

    name = "tune_block"
    summary = "a block size to sweep in place of a fixed one"
    kind = MoveKind.GEOMETRY
    needs_gpu = "needs a GPU: counters do not show which block size hides latency"
    gain = (1.0, 1.01)

    def propose(self, source: KernelText, evidence: Evidence) -> Proposal | NotApplicable:
        """The first block size of the plan that stands there as a number."""
        reasons: list[str] = []
        for kernel in source.kernels:
            for launch in source.launches_of(kernel):
                try:
                    size = _fixed(launch)
                    largest = _largest(kernel, size)
                    _check_plan(source.plan, size)
                except _Unsuitable as reason:
                    reasons.append(f"{kernel.name}: {reason}")
                    continue
                value = evidence.one(
                    "block",
                    "threads of a block until a sweep finds a better number",
                    _choices(size, largest),
                    min(2 * size, largest),
                )
                return _proposal(source, launch, size, value)
        return NotApplicable(self.name, "; ".join(dict.fromkeys(reasons)) or "no kernel")


def _choices(size: int, largest: int) -> list[int]:
    return sorted({*(s for s in BLOCKS if s <= largest), size})


def _proposal(source: KernelText, launch: Launch, size: int, block: Parameter) -> Proposal:
    name = Name(fresh_name("threads", source.names() | _task_names(source.plan)))
    (value,) = map(int, block.chosen)
    tune = Tune(name.id, value, tuple(map(int, block.choices)))

    def tuned(other: Launch) -> Launch:
        if other.kernel != launch.kernel or not _mentions(other.block, size):
            return other
        return replace(
            other,
            grid=tuple(_with_name(e, size, name) for e in other.grid),
            block=tuple(_with_name(e, size, name) for e in other.block),
        )

    changed = source.plan.with_launches(tuned)
    changed = replace(changed, declarations=(tune, *changed.declarations))
    plan = Plan(
        title="Sweep the block size",
        bottleneck="the block size is a guess; how many threads hide latency best depends on "
        "registers, shared memory and the length of a row",
        evidence=(f"line {launch.place.line}: blocks of {size} threads, whatever the case",),
        change=f"The plan declares '{name.id}' and the sizes {', '.join(map(str, tune.choices))}; "
        f"its value becomes {value}.",
        prediction=Prediction(1.0, 1.1, Counter.WARP_INSTRUCTIONS, 1.0),
        risk=Risk.LOW,
        places=(CodePlace(launch.place.line, launch.place.line),),
        move=TuneBlock.name,
        parameters=settable(block),
    )
    return Proposal(plan, source.changed([], changed))


def _task_names(plan: LaunchPlan) -> set[str]:
    return {n for e in plan.launches() for a in e.expressions() for n in names_in(a)}


def _fixed(launch: Launch) -> int:
    if len(launch.block) != 1:
        raise _Unsuitable(f"line {launch.place.line}: the block has several sizes")
    found = _integers(launch.block[0])
    if len(found) != 1 and not isinstance(launch.block[0], Integer):
        sizes = [v for v in found if v >= 64]
        if len(sizes) != 1:
            raise _Unsuitable(f"line {launch.place.line}: the block follows from the sizes")
        return sizes[0]
    return found[0]


def _integers(expression: Expression) -> list[int]:
    found: list[int] = []

    def note(part: Expression) -> Expression:
        if isinstance(part, Integer):
            found.append(part.value)
        return part

    map_expressions(expression, note)
    return found


def _mentions(expressions: tuple[Expression, ...], size: int) -> bool:
    return any(size in _integers(e) for e in expressions)


def _with_name(expression: Expression, size: int, name: Name) -> Expression:
    def change(part: Expression) -> Expression:
        return name if isinstance(part, Integer) and part.value == size else part

    return map_expressions(expression, change)


def _largest(kernel: Function, size: int) -> int:
    """The largest block that the kernel's launch bounds and shared arrays have room for."""
    bound = launch_bound(kernel)
    if bound is None:
        raise _Unsuitable(f"{kernel.line_text()} has launch bounds that no number says")
    arrays = [v for v in kernel.locals if v.is_shared and v.is_array]
    counts = [_count_of(v.declarator) for v in arrays]
    for node in of_type(kernel.body, "number_literal"):
        if integer_of(node) == size and not any(
            v.declaration.start_byte <= node.start_byte < v.declaration.end_byte for v in arrays
        ):
            raise _Unsuitable(f"line {line_of(node)}: the code counts on {size} threads")
    if any(c is None for c in counts):
        raise _Unsuitable(f"line {line_of(arrays[0].declaration)}: a shared array of unknown size")
    return min([bound, *(c for c in counts if c is not None)])


def _count_of(declarator: Node) -> int | None:
    sizes = [integer_of(c) for c in named(declarator) if c.type == "number_literal"]
    return sizes[0] if sizes else None


def _check_plan(plan: LaunchPlan, size: int) -> None:
    """Nothing else of the plan may have been computed from the size."""
    expressions = [d.value for d in plan.declarations if isinstance(d, Let)]
    for step in plan.steps:
        if isinstance(step, Dispatch):
            expressions += [b.condition for b in step.branches if b.condition is not None]
    for launch in plan.launches():
        expressions += list(launch.expressions())[len(launch.grid) + len(launch.block) :]
        expressions += [e for e in launch.template_args if not isinstance(e, Verbatim)]
    if _mentions(tuple(expressions), size):
        raise _Unsuitable(f"the plan counts on {size} elsewhere")
