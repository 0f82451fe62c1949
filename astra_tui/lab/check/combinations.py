"""Which layouts, values and scalars a case can combine, and how every two of them meet.

A kernel that is right for aligned bases, for tiny values and for another eps can be wrong where two
of them meet. All combinations are too many; a pairwise covering array has every two.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from random import Random
from typing import Any

import msgspec

from astra_tui.model.check import Case
from astra_tui.model.dtypes import DType
from astra_tui.model.task import Argument, Dimension, KernelTask, ValueKind, Values
from astra_tui.model.values import finite_number

SHIFTS = (1, 2, 4, 8)
"""Elements by which bases are moved off their alignment."""

PADDINGS = (8, 3)
"""Elements between rows: one that 16-byte vectors can cross, and one that they cannot."""

ELEMENTS_OF_ROW = 48
"""What a row costs beyond its elements: blocks that do little cost as well."""

_WIDEST_PADDING = 40
_WIDE_PADDING = 5, 12
"""Packs of eight elements by which rows lie far apart: more than a warp has threads."""
_TRIES = 64
_REDRAWS = 16
"""Of one size of a try, where a contract allows few, such as the powers of two."""

_NEAREST = 33
"""Sizes that are tried in one direction: contracts ask for multiples of 32 at most."""


@dataclass(frozen=True)
class Level:
    """One choice of one factor: the part of a case that it decides, and words for all of it."""

    words: str = ""
    offsets: Mapping[str, int] = field(default_factory=dict)
    row_padding: Mapping[str, int] = field(default_factory=dict)
    values: Mapping[str, Values] = field(default_factory=dict)
    scalars: Mapping[str, float] = field(default_factory=dict)


DEFAULT_LEVEL = Level()


def combine(case: Case, levels: Sequence[Level]) -> Case:
    """The case with what the levels decide."""
    parts: dict[str, Any] = {}
    for name in ("offsets", "row_padding", "values", "scalars"):
        parts[name] = {k: v for level in levels for k, v in getattr(level, name).items()}
    return msgspec.structs.replace(case, **parts)


def words_of(levels: Sequence[Level]) -> str:
    """What is special about a combination."""
    return ", ".join(level.words for level in levels if level.words) or "as usual"


def random_of(seed: int, task: KernelTask, *what: object) -> Random:
    """The numbers that one part of a suite is drawn from: equal for equal seeds."""
    return Random("|".join(map(str, (seed, task.name, *what))))


def seed_of_case(seed: int, dtype: DType, name: str) -> int:
    """The seed of a case's values. The session's own cannot be found from it; 0 gives 0."""
    digest = hashlib.sha256(f"{seed}|{dtype.value}|{name}".encode()).digest()
    return int.from_bytes(digest[:6], "little") if seed else 0


def case_of(name: str, why: str, dtype: DType, dims: dict[str, int], seed: int) -> Case:
    """A case whose values follow from the session's seed and its name."""
    return Case(name, why, dtype, dims, seed=seed_of_case(seed, dtype, name))


# -- factors ---------------------------------------------------------------------------------------


def offset_levels(task: KernelTask, random: Random) -> tuple[Level, ...]:
    """Where tensors begin: aligned, all of them shifted, each of them alone: by one element, which
    no vector bears, and by a drawn shift.
    """
    names = [a.name for a in task.tensors]
    together = [
        Level(f"all shifted by {shift}", offsets=dict.fromkeys(names, shift)) for shift in SHIFTS
    ]
    alone = [
        Level(f"{name} shifted by {shift}", offsets={name: shift})
        for name in (names if len(names) > 1 else ())
        for shift in (1, random.choice(SHIFTS[1:-1]))
    ]
    return (DEFAULT_LEVEL, *together, *alone)


