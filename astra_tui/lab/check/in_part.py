"""Sizes that are too large for the skeletons of all blocks: a part of them on the emulator.

Which blocks write rows at the ends, and where places pass powers of two, is guessed: blocks share
rows out in order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import numpy as np

from astra_tui.emulator.whole import Sampled
from astra_tui.lab.check.own_size import JudgeRows, OwnSize, ordered
from astra_tui.model.check import CaseOutcome, FullSizeResult
from astra_tui.model.device import ArgumentRole, PackedLaunch
from astra_tui.model.findings import FindingKind

PART_BUDGET, ROW_BUDGET = 40_000, 15_000
"""Steps of the blocks that run, about a second, and where the size has one row."""

_OF_ROW = 4
"""Blocks of a row that run."""

_STEPS_OF_STORE = 4
"""Instructions for each 16 bytes that a thread stores, at least."""


class InPart(OwnSize):
    """A part of one size of a source: of what cannot be told, nothing is said."""

    def _run(self, judge: JudgeRows) -> FullSizeResult:
        """Guessed blocks in full, and no skeleton: what they wrote is judged, and of a lone row
        what no block wrote.
        """
        too_long = "a block takes more steps than run here"
        if self._steps_of_block() > PART_BUDGET:
            return self._given_up(too_long)
        self._draw(1, many=False)
        chosen = [
            self._in_proportion(launch, self.drawn.tolist()) | {0, math.prod(launch.grid) - 1}
            for launch in self.plan.launches
        ]
        ran_all = all(
            len(blocks) == math.prod(launch.grid)
            for blocks, launch in zip(chosen, self.plan.launches, strict=True)
        )
        sampled = self._run_blocks(chosen, PART_BUDGET if self.rows > 1 else ROW_BUDGET)
        fault, on_others = sampled.fault, "its blocks depend on others"
        depends = not ran_all and (self.plan.has_atomics or len(self.plan.launches) > 1)
        if fault is not None:
            if fault.kind is FindingKind.BUDGET:
                return self._given_up(too_long)
            of_order = fault.kind in (FindingKind.UNINITIALISED_GLOBAL, FindingKind.GLOBAL_RACE)
            return self._given_up(on_others) if depends and of_order else self._fault(fault)
        so_far = self.result
        self.result = msgspec.structs.replace(self.result, findings=sampled.findings)
        result = self._judged(sampled, judge)
        if result.outcome is not CaseOutcome.PASSED:
            if depends and self._cuts_rows():
                self.result = so_far
                return self._given_up(on_others)
            return result
        unwritten = self._unwritten(sampled) if ran_all else ""
        wrong = f"{unwritten}: all blocks have run" if unwritten else self._stored_twice(sampled)
        return self._end(CaseOutcome.WRONG, wrong) if wrong else result

    def _steps_of_block(self) -> int:
        """The fewest steps of a block, where all blocks together store the outputs."""
        stores = sum(b.size for b in self.plan.places.buffers if b.use is ArgumentRole.OUT) // 16
        threads = sum(math.prod((*launch.grid, *launch.block)) for launch in self.plan.launches)
        return _STEPS_OF_STORE * stores // max(threads, 1)

    def _given_up(self, why: str) -> FullSizeResult:
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
            stored = self._stored(self.plan.run(ordered(its), PART_BUDGET)[0])
            for other in sorted(self._rows_of(stored) - {row})[:1]:
                more = [self._in_proportion(launch, [other]) for launch in self.plan.launches]
                apart = [blocks - mine for blocks, mine in zip(more, its, strict=True)]
                again = self._stored(self.plan.run(ordered(apart), PART_BUDGET)[0])
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
