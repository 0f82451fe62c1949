"""The cases that a source makes necessary: each of its paths has to meet each kind of input.

A path is what the launch plan launches: the lines of the plan and the kernels, as C++ names. The
suite tries workloads with few rows, on friendly layouts and values. A plan that launches another
kernel where there are many rows would go unchecked there, or be checked on friendly inputs alone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from random import Random

import msgspec

from astra_tui.lab.check.combinations import (
    DEFAULT_LEVEL,
    ELEMENTS_OF_ROW,
    Level,
    among_ordinary,
    case_of,
    combine,
    cover_pairs,
    draw_dims,
    largest_size,
    lone_numbers,
    mostly,
    mostly_negative_infinity,
    nearest_size,
    offset_levels,
    random_of,
    row_levels,
    scalar_levels,
    seed_of_case,
    value_levels,
    words_of,
    zeros,
)
from astra_tui.lab.check.constants import (
    around,
    compared_constants,
    compared_numbers,
    large_constants,
)
from astra_tui.lab.check.execution import Source
from astra_tui.lab.check.kernels import MAX_KERNELS, workload_cases
from astra_tui.lab.check.suite import LARGE_ELEMENTS, MAX_ELEMENTS
from astra_tui.lab.check.ways import FEW_ROWS, Finder, Path, Way
from astra_tui.lab.conditions.untaken import Untaken
from astra_tui.model.check import NEAR, PAIR_AT, PATH_OF, Case
from astra_tui.model.dtypes import DType
from astra_tui.model.task import KernelTask, Workload

PAIR_ELEMENTS = 1 << 13
"""Elements of the largest tensor of most cases in which two kinds of input meet."""

PAIR_THREADS = 1 << 12
"""Threads that are launched in most of them: an emulator runs those without work as well."""

MAX_PAIRS = 120
MAX_NEAR, MAX_NEAR_ON_PATHS = 48, 12
"""Cases of an element type at most, and of one of its dimensions: near what a source compares it
with, and next to that on paths of its own.
"""

MAX_PATHS_NEAR = 4

DRAWN_SIZES = 6
SEVERAL = 8
"""Rows among which a lone number stands in enough places of its row."""

WIDE_SIZE = 1 << 11
"""The largest listed size of a dimension along which rows may be beyond 2**16 elements."""

MAX_BOUNDARY_SIZES = 4
"""Sizes of a dimension at which a plan changes its mind, that are tried on every path."""

MAX_NUMBERS, MAX_HELD = 8, 4
"""Numbers that a source may compare data with: planted together, and filling inputs in turn."""

SizesByWay = dict[Way, list[dict[str, int]]]

DRAWN_FOR_CHOICES, DRAWN_IN_VAIN = 600, 200
"""Sizes that are looked at where a plan has an `or` or an `if else`: so many, or so many in a row
that show nothing new.
"""


@dataclass(frozen=True)
class SourceCases:
    """The cases that a source makes necessary."""

    cases: tuple[Case, ...] = ()
    untried: tuple[UntriedPath, ...] = ()
    """The paths of workloads that no case of the suite takes."""
    untaken: tuple[Untaken, ...] = ()
    """The parts of the plan that solely a case made for it takes, or none."""
    of_paths: tuple[Case, ...] = ()
    """For each path that small cases take, one of them."""

    @property
    def large(self) -> tuple[tuple[Case, bool], ...]:
        """Those made for a part of the plan that are too large for everything to run, and whether
        they are so large that they are looked at in part.
        """
        made = ((u.case, u) for u in self.untaken if not u.is_small)
        return tuple((case, u.is_beyond) for case, u in made if case is not None)


@dataclass(frozen=True)
class UntriedPath:
    """A workload that launches what no case launches. `case` does, where one is small enough."""

    workload: Workload
    lines: tuple[int, ...]
    case: Case | None


def what_decides(source: Source) -> object:
    """All that the cases of a source follow from; equal for sources that have the same ones."""
    lines = tuple(launch.place.line for launch in source.plan.launches())
    numbers = compared_numbers(source.text, MAX_NUMBERS)
    constants = compared_constants(source.text), large_constants(source.text)
    return source.plan, lines, *constants, numbers


def source_cases(
    task: KernelTask,
    source: Source,
    cases: tuple[Case, ...],
    attributes: Mapping[str, int],
    seed: int = 0,
) -> SourceCases:
    """The cases that a source makes necessary, in addition to a suite that follows from its task.

    Those of its workloads' own paths, sizes around what it compares sizes with, sizes that lead to
    launches which are left, and for each of its ways a covering array: every two of size, bases,
    distance of rows, values and scalars that this way can meet meet there.
    """
    untried = untried_paths(task, source, cases, attributes)
    of_workloads = tuple(path.case for path in untried if path.case is not None)
    workloads = workload_cases(task)
    found: dict[str, Case] = {}
    untaken: list[Untaken] = []
    finder = Finder(task, source, attributes)
    for dtype in task.dtypes:
        of_type = [c for c in (*cases, *of_workloads) if c.dtype is dtype]
        near = list(_near_constants(finder, dtype, of_type, seed))
        by_way = _sizes_by_way(finder, dtype, of_type, near, seed)
        known = [*of_type, *near, *(w for w in workloads if w.dtype is dtype)]
        left = finder.untaken(known, by_way, dtype)
        untaken += left
        led = [
            msgspec.structs.replace(u.case, seed=seed_of_case(seed, dtype, u.case.name))
            for u in left
            if u.case is not None and u.is_small
        ]
        if led:
            by_way = _sizes_by_way(finder, dtype, of_type, [*near, *led], seed)
        for case in (
            *near,
            *led,
            *_pairs(finder, dtype, by_way, seed),
            *_beyond_turning(finder, dtype, by_way, of_type, seed),
            *_beyond_16_bits(finder, dtype, of_type, seed),
            *_far_apart(finder, dtype, by_way, seed),
            *_near_data(finder, dtype, by_way, of_type, seed),
        ):
            found.setdefault(case.id, case)
    every = *cases, *workloads
    own = tuple(_compilable(finder, every, found.values()))
    if len(own) < len(found):
        told = {(u.dtype, u.part) for u in untaken}
        for dtype in task.dtypes:
            left = finder.untaken([c for c in (*every, *own) if c.dtype is dtype], (), dtype)
            untaken += (u for u in left if (u.dtype, u.part) not in told)
    of_paths: dict[Path, Case] = {}
    for case in (*cases, *own):
        if not case.outside_contract and 0 not in case.dims.values():
            of_paths.setdefault(finder.path(case), case)
    of_paths.pop(frozenset(), None)
    return SourceCases((*own, *of_workloads), untried, tuple(untaken), tuple(of_paths.values()))


def _compilable(finder: Finder, cases: tuple[Case, ...], own: Iterable[Case]) -> Iterator[Case]:
    """As many of a source's own cases as need no more kernels than are compiled at once."""
    if not any(len(launch.template_args) > 1 for launch in finder.source.plan.launches()):
        yield from own
        return
    kernels = {kernel for case in cases for _, kernel in finder.path(case)}
    for case in own:
        more = kernels | {kernel for _, kernel in finder.path(case)}
        if len(more) <= MAX_KERNELS:
            kernels = more
            yield case


