"""A workload, or a size that nothing lists, at its own size on the emulator.

Some blocks run in full, on memory that exists only where it is touched. What they wrote is compared
with the reference, which is computed for the rows that matter alone. `fullsize.py` and `in_part.py`
say which blocks run.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import msgspec
import numpy as np

from astra_tui.emulator.device import Emulator
from astra_tui.emulator.faults import Unsupported
from astra_tui.emulator.ptx.module import PtxError
from astra_tui.emulator.whole import Sampled, WholePlan
from astra_tui.lab.check.beyond import MAX_BYTES, far_remedy
from astra_tui.lab.check.binding import bind_launch
from astra_tui.lab.check.execution import Source, accepts_of
from astra_tui.lab.check.inputs import DrawnInputs, Inputs, draw_elements, drawer_of, scalars_of
from astra_tui.lab.check.layout import PADDING_BYTE, TensorLayout, layouts_of
from astra_tui.model.bit_patterns import raw_dtype
from astra_tui.model.check import Case, CaseOutcome, FullSizeResult, OutputError, OutputShare
from astra_tui.model.compilation import Compilation
from astra_tui.model.device import ArgumentRole, DeviceBuffer
from astra_tui.model.digest import content_hash
from astra_tui.model.findings import Finding
from astra_tui.model.launch import ResolvedPlan
from astra_tui.model.task import Argument, KernelTask

DRAWN_ROWS = 6
DRAWN_PLACES = 256
"""Places of each output that have to be written where data decides who writes them."""

_ROOTS = frozenset({"setp"})


@dataclass(frozen=True)
class _Drawn:
    """The bytes of an input, drawn where they are read."""

    inputs: DrawnInputs
    case: Case
    layout: TensorLayout

    @cached_property
    def _key(self) -> tuple[bytes, str]:
        return msgspec.json.encode(self.case), self.layout.argument.name

    def __len__(self) -> int:
        return self.layout.elements * self.layout.dtype.size

    def read(self, first: Any, size: int) -> Any:
        return self.inputs.read(self._key, self._draw, first, size)

    def _draw(self, first: Any, size: int) -> Any:
        of_element = self.layout.dtype.size
        places = (first // of_element)[:, None] + np.arange(size // of_element)
        if self.layout.is_contiguous:
            return self._elements(places).view(np.uint8)
        columns, pitch = self.layout.shape[-1], self.layout.strides[-2]
        row, column = places // pitch, places % pitch
        data = self._elements(row * columns + np.minimum(column, columns - 1)).view(np.uint8)
        gaps = np.repeat(column >= columns, of_element, axis=1)
        return np.where(gaps, np.uint8(PADDING_BYTE), data)

    @cached_property
    def _elements(self) -> Callable[[Any], Any]:
        return drawer_of(self.inputs.task, self.case, self.layout.argument.name)


@dataclass(frozen=True)
class _Undefined:
    """The bytes of a buffer that nothing has written: all ones."""

    size: int

    def __len__(self) -> int:
        return self.size

    def read(self, first: Any, size: int) -> Any:
        return np.full((len(first), size), 0xFF, np.uint8)


JudgeRows = Callable[[Case, Callable[[], Inputs], "dict[str, WrittenElements]"], list[OutputError]]
"""Compares written elements of some rows with the reference, by output."""


@dataclass(frozen=True)
class WrittenElements:
    """Elements of one output: bit patterns in its shape for some rows, and which were written."""

    bits: Any
    where: Any


class OwnSize(ABC):
    """One size of a source. Where what it does is too much, `_given_up` says so."""

    def __init__(
        self,
        task: KernelTask,
        device: Emulator,
        source: Source,
        compilation: Compilation,
        case: Case,
        seed: int,
        drawn: DrawnInputs | None = None,
    ):
        name = f"full size of {case.name}, seed {seed}"
        self.inputs = drawn or DrawnInputs(task)
        self.task = task
        self.device = device
        self.source = source
        self.compilation = compilation
        self.workload = case.name
        self.case = msgspec.structs.replace(case, name=name)
        self.layouts = layouts_of(task, self.case)
        self.random = np.random.Generator(np.random.Philox(_seed_of(task, name)))
        self.rows = case.dims[task.rows] if task.rows else 1
        self.result = FullSizeResult(case.name, CaseOutcome.PASSED)

    def run(self, resolved: ResolvedPlan, judge: JudgeRows) -> FullSizeResult:
        """Runs it; what is wrong, or what could not be established, is in the result."""
        self.resolved = resolved
        why = self._too_large()
        if why:
            return self._given_up(why)
        try:
            self.plan = self._plan(self.compilation, _ROOTS)
            blocks = sum(math.prod(launch.grid) for launch in self.plan.launches)
            self.result = msgspec.structs.replace(self.result, blocks=blocks)
            result = self._run(judge)
        except (PtxError, Unsupported) as error:
            return self._end(CaseOutcome.UNSUPPORTED, str(error))
        except MemoryError:
            return self._given_up("it needs more memory than the emulator may have")
        if result.outcome not in (CaseOutcome.WRONG, CaseOutcome.FAULT):
            return result
        remedy = far_remedy(self.task, self.case)
        return msgspec.structs.replace(result, message=result.message + remedy)

    @abstractmethod
    def _run(self, judge: JudgeRows) -> FullSizeResult:
        """Runs some blocks of `plan`, and judges what they wrote. Raises as `_plan` does."""

    @abstractmethod
    def _given_up(self, why: str) -> FullSizeResult:
        """The result where too little can be run."""

    # -- before anything runs ----------------------------------------------------------------------

    def _too_large(self) -> str:
        sizes = [t.elements * t.dtype.size for t in self.layouts.values()]
        sizes += [math.prod(w.shape) * w.dtype.size for w in self.resolved.workspaces]
        if sum(sizes) > MAX_BYTES:
            return (
                f"its buffers have {sum(sizes) >> 30} GiB; at most {MAX_BYTES >> 30} are emulated"
            )
        return ""

    def _plan(self, compilation: Compilation, roots: frozenset[str]) -> WholePlan:
        """The launches, on inputs drawn where they are read. Raises PtxError or Unsupported."""
        types = {name: layout.dtype for name, layout in self.layouts.items()}
        types.update({w.name: w.dtype for w in self.resolved.workspaces})
        launches = tuple(
            bind_launch(compilation.kernel(launch.kernel), launch, types, self.source.file)
            for launch in self.resolved.launches
        )
        buffers = [self._buffer(layout) for layout in self.layouts.values()]
        for workspace in self.resolved.workspaces:
            size = math.prod(workspace.shape) * workspace.dtype.size
            buffers.append(DeviceBuffer(workspace.name, ArgumentRole.WORKSPACE, _Undefined(size)))
        accepts = accepts_of(self.task, self.source)
        return WholePlan(self.device, compilation.ptx, launches, tuple(buffers), roots, accepts)

    def _buffer(self, layout: TensorLayout) -> DeviceBuffer:
        argument = layout.argument
        use = argument.role
        content: Any = _Undefined(layout.elements * layout.dtype.size)
        if argument.is_read:
            content = _Drawn(self.inputs, self.case, layout)
        misalignment = layout.offset * layout.dtype.size
        return DeviceBuffer(argument.name, use, content, misalignment, stable=argument.stable)

    # -- which places ------------------------------------------------------------------------------

    def _draw(self, rows: int, *, many: bool) -> None:
        """Draws the rows that are judged, and the places whose writers are to be known."""
        self.drawn = self._drawn_rows(rows)
        self.wanted = self._places(many)

    def _drawn_rows(self, count: int) -> Any:
        """The first row, the last, and some drawn: the same for all candidates."""
        drawn = self.random.integers(0, max(self.rows, 1), count)
        return np.unique(np.concatenate([[0, self.rows - 1], drawn, self._far_rows()]))

    def _far_rows(self) -> Any:
        """Rows at which the number of the row, or of an element, passes a power of two that a
        number of 16 or 32 bits ends at, and the first that a float32 does not hold.
        """
        rows = {1 << 15, 1 << 16, (1 << 24) + 1}
        for layout in self.layouts.values():
            if self.task.has_rows(layout.argument):
                of_row = max(layout.strides[0], 1)
                rows |= {(1 << bits) // of_row + 1 for bits in (31, 32) if of_row > 256}
        return np.array(sorted(row for row in rows if row < self.rows), np.int64)

    def _places(self, many: bool) -> dict[str, Any]:
        """Byte offsets into each output whose writers are to be known."""
        found = {}
        for argument in self.task.outputs:
            layout = self.layouts[argument.name]
            elements = math.prod(layout.shape)
            if not elements:
                continue
            if self.task.has_rows(argument):
                of_row = max(math.prod(layout.shape[1:]), 1)
                times = -(-DRAWN_PLACES // len(self.drawn)) if many else 1
                columns = self.random.integers(0, of_row, (len(self.drawn), times))
                edges = np.tile([[0, of_row - 1]], (len(self.drawn), 1))
                places = self.drawn[:, None] * of_row + np.concatenate([columns, edges], axis=1)
            else:
                count = DRAWN_PLACES if many else 4 * DRAWN_ROWS
                drawn = self.random.integers(0, elements, count)
                places = np.concatenate([[0, elements - 1], drawn])
            found[argument.name] = offsets_in(layout, np.unique(places.reshape(-1)))
        return found

    def _name(self, argument: Argument, offset: int) -> str:
        """An element in words: "out[3, 17]"."""
        layout = self.layouts[argument.name]
        place = offset // layout.dtype.size
        if not layout.is_contiguous:
            row, column = divmod(place, layout.strides[-2])
            place = row * layout.shape[-1] + min(column, layout.shape[-1] - 1)
        index = [int(i) for i in np.unravel_index(place, layout.shape)]
        index[-1] *= layout.dtype.per_item
        return f"{argument.name}[{', '.join(map(str, index))}]"

    # -- what they wrote ---------------------------------------------------------------------------

    def _run_blocks(self, chosen: list[set[int]], budget: int) -> Sampled:
        sampled, _ = self.plan.run(ordered(chosen), budget)
        run = sum(map(len, chosen))
        self.result = msgspec.structs.replace(self.result, blocks_run=run)
        return sampled

    def _judged(self, sampled: Sampled, judge: JudgeRows) -> FullSizeResult:
        outputs: list[OutputError] = []
        judged = dict.fromkeys((a.name for a in self.task.outputs), 0)
        for rows in self._row_sets(sampled):
            written = {a.name: self._written(sampled, a, rows) for a in self.task.outputs}
            for name, part in written.items():
                judged[name] += int(part.where.sum())
            digest = content_hash(rows.tobytes())[:16]
            case = msgspec.structs.replace(
                self.case, name=f"{self.case.name}, rows {digest}", dims=self._dims(len(rows))
            )
            for error in judge(case, partial(self._inputs, rows), written):
                outputs.append(self._placed(error, rows))
        shares = tuple(
            OutputShare(name, count, math.prod(self.layouts[name].shape))
            for name, count in judged.items()
        )
        self.result = msgspec.structs.replace(self.result, outputs=tuple(outputs), shares=shares)
        wrong = next((o for o in outputs if not o.ok), None)
        if wrong is not None:
            return self._end(CaseOutcome.WRONG, f"{wrong.argument}: {wrong.problem}")
        return self.result

    def _row_sets(self, sampled: Sampled) -> Iterator[Any]:
        """The drawn rows, which are cached, and those that this candidate's branches ask for."""
        yield self.drawn
        more = self._other_rows(sampled)
        rest = np.array(sorted(more - set(self.drawn.tolist()) - {-1}), np.int64)
        if len(rest):
            yield rest

    def _other_rows(self, sampled: Sampled) -> set[int]:
        """More rows that are judged: some that the blocks wrote. -1 is none."""
        outputs = (a for a in self.task.outputs if self.task.has_rows(a))
        return set().union(*(self._some_written_rows(sampled, a) for a in outputs))

    def _some_written_rows(self, sampled: Sampled, argument: Argument) -> set[int]:
        """Rows that the blocks wrote, all where these are few."""
        memory, layout = sampled.memory, self.layouts[argument.name]
        of_row = layout.strides[0] * layout.dtype.size
        offsets = memory.granules(self.plan.tracked(argument.name), memory.stored)
        rows = np.unique(offsets // max(of_row, 1))
        if len(rows) > DRAWN_ROWS:
            rows = self.random.choice(rows, DRAWN_ROWS, replace=False)
        return set(rows.tolist())

    def _dims(self, rows: int) -> dict[str, int]:
        dims = dict(self.case.dims)
        if self.task.rows:
            dims[self.task.rows] = rows
        return dims

    def _inputs(self, rows: Any) -> Inputs:
        tensors = {}
        for argument in self.task.tensors:
            if argument.is_read:
                shape = self.layouts[argument.name].shape
                places: Any = range(math.prod(shape))
                if self.task.has_rows(argument):
                    places, shape = self._elements(argument, rows)
                drawn = draw_elements(self.task, self.case, argument.name, places)
                tensors[argument.name] = drawn.reshape(shape)
        return Inputs(tensors, scalars_of(self.task, self.case))

    def _elements(self, argument: Argument, rows: Any) -> tuple[Any, tuple[int, ...]]:
        """Flat indices of the elements in some rows (all, where it has none), and their shape."""
        shape = self.layouts[argument.name].shape
        if not self.task.has_rows(argument):
            return np.arange(math.prod(shape)), shape
        of_row = math.prod(shape[1:])
        return (rows[:, None] * of_row + np.arange(of_row)).reshape(-1), (len(rows), *shape[1:])

    def _written(self, sampled: Sampled, argument: Argument, rows: Any) -> WrittenElements:
        places, shape = self._elements(argument, rows)
        dtype = self.layouts[argument.name].dtype
        offsets = offsets_in(self.layouts[argument.name], places)
        data, stored = sampled.memory.read(argument.name, offsets, dtype.size)
        bits = np.ascontiguousarray(data).view(raw_dtype(dtype)).reshape(-1)
        where = stored.all(axis=1)
        if argument.is_read:
            kept = self._is_kept(argument, places) & ~stored.any(axis=1)
            if kept.any():
                bits[kept] = draw_elements(self.task, self.case, argument.name, places[kept])
                where |= kept
        return WrittenElements(bits.reshape(shape), where.reshape(shape))

    def _is_kept(self, argument: Argument, places: Any) -> Any:
        """Which elements it is known that no block of the grid stores, by flat index."""
        del argument
        return np.zeros(len(places), np.bool_)

    def _placed(self, error: OutputError, rows: Any) -> OutputError:
        """The same with the row's number in the workload."""
        if not error.at or not self.task.has_rows(self.task.args[error.argument]):
            return error
        at = (int(rows[error.at[0]]), *error.at[1:])
        return msgspec.structs.replace(error, at=at)

    def _unwritten(self, sampled: Sampled) -> str:
        """The first drawn place that no block wrote."""
        for argument in self.task.outputs:
            offsets = self.wanted.get(argument.name)
            if offsets is None or argument.is_read:
                continue
            _, stored = sampled.memory.read(argument.name, offsets, 1)
            if not stored.all():
                place = int(offsets[int((~stored[:, 0]).argmax())])
                return f"no block that ran wrote {self._name(argument, place)}"
        return ""

    # -- how it ends -------------------------------------------------------------------------------

    def _end(self, outcome: CaseOutcome, message: str) -> FullSizeResult:
        return msgspec.structs.replace(self.result, outcome=outcome, message=message)

    def _fault(self, finding: Finding) -> FullSizeResult:
        self.result = msgspec.structs.replace(self.result, findings=(finding,))
        return self._end(CaseOutcome.FAULT, finding.describe())


def offsets_in(layout: TensorLayout, places: Any) -> Any:
    """Where elements lie in a tensor's memory, in bytes, by flat index in its logical shape."""
    if not layout.is_contiguous:
        columns = layout.shape[-1]
        places = places // columns * layout.strides[-2] + places % columns
    return places * layout.dtype.size


def ordered(chosen: Iterable[set[int]]) -> list[Any]:
    """The blocks of each launch, in order."""
    return [np.array(sorted(blocks), np.int64) for blocks in chosen]


def _seed_of(task: KernelTask, name: str) -> int:
    digest = hashlib.sha256(f"{task.name}|{name}".encode()).digest()
    return int.from_bytes(digest[:8], "little")