def row_levels(task: KernelTask, random: Random) -> tuple[Level, ...]:
    """How far rows lie apart: not at all, alike in all tensors, differently, in one alone."""
    names = [a.name for a in task.tensors if a.strided]
    if not names:
        return (DEFAULT_LEVEL,)
    drawn = {name: random.randint(1, _WIDEST_PADDING) for name in names}
    wide = 8 * random.randint(*_WIDE_PADDING)
    words = " and ".join(f"{name} by {padding}" for name, padding in drawn.items())
    alone = [
        Level(f"rows of {name} apart by {padding}", row_padding={name: padding})
        for name in (names if len(names) > 1 else ())
        for padding in (1, random.choice(SHIFTS[1:-1]))
    ]
    return (
        DEFAULT_LEVEL,
        *(
            Level(f"rows apart by {padding}", row_padding=dict.fromkeys(names, padding))
            for padding in (*PADDINGS, wide)
        ),
        Level(f"rows of {words} apart", row_padding=drawn),
        *alone,
    )


def value_levels(task: KernelTask, dtype: DType) -> tuple[tuple[Level, ...], ...]:
    """What is in the inputs: ordinary numbers, tiny, subnormal and large ones, NaN, infinities.

    One group of levels a kind: of NaN and infinities one for each argument that has to bear them,
    since a reference defines what they give in one argument at a time. So of numbers that an
    input may have outside of its range.
    """
    floats = normal_inputs(task, dtype)
    outside = tuple(outside_range(task))
    if not floats:
        return ((DEFAULT_LEVEL,), *((outside,) if outside else ()))
    types = {a.name: task.dtype_of(a, dtype) for a in floats}
    groups: list[tuple[Level, ...]] = [
        (DEFAULT_LEVEL,),
        (Level("tiny values", values=dict.fromkeys(types, TINY)),),
        (Level("subnormal values", values={name: subnormal(t) for name, t in types.items()}),),
        (Level("large values", values={a.name: large(a, types[a.name]) for a in floats}),),
    ]
    groups.append(outside)
    for words, names in (("NaN", {"nan"}), ("infinities", {"inf", "-inf"})):
        groups.append(
            tuple(
                Level(
                    f"{words} in {a.name}",
                    values={a.name: msgspec.structs.replace(a.values, planted=planted)},
                )
                for a in floats
                if (planted := tuple(s for s in a.special if s in names))
            )
        )
    return tuple(group for group in groups if group)


def scalar_levels(task: KernelTask, random: Random) -> tuple[Level, ...]:
    """The numbers that are passed: each that the task lists, and one drawn between them."""
    levels = [DEFAULT_LEVEL]
    for argument in task.scalars:
        for choice in argument.choices[1:]:
            levels.append(Level(f"{argument.name}={choice:g}", scalars={argument.name: choice}))
    drawn = {a.name: value for a in task.scalars for value in _drawn_scalar(a, random)}
    if drawn:
        words = ", ".join(f"{name}={value:g}" for name, value in drawn.items())
        levels.append(Level(words, scalars=drawn))
    return tuple(levels)


def _drawn_scalar(argument: Argument, random: Random) -> tuple[float, ...]:
    """A number between the listed ones, or where the task says, evenly on a logarithmic scale where
    all are positive.
    """
    low, high = argument.between or (min(argument.choices), max(argument.choices))
    assert argument.dtype is not None
    if not argument.dtype.is_float or low == high:
        return ()
    if low > 0:
        drawn = math.exp(random.uniform(math.log(low), math.log(high)))
    else:
        drawn = random.uniform(low, high)
    return (float(f"{drawn:.3g}"),)


TINY = Values(ValueKind.NORMAL, 0.0, 2.0**-10)


ORDINARY = ("0.7109375", "-1.375", "2.625", "-0.3125")
"""Numbers that bfloat16 holds and that nothing is compared with."""


def zeros(task: KernelTask, dtype: DType) -> Level:
    """Nothing but zeros in every float input."""
    return Level(
        "zeros", values={a.name: Values(ValueKind.CONSTANT) for a in normal_inputs(task, dtype)}
    )


