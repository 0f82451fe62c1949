"""What of a plan no case takes: sizes that lead there, or a proof that there are none.

These are launches, operands of `or`, sides of `if else`, and values of template arguments.

A solver is asked, within the contract: at sizes for which everything runs first, then at such as
are checked like workloads. All limits are counts of the solver's own steps, so that the answer is
the same on any machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from astra_tui.lab.check.execution import Source
from astra_tui.lab.check.suite import LARGE_ELEMENTS
from astra_tui.model.check import PLAN_AT, Case, ConditionResult, ConditionStatus
from astra_tui.model.digest import content_hash
from astra_tui.model.dtypes import DType
from astra_tui.model.errors import Place
from astra_tui.model.launch import Dispatch, Launch, print_expression
from astra_tui.model.launch.expression import (
    Binary,
    Compare,
    Conditional,
    Expression,
    Unary,
    names_in,
    parts_of,
)
from astra_tui.model.launch.plan import Let, Verbatim, Workspace
from astra_tui.model.launch.resolve import value_place
from astra_tui.model.task import KernelTask

if TYPE_CHECKING:
    from astra_tui.lab.conditions.contract import Launches

MAX_ELEMENTS = 1 << 28
"""Elements of the largest tensor at sizes that are checked like workloads."""

_SIZES = (1 << 10, 1 << 13, 1 << 17, 1 << 20)
"""Bounds of a size, of which the solver is asked one after the other."""

_STEPS = 2_000_000
"""Steps of the solver for one question."""

_FEW = 8
_WHY = "made for a part of the launch plan that no other case takes"


Point = dict[str, dict[str, int]]
"""Sizes, scalars and layouts that a solver found."""


@dataclass(frozen=True)
class PlanPart:
    """A launch, or a side that a condition of the plan has; what leads there."""

    place: Place
    text: str
    side: bool = True
    """What the condition `text` is where the part is taken."""
    choice: tuple[int, int, bool] | None = None
    """As in `Evaluator.choices`; None for a launch."""
    launch: Launch | None = None
    """What is launched there."""
    guards: tuple[tuple[Expression, bool], ...] = ()
    """Conditions, with what they are there, each evaluated where those before are so."""
    is_quoted: bool = False
    """Whether it is C++ in quotes that reads sizes: what it decides is not looked into."""


@dataclass(frozen=True)
class Untaken:
    """A part of the plan that no case of an element type takes, and what is known of the way."""

    part: PlanPart
    dtype: DType
    case: Case | None = None
    """Sizes that lead to it."""
    elements: int = 0
    """Those of the largest tensor there."""
    is_impossible: bool = False
    """Whether it is proved that nothing within the contract leads there."""

    @property
    def is_small(self) -> bool:
        """Whether a case is small enough for everything to run."""
        return self.case is not None and self.elements <= LARGE_ELEMENTS

    @property
    def is_beyond(self) -> bool:
        """Whether a case is too large to be checked like a workload: it is looked at in part."""
        return self.elements > MAX_ELEMENTS

    @property
    def result(self) -> ConditionResult:
        """The part as a side of a condition."""
        if self.part.is_quoted:
            why = "C++ in quotes reads sizes, and nothing looks into it: write it as an expression"
        elif self.is_impossible:
            why = "no sizes, scalars or layouts of the contract lead there (z3)"
        elif self.case is not None:
            sizes = ", ".join(f"{name}={size}" for name, size in self.case.dims.items())
            why = f"{sizes} leads there, which could not be checked"
        else:
            why = (
                f"of {self.dtype.value}, neither sizes that lead there were found nor a proof that "
                "there are none"
            )
        return ConditionResult(
            kernel="the launch plan",
            line=self.part.place.line,
            column=self.part.place.column,
            text=self.part.text,
            side=self.part.side,
            key=content_hash(self.part.text)[:10],
            status=ConditionStatus.UNREACHABLE if self.is_impossible else ConditionStatus.OPEN,
            why=why,
        )


def untaken_parts(
    task: KernelTask,
    source: Source,
    parts: Iterable[PlanPart],
    dtype: DType,
    attributes: Mapping[str, int],
    takes: Callable[[Case, PlanPart], bool],
) -> Iterator[Untaken]:
    """What is known of each of some parts that no case of an element type takes.

    `takes` says whether a case takes a part: what a solver finds is tried.
    """
    # The solver is loaded only where something is left.
    from astra_tui.lab.conditions.contract import NotModelled, way_to

    for part in parts:
        if part.is_quoted:
            yield Untaken(part, dtype)
            continue
        try:
            way = way_to(task, source, dtype, part.launch, part.guards)
        except NotModelled:
            yield Untaken(part, dtype)
        else:
            yield _search(task, part, way, attributes, takes)


def _search(
    task: KernelTask,
    part: PlanPart,
    way: Launches,
    attributes: Mapping[str, int],
    takes: Callable[[Case, PlanPart], bool],
) -> Untaken:
    from astra_tui.lab.conditions.contract import case_at
    from astra_tui.lab.conditions.query import solver_of

    def point_of(facts: Iterable[Any]) -> Point | None:
        return way.solution(solver_of(_STEPS, [*way.facts, *facts]))

    if solver_of(_STEPS, way.facts).check().r < 0:
        return Untaken(part, way.dtype, is_impossible=True)
    plain = way.plain(task, attributes)
    for free, facts in _sizes_in_turn(task, way):
        point = point_of([*plain, *facts])
        if point is None:
            continue
        point = _shrunk(point, way, free, lambda more: point_of([*plain, *more]))
        sizes = ", ".join(f"{name}={size}" for name, size in point["dims"].items())
        name = f"{PLAN_AT}{part.place.line}: {sizes}"
        case = msgspec.structs.replace(case_at(task, point, way.dtype, name), why=_WHY)
        if not case.outside_contract and takes(case, part):
            return Untaken(part, way.dtype, case, task.elements(case.dims, case.dtype))
    return Untaken(part, way.dtype)


def _sizes_in_turn(task: KernelTask, way: Launches) -> Iterator[tuple[str, list[Any]]]:
    """What sizes are to keep to, the smallest and easiest first, with the one that is free."""
    names = _rows_first(task)
    typical = {name: dimension.typical for name, dimension in task.dims.items()}
    of_workloads = [w.dims for w in task.workloads]
    of_workloads.sort(key=lambda dims: -dims.get(task.rows, 0))
    held = [(name, way.at_sizes(typical, name)) for name in names]
    few = [(name, [t <= _FEW for n, t in way.dims.items() if n != name]) for name in names]
    contiguous = way.contiguous()
    for layout in (contiguous, []):
        for name, fixed in (*held, *few):
            yield name, [*way.with_elements(LARGE_ELEMENTS), *layout, *fixed]
    by_workload = [(name, way.at_sizes(dims, name)) for name in names for dims in of_workloads]
    for name, fixed in (*by_workload, *few):
        yield name, [*contiguous, *fixed]
    for most in _SIZES:
        yield names[0], [*way.with_sizes(most), *contiguous]
    yield names[0], []


def _rows_first(task: KernelTask) -> list[str]:
    """The sizes, rows first: of many rows a part can be looked at."""
    return sorted(task.dims, key=lambda name: name != task.rows)


def _shrunk(
    point: Point, way: Launches, first: str, ask: Callable[[list[Any]], Point | None]
) -> Point:
    """Smaller sizes, one after the other halved for as long as they lead there."""
    for name in sorted(way.dims, key=lambda name: name != first):
        term = way.dims[name]
        while True:
            others = way.at_sizes(point["dims"], name)
            smaller = ask([*others, *way.contiguous(), term <= point["dims"][name] // 2])
            if smaller is None or point["dims"][name] == 0:
                break
            point = smaller
    return point


# -- the parts of a plan ---------------------------------------------------------------------------


def parts_of_plan(task: KernelTask, source: Source) -> Iterator[PlanPart]:
    """Every launch, and every side of the plan's conditions that is no launch of its own."""
    vary = {*task.dims, *task.args}
    for declaration in source.plan.declarations:
        if isinstance(declaration, Let):
            yield from _sides(declaration.value)
            if names_in(declaration.value) & vary:
                vary.add(declaration.name)
        elif isinstance(declaration, Workspace):
            for size in declaration.shape:
                yield from _sides(size)
    for step in source.plan.steps:
        if isinstance(step, Launch):
            yield PlanPart(step.place, step.kernel, launch=step)
        elif isinstance(step, Dispatch):
            yield from _parts_of_dispatch(step)
    for launch in source.plan.launches():
        for expression in launch.expressions():
            yield from _sides(expression, launch)
        for argument in launch.template_args:
            if not isinstance(argument, Verbatim):
                yield from _sides(argument, launch)
                yield from _values(argument, launch)
            elif argument.names & vary:
                place = argument.place
                choice = (place.line, place.column, True)
                yield PlanPart(place, argument.text, True, choice, launch, is_quoted=True)


