"""The cases that follow from a task: sizes, layouts, values, and why each is there.

The floor suite is fixed: agents and engineers may add cases, no one removes or loosens one. Cases
that are drawn from the seed of a session come on top, so that no candidate can know all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

import msgspec

from astra_tui.lab.check.combinations import (
    TINY,
    Level,
    combine,
    draw_dims,
    large,
    largest_size,
    nearest_size,
    normal_inputs,
    offset_levels,
    outside_range,
    random_of,
    row_levels,
    scalar_levels,
    seed_of_case,
    subnormal,
    value_levels,
    words_of,
)
from astra_tui.model.check import Case
from astra_tui.model.dtypes import DType
from astra_tui.model.task import Argument, KernelTask, ValueKind, Values

MAX_ELEMENTS = 1 << 16
"""Elements of the largest tensor of most cases, so that the emulator answers in milliseconds."""

LARGE_ELEMENTS = 5 << 16
"""Elements of the largest cases, enough to pass every cap on the grid that a kernel may have."""

DRAWN_SIZES = 2
DRAWN_COMBINATIONS = 4
"""Drawn cases of one element type: of each dimension, and of everything at once."""

_SMALL_ROWS = 3

ROUND = 64
"""Divides sizes on which kernels use wide accesses."""


def build_suite(task: KernelTask, seed: int | None = 0) -> tuple[Case, ...]:
    """All cases of a task, in order; names are unique for each element type.

    `seed` decides the drawn ones; who knows it, knows them. Without one there are none.
    """
    cases: dict[str, Case] = {}
    for dtype in task.dtypes:
        suite = _Suite(task, dtype)
        for case in (*suite.floor(), *(() if seed is None else suite.drawn(seed))):
            if (
                task.cut_item(case.dims, dtype) is None
            ):  # Else outside of the contract, and of memory.
                cases.setdefault(case.id, case)
        for case in suite.added():
            # A case that someone added never takes the place of one of the floor suite.
            while case.id in cases:
                case = msgspec.structs.replace(case, name=f"{case.name} (added)")
            cases[case.id] = case
    return tuple(cases.values())


class _Suite:
    def __init__(self, task: KernelTask, dtype: DType):
        self.task = task
        self.dtype = dtype
        typical = {name: d.typical for name, d in task.dims.items()}
        self.typical = self._fit(typical, MAX_ELEMENTS)

    def floor(self) -> Iterator[Case]:
        """The cases that follow from the contract."""
        yield self._case("typical", "sizes as in use", self.typical)
        yield from self._sizes()
        yield from self._workloads()
        yield from self._layouts()
        yield from self._values()
        yield from self._scalars()

    def drawn(self, seed: int) -> Iterator[Case]:
        """Sizes, layouts, values and scalars that a seed decides, inside the contract.

        Each dimension gets sizes of its own, all else as in use; then everything is drawn at once.
        """
        random = random_of(seed, self.task, self.dtype.value, "suite")
        bases, rows = offset_levels(self.task, random), row_levels(self.task, random)
        values, scalars = value_levels(self.task, self.dtype), scalar_levels(self.task, random)
        for name in self.task.dims:
            others = {n: size for n, size in self.typical.items() if n != name}
            for _ in range(DRAWN_SIZES):
                dims = draw_dims(self.task, self.dtype, MAX_ELEMENTS, random, others)
                if dims is not None:
                    yield self._drawn(f"{name}={dims[name]}, drawn", dims, seed=seed)
            yield from self._beyond(name, seed)
        for _ in range(DRAWN_COMBINATIONS):
            dims = draw_dims(self.task, self.dtype, MAX_ELEMENTS, random)
            if dims is not None:
                value = random.choice(random.choice(values))
                chosen = [*map(random.choice, (bases, rows)), value, random.choice(scalars)]
                sizes = "x".join(str(size) for size in dims.values())
                yield self._drawn(f"drawn {sizes}: {words_of(chosen)}", dims, *chosen, seed=seed)

    def _beyond(self, name: str, seed: int) -> Iterator[Case]:
        """Sizes that no workload has, one that vectors divide and one that they do not.

        The contract allows them, and a kernel that counts its passes over a row would not finish
        it. Many rows are left to the full-size stage: each costs a block.
        """
        if name == self.task.rows:
            return
        random = random_of(seed, self.task, self.dtype.value, "beyond", name)
        largest = 2 * largest_size(self.task, self.task.dims[name])
        size = largest + random.randrange(largest // 8 + 1)
        others = {n: 1 if n == self.task.rows else s for n, s in self.typical.items()}
        for wanted in (-(-size // ROUND) * ROUND, size | 1):
            beyond = nearest_size(self.task, self.dtype, {**others, name: wanted}, name, 1)
            if beyond is not None:
                dims = self._fit({**others, name: beyond}, MAX_ELEMENTS, keep=name)
                if self.task.elements(dims, self.dtype) <= LARGE_ELEMENTS:
                    yield self._drawn(f"{name}={beyond}, beyond all workloads", dims, seed=seed)

    def _drawn(self, name: str, dims: dict[str, int], *levels: Level, seed: int) -> Case:
        case = self._case(name, "drawn from the seed of the session", dims)
        case = msgspec.structs.replace(case, seed=seed_of_case(seed, self.dtype, name))
        return combine(case, levels)

    def added(self) -> Iterator[Case]:
        """The cases that the task's author has added."""
        for extra in self.task.cases:
            if self.dtype in extra.dtypes:
                yield self._case(extra.name, extra.why, extra.dims, values=extra.values)

    def _case(
        self,
        name: str,
        why: str,
        dims: Mapping[str, int],
        values: Mapping[str, Values] | None = None,
        offsets: Mapping[str, int] | None = None,
        row_padding: Mapping[str, int] | None = None,
        scalars: Mapping[str, float] | None = None,
    ) -> Case:
        return Case(
            name=name,
            why=why,
            dtype=self.dtype,
            dims=dict(dims),
            values=dict(values or {}),
            offsets=dict(offsets or {}),
            row_padding=dict(row_padding or {}),
            scalars=dict(scalars or {}),
            outside_contract=self.task.violated(dims, self.dtype),
        )

    # -- sizes ---------------------------------------------------------------------------------

    def _sizes(self) -> Iterator[Case]:
        for name, dimension in self.task.dims.items():
            for size in dimension.sizes:
                if size != self.typical[name]:
                    dims = self._fit({**self.typical, name: size}, MAX_ELEMENTS, keep=name)
                    yield self._case(f"{name}={size}", _why_size(size), dims)
        yield self._case("smallest", "every size as small as the contract allows", self._smallest())
        if not any(w.dtype is self.dtype for w in self.task.workloads):
            yield self._case(
                "large",
                "more work than one wave of a capped grid: no workload of this type is as large",
                self._fit(dict(self.task.workloads[-1].dims), LARGE_ELEMENTS),
            )

    def _workloads(self) -> Iterator[Case]:
        for workload in self.task.workloads:
            rows = self.task.rows
            dims = dict(workload.dims)
            if rows:
                dims[rows] = min(dims[rows], _SMALL_ROWS)
            dims = self._fit(dims, MAX_ELEMENTS)
            shrunk = ", ".join(
                f"{name}={size} of {workload.dims[name]}"
                for name, size in dims.items()
                if size != workload.dims[name]
            )
            yield self._case(
                f"workload {workload.name}" + (f" with {shrunk}" if shrunk else ""),
                "the shape of a workload, as large as runs in milliseconds",
                dims,
            )

    def _smallest(self) -> dict[str, int]:
        return {name: self._smallest_of(name) for name in self.task.dims}

    def _smallest_of(self, name: str) -> int:
        """The smallest positive size of a dimension that fits the others' typical sizes."""
        sizes = sorted({*self.task.dims[name].sizes, self.typical[name]} - {0})
        for size in sizes:
            if not self.task.violated({**self.typical, name: size}, self.dtype):
                return size
        return self.typical[name]

    def _fit(self, dims: dict[str, int], limit: int, keep: str = "") -> dict[str, int]:
        """Makes sizes smaller until the largest tensor has at most `limit` elements.

        Rows go first, then the largest dimension, among the sizes that the task names.
        """
        dims = dict(dims)
        order = sorted(dims, key=lambda n: (n != self.task.rows, -dims[n]))
        for name in order:
            if name == keep:
                continue
            while self.task.elements(dims, self.dtype) > limit and dims[name] > 1:
                smaller = self._next_smaller(name, dims, limit)
                if smaller == dims[name]:
                    break
                dims[name] = smaller
        return dims

    def _next_smaller(self, name: str, dims: Mapping[str, int], limit: int) -> int:
        size = dims[name]
        if name == self.task.rows:
            elements = self.task.elements(dims, self.dtype)
            return max(1, size * limit // elements)
        named = [s for s in self.task.dims[name].sizes if 0 < s < size]
        for candidate in sorted(named, reverse=True):
            if not self.task.violated({**dims, name: candidate}, self.dtype):
                return candidate
        return size

    # -- layouts -------------------------------------------------------------------------------

    def _layouts(self) -> Iterator[Case]:
        tensors = [a.name for a in self.task.tensors]
        # Other shifts, single tensors and different strides: in pairs on each path (paths.py).
        yield self._case(
            "all shifted by 1",
            "bases one element past their alignment: wide accesses have to fall back",
            self.typical,
            offsets=dict.fromkeys(tensors, 1),
        )
        yield self._case(
            "odd sizes shifted by 1",
            "sizes that nothing divides, on misaligned bases",
            self._odd(),
            offsets=dict.fromkeys(tensors, 1),
        )
        yield self._case(
            "smallest shifted by 1",
            "less than one block of what accesses fall back to",
            self._smallest(),
            offsets=dict.fromkeys(tensors, 1),
        )
        yield from self._strided_rows([a for a in self.task.tensors if a.strided])

    def _strided_rows(self, strided: list[Argument]) -> Iterator[Case]:
        if not strided:
            return
        names = [a.name for a in strided]
        for padding in (8, 3):
            yield self._case(
                f"rows apart by {padding}",
                f"rows lie {padding} elements further apart than they are long",
                self.typical,
                row_padding=dict.fromkeys(names, padding),
            )
        odd = self._odd()
        yield self._case(
            "odd rows at round distances",
            "rows of odd length whose beginnings are aligned all the same",
            odd,
            row_padding={a.name: self._to_round(a, odd) for a in strided},
        )

    def _odd(self) -> dict[str, int]:
        """Small sizes, odd and no multiple of a warp or a vector where the contract allows."""
        dims = dict(self.typical)
        for name, dimension in self.task.dims.items():
            sizes = sorted(dimension.sizes, key=lambda s: (s % 2 == 0, s % 8 == 0, abs(s - 100)))
            for size in (s for s in sizes if s > 1):
                if not self.task.violated({**dims, name: size}, self.dtype):
                    dims[name] = size
                    break
        return self._fit(dims, MAX_ELEMENTS)

    def _to_round(self, argument: Argument, dims: Mapping[str, int]) -> int:
        """Elements to add to a row so that the next one begins at a multiple of 16 elements."""
        shape = self.task.shape_of(argument, dims, self.dtype)
        return -math.prod(shape[1:]) % 16

    # -- values --------------------------------------------------------------------------------

    def _values(self) -> Iterator[Case]:
        for level in outside_range(self.task):
            why = "a number outside of the range that is drawn, of which the reference says more"
            yield self._case(level.words, why, self.typical, values=level.values)
        floats = normal_inputs(self.task, self.dtype)
        if not floats:
            return
        has_limit = any(a.limit is not None for a in floats)
        for name, why, make in _VALUE_CLASSES:
            if name == _OUTLIERS and not has_limit:
                continue
            if name == _BELOW_HALF and self.dtype.smallest_normal >= DType.FLOAT16.smallest_normal:
                continue
            if name == _HUGE and not has_limit:
                why = _NO_LIMIT
            overrides = {a.name: make(a, self.task.dtype_of(a, self.dtype)) for a in floats}
            yield self._case(name, why, self.typical, values=overrides)
        for argument in floats:
            for special in argument.special:
                planted = Values(
                    argument.values.kind, argument.values.low, argument.values.high, (special,)
                )
                yield self._case(
                    f"{special} in {argument.name}",
                    f"{special} goes where the reference says, and nowhere else",
                    self.typical,
                    values={argument.name: planted},
                )

    def _scalars(self) -> Iterator[Case]:
        for argument in self.task.scalars:
            for choice in argument.choices[1:]:
                yield self._case(
                    f"{argument.name}={choice:g}",
                    "another value of a scalar argument",
                    self.typical,
                    scalars={argument.name: choice},
                )


_HUGE, _OUTLIERS, _BELOW_HALF = "huge values", "outliers", "values below float16"
_NO_LIMIT = "as large as can be squared: the task gives no argument a limit, which would go further"

_VALUE_CLASSES: tuple[tuple[str, str, Callable[[Argument, DType], Values]], ...] = (
    (
        "tiny values",
        "outputs far below the absolute tolerance: only a relative bound sees a zero output",
        lambda _a, _t: TINY,
    ),
    (
        _BELOW_HALF,
        "normal numbers of the type that float16 cannot hold: it is no accumulator for them",
        lambda _a, _t: Values(ValueKind.NORMAL, 0.0, 2.0**-30),
    ),
    (
        "subnormal values",
        "the smallest magnitudes of the type",
        lambda _a, t: subnormal(t),
    ),
    (
        _HUGE,
        "up to the largest magnitude that the contract names",
        large,
    ),
    (
        "zeros of both signs",
        "exact zeros",
        lambda _a, _t: Values(ValueKind.CONSTANT, 0.0, 0.0, ("-0",)),
    ),
    (
        "constant rows",
        "no variation to average over",
        lambda _a, _t: Values(ValueKind.CONSTANT, 0.75),
    ),
    (
        _OUTLIERS,
        "a few elements dominate their row",
        lambda a, _t: Values(
            a.values.kind, a.values.low, a.values.high, ("limit",) if a.limit is not None else ()
        ),
    ),
)


def _why_size(size: int) -> str:
    if size == 0:
        return "nothing to do"
    if size == 1:
        return "a single one"
    if size & (size - 1) == 0:
        return "a power of two"
    if size % 2 and all(size % k for k in range(3, math.isqrt(size) + 1, 2)):
        return "a prime: no vector width or block size divides it"
    return "odd" if size % 2 else "even, but no power of two"
