"""Launches of the plan that no case takes: sizes that lead to them, or a proof that there are none.

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
from astra_tui.model.check import LAUNCH_AT, Case, ConditionResult, ConditionStatus
from astra_tui.model.digest import content_hash
from astra_tui.model.dtypes import DType
from astra_tui.model.launch import Dispatch, Launch, print_expression
from astra_tui.model.task import KernelTask

if TYPE_CHECKING:
    from astra_tui.lab.conditions.contract import Launches

MAX_ELEMENTS = 1 << 30
"""Elements of the largest tensor at sizes that are checked like workloads."""

_SIZES = (1 << 10, 1 << 13, 1 << 17, 1 << 20)
"""Bounds of a size, of which the solver is asked one after the other."""

_STEPS = 2_000_000
"""Steps of the solver for one question."""

_FEW = 8
_WHY = "made for a launch that no other case takes"


Point = dict[str, dict[str, int]]
"""Sizes, scalars and layouts that a solver found."""


@dataclass(frozen=True)
class Untaken:
    """A launch that no case of an element type takes, and what is known of the way to it."""

    launch: Launch
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
    def is_large(self) -> bool:
        """Whether a case is checked like a workload."""
        return LARGE_ELEMENTS < self.elements <= MAX_ELEMENTS

    @property
    def is_beyond(self) -> bool:
        """Whether a case is too large for that."""
        return self.elements > MAX_ELEMENTS

    def result(self, source: Source) -> ConditionResult:
        """The launch as a side of a condition, that leads to it."""
        line, column = self.launch.place.line, self.launch.place.column
        text = _condition_of(source, self.launch)
        if self.is_impossible:
            why = "no sizes, scalars or layouts of the contract lead there (z3)"
        elif self.case is not None:
            sizes = ", ".join(f"{name}={size}" for name, size in self.case.dims.items())
            why = f"{sizes} leads there, which could not be checked"
        else:
            why = "neither sizes that lead there were found nor a proof that there are none"
        return ConditionResult(
            kernel="the launch plan",
            line=line,
            column=column,
            text=text,
            side=True,
            key=content_hash(text)[:10],
            status=ConditionStatus.UNREACHABLE if self.is_impossible else ConditionStatus.OPEN,
            why=why,
        )


def untaken_launches(
    task: KernelTask,
    source: Source,
    launches: Iterable[Launch],
    dtype: DType,
    attributes: Mapping[str, int],
    takes: Callable[[Case, Launch], bool],
) -> Iterator[Untaken]:
    """What is known of each of some launches that no case of an element type takes.

    `takes` says whether a case takes a launch: what a solver finds is tried.
    """
    # The solver is loaded only where a launch is left.
    from astra_tui.lab.conditions.contract import NotModelled, ways_to

    for launch in launches:
        try:
            (way,) = (w for w in ways_to(task, source, launch) if w.dtype is dtype)
        except NotModelled:
            yield Untaken(launch, dtype)
        else:
            yield _search(task, launch, way, attributes, takes)


def _search(
    task: KernelTask,
    launch: Launch,
    way: Launches,
    attributes: Mapping[str, int],
    takes: Callable[[Case, Launch], bool],
) -> Untaken:
    from astra_tui.lab.conditions.contract import case_at
    from astra_tui.lab.conditions.query import solver_of

    def point_of(facts: Iterable[Any]) -> Point | None:
        return way.solution(solver_of(_STEPS, [*way.facts, *facts]))

    if solver_of(_STEPS, way.facts).check().r < 0:
        return Untaken(launch, way.dtype, is_impossible=True)
    plain = way.plain(task, attributes)
    for facts in _sizes_in_turn(task, way):
        point = point_of([*plain, *facts])
        if point is None:
            continue
        point = _shrunk(point, way, lambda more: point_of([*plain, *more]))
        sizes = ", ".join(f"{name}={size}" for name, size in point["dims"].items())
        name = f"{LAUNCH_AT}{launch.place.line}: {sizes}"
        case = msgspec.structs.replace(case_at(task, point, way.dtype, name), why=_WHY)
        if not case.outside_contract and takes(case, launch):
            return Untaken(launch, way.dtype, case, task.elements(case.dims, case.dtype))
    return Untaken(launch, way.dtype)


def _sizes_in_turn(task: KernelTask, way: Launches) -> Iterator[list[Any]]:
    """What sizes are to keep to, the smallest and easiest first."""
    typical = {name: dimension.typical for name, dimension in task.dims.items()}
    of_workloads = [w.dims for w in task.workloads if w.dtype is way.dtype]
    few = [[t <= _FEW for n, t in way.dims.items() if n != name] for name in task.dims]
    contiguous = way.contiguous()
    for layout in (contiguous, []):
        for fixed in (*(way.at_sizes(typical, name) for name in task.dims), *few):
            yield [*way.with_elements(LARGE_ELEMENTS), *layout, *fixed]
    for most in _SIZES:
        yield [*way.with_sizes(most), *contiguous]
    for fixed in (*few, *(way.at_sizes(dims, n) for dims in of_workloads for n in task.dims)):
        yield [*contiguous, *fixed]
    yield []


def _shrunk(point: Point, way: Launches, ask: Callable[[list[Any]], Point | None]) -> Point:
    """Smaller sizes, one after the other halved for as long as they lead there."""
    for name, term in way.dims.items():
        while True:
            others = way.at_sizes(point["dims"], name)
            smaller = ask([*others, *way.contiguous(), term <= point["dims"][name] // 2])
            if smaller is None or point["dims"][name] == 0:
                break
            point = smaller
    return point


def _condition_of(source: Source, launch: Launch) -> str:
    """The condition of the branch that a launch stands in, as it is written."""
    for step in source.plan.steps:
        for branch in step.branches if isinstance(step, Dispatch) else ():
            if any(item is launch for item in branch.body):
                found = branch.condition
                return "otherwise" if found is None else print_expression(found)
    return launch.kernel