def _parts_of_dispatch(dispatch: Dispatch) -> Iterator[PlanPart]:
    before: tuple[tuple[Expression, bool], ...] = ()
    for branch in dispatch.branches:
        text = "otherwise" if branch.condition is None else print_expression(branch.condition)
        for item in branch.body:
            if isinstance(item, Launch):
                yield PlanPart(item.place, text, launch=item)
        if branch.condition is not None:
            yield from _sides(branch.condition, None, before)
            before = (*before, (branch.condition, False))


def _sides(
    expression: Expression,
    launch: Launch | None = None,
    guards: tuple[tuple[Expression, bool], ...] = (),
) -> Iterator[PlanPart]:
    """The sides of an expression that `Evaluator.choices` tells apart."""

    def side(of: Expression, held: bool, condition: Expression, *more: Any) -> PlanPart:
        place, text = of.place, print_expression(condition)
        choice = (place.line, place.column, held)
        is_true = all(wanted for _, wanted in more[-1:])
        return PlanPart(place, text, is_true, choice, launch, (*guards, *more))

    match expression:
        case Conditional(condition=c, when_true=a, when_false=b):
            yield from _sides(c, launch, guards)
            for held, branch in ((True, a), (False, b)):
                yield side(expression, held, c, (c, held))
                yield from _sides(branch, launch, (*guards, (c, held)))
        case Binary(operator="or", left=a, right=b):
            yield from _sides(a, launch, guards)
            yield side(expression, True, a, (a, True))
            yield side(expression, False, b, (a, False), (b, True))
            yield from _sides(b, launch, (*guards, (a, False)))
        case Binary(operator="and", left=a, right=b):
            yield from _sides(a, launch, guards)
            yield from _sides(b, launch, (*guards, (a, True)))
        case _:
            for part in parts_of(expression):
                yield from _sides(part, launch, guards)


def _values(argument: Expression, launch: Launch) -> Iterator[PlanPart]:
    """Both values of a template argument that is a condition."""
    match argument:
        case Compare() | Binary(operator="and" | "or") | Unary(operator="not"):
            for held in (True, False):
                choice = (*value_place(argument), held)
                yield PlanPart(
                    argument.place, print_expression(argument), held, choice, launch,
                    ((argument, held),),
                )  # fmt: skip