def outside_range(task: KernelTask) -> Iterator[Level]:
    """Each number that an input may have outside of the range that it is drawn from, among those of
    the range, such as a temperature of 0 or the 1 of a request that is to keep all words.
    """
    for argument in (a for a in task.tensors if a.is_read):
        for number in (s for s in argument.special if finite_number(s) is not None):
            held = msgspec.structs.replace(argument.values, planted=(number,))
            yield Level(f"{number} in {argument.name}", values={argument.name: held})


def lone_numbers(task: KernelTask, dtype: DType) -> Iterator[Level]:
    """Inputs of the most negative number, with the largest one once in every two rows; and, of each
    argument that has to bear it, -inf with an ordinary one.

    A maximum that leaves out part of a row is then off by all that numbers can be apart, and most
    parts of a row hold nothing but -inf.
    """
    floats = normal_inputs(task, dtype)
    ends = {a.name: large(a, task.dtype_of(a, dtype)) for a in floats}
    lone = {name: Values(ValueKind.LONE, end.low, end.high) for name, end in ends.items()}
    if lone:
        yield Level("one large among large negative ones", values=lone)
    for argument in floats:
        if "-inf" in argument.special:
            held = Values(ValueKind.LONE, -math.inf, float(ORDINARY[0]))
            yield Level(f"{argument.name} nearly all -inf", values={argument.name: held})


def mostly_negative_infinity(task: KernelTask, dtype: DType) -> Iterator[Level]:
    """Of each argument that has to bear it: -inf in fifteen of sixteen elements.

    What a kernel makes of a part of a row, or of all of it, in which nothing else is.
    """
    for argument in normal_inputs(task, dtype):
        if "-inf" in argument.special:
            held = Values(ValueKind.CONSTANT, -math.inf, 1.0, ORDINARY)
            yield Level(f"{argument.name} mostly -inf", values={argument.name: held})


def among_ordinary(task: KernelTask, dtype: DType, numbers: Sequence[float]) -> Level:
    """Ordinary inputs in which one element of sixteen is one of the numbers."""
    words = ", ".join(f"{n:g}" for n in numbers)
    return Level(
        f"{words} among others",
        values={
            a.name: msgspec.structs.replace(a.values, planted=tuple(map(repr, within)))
            for a in normal_inputs(task, dtype)
            if (within := [n for n in numbers if abs(n) <= _largest(a)])
        },
    )


def mostly(task: KernelTask, dtype: DType, numbers: Sequence[float]) -> Iterator[Level]:
    """Inputs that hold one number in fifteen of sixteen elements, each of them each number.

    At the same time the inputs hold different numbers, so that a zero hides little.
    """
    floats = normal_inputs(task, dtype)
    for first in range(len(numbers)):
        held = {a.name: numbers[(first + k) % len(numbers)] for k, a in enumerate(floats)}
        held = {a.name: held[a.name] for a in floats if abs(held[a.name]) <= _largest(a)}
        if held:
            yield Level(
                ", ".join(f"{name} mostly {number:g}" for name, number in held.items()),
                values={n: Values(ValueKind.CONSTANT, v, 1.0, ORDINARY) for n, v in held.items()},
            )


def _largest(argument: Argument) -> float:
    return argument.limit if argument.limit is not None else math.inf


def subnormal(dtype: DType) -> Values:
    """The smallest magnitudes of a type."""
    return Values(ValueKind.UNIFORM, -dtype.smallest_normal, dtype.smallest_normal)


def large(argument: Argument, dtype: DType) -> Values:
    """Up to the largest magnitude that the task names, or that can be squared."""
    limit = argument.limit if argument.limit is not None else math.sqrt(dtype.largest) / 4
    return Values(ValueKind.UNIFORM, -limit, limit)


def normal_inputs(task: KernelTask, dtype: DType) -> list[Argument]:
    """The inputs whose values a case may replace: floats that the task draws as normal numbers."""
    return [
        a
        for a in task.tensors
        if a.is_read and task.dtype_of(a, dtype).is_float and a.values.kind is ValueKind.NORMAL
    ]


