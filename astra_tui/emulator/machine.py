"""Runs one launch: blocks in chunks, lanes that stand at one instruction together.

Of all lanes that can run, those at the lowest instruction go first, all at once. Code that
diverges comes together again by itself, because the lanes that are ahead wait. Lanes at a barrier
or a warp operation wait until it is complete; when none can run, it is either complete now, or the
launch is stuck and says so.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from astra_tui.emulator import special
from astra_tui.emulator.lanes import Chunk
from astra_tui.emulator.launch import Launch
from astra_tui.emulator.scheduler import Scheduler

CHUNK_LANES = 16_384
CHUNK_BLOCKS = 128
"""Blocks that may run together beyond that where no block can wait for another."""
CHUNK_LANES_APART = 1 << 17
"""Lanes of these: steps of a few threads of each block cost the same for one block as for many."""
CHUNK_REGISTER_BYTES = 1 << 30
"""Registers of these, if every thread has all that the program names."""
CHUNK_LOCAL_BYTES = 1 << 28
"""Local memory of all lanes of a chunk: fewer run together where each has much of it."""
CHUNK_SHARED_BYTES = 1 << 26
CHUNK_READERS = 1 << 23
"""Entries of the table of who has read shared memory, a word and a warp each, with clocks."""
MAX_BLOCKS = 1 << 21


class Machine(Launch):
    """A launch that runs."""

    def run(self, blocks: Any = None) -> None:
        """Runs blocks by their linear indices, in the variation's order; by default all.

        Raises EmulationStopped with the first finding that is no warning.
        """
        blocks = np.arange(self.blocks) if blocks is None else blocks
        blocks = self._in_turn(blocks)
        at_once = self._blocks_at_once()
        with np.errstate(all="ignore"):
            for first in range(0, len(blocks), at_once):
                chunk = Chunk(self, blocks[first : first + at_once])
                Scheduler(chunk).run()
                if self.traffic is not None:
                    self.traffic.settle()
                chunk.release()

    def _blocks_at_once(self) -> int:
        """How many blocks run at once: fewer where their threads or they need much memory."""
        lanes = min(self._lanes_at_once(), CHUNK_LOCAL_BYTES // max(self.local.size, 1))
        blocks = min(lanes // self.threads, CHUNK_SHARED_BYTES // self.shared.stride)
        if self.program.is_asynchronous:
            warps = self.cluster_blocks * self.warps_per_block
            blocks = min(blocks, CHUNK_READERS // (self.shared.words_per_block * warps))
        return max(1, blocks // self.cluster_blocks) * self.cluster_blocks

    def _lanes_at_once(self) -> int:
        """How many lanes run at once; more where the order of blocks can make no difference.

        What is moved in vain is told by what blocks before have moved, so there it stays the same.
        """
        if self.program.communicates or self.program.is_asynchronous or self.traffic is not None:
            return CHUNK_LANES
        registers = CHUNK_REGISTER_BYTES // max(self.program.register_bytes, 1)
        return max(CHUNK_LANES, min(CHUNK_BLOCKS * self.threads, CHUNK_LANES_APART, registers))

    def _in_turn(self, blocks: Any) -> Any:
        """Blocks in the variation's order, those of a cluster next to each other: all of them,
        even where only some are asked for.
        """
        if self.cluster_blocks == 1:
            return blocks[self.ordered(len(blocks))]
        clusters = np.unique(self.cluster_of(blocks)[0])
        clusters = clusters[self.ordered(len(clusters))]
        ordered = special.blocks_of(clusters, self.rank_order, self.grid, self.cluster)
        return ordered.reshape(-1)
