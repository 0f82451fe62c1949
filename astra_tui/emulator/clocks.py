"""What each thread of a cluster knows of the others, where more than block barriers order them.

Barriers in memory, cluster barriers and asynchronous copies order some threads and not others, so
that counting the barriers of a block does not tell what comes before what. Here every thread knows
for every other thread of its cluster the time before which all that one did comes before what it
does itself: a vector clock. A barrier in memory stands for the copies that complete on it. Threads
that have met know the same, and share one clock.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from astra_tui.emulator.launch import Launch
from astra_tui.model.occupancy import WARP

COPIERS = 64
"""Barriers in memory of a cluster whose copies are kept apart; more share their entries."""


class Clocks:
    """The clocks of a chunk's lanes. A lane's `member` is its number within its cluster."""

    def __init__(self, launch: Launch, ranks: Any, block_slot: Any, block_index: Any, thread: Any):
        """`ranks` are those of the chunk's blocks; block, linear index and thread of each lane."""
        self.launch = launch
        self.block_lanes = launch.warps_per_block * WARP
        self.members = launch.cluster_blocks * self.block_lanes
        self.width = self.members + COPIERS
        self.member = (ranks * self.block_lanes)[block_slot] + thread
        self.cluster = block_slot // launch.cluster_blocks
        clusters = len(ranks) // launch.cluster_blocks
        self.thread = self.cluster * self.members + self.member
        """The number of each lane's thread in the tables of all clusters."""
        self.clocks = np.zeros((16, self.width), np.int32)
        self.used = 1
        self.of = np.zeros(len(block_slot), np.int64)
        """Which of the clocks each lane has."""
        self.at_barrier = np.zeros((clusters * 2, self.width), np.int32)
        """What has been released at even and at odd phases of each cluster's barrier."""
        rows = clusters * self.members
        self.fenced_at = np.zeros(rows, np.int32)
        """When each thread last fenced what it wrote from asynchronous copies."""
        self.reached_at = np.zeros((rows, launch.cluster_blocks), np.int32)
        self.reached_by = np.zeros((rows, launch.cluster_blocks), np.int32)
        """When each thread last accessed shared memory of each other block, and by which step."""
        self.cluster_number = np.zeros(clusters, np.int64)
        self.cluster_number[self.cluster] = launch.cluster_of(block_index)[0]

    def tick(self) -> int:
        """The time that follows all that has happened."""
        self.launch.time += 1
        return self.launch.time

    def released(self, lanes: Any, groups: Any) -> tuple[Any, Any]:
        """Lanes release what they know and did: the groups, by number, and what each releases."""
        now = self.tick()
        numbers, row = np.unique(groups, return_inverse=True)
        pairs = np.unique(row * self.used + self.of[lanes])
        first = np.flatnonzero(np.diff(pairs // self.used, prepend=-1))
        together = np.maximum.reduceat(self.clocks[pairs % self.used], first, axis=0)
        together[row, self.member[lanes]] = now
        return numbers, together

    def acquire(self, lanes: Any, clocks: Any, which: Any) -> None:
        """Lanes learn what others have released: of `clocks`, the one by number for each lane."""
        count = len(clocks)
        pairs, row = np.unique(self.of[lanes] * count + which, return_inverse=True)
        self._assign(lanes, np.maximum(self.clocks[pairs // count], clocks[pairs % count]), row)

    def meet(self, lanes: Any, meeting: Any) -> None:
        """Lanes of one meeting, by number, learn all that each of them knows."""
        numbers, together = self.released(lanes, meeting)
        self._assign(lanes, together, np.searchsorted(numbers, meeting))

    def _assign(self, lanes: Any, clocks: Any, which: Any) -> None:
        if self.used + len(clocks) > len(self.clocks):
            self._make_room(len(clocks))
        self.clocks[self.used : self.used + len(clocks)] = clocks
        self.of[lanes] = self.used + which
        self.used += len(clocks)

    def _make_room(self, more: int) -> None:
        """Leaves out clocks that no lane has any more."""
        kept, self.of = np.unique(self.of, return_inverse=True)
        clocks = np.zeros((2 * (len(kept) + more), self.width), np.int32)
        clocks[: len(kept)] = self.clocks[kept]
        self.clocks, self.used = clocks, len(kept)

    def arrive_at_cluster(self, lanes: Any, phase: Any) -> None:
        """Lanes release to their cluster's barrier at a phase, one for each lane."""
        at, clocks = self.released(lanes, self.cluster[lanes] * 2 + (phase & 1))
        self.at_barrier[at] = np.maximum(self.at_barrier[at], clocks)

    def leave_cluster_barrier(self, lanes: Any, phase: Any) -> None:
        """Lanes acquire what was released at a phase of their cluster's barrier."""
        self.acquire(lanes, self.at_barrier, self.cluster[lanes] * 2 + (phase & 1))

    def ordered(self, lanes: Any, others: Any, times: Any) -> Any:
        """Whether accesses of members at some times come before what lanes do now."""
        return self.clocks[self.of[lanes], others] > times

    def ordered_globally(self, lanes: Any, threads: Any, times: Any) -> Any:
        """The same for threads of the launch, counted from 1, blocks in their upper bits."""
        bits = self.launch.block_bits
        cluster, rank = self.launch.cluster_of((threads.astype(np.int64) - 1) >> bits)
        member = rank * self.block_lanes + ((threads - 1) & ((1 << bits) - 1))
        same = cluster == self.cluster_number[self.cluster[lanes]]
        return same & self.ordered(lanes, member, times)

    def fence(self, lanes: Any) -> None:
        """Lanes order what they have written, or know of, before asynchronous copies."""
        self.fenced_at[self.thread[lanes]] = self.tick()

    def is_fenced(self, lanes: Any, writers: Any, times: Any) -> Any:
        """Whether writers, or lanes that issue copies, have fenced since writes at some times."""
        thread = self.thread[lanes]
        by_writer = self.fenced_at[thread - self.member[lanes] + writers] > times
        return by_writer | (self.fenced_at[thread] > times)

    def reach(self, lanes: Any, ranks: Any, step: int) -> None:
        """Lanes access shared memory of blocks of their cluster."""
        self.reached_at[self.thread[lanes], ranks] = self.launch.time
        self.reached_by[self.thread[lanes], ranks] = step

    def unknown_to(self, lanes: Any, rank: int) -> tuple[int, int] | None:
        """A lane's number among all threads that has accessed shared memory of the block of some
        lanes, all that it has, with nothing after which one of these waits, and by which step;
        None where all have been waited for.
        """
        begin = int(self.cluster[lanes[0]]) * self.members
        times = self.reached_at[begin : begin + self.members, rank]
        if not times.any():
            return None
        known = self.clocks[np.unique(self.of[lanes]), : self.members].max(axis=0) > times
        known[rank * self.block_lanes : (rank + 1) * self.block_lanes] = True
        missing = np.flatnonzero((times > 0) & ~known)
        if not len(missing):
            return None
        thread = begin + int(missing[0])
        return thread, int(self.reached_by[thread, rank])

    def knows_block(self, lanes: Any, ranks: Any) -> Any:
        """Whether lanes have heard of any thread of blocks of their cluster."""
        which, row = np.unique(self.of[lanes], return_inverse=True)
        blocks = self.clocks[which, : self.members].reshape(len(which), -1, self.block_lanes)
        return blocks.max(axis=2)[row, ranks] > 0