# -- sizes -----------------------------------------------------------------------------------------


def draw_size(most: int, random: Random) -> int:
    """A size from 1 to `most`, 0 for no more: every power of two as often as the next.

    Half are any number, so mostly odd or prime; the others a multiple of 8 or 128, or one off it.
    """
    if most == 0:
        return 0
    bits = random.randrange(most.bit_length())
    size = random.randint(1 << bits, (2 << bits) - 1)
    if random.random() < 0.5:
        step = random.choice((8, 8, 128))
        size = -(-size // step) * step + random.choice((0, 0, 1, -1))
    return min(size, most)


def draw_dims(
    task: KernelTask,
    dtype: DType,
    limit: int,
    random: Random,
    fixed: Mapping[str, int] | None = None,
) -> dict[str, int] | None:
    """Sizes inside the contract of which the largest tensor has at most `limit` elements.

    A drawn number of rows counts as ELEMENTS_OF_ROW each on top. `fixed` sizes are kept. None
    where none were found.
    """
    fixed = fixed or {}
    ranges = {n: largest_size(task, d) for n, d in task.dims.items() if n not in fixed}
    for attempt in range(_TRIES):
        # The longer nothing fits, the smaller, down to one.
        most = {n: k >> attempt * k.bit_length() // _TRIES for n, k in ranges.items()}
        dims = {**fixed, **{n: _draw_allowed(task, dtype, n, most[n], random) for n in ranges}}
        dims = {n: dims[n] for n in task.dims}
        rows = dims[task.rows] if task.rows in ranges else 0
        fits = task.elements(dims, dtype) + ELEMENTS_OF_ROW * rows <= limit
        if fits and not task.violated(dims, dtype):
            return dims
    return None


def _draw_allowed(task: KernelTask, dtype: DType, name: str, most: int, random: Random) -> int:
    """A size that the contract allows of a dimension, whatever the others are, if one is drawn."""
    for _ in range(_REDRAWS):
        size = draw_size(most, random)
        if task.allows(name, size, dtype):
            break
    return size


def largest_size(task: KernelTask, dimension: Dimension) -> int:
    """The largest size of a dimension that the task names, or one of its workloads has."""
    of_workloads = (w.dims[dimension.name] for w in task.workloads)
    return max(*dimension.sizes, dimension.typical, *of_workloads)


def nearest_size(
    task: KernelTask, dtype: DType, dims: Mapping[str, int], name: str, step: int
) -> int | None:
    """The size of one dimension that the contract allows: as in `dims`, or the next in a direction.

    `step` is 1 or -1. None where none of the next few is allowed.
    """
    for size in range(dims[name], dims[name] + step * _NEAREST, step):
        if size > 0 and not task.violated({**dims, name: size}, dtype):
            return size
    return None


# -- pairs -----------------------------------------------------------------------------------------


def cover_pairs(rows: Sequence[tuple[Hashable, ...]]) -> list[int]:
    """Indices of rows that together hold every two levels that any row holds, in few rows.

    Each row has one level of each factor. Greedy: the row with most pairs that are still missing.
    """
    import numpy as np

    if not rows:
        return []
    numbers: dict[Hashable, int] = {}
    pairs = [
        [
            numbers.setdefault((i, row[i], j, row[j]), len(numbers))
            for i, j in combinations(range(len(row)), 2)
        ]
        for row in rows
    ]
    if not numbers:  # A single factor: each of its levels once.
        return list({row: k for k, row in reversed(list(enumerate(rows)))}.values())[::-1]
    of_row = np.array(pairs)
    missing = np.ones(len(numbers), np.bool_)
    chosen = []
    while missing.any():
        best = int(missing[of_row].sum(axis=1).argmax())
        missing[of_row[best]] = False
        chosen.append(best)
    return chosen