def _near_constants(finder: Finder, dtype: DType, cases: list[Case], seed: int) -> Iterator[Case]:
    """Cases of ordinary values at the sizes where the source, or its plan, may change its mind."""
    task, source = finder.task, finder.source
    typical = next(c for c in cases if c.name == "typical")
    from_code = compared_constants(source.text)
    far = large_constants(source.text)
    paths = list(dict.fromkeys(path for c in cases if (path := finder.path(c))))
    for name in task.dims:
        random = random_of(seed, task, dtype.value, "near", name)
        turning = finder.turning(typical, name)
        tried = {c.dims[name] for c in cases}

        def allowed(size: int, name: str = name) -> bool:
            return not task.violated({**typical.dims, name: size}, dtype)

        @cache
        def path_at(size: int, name: str = name) -> Path:
            if not allowed(size):
                return frozenset()
            return finder.path(msgspec.structs.replace(typical, dims={**typical.dims, name: size}))

        largest = largest_size(task, task.dims[name])
        of_name = turning | from_code
        if name != task.rows:  # Many rows are left to the full-size stage: each costs a block.
            of_name |= {s for s in far | finder.quotients(typical, name) if s > largest}
        sizes = _some(around(of_name, allowed), tried, MAX_NEAR, random)
        on_paths = {
            size
            for path in paths[:MAX_PATHS_NEAR]
            for size in around(from_code, partial(_takes, path_at, path))
        }
        sizes += _some(sorted(on_paths), tried | {*sizes}, MAX_NEAR_ON_PATHS, random)
        for size in sizes:
            dims = {**typical.dims, name: size} if size in turning else None
            named = f"{NEAR}{name}={size}"
            if dims is None or _effort(task, dims, dtype) > MAX_ELEMENTS:
                least = task.elements({**dict.fromkeys(task.dims, 1), name: size}, dtype)
                limit = max(PAIR_ELEMENTS, 2 * (least + ELEMENTS_OF_ROW))
                drawn = partial(draw_dims, task, dtype, limit, random, {name: size})
                dims = drawn()
                if size in turning:
                    yield from _on_the_typical_path(
                        finder, drawn, path_at(size), named, seed, dtype
                    )
            if dims is not None and not task.violated(dims, dtype):
                yield case_of(named, _WHY_COMPARED, dtype, dims, seed)


