"""Cases that are no small ones: many rows on inputs of every kind, and sizes that nothing lists.

Numbers of 16, 24, 32 bits end somewhere, and each path of a source has to be right there as well.
What is too large for all of it to run is looked at in part.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from astra_tui.lab.check.combinations import (
    DEFAULT_LEVEL,
    Level,
    case_of,
    combine,
    largest_size,
    nearest_size,
    offset_levels,
    random_of,
    row_levels,
    scalar_levels,
    seed_of_case,
    value_levels,
    words_of,
)
from astra_tui.lab.check.execution import Source
from astra_tui.lab.check.kernels import workload_cases
from astra_tui.lab.check.paths import WHY_FAR, WHY_PAIRS, WIDE_SIZE
from astra_tui.lab.check.ways import Finder, Levels, Path
from astra_tui.model.check import FAR, MANY_ROWS, WIDE, Case
from astra_tui.model.dtypes import DType
from astra_tui.model.launch import print_expression
from astra_tui.model.launch.expression import Binary, Expression
from astra_tui.model.task import KernelTask

MAX_WIDE_ELEMENTS = 1 << 29
"""Elements of the largest tensor of a case of wide rows, all of which a GPU judges."""

MAX_BYTES = 1 << 38
"""Bytes of all buffers of a case on an emulator, which keeps tables of their pages."""

MAX_FAR_PATHS = 64
"""Paths of which one kind of far sizes is looked at in part: each has a kernel of its own."""

_ROWS_OF_16_BITS, _ROWS_OF_FLOATS = 1 << 16, 1 << 25
_FAR_ELEMENTS, _FAR_BYTES = 1 << 32, 1 << 35
_LONG_BYTES, _LONG_ELEMENTS = 1 << 20, 1 << 22
_LARGEST_INT = (1 << 31) - 1
_VARIED_ELEMENTS = 1 << 18
_MAX_WIDTHS = 24
_WHY_WIDE = "rows wider than listed, as many as a workload has"


def many_rows(
    task: KernelTask,
    source: Source,
    attributes: Mapping[str, int],
    seed: int,
    *,
    every_value: bool = False,
) -> tuple[Case, ...]:
    """Workloads' rows, of little width, on layouts, values and scalars of every kind.

    A few for each path that workloads take: those with most rows come first. With `every_value`
    each choice of values, those of the task's own cases too, meets aligned bases and shifted ones.
    """
    if not task.rows:
        return ()
    finder = Finder(task, source, attributes)
    seen: set[Path] = set()
    found = []
    for workload in sorted(task.workloads, key=lambda w: -w.dims[task.rows]):
        own, dtype = dict(workload.dims), workload.dtype
        narrow = _narrow(finder, own, dtype, seen)
        if narrow is None:
            continue
        usual = Case("", "", dtype, narrow)
        path = finder.path(usual)

        def stays(levels: Levels, usual: Case = usual, path: Path = path) -> bool:
            return finder.path(combine(usual, levels)) == path

        for levels in _varied(task, dtype, seed, stays if every_value else None):
            dims = narrow
            if every_value and not stays(levels):  # That path may be had at less width.
                dims = _narrow(finder, own, dtype, set(), levels) or narrow
            name = f"{MANY_ROWS}{'x'.join(map(str, dims.values()))}: {words_of(levels)}"
            found.append(combine(case_of(name, WHY_PAIRS, dtype, dims, seed), levels))
    return tuple(found)


def _varied(
    task: KernelTask, dtype: DType, seed: int, stays: Callable[[Levels], bool] | None
) -> Iterator[Levels]:
    """Every kind of values, each with another base, distance of rows and scalar.

    With `stays`, which says whether levels leave the path that the sizes are for, all values of
    each kind: on aligned bases, with rows that stay on the path where there are such, and on
    shifted bases.
    """
    random = random_of(seed, task, dtype.value, "many rows")
    bases, rows = offset_levels(task, random), row_levels(task, random)
    scalars = scalar_levels(task, random)
    kinds = value_levels(task, dtype)
    if stays is not None:
        own = (Level(c.name, values=c.values) for c in task.cases if c.values)
        kinds = tuple((level,) for level in (*itertools.chain.from_iterable(kinds), *own))
    for kind in kinds:
        value = random.choice(kind)
        if stays is None:
            base = random.choice(bases if value.words else bases[1:])
            yield base, random.choice(rows), value, random.choice(scalars)
            continue
        scalar = random.choice(scalars)
        aligned = [(bases[0], row, value, scalar) for row in random.sample(rows, len(rows))]
        yield next(filter(stays, aligned), aligned[0])
        yield random.choice(bases[1:]), random.choice(rows), value, random.choice(scalars)


def far_cases(
    task: KernelTask,
    source: Source,
    attributes: Mapping[str, int],
    seed: int,
    small: Sequence[Case] | None = None,
) -> tuple[tuple[Case, bool], ...]:
    """Sizes far beyond the listed ones for each path of a workload that can be launched there.

    Beyond 2**16 rows of little width, and an output of more than 2**32 elements. The latter has a
    True with it: it is looked at in part. With `small`, a case of each path that small ones take,
    more is looked at in part, as an emulator can, which holds what is touched alone. On each path,
    those of small cases too, that is an output of more than 2**31 packs of 16 bytes; on workloads'
    paths more rows than a float32 counts, and a row of more than 2**16 packs.
    """
    if not task.rows:
        return ()
    random = random_of(seed, task, "far")
    far = _FarCases(Finder(task, source, attributes), seed)
    levels = DEFAULT_LEVEL, offset_levels(task, random)[1]
    for workload in task.workloads:
        more = random.randint(1, 64)
        for level in levels:
            usual = Case(level.words, "", workload.dtype, dict(workload.dims))
            like = combine(usual, (level,))
            far.add_narrow(like, level, _ROWS_OF_16_BITS + more, in_part=False)
            if small is None:
                far.add_large(like, _FAR_ELEMENTS // far.of_row(like) + more)
            else:
                far.add_narrow(like, level, _ROWS_OF_FLOATS + more, in_part=True)
                far.add_packs(like, more)
                if not level.words:
                    far.add_long(like, more)
    for case in small or ():
        like = msgspec.structs.replace(case, name=f"as {case.name}", values={})
        far.add_packs(like, random.randint(1, 64))
    return tuple(far.found)


def many_on_paths(
    task: KernelTask,
    source: Source,
    attributes: Mapping[str, int],
    seed: int,
    small: Sequence[Case],
) -> tuple[Case, ...]:
    """More than 2**16 rows, of little width where that stays there, on each path that some small
    cases take and no workload.
    """
    if not task.rows:
        return ()
    finder = Finder(task, source, attributes)
    far, of_workloads = _FarCases(finder, seed), set(map(finder.path, workload_cases(task)))
    rows = _ROWS_OF_16_BITS + random_of(seed, task, "many on paths").randint(1, 64)
    for case in small:
        if finder.path(case) not in of_workloads:
            level = Level("", case.offsets, case.row_padding, scalars=case.scalars)
            like = msgspec.structs.replace(case, name=f"as {case.name}", values={})
            far.add_narrow(like, level, rows, in_part=False)
    cases = (case for case, _ in far.found)
    return tuple(c for c in cases if task.elements(c.dims, c.dtype) <= MAX_WIDE_ELEMENTS)


class _FarCases:
    """Far sizes for cases like some given ones, of each kind one for a path."""

    def __init__(self, finder: Finder, seed: int):
        self.found: list[tuple[Case, bool]] = []
        """And whether it is looked at in part."""
        self._finder, self._seed = finder, seed
        self._task, self._rows = finder.task, finder.task.rows
        self._seen: dict[str, set[Path]] = {}

    def of_row(self, like: Case) -> int:
        """Elements of a row of the output that has most."""
        return max(self._items_of_rows(like))

    def _items_of_rows(self, like: Case) -> Iterator[int]:
        one = {**like.dims, self._rows: 1}
        for output in self._task.outputs:
            yield max(math.prod(self._task.shape_of(output, one, like.dtype)), 1)

    def add_narrow(self, like: Case, level: Level, rows: int, *, in_part: bool) -> None:
        """So many rows of little width."""
        dims = {**like.dims, self._rows: rows}
        seen = self._seen.setdefault(f"narrow, in part: {in_part}", set())
        found = _narrow(self._finder, dims, like.dtype, seen, (level,))
        if found is None or self._task.violated(found, like.dtype):
            return
        if not in_part or self._bytes(found, like.dtype) <= MAX_BYTES:
            self._note(like, found, in_part=in_part)

    def add_large(self, like: Case, rows: int) -> bool:
        """So many rows, in part. Whether that can be launched."""
        return self._add("large", like, {**like.dims, self._rows: rows})

    def add_packs(self, like: Case, more: int) -> None:
        """More than 2**31 packs of 16 bytes in an output, or as many rows as a grid may have."""
        sizes = (self._task.dtype_of(o, like.dtype).size for o in self._task.outputs)
        of_row = max(n * size for n, size in zip(self._items_of_rows(like), sizes, strict=True))
        rows = min(_FAR_BYTES // of_row, _LARGEST_INT - 64) + more
        is_held = self._bytes({**like.dims, self._rows: rows}, like.dtype) <= MAX_BYTES
        if not is_held or not self.add_large(like, rows):
            self.add_large(like, _FAR_ELEMENTS // self.of_row(like) + more)

    def _bytes(self, dims: dict[str, int], dtype: DType) -> int:
        shapes = self._task.shapes(dims, dtype).values()
        sizes = (self._task.dtype_of(a, dtype).size for a in self._task.tensors)
        return sum(n * size for n, size in zip(map(math.prod, shapes), sizes, strict=True))

    def add_long(self, like: Case, more: int) -> None:
        """One row of more than 2**16 packs along each dimension that may be so long, once."""
        of_element = self._task.dtype_of(self._task.outputs[0], like.dtype).size
        for name, dimension in self._task.dims.items():
            if name != self._rows and largest_size(self._task, dimension) >= WIDE_SIZE:
                wanted = _LONG_BYTES // of_element + 64 * more
                dims = {**like.dims, self._rows: 1, name: wanted}
                size = nearest_size(self._task, like.dtype, dims, name, 1)
                long = {**dims, name: size or wanted}
                if size is not None and self._task.elements(long, like.dtype) <= _LONG_ELEMENTS:
                    self._add("long", like, long, most=1)

    def _add(
        self, kind: str, like: Case, dims: dict[str, int], *, most: int = MAX_FAR_PATHS
    ) -> bool:
        path = self._finder.path(msgspec.structs.replace(like, dims=dims))
        if not path or self._task.violated(dims, like.dtype):
            return False
        seen = self._seen.setdefault(kind, set())
        if path not in seen and len(seen) < most:
            seen.add(path)
            self._note(like, dims, in_part=True)
        return True

    def _note(self, like: Case, dims: dict[str, int], *, in_part: bool) -> None:
        name = f"{FAR}{'x'.join(map(str, dims.values()))}"
        name += f": {like.name}" if like.name else ""
        seed = seed_of_case(self._seed, like.dtype, name)
        case = msgspec.structs.replace(like, name=name, why=WHY_FAR, dims=dims, seed=seed)
        self.found.append((case, in_part))


def _narrow(
    finder: Finder, dims: dict[str, int], dtype: DType, seen: set[Path], levels: Levels = ()
) -> dict[str, int] | None:
    """Sizes of as many rows and little width that take the same path, which is noted.

    None where the path is in `seen` already, or nothing is launched.
    """
    task = finder.task
    path = finder.path(combine(Case("", "", dtype, dims), levels))
    if not path or path in seen:
        return None
    seen.add(path)
    others = [name for name in dims if name != task.rows]
    sizes = [{dims[n], *(s for s in task.dims[n].sizes if 0 < s < dims[n])} for n in others]
    every = [
        {**dims, **dict(zip(others, chosen, strict=True))} for chosen in itertools.product(*sizes)
    ]
    every = [d for d in every if not task.violated(d, dtype)]
    every.sort(key=lambda d: abs(task.elements(d, dtype) - _VARIED_ELEMENTS))
    for tried in every[:_MAX_WIDTHS]:
        if finder.path(combine(Case("", "", dtype, tried), levels)) == path:
            return tried
    return dims


def wide_cases(
    task: KernelTask, source: Source, attributes: Mapping[str, int], seed: int
) -> tuple[Case, ...]:
    """Rows some times as wide as each path's widest workload has, and no fewer of them."""
    if not task.rows:
        return ()
    finder = Finder(task, source, attributes)
    random = random_of(seed, task, "wide")
    seen: set[Path] = set()
    found = []
    for workload in sorted(task.workloads, key=lambda w: -task.elements(w.dims, w.dtype)):
        own = Case(workload.name, "", workload.dtype, dict(workload.dims))
        path = finder.path(own)
        factor = random.randint(2, 4)
        others = {n: factor * size for n, size in own.dims.items() if n != task.rows}
        dims = {**own.dims, **others}
        if not path or path in seen or task.violated(dims, own.dtype):
            continue
        name = f"{WIDE}{'x'.join(map(str, dims.values()))}"
        case = case_of(name, _WHY_WIDE, own.dtype, dims, seed)
        if task.elements(dims, own.dtype) <= MAX_WIDE_ELEMENTS and finder.path(case) == path:
            seen.add(path)
            found.append(case)
    return tuple(found)


def far_remedy(task: KernelTask, case: Case) -> str:
    """What a task may say of a kernel whose 32 bits end at a far size; "" where they do not."""
    elements = {
        " * ".join(map(_factor, a.shape)): math.prod(task.shape_of(a, case.dims, case.dtype))
        for a in task.tensors
    }
    product = max(elements, key=elements.__getitem__, default="")
    if FAR not in case.name or elements.get(product, 0) <= _LARGEST_INT:
        return ""
    return (
        f"; if its indices are meant to have 32 bits, say so in task.toml: "
        f'accepts = [..., "{product} <= {_LARGEST_INT}"]'
    )


def _factor(size: Expression) -> str:
    text = print_expression(size)
    is_sum = isinstance(size, Binary) and size.operator != "*"
    return f"({text})" if is_sum else text
