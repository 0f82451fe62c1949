"""Runs one launch: blocks in chunks, lanes that stand at one instruction together.

Of all lanes that can run, those at the lowest instruction go first, all at once. Code that
diverges comes together again by itself, because whoever is ahead waits. Lanes at a barrier or a
warp operation wait until it is complete; when no one can run, it is either complete now, or the
launch is stuck and says so.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from astra_tui.emulator.faults import EmulationStopped, Fault
from astra_tui.emulator.fences import Fences
from astra_tui.emulator.grid_dependency import GridDependency
from astra_tui.emulator.lanes import WARP, Chunk, Group
from astra_tui.emulator.memory import GlobalMemory, LocalMemory, SharedMemory
from astra_tui.emulator.program import Program
from astra_tui.emulator.races import AccessHistory
from astra_tui.emulator.scheduler import Scheduler
from astra_tui.emulator.step import Step
from astra_tui.emulator.tally import Tally
from astra_tui.model.device import PLAIN, Accepts, Variation, accept_nothing
from astra_tui.model.findings import Finding, FindingKind

CHUNK_LANES = 16_384
CHUNK_LOCAL_BYTES = 1 << 28
"""Local memory of all lanes of a chunk: fewer run together where each has much of it."""
CHUNK_SHARED_BYTES = 1 << 26
MAX_BLOCKS = 1 << 21


class Machine:
    """The state of one launch: its program, memories, findings and what is left of its budget."""

    chunk_lanes = CHUNK_LANES
    scheduler = Scheduler

    def __init__(
        self,
        program: Program,
        memory: GlobalMemory,
        shared: SharedMemory,
        local: LocalMemory,
        parameters: bytes,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        *,
        tally: Tally,
        budget: int,
        kernel: str,
        launch_line: int,
        dynamic_shared: int,
        checked: bool,
        counted: bool,
        variation: Variation = PLAIN,
        accepts: Accepts = accept_nothing,
        dependency: GridDependency | None = None,
    ):
        self.program = program
        self.memory = memory
        self.shared = shared
        self.local = local
        self.parameter_bytes = len(parameters)
        padded = parameters.ljust(-(-max(len(parameters), 1) // 16) * 16, b"\0")
        self.parameters = np.frombuffer(padded, np.uint8)
        self.grid = grid
        self.block = block
        self.threads = block[0] * block[1] * block[2]
        self.blocks = grid[0] * grid[1] * grid[2]
        self.tally = tally
        self.budget = budget
        self.kernel = kernel
        self.launch_line = launch_line
        self.dynamic_shared = dynamic_shared
        self.checked = checked
        self.counted = counted
        self.variation = variation
        self.accepts = accepts
        self.dependency = dependency
        """Set while this launch may have begun before those before it have ended."""
        self.warps_per_block = -(-self.threads // WARP)
        self.block_bits = 5 + max(self.warps_per_block - 1, 0).bit_length()
        self.warnings: dict[tuple[FindingKind, int, str], Finding] = {}
        self.time = 1
        """Goes on at each operation that orders lanes of a warp."""
        self.fences = Fences(self.block_bits)
        self.sides: dict[int, int] = {}
        """The sides that reporting conditions took, as bits."""

    @property
    def history(self) -> AccessHistory:
        """Who touched global memory in this launch; kernel boundaries order everything."""
        self._history.reach(len(self.memory.defined))
        return self._history

    @cached_property
    def _history(self) -> AccessHistory:
        bits = self.memory.granule_bits
        return AccessHistory(
            len(self.memory.defined),
            FindingKind.GLOBAL_RACE,
            self.block_bits,
            lambda word: self.memory.describe_physical(word << bits),
        )

    def run(self, blocks: Any = None) -> None:
        """Runs blocks by their linear indices, in the variation's order; by default all.

        Raises EmulationStopped with the first finding that is no warning.
        """
        blocks = np.arange(self.blocks) if blocks is None else blocks
        blocks = blocks[self._ordered(len(blocks))]
        at_once = self._blocks_at_once()
        with np.errstate(all="ignore"):
            for first in range(0, len(blocks), at_once):
                chunk = Chunk(self, blocks[first : first + at_once])
                self.scheduler(chunk).run()
                chunk.release()

    def _blocks_at_once(self) -> int:
        """How many blocks run at once: fewer where their threads or they need much memory."""
        lanes = min(self.chunk_lanes, CHUNK_LOCAL_BYTES // max(self.local.size, 1))
        return max(1, min(lanes // self.threads, CHUNK_SHARED_BYTES // self.shared.stride))

    @cached_property
    def thread_order(self) -> tuple[int, ...] | None:
        """The threads of a block in the order in which they take their turns, warp by warp; None
        where that is their own.
        """
        if self.threads % WARP or not self.variation.order:
            return None
        warps = self._ordered(self.warps_per_block)
        return tuple((warps[:, None] * WARP + np.arange(WARP)).reshape(-1).tolist())

    def _ordered(self, count: int) -> Any:
        """Blocks, or the warps of a block, in the order of this variation."""
        order = self.variation.order
        if order > 1:
            return np.random.Generator(np.random.Philox([order, count])).permutation(count)
        return np.arange(count)[:: -1 if order else 1]

    def stop(self, fault: Fault, step: Step, group: Group) -> EmulationStopped:
        """The exception for a fault of one instruction."""
        finding = self.finding(fault.kind, fault.message, step, group, fault.lane, fault.lanes)
        return EmulationStopped(finding)

    def tolerates(self, fault: Fault, index: int, group: Group) -> bool:
        """Whether an engineer accepts a fault of an instruction: then it becomes a warning."""
        step = self.program.steps[index]
        finding = self.finding(fault.kind, fault.message, step, group, fault.lane, fault.lanes)
        reason = self.accepts(finding)
        if reason:
            key = (fault.kind, step.location.line, step.location.header)
            self.warnings.setdefault(key, msgspec.structs.replace(finding, accepted=reason))
        return bool(reason)

    def warn(self, kind: FindingKind, message: str, step: Step, group: Group, lane: int) -> None:
        """Keeps a warning, once for each source line."""
        key = (kind, step.location.line, step.location.header)
        if key not in self.warnings:
            self.warnings[key] = self.finding(kind, message, step, group, lane, 1)

    def finding(
        self, kind: FindingKind, message: str, step: Step, group: Group, lane: int, lanes: int
    ) -> Finding:
        """A finding about the lane at a position within a group."""
        block, thread = group.chunk.place_of(int(group.lanes[lane]))
        return Finding(
            kind=kind,
            message=message,
            line=step.location.line,
            callers=step.location.callers,
            header=step.location.header,
            kernel=self.kernel,
            block=block,
            thread=thread,
            lanes=lanes,
            instruction=step.text,
            launch_line=self.launch_line,
        )

    # -- fences and atomics between blocks -------------------------------------------------------

    def note_fence(self, group: Group) -> None:
        """These lanes make a fence that other blocks can see."""
        by = group.accessors("global", 1)
        self.fences.fence(by.thread, by.epoch, by.sync)

    def note_atomic(
        self, group: Group, offsets: Any, *, acquires: bool = True, releases: bool = True
    ) -> None:
        """These lanes access addresses through atomics, in their order."""
        if self.program.uses_release:
            by = group.accessors("global", 1)
            self.fences.atomic(
                by.thread, by.epoch, self.time, offsets, acquires=acquires, releases=releases
            )
