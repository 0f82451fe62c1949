"""What each thread of a cluster knows of the others, where more than block barriers order them.

Barriers in memory, cluster barriers and asynchronous copies order some threads and not others, so
that counting the barriers of a block does not tell what comes before what. Here every thread keeps
for every other thread of its cluster the time before which all that one did comes before what it
does itself: a vector clock. A barrier in memory stands for the copies that complete on it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from astra_tui.emulator.launch import WARP, Launch

COPIERS = 64
"""Barriers in memory of a cluster whose copies are kept apart; more share their entries."""


class Clocks:
    """The clocks of a chunk's lanes. A lane's `member` is its number within its cluster."""

    def __init__(self, launch: Launch, ranks: Any, block_slot: Any, block_index: Any, thread: Any):
        """`ranks` are those of the chunk's blocks; block, linear index and thread of each lane."""
        self.launch = launch
        self.block_lanes = launch.warps_per_block * WARP
        self.members = launch.cluster_blocks * self.block_lanes
        self.member = (ranks * self.block_lanes)[block_slot] + thread
        self.cluster = block_slot // launch.cluster_blocks
        self.row = self.cluster * self.members + self.member
        clusters = len(ranks) // launch.cluster_blocks
        self.known = np.zeros((clusters * self.members, self.members + COPIERS), np.int32)
        self.at_barrier = np.zeros((clusters, 2, self.members + COPIERS), np.int32)
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

    def released(self, lanes: Any) -> Any:
        """What lanes know that release now, a row each."""
        self.known[self.row[lanes], self.member[lanes]] = self.tick()
        return self.known[self.row[lanes]]

    def acquire(self, lanes: Any, clocks: Any) -> None:
        """Lanes learn what others have released: a row each, or one for all."""
        rows = self.row[lanes]
        self.known[rows] = np.maximum(self.known[rows], clocks)

    def meet(self, lanes: Any, meeting: Any) -> None:
        """Lanes of one meeting, by number, learn all that each of them knows."""
        order = np.argsort(meeting, kind="stable")
        lanes, meeting = lanes[order], meeting[order]
        first = np.concatenate([[True], meeting[1:] != meeting[:-1]])
        together = np.maximum.reduceat(self.released(lanes), np.flatnonzero(first), axis=0)
        self.known[self.row[lanes]] = together[np.cumsum(first) - 1]

    def arrive_at_cluster(self, lanes: Any, phase: Any) -> None:
        """Lanes release to their cluster's barrier at a phase, one for each lane."""
        np.maximum.at(self.at_barrier, (self.cluster[lanes], phase & 1), self.released(lanes))

    def leave_cluster_barrier(self, lanes: Any, phase: Any) -> None:
        """Lanes acquire what was released at a phase of their cluster's barrier."""
        self.acquire(lanes, self.at_barrier[self.cluster[lanes], phase & 1])

    def ordered(self, lanes: Any, others: Any, times: Any) -> Any:
        """Whether accesses of members at some times come before what lanes do now."""
        return self.known[self.row[lanes], others] > times

    def ordered_globally(self, lanes: Any, threads: Any, times: Any) -> Any:
        """The same for threads of the launch, counted from 1, blocks in their upper bits."""
        bits = self.launch.block_bits
        cluster, rank = self.launch.cluster_of((threads.astype(np.int64) - 1) >> bits)
        member = rank * self.block_lanes + ((threads - 1) & ((1 << bits) - 1))
        same = cluster == self.cluster_number[self.cluster[lanes]]
        return same & self.ordered(lanes, member, times)

    def fence(self, lanes: Any) -> None:
        """Lanes order what they have written, or know of, before asynchronous copies."""
        self.fenced_at[self.row[lanes]] = self.tick()

    def is_fenced(self, lanes: Any, writers: Any, times: Any) -> Any:
        """Whether writers, or lanes that issue copies, have fenced since writes at some times."""
        first = self.row[lanes] - self.member[lanes]
        return (self.fenced_at[first + writers] > times) | (self.fenced_at[self.row[lanes]] > times)

    def reach(self, lanes: Any, ranks: Any, step: int) -> None:
        """Lanes access shared memory of blocks of their cluster."""
        self.reached_at[self.row[lanes], ranks] = self.launch.time
        self.reached_by[self.row[lanes], ranks] = step

    def unknown_to(self, cluster: int, rank: int) -> tuple[int, int] | None:
        """A member that has accessed shared memory of a block, with nothing after which that block
        waits, and by which step; None where all have been waited for.
        """
        rows = slice(cluster * self.members, (cluster + 1) * self.members)
        block = slice(
            rows.start + rank * self.block_lanes, rows.start + (rank + 1) * self.block_lanes
        )
        times = self.reached_at[rows, rank]
        if not times.any():
            return None
        known = self.known[block, : self.members].max(axis=0) > times
        known[rank * self.block_lanes : (rank + 1) * self.block_lanes] = True
        missing = np.flatnonzero((times > 0) & ~known)
        if not len(missing):
            return None
        member = int(missing[0])
        return member, int(self.reached_by[rows, rank][member])

    def knows_block(self, lanes: Any, ranks: Any) -> Any:
        """Whether lanes have heard of any thread of blocks of their cluster."""
        rows = self.known[self.row[lanes], : self.members].reshape(len(lanes), -1, self.block_lanes)
        return rows.max(axis=2)[np.arange(len(lanes)), ranks] > 0
