"""What a source can be swept over: the `tune` constants of its plan, and those that it could have.

A block size or the bytes of a pack that stand in a plan as a number become `tune` constants of the
plan itself, so that every trial is a source that an engineer can read and keep. What no number says
(a loop that is not unrolled, where a kernel triggers) is a dimension with its own rewrite.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tree_sitter import Node

from astra_tui.cuda_source.effects import fresh_name
from astra_tui.cuda_source.functions import Function
from astra_tui.cuda_source.syntax import contains, integer_of, named, of_type, text_of
from astra_tui.model.errors import UserError
from astra_tui.model.launch import Dispatch, Launch, LaunchPlan, Let, Tune
from astra_tui.model.launch.expression import (
    Binary,
    Call,
    Expression,
    Integer,
    Name,
    map_expressions,
    names_in,
)
from astra_tui.playbook.api import Evidence, Move, NotApplicable
from astra_tui.playbook.edits import Edit, insert_before, pragma_of
from astra_tui.playbook.edits import replace as put
from astra_tui.playbook.kernel_text import KernelText
from astra_tui.playbook.launching import launched_kernels, lets_of
from astra_tui.playbook.loops import Loop, loops_of
from astra_tui.playbook.moves import all_moves
from astra_tui.playbook.propose import propose
from astra_tui.playbook.thread_count import BLOCKS, MAX_THREADS, launch_bound, why_count_matters

SWITCHES = (
    *("one_barrier", "first_warp", "overlap_launches", "early_loads", "trigger_early"),
    "cache_hints",
)
"""Moves whose gain depends on shape and device alone: a sweep tries a source with and without.

In the order in which they are made: loads stay above a wait only where it is there before them.
"""

PACK_BYTES = (8, 16, 32)
"""64 took at least 9 % more than the best on each of twelve workloads
(benchmarks/results/gpu_tuning.json)."""
UNROLL = (1, 2, 4)
"""1 leaves a loop as it is."""
RESIDENT = (0, 1024)
"""Threads for which a multiprocessor is to have registers; 0 leaves that to the compiler."""
_LEAST_BLOCK = 64
_BLOCK, _PACK, _RESIDENT = "threads", "pack_bytes", "resident_threads"

Settings = Mapping[str, int]
"""A choice for each dimension."""


@dataclass(frozen=True)
class Dimension:
    """One thing that a sweep varies."""

    name: str
    meaning: str
    choices: tuple[int, ...]
    own: int
    """What the source has."""


@dataclass(frozen=True)
class Space:
    """A source in which every number to sweep is a `tune` constant, and what else can vary."""

    base: KernelText
    evidence: Evidence
    launched: frozenset[str]
    """The kernels that the workloads launch: of the others nothing is varied."""
    switches: tuple[Move, ...] = ()

    @cached_property
    def dimensions(self) -> tuple[Dimension, ...]:
        """What varies, in the order in which it is applied."""
        found = [
            Dimension(move.name, f"1 with {move.summary}", (0, 1), 0) for move in self.switches
        ]
        if _loops(self.base, self.launched):
            meaning = "copies of the body of a loop over the threads' elements"
            found.append(Dimension("unroll", meaning, UNROLL, 1))
        if any(_swept_bounds(self.base, self.base.plan)):
            meaning = "threads for which a multiprocessor has registers at least"
            found.append(Dimension(_RESIDENT, meaning, RESIDENT, 0))
        found += [
            Dimension(tune.name, "a constant of the launch plan", tune.choices, tune.value)
            for tune in self.base.plan.tunes
        ]
        return tuple(found)

    def settings(self) -> tuple[Settings, ...]:
        """Every combination, the source's own first."""
        names = [d.name for d in self.dimensions]
        own = tuple(d.own for d in self.dimensions)
        every = itertools.product(*(d.choices for d in self.dimensions))
        return tuple(
            dict(zip(names, values, strict=True))
            for values in (own, *(v for v in every if v != own))
        )

    def sources(self) -> list[tuple[Settings, str]]:
        """Every combination with its source, but for those that do not go together."""
        found = []
        for settings in self.settings():
            try:
                found.append((settings, self.source(settings)))
            except UserError:
                continue
        return found

    def source(self, settings: Settings) -> str:
        """The source with these settings.

        Raises KeyError for a dimension without a value, and UserError where a move that
        the space has refuses in this combination.
        """
        text = self.base
        for move in self.switches:
            if settings[move.name]:
                text = KernelText.read(_moved(move, text, self.evidence))
        if settings.get("unroll", 1) > 1:
            text = KernelText.read(_unrolled(text, self.launched, settings["unroll"]))
        declarations = tuple(
            replace(d, value=settings[d.name]) if isinstance(d, Tune) else d
            for d in text.plan.declarations
        )
        plan = replace(text.plan, declarations=declarations)
        return text.changed(list(_bounds(text, plan, settings.get(_RESIDENT, 0))), plan)