def _on_the_typical_path(
    finder: Finder,
    drawn: Callable[[], dict[str, int] | None],
    path: Path,
    name: str,
    seed: int,
    dtype: DType,
) -> Iterator[Case]:
    """A case of drawn sizes that takes the path of typical ones, where one is drawn soon."""
    for _ in range(DRAWN_SIZES):
        dims = drawn()
        if dims is not None and not finder.task.violated(dims, dtype):
            case = case_of(f"{name}, as typical", _WHY_COMPARED, dtype, dims, seed)
            if finder.path(case) == path:
                yield case
                return


def _takes(path_at: Callable[[int], Path], path: Path, size: int) -> bool:
    return path_at(size) == path


def _some(sizes: list[int], tried: set[int], most: int, random: Random) -> list[int]:
    """The sizes that were not tried, or so many of them."""
    new = [size for size in sizes if size not in tried]
    return sorted(random.sample(new, min(len(new), most)))


def _beyond_turning(
    finder: Finder, dtype: DType, by_way: SizesByWay, cases: list[Case], seed: int
) -> Iterator[Case]:
    """On each way, sizes just beyond those at which the plan changes its mind.

    A grid that is capped in one branch goes wrong in this branch alone.
    """
    task = finder.task
    typical = next(c for c in cases if c.name == "typical")
    for name in task.dims:
        turning = finder.turning(typical, name)
        for size, (way, sizes) in itertools.product(
            sorted(turning)[:MAX_BOUNDARY_SIZES], by_way.items()
        ):
            for dims in sorted(sizes, key=lambda d: _effort(task, d, dtype)):
                beyond = nearest_size(task, dtype, {**dims, name: size + 1}, name, 1)
                if beyond is None or _effort(task, {**dims, name: beyond}, dtype) > MAX_ELEMENTS:
                    continue
                at = {**dims, name: beyond}
                case = case_of(f"{NEAR}{_sizes_in_words(at)}", _WHY_NEAR, dtype, at, seed)
                found = finder.on_way(case, way)
                if found is not None:
                    yield found
                    break


