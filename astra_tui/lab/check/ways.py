"""Which way through its launch plan a source takes for a case: what is launched, and by what."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from random import Random

import msgspec

from astra_tui.lab.check.combinations import PADDINGS, SHIFTS, Level, combine, offset_levels
from astra_tui.lab.check.constants import (
    boundary_sizes,
    has_several_alignments,
    quotient_sizes,
    reads_strides,
)
from astra_tui.lab.check.execution import Source, resolve_case
from astra_tui.lab.check.inputs import scalars_of
from astra_tui.lab.check.suite import LARGE_ELEMENTS
from astra_tui.lab.conditions.untaken import PlanPart, Untaken, parts_of_plan, untaken_parts
from astra_tui.model.check import Case
from astra_tui.model.dtypes import DType
from astra_tui.model.launch import PlanError, Refused, ResolvedPlan
from astra_tui.model.task import KernelTask

FEW_ROWS = 64
"""Row counts up to this one are tried one by one, beyond it the powers of two."""

Path = frozenset[tuple[int, str]]
"""What a plan launches: the lines of the plan and the kernels, as C++ names."""

Choices = frozenset[tuple[int, int, bool]]
"""See `Evaluator.choices`."""

Way = tuple[Path, Choices]
"""A path, and by which operand of each `or` and which side of each `if else` it was come to: but
for those in template arguments, of which the names of kernels are all that is left.
"""

Levels = tuple[Level, ...]
"""What is special about a case."""


class Finder:
    """Finds the way of a case, and cases for a way. What was found is kept."""

    def __init__(self, task: KernelTask, source: Source, attributes: Mapping[str, int]):
        self.task = task
        self.source = source
        self.attributes = attributes
        self._known: dict[object, ResolvedPlan | None] = {}

    def path(self, case: Case) -> Path:
        """What is launched for a case; nothing where it is refused or breaks the plan."""
        return self.way(case)[0]

    def way(self, case: Case) -> Way:
        """What is launched for a case, and by which operands of the plan's conditions."""
        resolved = self._resolved(case)
        if resolved is None:
            return frozenset(), frozenset()
        launches = (one for one in resolved.launches if all(one.grid))
        return frozenset((one.place.line, one.kernel) for one in launches), resolved.choices

    def _resolved(self, case: Case) -> ResolvedPlan | None:
        """What the plan makes of a case; None where it is refused or breaks the plan."""
        told = (case.dims, case.offsets, case.row_padding, case.scalars)
        key = case.dtype, *(tuple(sorted(part.items())) for part in told)
        if key not in self._known:
            self._known[key] = self._resolve(case)
        return self._known[key]

    def _resolve(self, case: Case) -> ResolvedPlan | None:
        try:
            scalars = scalars_of(self.task, case)
            resolved = resolve_case(self.task, self.source, case, scalars, self.attributes)
        except PlanError:
            return None
        return None if isinstance(resolved, Refused) else resolved

    def _taken(self, case: Case) -> tuple[set[int], Choices]:
        """The lines that launch something for a case, and all that its plan chose."""
        resolved = self._resolved(case)
        if resolved is None:
            return set(), frozenset()
        lines = {one.place.line for one in resolved.launches if all(one.grid)}
        return lines, resolved.choices | resolved.instance_choices

    def untaken(
        self, cases: Iterable[Case], ways: Iterable[Way], dtype: DType
    ) -> tuple[Untaken, ...]:
        """The parts of the plan that neither some cases take nor some ways."""
        lines = {line for path, _ in ways for line, _ in path}
        choices = {choice for _, taken in ways for choice in taken}
        for case in cases:
            of_case = self._taken(case)
            lines |= of_case[0]
            choices |= of_case[1]
        left = [
            part
            for part in dict.fromkeys(parts_of_plan(self.task, self.source))
            if (part.place.line not in lines if part.choice is None else part.choice not in choices)
        ]
        if not left:
            return ()
        parts = self.task, self.source, left, dtype, self.attributes
        return tuple(untaken_parts(*parts, self._takes))

    def _takes(self, case: Case, part: PlanPart) -> bool:
        lines, choices = self._taken(case)
        return part.place.line in lines if part.choice is None else part.choice in choices

    def ways(self, dims: dict[str, int], dtype: DType) -> Iterable[Way]:
        """The ways of some sizes, on each layout that the plan may tell apart."""
        case = Case("", "", dtype, dims)
        return dict.fromkeys(self.way(combine(case, (level,))) for level in self._layouts)

    def threads(self, dims: dict[str, int], dtype: DType) -> int:
        """How many threads are launched for some sizes, with aligned bases."""
        resolved = self._resolved(Case("", "", dtype, dims))
        launches = () if resolved is None else resolved.launches
        return sum(math.prod((*launch.grid, *launch.block)) for launch in launches)

    def on_way(self, case: Case, way: Way) -> Case | None:
        """The case, with what else a layout asks for where only that takes a way; or None."""
        if self.way(case) == way:
            return case
        for level in self._layouts:
            placed = msgspec.structs.replace(
                case,
                name=f"{case.name}, {level.words}",
                offsets={**case.offsets, **level.offsets},
                row_padding={**level.row_padding, **case.row_padding},
            )
            if self.way(placed) == way:
                return placed
        return None

    @cached_property
    def _layouts(self) -> tuple[Level, ...]:
        """Aligned bases, shifted ones, and rows apart where the plan asks for strides."""
        several = has_several_alignments(self.source)
        together = offset_levels(self.task, Random(0))[: len(SHIFTS) + 1 if several else 2]
        strided = [a.name for a in self.task.tensors if a.strided]
        apart = [
            Level(f"rows apart by {padding}", row_padding=dict.fromkeys(strided, padding))
            for padding in (PADDINGS[:1] if strided and reads_strides(self.source) else ())
        ]
        return *together, *apart

    def turning(self, case: Case, name: str) -> set[int]:
        """Sizes of a dimension, all else as in a case, at which the plan changes its mind."""
        return boundary_sizes(self.task, self.source, case, name, self.attributes)

    def quotients(self, case: Case, name: str) -> set[int]:
        """Sizes of a dimension, all else as in a case, from which on a quotient is not 0."""
        return quotient_sizes(self.task, self.source, case, name, self.attributes)

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
        powers = (1 << k for k in range(FEW_ROWS.bit_length(), most.bit_length()))
        for rows in (*range(1, min(most, FEW_ROWS) + 1), *powers):
            yield {name: rows}
        if most > FEW_ROWS:
            yield {name: most}