def space_of(source: str, evidence: Evidence) -> Space:
    """The space of a source; its own constants, and those that its numbers can become.

    Raises PlanError for a source whose plan cannot be read.
    """
    text = KernelText.read(source)
    launched = launched_kernels(evidence.task, text.plan)
    text = _with_blocks(_with_packs(text), launched)
    moves = {m.name: m for m in all_moves()}
    switches = [m for m in map(moves.get, SWITCHES) if m and _switches(m, text, evidence, launched)]
    return Space(text, evidence, launched, tuple(switches))


def unbounded(settings: Sequence[Settings]) -> dict[int, int]:
    """By the place of each of some settings whose launch bounds ask for blocks that of the same
    settings without.
    """
    rest = [frozenset((n, v) for n, v in s.items() if n != _RESIDENT) for s in settings]
    asks = [bool(s.get(_RESIDENT)) for s in settings]
    places = {of: place for place, of in enumerate(rest) if not asks[place]}
    return {n: places[of] for n, of in enumerate(rest) if asks[n] and of in places}


def varied_moves(source: str, evidence: Evidence) -> tuple[str, ...]:
    """The moves that a sweep of a source has among its choices, and need no round of their own."""
    names = [d.name for d in space_of(source, evidence).dimensions]
    blocks = any(name.startswith(_BLOCK) for name in names)
    return (*(name for name in names if name in SWITCHES), *(("tune_block",) if blocks else ()))


def _switches(move: Move, text: KernelText, evidence: Evidence, launched: frozenset[str]) -> bool:
    """Whether a move changes a kernel that a workload launches, or a launch."""
    answer = propose(move, text, evidence)
    if isinstance(answer, NotApplicable):
        return False
    after = KernelText.read(answer.source)
    before = {k.name: text_of(k.outer) for k in text.kernels if k.name in launched}
    changed = any(text_of(k.outer) != before.get(k.name, text_of(k.outer)) for k in after.kernels)
    return changed or after.plan != text.plan


def _moved(move: Move, text: KernelText, evidence: Evidence) -> str:
    answer = propose(move, text, evidence)
    if isinstance(answer, NotApplicable):
        raise UserError(f"{move.name} does not go with the other settings: {answer.reason}")
    return answer.source


# -- numbers that become constants -----------------------------------------------------------------


def _with_packs(text: KernelText) -> KernelText:
    """With `tune` constants for the bytes of packs: the number in `let width = 16 // sizeof(T)`."""
    plan = text.plan
    for let in (d for d in plan.declarations if isinstance(d, Let)):
        match let.value:
            case Binary("//", Integer(value=size), of) if size in PACK_BYTES and _is_size(of):
                name = Name(_fresh(text, plan, _PACK))
                changed = replace(let, value=replace(let.value, left=name))
                declared = tuple(changed if d is let else d for d in plan.declarations)
                tune = Tune(name.id, size, PACK_BYTES)
                plan = replace(plan, declarations=(tune, *declared))
    return _with_plan(text, plan)


def _is_size(expression: Expression) -> bool:
    """Whether it is the size of a type, or of the widest of several."""
    match expression:
        case Call("sizeof"):
            return True
        case Call("max", parts):
            return any(map(_is_size, parts))
    return False


def _with_blocks(text: KernelText, launched: frozenset[str]) -> KernelText:
    """With a `tune` constant for the block size that launches of workloads have as a number."""
    for number in range(len(text.kernels)):
        kernel = text.kernels[number]
        if kernel.name in launched:
            text = _with_plan(text, _swept_block(text, kernel))
    return text


def _with_plan(text: KernelText, plan: LaunchPlan) -> KernelText:
    return text if plan == text.plan else KernelText.read(text.changed([], plan))


def _swept_block(text: KernelText, kernel: Function) -> LaunchPlan:
    """The plan with a constant in place of the number that a kernel's blocks come from."""
    plan = text.plan
    launch = next(text.launches_of(kernel))
    lets = lets_of(launch.block, plan)
    size = _only_size([*launch.block, *lets.values()])
    sized = {name for name, value in lets.items() if size in _integers(value)}
    together = {  # Kernels whose blocks come from the same number change with it.
        other.kernel
        for other in plan.launches()
        if other.kernel == kernel.name or sized & lets_of(other.block, plan).keys()
    }
    kernels = [k for k in text.kernels if k.name in together]
    choices = _block_choices(kernels, size)
    name = Name(_fresh(text, plan, _BLOCK))
    conditions = {e: _with_rounded_up(e, size, name) for e in _conditions(plan)}
    if len(choices) < 2 or any(size in _integers(e) for e in conditions.values()):
        return plan

    def named(expression: Expression) -> Expression:
        def change(part: Expression) -> Expression:
            return name if isinstance(part, Integer) and part.value == size else part

        return map_expressions(expression, change)

    def changed(other: Launch) -> Launch:
        if other.kernel not in together:
            return other
        grid, block = (tuple(map(named, sizes)) for sizes in (other.grid, other.block))
        return replace(other, grid=grid, block=block)

    declared = tuple(
        replace(d, value=named(d.value)) if isinstance(d, Let) and d.name in lets else d
        for d in plan.declarations
    )
    tune = Tune(name.id, size, choices)
    plan = replace(plan, declarations=(tune, *declared)).with_launches(changed)
    return plan.with_conditions(lambda condition: conditions[condition])


