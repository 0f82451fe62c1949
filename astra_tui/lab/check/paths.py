"""Paths through a launch plan: whatever a workload launches has to be launched by a case, too.

The suite tries workloads with few rows. A plan that launches another kernel where there are many
would go unchecked there.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from astra_tui.lab.check.execution import Source, resolve_case
from astra_tui.lab.check.inputs import scalars_of
from astra_tui.lab.check.suite import LARGE_ELEMENTS
from astra_tui.model.check import PATH_OF, Case
from astra_tui.model.launch import PlanError, Refused
from astra_tui.model.task import KernelTask, Workload

MANY_ROWS = 64
"""Row counts up to this one are tried one by one, beyond it the powers of two."""

Path = frozenset[tuple[int, str]]
"""What a plan launches: the lines of the plan and the kernels, as C++ names."""


@dataclass(frozen=True)
class UntriedPath:
    """A workload that launches what no case launches. `case` does, where one is small enough."""

    workload: Workload
    lines: tuple[int, ...]
    case: Case | None

    def describe(self) -> str:
        """What was launched unchecked, for people."""
        lines = " and ".join(str(line) for line in self.lines)
        return (
            f"workload {self.workload.name} takes the launch at line {lines}, which no case takes "
            "that is small enough to be tried here"
        )


def untried_paths(
    task: KernelTask, source: Source, cases: tuple[Case, ...], attributes: Mapping[str, int]
) -> tuple[UntriedPath, ...]:
    """The workloads whose path no case takes, each path once."""
    finder = _Finder(task, source, attributes)
    tried = {launch for case in cases for launch in finder.path(case)}
    found = []
    for workload in task.workloads:
        own = Case(PATH_OF + workload.name, "", workload.dtype, dict(workload.dims))
        path = finder.path(own)
        if path <= tried:
            continue
        tried |= path
        lines = tuple(sorted({line for line, _ in path}))
        found.append(UntriedPath(workload, lines, finder.smaller(own, path)))
    return tuple(found)


class _Finder:
    def __init__(self, task: KernelTask, source: Source, attributes: Mapping[str, int]):
        self.task = task
        self.source = source
        self.attributes = attributes

    def path(self, case: Case) -> Path:
        """What is launched for a case; nothing where it is refused or breaks the plan."""
        try:
            scalars = scalars_of(self.task, case)
            resolved = resolve_case(self.task, self.source, case, scalars, self.attributes)
        except PlanError:
            return frozenset()
        if isinstance(resolved, Refused):
            return frozenset()
        return frozenset((launch.place.line, launch.kernel) for launch in resolved.launches)

    def smaller(self, own: Case, path: Path) -> Case | None:
        """A case that takes the path, with as few rows as do; None where none is small enough."""
        for dims in self._sizes(own):
            case = Case(own.name, "what only this workload launches", own.dtype, dims)
            if self.path(case) == path:
                return case
        return None

    def _sizes(self, own: Case) -> Iterator[dict[str, int]]:
        """Sizes up to the workload's own, those of its width first."""
        others = [name for name in own.dims if name != self.task.rows]
        widths = [self._named(name, own.dims[name]) for name in others]
        for chosen in itertools.product(*widths):
            for rows in self._rows(own):
                dims = {**own.dims, **dict(zip(others, chosen, strict=True)), **rows}
                is_small = self.task.elements(dims, own.dtype) <= LARGE_ELEMENTS
                if is_small and not self.task.violated(dims, own.dtype):
                    yield dims

    def _named(self, name: str, size: int) -> list[int]:
        smaller = {s for s in self.task.dims[name].sizes if 0 < s < size}
        return [size, *sorted(smaller, reverse=True)]

    def _rows(self, own: Case) -> Iterator[dict[str, int]]:
        name = self.task.rows
        if not name:
            yield {}
            return
        most = own.dims[name]
        powers = (1 << k for k in range(MANY_ROWS.bit_length(), most.bit_length()))
        for rows in (*range(1, min(most, MANY_ROWS) + 1), *powers):
            yield {name: rows}
        if most > MANY_ROWS:
            yield {name: most}
