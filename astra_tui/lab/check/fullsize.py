"""Every workload at its own size on the emulator.

The skeleton of every block shows which bytes are stored and who took which side of each branch
(`emulator/skeleton.py`). Then some blocks run in full: the blocks that write drawn rows, the first
and the last, and for each side of a branch the first and the last block that took it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np

from astra_tui.emulator.device import Emulator
from astra_tui.emulator.faults import Unsupported
from astra_tui.emulator.memory import ATOMIC
from astra_tui.emulator.stores import first_missing
from astra_tui.emulator.tiles import Sample
from astra_tui.emulator.whole import GridSkeleton, Sampled, Wanted, WholePlan
from astra_tui.lab.check.execution import Source
from astra_tui.lab.check.inputs import DrawnInputs
from astra_tui.lab.check.layout import TensorLayout
from astra_tui.lab.check.own_size import (
    DRAWN_PLACES,
    DRAWN_ROWS,
    JudgeRows,
    OwnSize,
    offsets_in,
    ordered,
)
from astra_tui.model.check import FAR, Case, CaseOutcome, FullSizeResult
from astra_tui.model.compilation import Compilation
from astra_tui.model.device import ArgumentRole, PackedLaunch, Sides
from astra_tui.model.findings import Finding, FindingKind
from astra_tui.model.task import Argument, KernelTask

SKELETON_BUDGET = 3_000_000
"""Steps of all skeletons of one workload, see `run_skeleton`: some three seconds at most."""

FAR_BUDGET = 600_000
"""The same of sizes far beyond the listed ones."""

RUN_BUDGET = 300_000
"""Steps of the blocks of one workload that run in full."""

MAX_PIECES = 1 << 29
"""Stored pieces of all writable buffers, one byte each, where the skeleton of a grid runs."""

WHOLE_STEPS = 200_000
"""Steps of a whole grid, as far as sizes tell, up to which it runs in full where data decides."""

_STEPS_OF_ELEMENT = 8
"""Instructions for each element of a buffer, at least."""

_ON_GPU = "a GPU judges all rows: --device cuda:0"

ROW_ELEMENTS = 1 << 19
"""Input elements of the rows that are judged, beyond those that have to be."""

QUICK_STEPS = 2_000
"""Steps of the skeleton that come to as many blocks as run beyond those that have to."""

MAX_BLOCKS_RUN = 4096
_ROUNDS = 6
_REPORTS = frozenset({"astra"})


class FullSize(OwnSize):
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
        drawn: DrawnInputs | None = None,
    ):
        """`reporting` is the source with conditions that report, where sides are still open."""
        super().__init__(task, device, source, compilation, case, seed, drawn)
        self.left = FAR_BUDGET if case.name.startswith(FAR) else SKELETON_BUDGET
        self.reporting = reporting
        self.sides: dict[str, Sides] = {}
        """By kernel, the sides that the skeleton's conditions took; what took them is judged."""
        self.by_data = False
        """Whether data decides where blocks store, and not all blocks have run."""

    def _run(self, judge: JudgeRows) -> FullSizeResult:
        self.took_sides = self._conditions()
        decided = [d for part in self.plan.parts for d in part.data]
        self.by_data = bool(decided)
        rows = self._rows_for(DRAWN_PLACES // 4) if decided else DRAWN_ROWS
        self._draw(rows, many=bool(decided))
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
                return self._judged_whole(judge) or self._given_up(
                    "the blocks that write drawn places depend on more blocks than run here; "
                    + _ON_GPU
                )
            chosen = more
        sampled = self._run_blocks(chosen, RUN_BUDGET)
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
            return self._judged_whole(judge) or self._given_up(
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
        every = [set(range(math.prod(launch.grid))) for launch in self.plan.launches]
        sampled = self._run_blocks(every, RUN_BUDGET)
        if sampled.fault is not None:
            return None if sampled.fault.kind is FindingKind.BUDGET else self._fault(sampled.fault)
        self.result = msgspec.structs.replace(self.result, findings=sampled.findings)
        self.by_data = False
        result = self._judged(sampled, judge)
        unwritten = self._unwritten(sampled)
        if result.outcome is CaseOutcome.PASSED and unwritten:
            return self._end(CaseOutcome.WRONG, f"{unwritten}: all blocks have run")
        return result

    # -- before anything runs ----------------------------------------------------------------------

    def _plan(self, compilation: Compilation, roots: frozenset[str]) -> WholePlan:
        plan = super()._plan(compilation, roots)
        pieces = sum(b.size for b in plan.places.buffers if b.tracked) // plan.store_granule
        if pieces > MAX_PIECES:
            raise Unsupported(f"its writable buffers have {pieces:,} pieces: more than are kept")
        return plan

    def _conditions(self) -> list[list[Sample]]:
        """Notes the sides that conditions took; of each launch, a thread for each of them."""
        if self.reporting is None:
            return [[] for _ in self.plan.launches]
        plan = self._plan(self.reporting, _REPORTS)
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

    # -- which places and blocks -------------------------------------------------------------------

    def _rows_for(self, most: int) -> int:
        """How many rows may be judged, at most `most`."""
        of_row = sum(self._row_elements(t) for t in self.layouts.values() if t.argument.is_read)
        return max(DRAWN_ROWS, min(most, 4 * ROW_ELEMENTS // max(of_row, 1)))

    def _row_elements(self, layout: TensorLayout) -> int:
        if not self.task.has_rows(layout.argument):
            return 0
        return math.prod(layout.shape[1:])

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
        sampled, loads = self.plan.run(ordered(chosen), RUN_BUDGET, strict=False)
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

    # -- what they wrote ---------------------------------------------------------------------------

    def _other_rows(self, sampled: Sampled) -> set[int]:
        more = self._hole_rows()
        samples = [sample for of_launch in self.took_sides for sample in of_launch]
        for grid in self.grids:
            samples += [s for side in grid.skeleton.sides.values() for s in (side.first, side.last)]
        more |= {self._row(s.buffer, s.offset) for s in samples}
        return more | super()._other_rows(sampled)

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

    def _is_kept(self, argument: Argument, places: Any) -> Any:
        known = not self.by_data
        return ~self._is_stored(argument, places) if known else super()._is_kept(argument, places)

    def _row(self, buffer: str, offset: int) -> int:
        """The row of an output that a byte belongs to; -1 where there is none."""
        layout = self.layouts.get(buffer)
        if layout is None or offset < 0 or not self.task.has_rows(layout.argument):
            return -1
        return offset // (layout.strides[0] * layout.dtype.size)

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
        could = [self._skeleton(n, {}, blocks).stores for n, blocks in enumerate(ordered(chosen))]
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

    # -- how it ends -------------------------------------------------------------------------------

    def _given_up(self, why: str) -> FullSizeResult:
        return self._end(CaseOutcome.INCONCLUSIVE, why)

    def _fault(self, finding: Finding) -> FullSizeResult:
        result = super()._fault(finding)
        if finding.kind is FindingKind.BUDGET:
            return self._given_up(
                f"line {finding.line}: it takes more steps or memory than one workload may; "
                + _ON_GPU
            )
        return result


def _stores(grid: GridSkeleton) -> Iterator[Any]:
    return (grid.part.program.steps[i] for i in grid.part.stores)