def _with_rounded_up(condition: Expression, size: int, name: Name) -> Expression:
    """A condition in which a name stands for a block that a sum has on top: threads that a whole
    number of blocks has more than there are elements, which only the block decides.
    """

    def change(part: Expression) -> Expression:
        match part:
            case Binary("+", _, Integer(value=value)) if value == size:
                return replace(part, right=name)
        return part

    return map_expressions(condition, change)


def _only_size(expressions: list[Expression]) -> int:
    """The one number of threads in some expressions; 0 where there is none, or several."""
    found = {n for e in expressions for n in _integers(e) if _LEAST_BLOCK <= n <= MAX_THREADS}
    return found.pop() if len(found) == 1 else 0


def _conditions(plan: LaunchPlan) -> Iterator[Expression]:
    for step in plan.steps:
        if isinstance(step, Dispatch):
            yield from (b.condition for b in step.branches if b.condition is not None)


def _block_choices(kernels: list[Function], size: int) -> tuple[int, ...]:
    """Blocks that kernels can have: fewer threads where their code does not name the number, more
    where their shared arrays and launch bounds have room.
    """
    if not size or any(integer_of(n) == size for kernel in kernels for n in _numbers(kernel)):
        return ()
    grows = not any(why_count_matters(kernel, size) for kernel in kernels)
    bounds = (launch_bound(kernel) for kernel in kernels)
    most = min([MAX_THREADS if grows else size, *(size if b is None else b for b in bounds)])
    return tuple(sorted({*(b for b in BLOCKS if b <= most), size}))


def _numbers(kernel: Function) -> Iterator[Node]:
    """The numbers of a kernel's code, but for the lengths of its shared arrays."""
    arrays = [v.declaration for v in kernel.locals if v.is_shared and v.is_array]
    return (
        n for n in of_type(kernel.body, "number_literal")
        if not any(contains(a, n) for a in arrays)
    )  # fmt: skip


def _integers(expression: Expression) -> set[int]:
    found: set[int] = set()

    def note(part: Expression) -> Expression:
        if isinstance(part, Integer):
            found.add(part.value)
        return part

    map_expressions(expression, note)
    return found


def _bounds(text: KernelText, plan: LaunchPlan, resident: int) -> Iterator[Edit]:
    """Launch bounds that follow a swept block: those of a larger one would keep registers from
    threads that take more of a row each. They ask for as many blocks as have `resident` threads.
    """
    for bound, number, block in _swept_bounds(text, plan):
        blocks = resident // block
        if block < number or blocks > 1:
            yield put(bound, f"{block}, {blocks}" if blocks > 1 else str(block))


def _swept_bounds(text: KernelText, plan: LaunchPlan) -> Iterator[tuple[Node, int, int]]:
    """The numbers of threads in launch bounds of kernels whose blocks come from one swept constant
    of no more threads, each with its value and that of the constant.
    """
    swept = {
        d.name: d.value for d in plan.declarations
        if isinstance(d, Tune) and d.name.startswith(_BLOCK)
    }  # fmt: skip
    for kernel in text.kernels:
        bound = next(of_type(kernel.node, "launch_bounds"), None)
        given = named(bound) if bound else []
        number = integer_of(given[0]) if len(given) == 1 else None
        sizes = [e for launch in text.launches_of(kernel) for e in launch.block]
        sizes += [e for size in sizes for e in lets_of((size,), plan).values()]
        found = {swept[n] for e in sizes for n in names_in(e) if n in swept}
        if number and len(found) == 1 and min(found) <= number:
            yield given[0], number, found.pop()


def _fresh(text: KernelText, plan: LaunchPlan, name: str) -> str:
    expressions = (e for launch in plan.launches() for e in launch.expressions())
    taken = {n for e in expressions for n in names_in(e)} | {d.name for d in plan.declarations}
    return fresh_name(name, text.names() | taken)


# -- loops that are unrolled -----------------------------------------------------------------------


def _loops(text: KernelText, launched: frozenset[str]) -> list[Loop]:
    """Loops in which threads take elements in turns, and which nothing unrolls yet."""
    return [
        loop for kernel in text.kernels if kernel.name in launched for loop in loops_of(kernel)
        if loop.step is not None and pragma_of(loop.node) is None
        and any(word in text_of(loop.step) for word in ("blockDim", "gridDim"))
    ]  # fmt: skip


def _unrolled(text: KernelText, launched: frozenset[str], times: int) -> str:
    line = f"#pragma unroll {times}"
    loops = _loops(text, launched)
    return text.changed([insert_before(text.data, loop.node, [line]) for loop in loops])
