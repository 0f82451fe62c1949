"""Every workload at its own size on the emulator.

The skeleton of every block shows which bytes are stored and who took which side of each branch
(`emulator/skeleton.py`). Then some blocks run in full, on memory that exists only where it is
touched: the blocks that write drawn rows, the first and the last, and for each side of a branch
the first and the last block that took it. What they wrote is compared with the reference, which
is computed for the rows that matter alone.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import msgspec
import numpy as np

from astra_tui.emulator.device import Emulator
from astra_tui.emulator.faults import Unsupported
from astra_tui.emulator.memory import ATOMIC
from astra_tui.emulator.ptx.module import PtxError
from astra_tui.emulator.stores import first_missing
from astra_tui.emulator.tiles import Sample
from astra_tui.emulator.whole import GridSkeleton, Sampled, Wanted, WholePlan
from astra_tui.lab.check.beyond import MAX_BYTES, far_remedy
from astra_tui.lab.check.binding import bind_launch
from astra_tui.lab.check.execution import Source, accepts_of
from astra_tui.lab.check.inputs import DrawnInputs, Inputs, draw_elements, drawer_of, scalars_of
from astra_tui.lab.check.layout import PADDING_BYTE, TensorLayout, layouts_of
from astra_tui.model.bit_patterns import raw_dtype
from astra_tui.model.check import FAR, Case, CaseOutcome, FullSizeResult, OutputError, OutputShare
from astra_tui.model.compilation import Compilation
from astra_tui.model.device import ArgumentRole, DeviceBuffer, PackedLaunch, Sides
from astra_tui.model.digest import content_hash
from astra_tui.model.findings import Finding, FindingKind
from astra_tui.model.launch import ResolvedPlan
from astra_tui.model.task import Argument, KernelTask

SKELETON_BUDGET = 3_000_000
"""Steps of all skeletons of one workload, see `run_skeleton`: some three seconds at most."""

FAR_BUDGET = 600_000
"""The same of sizes far beyond the listed ones."""

RUN_BUDGET = 300_000
"""Steps of the blocks of one workload that run in full."""

PART_BUDGET, ROW_BUDGET = 40_000, 15_000
"""The same where no skeleton says what blocks do, about a second, and where that is a lone row."""

MAX_PIECES = 1 << 29
"""Stored pieces of all writable buffers, one byte each, where the skeleton of a grid runs."""

WHOLE_STEPS = 200_000
"""Steps of a whole grid, as far as sizes tell, up to which it runs in full where data decides."""

_OF_ROW = 4
"""Blocks of a row that run where a size is looked at in part."""

_STEPS_OF_ELEMENT = 8
"""Instructions for each element of a buffer, at least."""

_STEPS_OF_STORE = 4
"""Instructions for each 16 bytes that a thread stores, at least."""

_ON_GPU = "a GPU judges all rows: --device cuda:0"

DRAWN_ROWS = 6
DRAWN_PLACES = 256
"""Places of each output that have to be written where data decides who writes them."""

ROW_ELEMENTS = 1 << 19
"""Input elements of the rows that are judged, beyond those that have to be."""

QUICK_STEPS = 2_000
"""Steps of the skeleton that come to as many blocks as run beyond those that have to."""

MAX_BLOCKS_RUN = 4096
_ROUNDS = 6
_ROOTS = frozenset({"setp"})
_REPORTS = frozenset({"astra"})


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


class FullSize:
    """One workload of a source at its own size."""

    def __init__(
        self,
        task: KernelTask,
        device: Emulator,
        source: Source,
        compilation: Compilation,
        case: Case,
        seed: int,
        reporting: Compilation | None = None,
        *,
        in_part: bool = False,
        drawn: DrawnInputs | None = None,
    ):
        """`reporting` is the source with conditions that report, where sides are still open.

        `in_part`, no skeleton runs: blocks that write rows at the ends, and where places pass
        powers of two, are guessed and run in full.
        """
        name = f"full size of {case.name}, seed {seed}"
        self.in_part = in_part
        self.inputs = drawn or DrawnInputs(task)
        self.left = FAR_BUDGET if case.name.startswith(FAR) else SKELETON_BUDGET
        self.task = task
        self.device = device
        self.source = source
        self.compilation = compilation
        self.reporting = reporting
        self.sides: dict[str, Sides] = {}
        """By kernel, the sides that the skeleton's conditions took; what took them is judged."""
        self.workload = case.name
        self.case = msgspec.structs.replace(case, name=name)
        self.layouts = layouts_of(task, self.case)
        self.random = np.random.Generator(np.random.Philox(_seed_of(task, name)))
        self.rows = case.dims[task.rows] if task.rows else 1
        self.result = FullSizeResult(case.name, CaseOutcome.PASSED)
        self.by_data = False
        """Whether data decides where blocks store, and not all blocks have run."""

    def run(self, resolved: ResolvedPlan, judge: JudgeRows) -> FullSizeResult:
        """Runs it; what is wrong, or what could not be established, is in the result."""
        why = self._too_large(resolved)
        if why:
            return self._reduced(why) if self.in_part else self._inconclusive(why)
        try:
            self.plan = self._plan(resolved, self.compilation, _ROOTS)
            self.took_sides = [] if self.in_part else self._conditions(resolved)
        except (PtxError, Unsupported) as error:
            return self._end(CaseOutcome.UNSUPPORTED, str(error))
        blocks = sum(math.prod(launch.grid) for launch in self.plan.launches)
        self.result = msgspec.structs.replace(self.result, blocks=blocks)
        try:
            result = self._run_in_part(judge) if self.in_part else self._run(judge)
        except MemoryError:
            why = "it needs more memory than the emulator may have"
            return self._reduced(why) if self.in_part else self._inconclusive(why)
        if result.outcome not in (CaseOutcome.WRONG, CaseOutcome.FAULT):
            return result
        remedy = far_remedy(self.task, self.case)
        return msgspec.structs.replace(result, message=result.message + remedy)

    def _run(self, judge: JudgeRows) -> FullSizeResult:
        decided = [d for part in self.plan.parts for d in part.data]
        self.by_data = bool(decided)
        self.drawn = self._drawn_rows(bool(decided))
        self.wanted = self._places(bool(decided))
        self.grids: list[GridSkeleton] = []
        for number in range(len(self.plan.launches)):
            grid = self._skeleton(number, self.wanted)
            finding = grid.skeleton.finding
            # Where data decides, no thread may come to what is wrong.
            if finding is not None and (not grid.part.data or finding.kind is FindingKind.BUDGET):
                return self._fault(finding)
            self.grids.append(grid)
        missing = self._missing()
        if missing and all(g.part.exact for g in self.grids):
            return self._end(CaseOutcome.WRONG, missing)
        self.result = msgspec.structs.replace(self.result, covered=not decided and not missing)
        chosen = self._chosen(bool(decided))
        if self.plan.has_atomics or len(self.plan.launches) > 1:
            more = self._with_what_they_read(chosen)
            if more is None:
                return self._judged_whole(judge) or self._inconclusive(
                    "the blocks that write drawn places depend on more blocks than run here; "
                    + _ON_GPU
                )
            chosen = more
        sampled = self._run_blocks(chosen)
        if sampled.fault is not None:
            return self._fault(sampled.fault)
        self.result = msgspec.structs.replace(self.result, findings=sampled.findings)
        stray = self._between_rows(sampled)
        if stray:
            return self._end(CaseOutcome.WRONG, stray)
        result = self._judged(sampled, judge)
        if result.outcome is not CaseOutcome.PASSED or not decided:
            return result
        lines = ", ".join(str(line) for line in sorted({d.line for d in decided}))
        left_out = self._left_out(sampled, chosen)
        if left_out:
            return self._end(CaseOutcome.WRONG, f"{left_out} (data decides at line {lines})")
        unwritten = missing or self._unwritten(sampled) or self._unknown()
        if unwritten:
            return self._judged_whole(judge) or self._inconclusive(
                f"{unwritten}; data decides at line {lines}; {_ON_GPU}"
            )
        return result

    def _judged_whole(self, judge: JudgeRows) -> FullSizeResult | None:
        """What all blocks together come to; None where that is not affordable."""
        threads = sum(math.prod((*launch.grid, *launch.block)) for launch in self.plan.launches)
        elements = sum(t.elements for t in self.layouts.values())
        if self.workload.startswith(FAR):
            return None
        if _STEPS_OF_ELEMENT * max(threads, elements) // 1024 > WHOLE_STEPS:
            return None
        sampled = self._run_blocks([set(range(math.prod(ln.grid))) for ln in self.plan.launches])
        if sampled.fault is not None:
            return None if sampled.fault.kind is FindingKind.BUDGET else self._fault(sampled.fault)
        self.result = msgspec.structs.replace(self.result, findings=sampled.findings)
        self.by_data = False
        result = self._judged(sampled, judge)
        unwritten = self._unwritten(sampled)
        if result.outcome is CaseOutcome.PASSED and unwritten:
            return self._end(CaseOutcome.WRONG, f"{unwritten}: all blocks have run")
        return result

    def _run_in_part(self, judge: JudgeRows) -> FullSizeResult:
        """Guessed blocks in full, and no skeleton: what they wrote is judged, and of a lone row
        what no block wrote.
        """
        too_long = "a block takes more steps than run here"
        if self._steps_of_block() > PART_BUDGET:
            return self._reduced(too_long)
        self.drawn = self._drawn_rows(False)
        self.wanted, self.grids = self._places(False), []
        chosen = [
            self._in_proportion(launch, self.drawn.tolist()) | {0, math.prod(launch.grid) - 1}
            for launch in self.plan.launches
        ]
        ran_all = all(
            len(blocks) == math.prod(launch.grid)
            for blocks, launch in zip(chosen, self.plan.launches, strict=True)
        )
        sampled = self._run_blocks(chosen)
        fault, on_others = sampled.fault, "its blocks depend on others"
        depends = not ran_all and (self.plan.has_atomics or len(self.plan.launches) > 1)
        if fault is not None:
            if fault.kind is FindingKind.BUDGET:
                return self._reduced(too_long)
            of_order = fault.kind in (FindingKind.UNINITIALISED_GLOBAL, FindingKind.GLOBAL_RACE)
            return self._reduced(on_others) if depends and of_order else self._fault(fault)
        so_far = self.result
        self.result = msgspec.structs.replace(self.result, findings=sampled.findings)
        result = self._judged(sampled, judge)
        if result.outcome is not CaseOutcome.PASSED:
            if depends and self._cuts_rows():
                self.result = so_far
                return self._reduced(on_others)
            return result
        unwritten = self._unwritten(sampled) if ran_all else ""
        wrong = f"{unwritten}: all blocks have run" if unwritten else self._stored_twice(sampled)
        return self._end(CaseOutcome.WRONG, wrong) if wrong else result

    def _steps_of_block(self) -> int:
        """The fewest steps of a block, where all blocks together store the outputs."""
        stores = sum(b.size for b in self.plan.places.buffers if b.use is ArgumentRole.OUT) // 16
        threads = sum(math.prod((*launch.grid, *launch.block)) for launch in self.plan.launches)
        return _STEPS_OF_STORE * stores // max(threads, 1)

    def _reduced(self, why: str) -> FullSizeResult:
        self.result = msgspec.structs.replace(
            self.result, reduced=f"nothing of {self.workload} is judged: {why}"
        )
        return self.result

    def _in_proportion(self, launch: PackedLaunch, rows: Iterable[int]) -> set[int]:
        """The blocks of some rows, where blocks share rows out in order."""
        count = math.prod(launch.grid)
        blocks: set[int] = set()
        for row in rows:
            first, end = row * count // self.rows, -(-(row + 1) * count // self.rows)
            blocks |= {*range(first, end)[:_OF_ROW]}
        return {b for b in blocks if 0 <= b < count}

    def _cuts_rows(self) -> bool:
        """Whether a row has more blocks than run of it."""
        return any(math.prod(ln.grid) > _OF_ROW * self.rows for ln in self.plan.launches)

    def _stored_twice(self, sampled: Sampled) -> str:
        """Where blocks of a row that is not stored store what other blocks store as well, as where
        the number of a row has too few bits: then what they store is right.
        """
        first, *others = self.drawn.tolist()
        rows = self._rows_of(self._stored(sampled))
        for row in others if first in rows else ():
            if row in rows:
                continue
            its = [self._in_proportion(launch, [row]) for launch in self.plan.launches]
            stored = self._stored(self.plan.run(_ordered(its), PART_BUDGET)[0])
            for other in sorted(self._rows_of(stored) - {row})[:1]:
                more = [self._in_proportion(launch, [other]) for launch in self.plan.launches]
                apart = [blocks - mine for blocks, mine in zip(more, its, strict=True)]
                again = self._stored(self.plan.run(_ordered(apart), PART_BUDGET)[0])
                if any(np.isin(stored[name], again[name]).any() for name in stored):
                    return f"blocks of row {row} and of row {other} both store row {other}"
        return ""

    def _stored(self, sampled: Sampled) -> dict[str, Any]:
        """Where bytes of outputs with rows are stored."""
        memory, names = sampled.memory, [a.name for a in self.task.outputs if self.task.has_rows(a)]
        return {n: memory.granules(self.plan.tracked(n), memory.stored) for n in names}

    def _rows_of(self, stored: Mapping[str, Any]) -> set[int]:
        """The rows that places in outputs lie in."""
        found: set[int] = set()
        for name, places in stored.items():
            layout = self.layouts[name]
            found |= {*np.unique(places // (layout.strides[0] * layout.dtype.size)).tolist()}
        return found

    # -- before anything runs --------------------------------------------------------------------

    def _too_large(self, resolved: ResolvedPlan) -> str:
        sizes = [t.elements * t.dtype.size for t in self.layouts.values()]
        sizes += [math.prod(w.shape) * w.dtype.size for w in resolved.workspaces]
        if sum(sizes) > MAX_BYTES:
            return (
                f"its buffers have {sum(sizes) >> 30} GiB; at most {MAX_BYTES >> 30} are emulated"
            )
        return ""

    def _plan(
        self, resolved: ResolvedPlan, compilation: Compilation, roots: frozenset[str]
    ) -> WholePlan:
        types = {name: layout.dtype for name, layout in self.layouts.items()}
        types.update({w.name: w.dtype for w in resolved.workspaces})
        launches = tuple(
            bind_launch(compilation.kernel(launch.kernel), launch, types, self.source.file)
            for launch in resolved.launches
        )
        buffers = [self._buffer(layout) for layout in self.layouts.values()]
        for workspace in resolved.workspaces:
            size = math.prod(workspace.shape) * workspace.dtype.size
            buffers.append(DeviceBuffer(workspace.name, ArgumentRole.WORKSPACE, _Undefined(size)))
        accepts = accepts_of(self.task, self.source)
        plan = WholePlan(self.device, compilation.ptx, launches, tuple(buffers), roots, accepts)
        pieces = sum(b.size for b in plan.places.buffers if b.tracked) // plan.store_granule
        if pieces > MAX_PIECES and not self.in_part:
            raise Unsupported(f"its writable buffers have {pieces:,} pieces: more than are kept")
        return plan

    def _conditions(self, resolved: ResolvedPlan) -> list[list[Sample]]:
        """Notes the sides that conditions took; of each launch, a thread for each of them."""
        if self.reporting is None:
            return [[] for _ in self.plan.launches]
        plan = self._plan(resolved, self.reporting, _REPORTS)
        left = SKELETON_BUDGET
        threads = []
        for number, launch in enumerate(plan.launches):
            grid = plan.skeleton(number, {}, left)
            left -= grid.skeleton.steps
            sides, first = grid.conditions()
            kernel = launch.kernel.expression
            self.sides[kernel] = sides.joined(self.sides.get(kernel))
            threads.append(first)
        return threads

    def _buffer(self, layout: TensorLayout) -> DeviceBuffer:
        argument = layout.argument
        use = argument.role
        content: Any = _Undefined(layout.elements * layout.dtype.size)
        if argument.is_read:
            content = _Drawn(self.inputs, self.case, layout)
        misalignment = layout.offset * layout.dtype.size
        return DeviceBuffer(argument.name, use, content, misalignment, stable=argument.stable)

    # -- which places and blocks -----------------------------------------------------------------

    def _drawn_rows(self, many: bool) -> Any:
        """The first row, the last, and some drawn: the same for all candidates."""
        count = self._rows_for(DRAWN_PLACES // 4) if many else DRAWN_ROWS
        drawn = self.random.integers(0, max(self.rows, 1), 1 if self.in_part else count)
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

    def _rows_for(self, most: int) -> int:
        """How many rows may be judged, at most `most`."""
        of_row = sum(self._row_elements(t) for t in self.layouts.values() if t.argument.is_read)
        return max(DRAWN_ROWS, min(most, 4 * ROW_ELEMENTS // max(of_row, 1)))

    def _row_elements(self, layout: TensorLayout) -> int:
        if not self.task.has_rows(layout.argument):
            return 0
        return math.prod(layout.shape[1:])

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

    def _missing(self) -> str:
        """The first place of an output that no block stores."""
        maps = [g.stores for g in self.grids]
        for argument in self.task.outputs:
            buffer = self.plan.tracked(argument.name)
            if buffer.use is not ArgumentRole.OUT or not buffer.size:
                continue
            missing = first_missing(maps, buffer)
            layout = self.layouts[argument.name]
            if missing is not None and not layout.is_contiguous:
                missing = self._missing_in_rows(argument)
            if missing is not None:
                return (
                    f"{self._name(argument, missing[0])} and {missing[1] - 1} more bytes are "
                    + ("stored by no block of the grid")
                )
        return ""

    def _missing_in_rows(self, argument: Argument) -> tuple[int, int] | None:
        """As `first_missing`, of a tensor with gaps between its rows."""
        layout = self.layouts[argument.name]
        places = np.arange(math.prod(layout.shape))
        missing = places[~self._is_stored(argument, places)]
        if not len(missing):
            return None
        return int(offsets_in(layout, missing[0])), len(missing) * layout.dtype.size

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

    def _chosen(self, decided: bool) -> list[set[int]]:
        """The blocks of each launch that are to run."""
        return [
            self._chosen_of(grid, launch, decided) | {sample.block for sample in samples}
            for grid, launch, samples in zip(
                self.grids, self.plan.launches, self.took_sides, strict=True
            )
        ]

    def _chosen_of(self, grid: GridSkeleton, launch: PackedLaunch, decided: bool) -> set[int]:
        """First and last, one for each side; then as many others as do not take long."""
        count = math.prod(launch.grid)
        if not count:
            return set()
        sides = grid.skeleton.sides.values()
        blocks = {0, count - 1, *(side.first.block for side in sides)}
        others = [side.last.block for side in sides]
        for name, offsets in self.wanted.items():
            for writers in grid.writers(name, offsets):
                others += sorted(writers)
        if any(step.addresses & grid.part.tainted for step in _stores(grid)):
            others += sorted(self._guessed(launch))
        if decided:
            return blocks.union(others[:MAX_BLOCKS_RUN])
        others += [min(1, count - 1), max(count - 2, 0)]
        others = list(dict.fromkeys(others))
        room = QUICK_STEPS * count // max(grid.skeleton.steps, 1) - len(blocks)
        if len(others) > room:
            others = self.random.permutation(others).tolist()
        return blocks.union(others[: max(room, 0)])

    def _guessed(self, launch: PackedLaunch) -> set[int]:
        """Blocks that may write drawn places, where addresses are data: in proportion."""
        blocks = math.prod(launch.grid)
        guessed: set[int] = set()
        for name, offsets in self.wanted.items():
            size = self.plan.tracked(name).size
            guessed |= {int(o) * blocks // size for o in offsets}
        return guessed

    def _with_what_they_read(self, chosen: list[set[int]]) -> list[set[int]] | None:
        """The blocks, and those that write what they read; None where these are too many."""
        for _ in range(_ROUNDS):
            before = sum(map(len, chosen))
            self._add_writers(chosen)
            after = sum(map(len, chosen))
            if self.left <= 0:
                return None
            if after == before:
                return chosen
            if after > MAX_BLOCKS_RUN:
                return None
        return None

    def _add_writers(self, chosen: list[set[int]]) -> None:
        """Adds the blocks that write what the chosen ones load of each other."""
        sampled, loads = self.plan.run(_ordered(chosen), RUN_BUDGET, strict=False)
        memory = sampled.memory
        for number in range(len(chosen)):
            wanted = {}
            for buffer in memory.buffers:
                if not buffer.tracked:
                    continue
                stored = self.grids[number].stores
                offsets = [
                    memory.granules(buffer, table != 0 if later > number else table >= ATOMIC)
                    for later, table in enumerate(loads)
                    if later >= number
                ]
                every = np.unique(np.concatenate(offsets)) if offsets else np.zeros(0, np.int64)
                every = every[stored.is_stored(buffer.name, every)] if len(every) else every
                if len(every):
                    wanted[buffer.name] = every
            if wanted:
                grid = self._skeleton(number, wanted)
                for name, offsets_of in wanted.items():
                    for writers in grid.writers(name, offsets_of):
                        chosen[number] |= writers

    def _skeleton(self, number: int, wanted: Wanted, blocks: Any = None) -> GridSkeleton:
        """The skeleton of a launch, out of what is left of the workload's budget."""
        grid = self.plan.skeleton(number, wanted, max(self.left, 0), blocks)
        self.left -= grid.skeleton.steps
        return grid

    def _run_blocks(self, chosen: list[set[int]]) -> Sampled:
        of_part = PART_BUDGET if self.rows > 1 else ROW_BUDGET
        budget = of_part if self.in_part else RUN_BUDGET
        sampled, _ = self.plan.run(_ordered(chosen), budget)
        run = sum(map(len, chosen))
        self.result = msgspec.structs.replace(self.result, blocks_run=run)
        return sampled

    def _between_rows(self, sampled: Sampled) -> str:
        """Where a block that ran wrote between the rows of a tensor."""
        memory = sampled.memory
        for argument in self.task.outputs:
            layout = self.layouts[argument.name]
            if layout.is_contiguous:
                continue
            stored = memory.granules(self.plan.tracked(argument.name), memory.stored)
            if (stored // layout.dtype.size % layout.strides[-2] >= layout.shape[-1]).any():
                return f"bytes between the rows of {argument.name} have changed"
        return ""

    # -- what they wrote -------------------------------------------------------------------------

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
        more = self._hole_rows()
        samples = [sample for of_launch in self.took_sides for sample in of_launch]
        for grid in self.grids:
            samples += [s for side in grid.skeleton.sides.values() for s in (side.first, side.last)]
        more |= {self._row(s.buffer, s.offset) for s in samples}
        for argument in self.task.outputs:
            if self.task.has_rows(argument):
                more |= self._some_written_rows(sampled, argument)
        rest = np.array(sorted(more - set(self.drawn.tolist()) - {-1}), np.int64)
        if len(rest):
            yield rest

    def _some_written_rows(self, sampled: Sampled, argument: Argument) -> set[int]:
        """Rows that the blocks wrote, all where these are few."""
        memory, layout = sampled.memory, self.layouts[argument.name]
        of_row = layout.strides[0] * layout.dtype.size
        offsets = memory.granules(self.plan.tracked(argument.name), memory.stored)
        rows = np.unique(offsets // max(of_row, 1))
        if len(rows) > DRAWN_ROWS:
            rows = self.random.choice(rows, DRAWN_ROWS, replace=False)
        return set(rows.tolist())

    def _hole_rows(self) -> set[int]:
        """Rows of arguments changed in place that nothing stores, or not all of: those with the
        most such places, the first and some others.
        """
        rows: set[int] = set()
        maps = [g.stores for g in self.grids]
        for argument in self.task.outputs:
            if not argument.is_read or not self.task.has_rows(argument) or not maps:
                continue
            layout = self.layouts[argument.name]
            if first_missing(maps, self.plan.tracked(argument.name)) is None:
                continue
            missing = np.flatnonzero(~self._is_stored(argument, np.arange(math.prod(layout.shape))))
            if len(missing):
                of_row = missing // math.prod(layout.shape[1:])
                most = np.bincount(of_row).argsort()[-DRAWN_ROWS:]
                drawn = self.random.choice(of_row, DRAWN_ROWS)
                rows |= {int(of_row[0]), *most.tolist(), *drawn.tolist()}
        return rows

    def _is_stored(self, argument: Argument, places: Any) -> Any:
        """Whether any block of the grid may store elements, by flat index."""
        offsets = offsets_in(self.layouts[argument.name], places)
        stored = np.zeros(len(places), np.bool_)
        for grid in self.grids:
            stored |= grid.stores.is_stored(argument.name, offsets)
        return stored

    def _row(self, buffer: str, offset: int) -> int:
        """The row of an output that a byte belongs to; -1 where there is none."""
        layout = self.layouts.get(buffer)
        if layout is None or offset < 0 or not self.task.has_rows(layout.argument):
            return -1
        return offset // (layout.strides[0] * layout.dtype.size)

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
        if argument.is_read and not self.in_part and not self.by_data:
            kept = ~(self._is_stored(argument, places) | stored.any(axis=1))
            if kept.any():
                bits[kept] = draw_elements(self.task, self.case, argument.name, places[kept])
                where |= kept
        return WrittenElements(bits.reshape(shape), where.reshape(shape))

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

    def _unknown(self) -> str:
        """An argument changed in place of which it is not known what blocks store: data decides."""
        maps = [g.stores for g in self.grids]
        for argument in self.task.outputs:
            tracked = self.plan.tracked(argument.name)
            if argument.is_read and maps and first_missing(maps, tracked) is not None:
                return f"data decides which elements of {argument.name} are stored"
        return ""

    def _left_out(self, sampled: Sampled, chosen: list[set[int]]) -> str:
        """A place that nothing wrote though all blocks that may write it have run."""
        if not all(g.part.exact for g in self.grids):
            return ""
        could = [self._skeleton(n, {}, blocks).stores for n, blocks in enumerate(_ordered(chosen))]
        suspects = {}
        for argument in self.task.outputs:
            if not argument.is_read:
                found = [c.offsets(argument.name) for c in could]
                offsets = np.unique(np.concatenate(found))
                _, stored = sampled.memory.read(argument.name, offsets, 1)
                left = offsets[~stored[:, 0]]
                if len(left):
                    suspects[argument.name] = left[:: -(-len(left) // DRAWN_PLACES)]
        if not suspects:
            return ""
        grids = [self._skeleton(n, suspects) for n in range(len(self.grids))]
        if self.left <= 0:
            return ""
        for name, offsets in suspects.items():
            writers = [grid.writers(name, offsets) for grid in grids]
            for place, of_place in zip(offsets.tolist(), zip(*writers, strict=True), strict=True):
                if all(w <= run for w, run in zip(of_place, chosen, strict=True)):
                    where = self._name(self.task.args[name], place)
                    return f"{where} is not written: all blocks that may write it have run"
        return ""

    # -- how it ends -----------------------------------------------------------------------------

    def _end(self, outcome: CaseOutcome, message: str) -> FullSizeResult:
        return msgspec.structs.replace(self.result, outcome=outcome, message=message)

    def _inconclusive(self, message: str) -> FullSizeResult:
        return self._end(CaseOutcome.INCONCLUSIVE, message)

    def _fault(self, finding: Finding) -> FullSizeResult:
        self.result = msgspec.structs.replace(self.result, findings=(finding,))
        if finding.kind is FindingKind.BUDGET:
            return self._inconclusive(
                f"line {finding.line}: it takes more steps or memory than one workload may; "
                + _ON_GPU
            )
        return self._end(CaseOutcome.FAULT, finding.describe())


def offsets_in(layout: TensorLayout, places: Any) -> Any:
    """Where elements lie in a tensor's memory, in bytes, by flat index in its logical shape."""
    if not layout.is_contiguous:
        columns = layout.shape[-1]
        places = places // columns * layout.strides[-2] + places % columns
    return places * layout.dtype.size


def _ordered(chosen: Iterable[set[int]]) -> list[Any]:
    return [np.array(sorted(blocks), np.int64) for blocks in chosen]


def _stores(grid: GridSkeleton) -> Iterator[Any]:
    return (grid.part.program.steps[i] for i in grid.part.stores)


def _seed_of(task: KernelTask, name: str) -> int:
    digest = hashlib.sha256(f"{task.name}|{name}".encode()).digest()
    return int.from_bytes(digest[:8], "little")