def _beyond_16_bits(finder: Finder, dtype: DType, cases: list[Case], seed: int) -> Iterator[Case]:
    """One row beyond 2**16 elements, where the plan launches something for that: indices and counts
    of 16 bits end there, and what is computed of a size can differ without any condition.
    """
    task = finder.task
    typical = next(c for c in cases if c.name == "typical").dims
    for name, dimension in task.dims.items():
        largest = largest_size(task, dimension)
        has_one = any(c.dims[name] > _16_BITS and finder.path(c) for c in cases)
        if name == task.rows or has_one or not WIDE_SIZE <= largest < _16_BITS:
            continue
        random = random_of(seed, task, dtype.value, "16 bits", name)
        wanted = _16_BITS + random.randint(1, _16_BITS // 8)
        at = {**typical, **({task.rows: 1} if task.rows else {}), name: wanted}
        size = nearest_size(task, dtype, at, name, 1)
        if size is not None and task.elements({**at, name: size}, dtype) <= LARGE_ELEMENTS:
            case = case_of(f"{NEAR}{name}={size}", WHY_FAR, dtype, {**at, name: size}, seed)
            if finder.path(case):
                yield case


def _far_apart(finder: Finder, dtype: DType, by_way: SizesByWay, seed: int) -> Iterator[Case]:
    """On each way few rows that lie more than 2**16 packs of 16 bytes apart, where that stays on
    it: a distance that vectors can cross, or else one that they cannot.
    """
    task = finder.task
    strided = [a.name for a in task.tensors if a.strided]
    if not strided:
        return
    random = random_of(seed, task, dtype.value, "far apart")
    distance = _FAR_APART // dtype.size + 64 * random.randint(1, _16_BITS >> 9)
    for way, sizes in by_way.items():
        two = [{**dims, task.rows: 2} for dims in sizes if dims.get(task.rows, 0) > 1]
        few = min(two, key=lambda d: _rows_apart(task, d, dtype), default=None)
        if few is None or _rows_apart(task, few, dtype) > _MAX_APART:
            continue
        for padding in (distance, distance + 1):
            name = f"rows {padding} elements apart at {'x'.join(map(str, few.values()))}"
            case = case_of(name, WHY_FAR, dtype, few, seed)
            padded = msgspec.structs.replace(case, row_padding=dict.fromkeys(strided, padding))
            found = finder.on_way(padded, way)
            if found is not None and not task.violated(few, dtype):
                yield found
                break


def _rows_apart(task: KernelTask, dims: dict[str, int], dtype: DType) -> int:
    """How many rows the tensors have together whose rows may lie apart."""
    shapes = task.shapes(dims, dtype)
    return sum(math.prod(shapes[a.name][:-1]) for a in task.tensors if a.strided)


def _sizes_in_words(dims: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={size}" for name, size in dims.items())


def _near_data(
    finder: Finder, dtype: DType, by_way: SizesByWay, cases: list[Case], seed: int
) -> Iterator[Case]:
    """Cases of each way whose inputs hold the numbers that the source may compare data with.

    Rare among ordinary values, work that is skipped at such a number shows; nearly everywhere,
    work that is skipped for a row because of one place. Lone numbers, in the longest rows, show a
    maximum that is one of a part of the row.
    """
    task = finder.task
    longest = _longest_rows(finder, dtype, cases)
    random = random_of(seed, task, dtype.value, "data")
    numbers = compared_numbers(finder.source.text, MAX_NUMBERS)
    levels = [
        level
        for level in (
            zeros(task, dtype),
            among_ordinary(task, dtype, numbers),
            *mostly(task, dtype, numbers[:MAX_HELD]),
            *mostly_negative_infinity(task, dtype),
        )
        if level.values
    ]
    lone = list(lone_numbers(task, dtype))
    scalars = (
        DEFAULT_LEVEL,
        *random.sample(others := scalar_levels(task, random)[1:], len(others)),
    )
    for way, sizes in by_way.items():
        longer = longest.get(way, sizes[-1])
        at_once = [(level, DEFAULT_LEVEL, random.choice(sizes)) for level in levels]
        at_once += [(level, scalar, longer) for level in lone for scalar in scalars[:2]]
        for *combined, dims in at_once:
            name = f"{'x'.join(map(str, dims.values()))}: {words_of(combined)}"
            case = combine(case_of(name, _WHY_DATA, dtype, dims, seed), combined)
            found = finder.on_way(case, way)
            if found is not None:
                yield found


def _longest_rows(finder: Finder, dtype: DType, cases: list[Case]) -> dict[Way, dict[str, int]]:
    """Of each way the sizes, among those of the cases, with the longest row of an input, but where
    there are such with several rows.
    """

    def row(dims: Mapping[str, int]) -> tuple[bool, int]:
        inputs = (a for a in finder.task.tensors if a.is_read and a.shape)
        longest = max((finder.task.shape_of(a, dims, dtype)[-1] for a in inputs), default=0)
        return dims.get(finder.task.rows, SEVERAL) >= SEVERAL, longest

    found: dict[Way, dict[str, int]] = {}
    within = [c.dims for c in cases if not c.outside_contract and 0 not in c.dims.values()]
    for dims in sorted(within, key=row, reverse=True):
        for way in finder.ways(dims, dtype):
            found.setdefault(way, dims)
    return found


def _pairs(finder: Finder, dtype: DType, by_way: SizesByWay, seed: int) -> list[Case]:
    """The covering arrays of all ways; where they are too many, the first rows of each, with one
    whose rows lie apart before the others.
    """
    arrays = [
        _one_apart_first(_covering_array(finder, dtype, way, sizes, seed))
        for way, sizes in by_way.items()
    ]
    in_turn = (c for rank in itertools.zip_longest(*arrays) for c in rank if c is not None)
    return list(itertools.islice(in_turn, MAX_PAIRS))


def _one_apart_first(cases: list[Case]) -> list[Case]:
    apart = next((case for case in cases if case.row_padding), None)
    return cases if apart is None else [apart, *(case for case in cases if case is not apart)]


def _sizes_by_way(
    finder: Finder, dtype: DType, cases: list[Case], own: list[Case], seed: int
) -> SizesByWay:
    """Small sizes that take each way, with aligned bases or with shifted ones: those of some cases,
    of the source's own ones whichever there are, and drawn ones.
    """
    task = finder.task
    random = random_of(seed, task, dtype.value, "sizes")
    every = [*cases, *own]
    known = {tuple(c.dims.values()): c.dims for c in every if not c.outside_contract}
    runs = {tuple(c.dims.values()) for c in own}
    rows = {1, 2, 5, *(c.dims[task.rows] for c in every)} if task.rows else set()
    drawn = [draw_dims(task, dtype, PAIR_ELEMENTS, random) for _ in range(DRAWN_SIZES)]
    for count in sorted(rows):
        drawn.append(draw_dims(task, dtype, PAIR_ELEMENTS, random, {task.rows: count}))
    for dims in drawn:
        if dims is not None:
            known[tuple(dims.values())] = dims
    found: SizesByWay = {}
    for key, dims in known.items():
        most = LARGE_ELEMENTS if key in runs else MAX_ELEMENTS
        if 0 < task.elements(dims, dtype) <= most and 0 not in dims.values():
            for way in finder.ways(dims, dtype):
                found.setdefault(way, []).append(dims)
    if any(choices for _, choices in found):
        in_vain = 0
        for dims in _drawn_for_choices(finder, dtype, cases[0], rows, random):
            in_vain += 1
            for way in finder.ways(dims, dtype):
                if len(found.setdefault(way, [])) < 2 and dims not in found[way]:
                    found[way].append(dims)
                    in_vain = 0
            if in_vain == DRAWN_IN_VAIN:
                break
    return {
        way: _chosen_sizes(finder, dtype, sizes, random) for way, sizes in found.items() if way[0]
    }


def _drawn_for_choices(
    finder: Finder, dtype: DType, case: Case, rows: set[int], random: Random
) -> Iterator[dict[str, int]]:
    """Many small sizes, with few rows and with those at which the plan changes its mind."""
    task = finder.task
    if task.rows:
        turning = finder.turning(case, task.rows)
        rows = {*rows, *turning, *(size - 1 for size in turning)}
    few = sorted(count for count in rows if 0 < count <= FEW_ROWS)
    for _ in range(DRAWN_FOR_CHOICES):
        fixed = {task.rows: random.choice(few)} if few else {}
        dims = draw_dims(task, dtype, PAIR_ELEMENTS, random, fixed)
        if dims is not None:
            yield dims


def _chosen_sizes(
    finder: Finder, dtype: DType, sizes: list[dict[str, int]], random: Random
) -> list[dict[str, int]]:
    """The smallest, two drawn small ones, the one with most rows, and the widest of small ones."""
    task = finder.task
    sizes = sorted(sizes, key=lambda dims: _effort(task, dims, dtype))
    small = [
        dims
        for dims in sizes
        if _effort(task, dims, dtype) <= PAIR_ELEMENTS
        and finder.threads(dims, dtype) <= PAIR_THREADS
    ] or sizes[:1]
    chosen = [*small[:1], *random.sample(small, min(2, len(small)))]
    for names in ({task.rows}, set(task.dims) - {task.rows}):
        chosen.append(max(small, key=lambda d: max((d[n] for n in names if n in d), default=0)))
    return [dims for k, dims in enumerate(chosen) if dims not in chosen[:k]]


def _effort(task: KernelTask, dims: dict[str, int], dtype: DType) -> int:
    """What a case costs, in elements: blocks that do little cost as well."""
    return task.elements(dims, dtype) + ELEMENTS_OF_ROW * dims.get(task.rows, 0)


def _covering_array(
    finder: Finder, dtype: DType, way: Way, sizes: list[dict[str, int]], seed: int
) -> list[Case]:
    task = finder.task
    # Not from the way: it has lines in it, which shift while the cases should stay.
    random = random_of(seed, task, dtype.value, "levels")
    bases, rows = offset_levels(task, random), row_levels(task, random)
    values, scalars = value_levels(task, dtype), scalar_levels(task, random)
    layouts = [(base, rows[0]) for base in bases]
    layouts += [(base, row) for row in rows[1:] for base in random.sample(bases, 3)]
    layouts += [(bases[0], row) for row in rows[1:]]
    combined: list[tuple[dict[str, int], tuple[Level, ...]]] = []
    factors: list[tuple[Hashable, ...]] = []
    for dims in sizes:
        for base, row in layouts:
            placed = combine(Case("", "", dtype, dims), (base, row))
            if finder.way(placed) == way:
                for kind, value in enumerate(values):
                    levels = base, row, random.choice(value), random.choice(scalars)
                    combined.append((dims, levels))
                    factors.append((kind, levels[-1].words, *_layout_factors(task, placed)))
    order = random.sample(range(len(combined)), len(combined))
    found = []
    for index in cover_pairs([factors[k] for k in order]):
        dims, chosen = combined[order[index]]
        name = f"{PAIR_AT}{'x'.join(map(str, dims.values()))}: {words_of(chosen)}"
        found.append(combine(case_of(name, WHY_PAIRS, dtype, dims, seed), chosen))
    return found


def _layout_factors(task: KernelTask, case: Case) -> Iterator[Hashable]:
    """What else has to meet in pairs: sizes, and of each tensor its base and how far rows lie."""
    yield tuple(case.dims.values())
    for argument in task.tensors:
        yield case.offsets.get(argument.name, 0)
        if argument.strided:
            yield case.row_padding.get(argument.name, 0)


_WHY_COMPARED = "a size that this source compares with"
_WHY_NEAR = "at, or next to, a size that this source compares with"
_16_BITS, _FAR_APART, _MAX_APART = 1 << 16, 1 << 20, 32
WHY_FAR = "beyond every listed size: numbers of 16 or 32 bits end here"
_WHY_DATA = "inputs hold numbers that this source may compare them with"
WHY_PAIRS = "on each path of this source, every two of size, layout, values and scalars meet"


def untried_paths(
    task: KernelTask, source: Source, cases: tuple[Case, ...], attributes: Mapping[str, int]
) -> tuple[UntriedPath, ...]:
    """The workloads whose path no case takes, each path once."""
    finder = Finder(task, source, attributes)
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
