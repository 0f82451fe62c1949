"""Runs one launch: blocks in chunks, lanes that stand at one instruction together.

Of all lanes that can run, those at the lowest instruction go first, all at once. Code that
diverges comes together again by itself, because whoever is ahead waits. Lanes at a barrier or a
warp operation wait until it is complete; when nobody can run, it is either complete now, or the
launch is stuck and says so.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from astra_tui.lab.emulator.faults import EmulationStopped, Fault
from astra_tui.lab.emulator.lanes import WARP, Chunk, Group
from astra_tui.lab.emulator.memory import GlobalMemory, LocalMemory, SharedMemory
from astra_tui.lab.emulator.program import Program
from astra_tui.lab.emulator.races import AccessHistory
from astra_tui.lab.emulator.scheduler import Scheduler
from astra_tui.lab.emulator.step import Step
from astra_tui.lab.emulator.tally import Tally
from astra_tui.model.findings import Finding, FindingKind

CHUNK_LANES = 16_384
MAX_BLOCKS = 1 << 21


class Machine:
    """The state of one launch: its program, memories, findings and what is left of its budget."""

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
    ):
        self.program = program
        self.memory = memory
        self.shared = shared
        self.local = local
        self.parameters = np.frombuffer(parameters.ljust(8, b"\0"), np.uint8)
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
        self.warps_per_block = -(-self.threads // WARP)
        self.block_bits = 5 + max(self.warps_per_block - 1, 0).bit_length()
        self.warnings: dict[tuple[FindingKind, int], Finding] = {}
        self.releases: dict[int, dict[int, int]] = {}
        self.acquires: dict[tuple[int, int], int] = {}
        self.fenced: dict[int, int] = {}
        self.block_epochs = np.zeros(self.blocks, np.int32)

    @cached_property
    def history(self) -> AccessHistory:
        """Who touched global memory in this launch; kernel boundaries order everything."""
        words = (self.memory.size >> self.memory.granule_bits) + 16
        bits = self.memory.granule_bits
        return AccessHistory(
            words,
            FindingKind.GLOBAL_RACE,
            self.block_bits,
            lambda word: self.memory.describe_offset(word << bits),
        )

    def run(self) -> None:
        """Runs all blocks. Raises EmulationStopped with the first finding that is no warning."""
        chunk_blocks = max(1, CHUNK_LANES // self.threads)
        with np.errstate(all="ignore"):
            for first in range(0, self.blocks, chunk_blocks):
                chunk = Chunk(self, first, min(chunk_blocks, self.blocks - first))
                Scheduler(chunk).run()

    def stop(self, fault: Fault, step: Step, group: Group) -> EmulationStopped:
        """The exception for a fault of one instruction."""
        finding = self.finding(fault.kind, fault.message, step, group, fault.lane, fault.lanes)
        return EmulationStopped(finding)

    def warn(self, kind: FindingKind, message: str, step: Step, group: Group, lane: int) -> None:
        """Keeps a warning, once for each source line."""
        key = (kind, step.location.line)
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
            kernel=self.kernel,
            block=block,
            thread=thread,
            lanes=lanes,
            instruction=step.text,
            launch_line=self.launch_line,
        )

    # -- fences and atomics between blocks -------------------------------------------------------

    def note_fence(self, group: Group) -> None:
        """A fence: what these blocks wrote before can be released by an atomic."""
        for block in np.unique(group.block_index):
            self.fenced[int(block)] = int(self.block_epochs[block])

    def note_atomic(self, group: Group, offsets: Any) -> None:
        """An atomic after a fence releases its block's writes, and acquires those of others."""
        if not self.program.uses_release:
            return
        pairs = zip(group.block_index.tolist(), offsets.tolist(), strict=True)
        for block, offset in dict.fromkeys(pairs):  # in the order of the lanes' turns
            known = self.releases.setdefault(offset, {})
            for other, epoch in known.items():
                key = (block, other)
                self.acquires[key] = max(self.acquires.get(key, -1), epoch)
            if block in self.fenced:
                known[block] = max(known.get(block, -1), self.fenced[block])

    def acquired(self, others: Any, threads: Any, epochs: Any) -> Any:
        """Whether accesses of other threads, at their block's epochs, are visible to these."""
        bits = self.block_bits
        return np.array(
            [
                self.acquires.get(((int(t) - 1) >> bits, (int(o) - 1) >> bits), -1) >= e
                for o, t, e in zip(others, threads, epochs, strict=True)
            ],
            np.bool_,
        )
