"""Blocks that run together, and the groups of their lanes that stand at one instruction."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import msgspec
import numpy as np

from astra_tui.emulator import special
from astra_tui.emulator.address_space import GLOBAL
from astra_tui.emulator.bulk_copies import BulkCopies
from astra_tui.emulator.clocked_races import ClockedHistory
from astra_tui.emulator.clocks import Clocks
from astra_tui.emulator.copies import PendingCopies
from astra_tui.emulator.faults import EmulationStopped, Fault, first_true
from astra_tui.emulator.launch import Launch
from astra_tui.emulator.mbarriers import Barriers
from astra_tui.emulator.memory import views_of
from astra_tui.emulator.operands import GLOBAL_BASE
from astra_tui.emulator.places import Places
from astra_tui.emulator.races import AccessHistory, Accessors, Known, LateLoad, PartOfWarp
from astra_tui.emulator.registers import (
    GroupRegisters,
    HomeRegisters,
    MaskedRegisters,
    Registers,
    Selection,
)
from astra_tui.emulator.step import AccessSpec, Step
from astra_tui.model.findings import Finding, FindingKind
from astra_tui.model.occupancy import WARP

FULL_MASK = np.uint32(0xFFFF_FFFF)
_ALL_BITS = (1 << 64) - 1
_UNDEFINED_BYTE = 0xFF
_FEW = 16
"""Of so many lanes of a chunk less than one: these are sorted rather than marked among all."""
_LARGE = (
    *("launch", "local", "local_views", "shared", "shared_views", "shared_state", "shared_history"),
    *("copies", "marks", "bulk_copies", "barriers", "clocks"),
)


def is_full(mask: Any) -> bool:
    """Whether a mask is one for all lanes, and names every lane of their warps."""
    return not np.ndim(mask) and bool(mask == FULL_MASK)


@dataclass(frozen=True)
class _Places:
    """Where the lanes of a chunk are: the same for all chunks of one shape, never changed."""

    lanes: Any
    thread: Any
    block: Any
    lane: Any
    warp: Any
    live_bits: Any


@lru_cache(maxsize=8)
def _places(blocks: int, threads: int, order: tuple[int, ...] | None) -> _Places:
    """`order` is that of the threads of a block; None where they are in their own."""
    lanes = np.arange(blocks * threads)
    thread, block = lanes % threads, lanes // threads
    if order is not None:
        thread = np.array(order)[thread]
    lane, warps_per_block = thread % WARP, -(-threads // WARP)
    warp = block * warps_per_block + thread // WARP
    weights = 2.0 ** lane[:threads]
    of_block = np.bincount(warp[:threads], weights=weights).astype(np.uint32)
    return _Places(lanes, thread, block, lane, warp, np.tile(of_block, blocks))


class Chunk:
    """Some blocks that run together, one lane a thread."""

    def __init__(self, launch: Launch, blocks: Any):
        """`blocks` are the linear indices of its blocks, in order."""
        self.launch = launch
        self.blocks = len(blocks)
        self.grid, self.block, self.cluster = launch.grid, launch.block, launch.cluster
        threads = launch.threads
        places = _places(self.blocks, threads, launch.thread_order)
        self.width = self.blocks * threads
        self.lanes, self.thread, self.block_slot = places.lanes, places.thread, places.block
        self.lane, self.warp = places.lane, places.warp
        self.block_index = np.repeat(blocks, threads)
        self.rank = np.tile(launch.rank_order, self.blocks // launch.cluster_blocks)
        """The rank in its cluster of each block."""
        self.epoch = np.ones(self.width, np.int32)  # Zero is none, in tables of accesses.
        self.epochs_split = False
        """Whether a part of a warp may have passed a barrier alone."""
        self.sync = np.zeros(self.width, np.int32)
        self.exchange = np.zeros(self.width, np.int32)
        self.partly: Meetings | None = None
        self.all_live = True
        self.live_in_block = np.full(self.blocks, threads)
        self.live_bits = places.live_bits.copy()
        self.dynamic_shared = launch.dynamic_shared
        self.shared_size = launch.shared.static_size + launch.dynamic_shared
        self.registers = HomeRegisters(
            self.width, launch.program.slot_dtypes, launch.variation.finite_registers
        )
        for slot, name in launch.program.special_slots.items():
            moved = (launch.memory.base - GLOBAL) & _ALL_BITS
            self.registers[slot] = (
                np.uint64(moved)
                if name == GLOBAL_BASE
                else special.value(name, self, launch.variation)
            )
        self.marks: dict[int, Any] = {}
        """By register slot, a mark for each lane: zero where its value is defined, else which step
        loaded what it follows from, and from which offset of shared memory. Slots without any mark
        are left out. See undefined_values.py.
        """
        self.clocks = (
            Clocks(launch, self.rank, self.block_slot, self.block_index, self.thread)
            if launch.checked and launch.program.is_asynchronous
            else None
        )
        """What orders accesses; None where barriers of blocks and warps alone do."""
        self._written: set[tuple[int, int]] = set()
        """Places in shared memory that are known to be written in every block, and their sizes."""
        self.everyone = Group(self, Selection.rising(self.lanes, self.width), self.registers)

    @cached_property
    def shared(self) -> Any:
        """Shared memory of all blocks of the chunk, one after another."""
        return np.full(self.blocks * self.launch.shared.stride, _UNDEFINED_BYTE, np.uint8)

    @cached_property
    def shared_views(self) -> dict[int, Any]:
        """The same, as integers of each width."""
        return views_of(self.shared)

    @cached_property
    def shared_state(self) -> Any:
        """Which words of shared memory someone has written."""
        return np.zeros(self.blocks * self.launch.shared.words_per_block, np.bool_)

    def has_written(self, local: int, size: int) -> bool:
        """Whether someone has written a place in the shared memory of every block."""
        if (local, size) not in self._written:
            bits = self.launch.shared.granule_bits
            words = slice(local >> bits, (local + size - 1 >> bits) + 1)
            if not self.shared_state.reshape(self.blocks, -1)[:, words].all():
                return False
            self._written.add((local, size))
        return True

    @cached_property
    def shared_history(self) -> AccessHistory | ClockedHistory:
        """Who touched shared memory."""
        shared, clocks = self.launch.shared, self.clocks
        words = self.blocks * shared.words_per_block
        bits = shared.granule_bits

        def describe(word: int) -> str:
            return shared.describe_offset((word << bits) % shared.stride)

        if clocks is not None:
            return ClockedHistory(clocks, words, describe)
        return AccessHistory(words, FindingKind.SHARED_RACE, 31, describe, bits)

    @cached_property
    def barriers(self) -> Barriers:
        """Barriers in the shared memory of the chunk's blocks."""
        return Barriers(self.launch.shared, len(self.shared), self.clocks)

    @property
    def has_barriers(self) -> bool:
        """Whether there has been one."""
        return "barriers" in self.__dict__

    @cached_property
    def bulk_copies(self) -> BulkCopies:
        """Bulk copies, and asynchronous stores, that have not ended."""
        return BulkCopies(self.width, len(self.shared_state), self.launch.shared)

    @property
    def has_bulk_copies(self) -> bool:
        """Whether there have been some."""
        return "bulk_copies" in self.__dict__

    def peers(self, slots: Any, ranks: Any) -> Any:
        """The blocks of the chunk that have some ranks in the clusters of others."""
        size = self.launch.cluster_blocks
        places = np.argsort(self.launch.rank_order)
        return slots // size * size + places[np.minimum(ranks, size - 1)]

    @cached_property
    def copies(self) -> PendingCopies:
        """Asynchronous copies that no one has waited for yet."""
        return PendingCopies(self.width, len(self.shared_state))

    @property
    def pending_copies(self) -> Any:
        """Which words of shared memory an asynchronous copy will write, or None."""
        return self.copies.words if "copies" in self.__dict__ else None

    @cached_property
    def local(self) -> Any:
        """The threads' own arrays, one thread after another."""
        return np.zeros(max(self.width * self.launch.local.size, 16), np.uint8)

    @cached_property
    def local_views(self) -> dict[int, Any]:
        """The same, as integers of each width."""
        return views_of(self.local)

    @cached_property
    def waited(self) -> Any:
        """Which lanes know that the launches before have ended; see grid_dependency.py."""
        return np.zeros(self.width, np.bool_)

    @cached_property
    def cluster_barrier(self) -> ClusterBarrier:
        """Who has arrived at the barriers of the chunk's clusters."""
        return ClusterBarrier(self)

    def in_order(self, pieces: list[Any]) -> Any:
        """The lanes of several pieces that have none in common, in order."""
        if _FEW * sum(map(len, pieces)) < self.width:
            return np.sort(np.concatenate(pieces))
        there = np.zeros(self.width, np.bool_)
        for piece in pieces:
            there[piece] = True
        return np.flatnonzero(there)

    def alive(self) -> Any:
        """Which lanes have not left the kernel."""
        bits = self.live_bits[self.warp] >> self.lane.astype(np.uint32)
        return (bits & np.uint32(1)) != 0

    def note_meeting(self, group: Group, mask: Any, synchronises: bool) -> None:
        """Lanes of warps have met: all that are left of a warp, or those of a mask."""
        launch = self.launch
        if synchronises and self.clocks is not None:
            self.clocks.meet(group.lanes, (group.warps.astype(np.int64) << WARP) | mask)
        launch.time += 1
        live = self.live_bits[group.warps] if not is_full(mask) else None
        whole = live is None or np.broadcast_to((mask & live) == live, (group.n,))
        if whole is True or whole.all():
            met = group.selection
        else:
            met = Selection(group.lanes[whole])
            if self.partly is None:
                self.partly = Meetings(self.warp)
            some = np.flatnonzero(~whole)
            masks = np.broadcast_to(mask, (group.n,))[some]
            self.partly.note(group.lanes[some], masks, launch.time, synchronises)
        for times in (self.exchange, self.sync)[: 1 + synchronises]:
            met.put(times, launch.time)

    def oldest_epochs(self) -> Any:
        """By block, the fewest barriers that one of its threads has passed."""
        return self.epoch.reshape(self.blocks, -1).min(axis=1)

    def release(self) -> None:
        """Gives back the memory of a chunk that has run, before the next one takes as much."""
        for name in _LARGE:  # Groups and chunks know each other: only a collection would.
            self.__dict__.pop(name, None)

    def place_of(self, lane: int) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
        """Block and thread indices of a lane."""
        return (
            special.indices(int(self.block_index[lane]), self.grid),
            special.indices(int(self.thread[lane]), self.block),
        )

    def end(self, lanes: Any) -> None:
        """Marks lanes as having left the kernel."""
        self.all_live = False
        if len(lanes) == self.width:  # No lane is left to ask.
            self.live_in_block = np.zeros(self.blocks, np.int64)
            return
        np.subtract.at(self.live_in_block, self.block_slot[lanes], 1)
        bits = np.uint32(1) << self.lane[lanes].astype(np.uint32)
        np.bitwise_and.at(self.live_bits, self.warp[lanes], ~bits)


class ClusterBarrier:
    """The barrier of each cluster of a chunk: how often lanes have arrived at it and waited."""

    def __init__(self, chunk: Chunk):
        self.chunk = chunk
        self.arrivals = np.zeros(chunk.width, np.int32)
        self.waits = np.zeros(chunk.width, np.int32)

    def arrive(self, lanes: Any, releases: bool) -> None:
        """Lanes arrive. Raises Fault for one that has not waited since it last did."""
        twice = self.arrivals[lanes] > self.waits[lanes]
        if twice.any():
            text = "barrier.cluster.arrive again, without barrier.cluster.wait between"
            raise Fault(FindingKind.BARRIER_MISUSE, text, *first_true(twice))
        if releases and self.chunk.clocks is not None:
            self.chunk.clocks.arrive_at_cluster(lanes, self.arrivals[lanes])
        self.arrivals[lanes] += 1

    def is_complete(self, lanes: Any) -> Any:
        """Whether all that are left of their clusters have arrived, for lanes that wait.

        Raises Fault for one that has not arrived itself.
        """
        early = self.arrivals[lanes] == self.waits[lanes]
        if early.any():
            text = "barrier.cluster.wait without barrier.cluster.arrive before it"
            raise Fault(FindingKind.BARRIER_MISUSE, text, *first_true(early))
        lanes_of_cluster = self.chunk.launch.cluster_blocks * self.chunk.launch.threads
        arrivals = np.where(self.chunk.alive(), self.arrivals, np.iinfo(np.int32).max)
        fewest = arrivals.reshape(-1, lanes_of_cluster).min(axis=1)
        return fewest[lanes // lanes_of_cluster] > self.waits[lanes]

    def leave(self, lanes: Any) -> None:
        """Lanes have waited, and continue."""
        if self.chunk.clocks is not None:
            self.chunk.clocks.leave_cluster_barrier(lanes, self.waits[lanes])
        self.waits[lanes] += 1


class Meetings:
    """When each lane has last met each lane of its warp in an operation of a part of the warp."""

    def __init__(self, warp: Any):
        self.warp = warp
        """The warp of each lane."""
        self.synchronised = np.zeros((len(warp), WARP), np.int32)
        self.exchanged = np.zeros((len(warp), WARP), np.int32)

    def of(self, lanes: Any, per_lane: int) -> PartOfWarp:
        """What an access asks that these lanes make, each `per_lane` times."""
        return _PartOfWarp(self, lanes, per_lane)

    def note(self, lanes: Any, masks: Any, time: int, synchronises: bool) -> None:
        """Lanes meet those of their masks; each learns of the meetings of the others."""
        key = (self.warp[lanes] << WARP) | masks.astype(np.int64)
        order = np.argsort(key, kind="stable")
        lanes, key, masks = lanes[order], key[order], masks[order]
        first = np.concatenate([[True], key[1:] != key[:-1]])
        row = np.cumsum(first) - 1
        members = ((masks[:, None] >> np.arange(WARP, dtype=np.uint32)) & 1).astype(np.bool_)
        for table in (self.exchanged, self.synchronised)[: 1 + synchronises]:
            known = np.maximum.reduceat(table[lanes], np.flatnonzero(first), axis=0)[row]
            table[lanes] = np.where(members, time, known)


@dataclass(frozen=True)
class _PartOfWarp:
    """The meetings of the lanes that make an access, each `per_lane` times."""

    meetings: Meetings
    lanes: Any
    per_lane: int

    def sync(self, at: Any, lanes: Any) -> Any:
        return self.meetings.synchronised[self.lanes[at // self.per_lane], lanes]

    def exchange(self, at: Any, lanes: Any) -> Any:
        return self.meetings.exchanged[self.lanes[at // self.per_lane], lanes]


class Group:
    """Lanes that run together. `lanes` are positions in the chunk, in order."""

    def __init__(self, chunk: Chunk, selection: Selection, registers: Any):
        self.chunk = chunk
        self.selection = selection
        self.lanes = lanes = selection.positions
        self.registers = registers
        self.n = len(lanes)
        self.everyone = self.n == chunk.width

    @classmethod
    def of(cls, chunk: Chunk, lanes: Any) -> Group:
        """The group of some lanes, with registers of its own until they are flushed."""
        if len(lanes) == chunk.width:
            return chunk.everyone
        selection = Selection.rising(lanes, chunk.width)
        return cls(chunk, selection, GroupRegisters(chunk.registers, chunk.width, selection))

    def part(self, positions: Any) -> Group:
        """The lanes at some positions of this group, whose registers are this group's."""
        registers = GroupRegisters(self.registers, self.n, Selection(positions))
        return Group(self.chunk, Selection(self.lanes[positions]), registers)

    def repeated(self, positions: Any) -> Group:
        """The lanes at some positions, each as often as it is named."""
        group = self.part(positions)
        group.everyone = False
        return group

    def flush(self, next_step: int = -1) -> None:
        """Writes changed registers back to where they were taken from; only those that may be read
        from a step on, where one is named.
        """
        if isinstance(self.registers, GroupRegisters):
            needed = -1 if next_step < 0 else self.chunk.launch.program.needed[next_step]
            self.registers.flush(needed)

    def run_masked(self, step: Step, which: Any, registers: Registers) -> None:
        """Runs a step that only computes for the lanes of a mask; `registers` are this group's."""
        masked = MaskedRegisters(registers, which)
        step.run(masked, self)  # type: ignore[misc]
        masked.flush()

    def _of_lanes(self, values: Any) -> Any:
        return values if self.everyone else self.selection.of(values)

    @cached_property
    def warps(self) -> Any:
        """The warp of each lane."""
        return self._of_lanes(self.chunk.warp)

    @cached_property
    def epoch(self) -> Any:
        """How many barriers each lane has passed; of all lanes, the chunk's own table."""
        return self._of_lanes(self.chunk.epoch)

    @cached_property
    def oldest_epoch(self) -> int:
        """The fewest barriers that one of the lanes has passed."""
        return int(self.epoch.min())

    def pass_barrier(self) -> None:
        """These lanes have passed one more barrier."""
        self.selection.put(self.chunk.epoch, self.epoch + 1)
        for group in (self, self.chunk.everyone):
            for name in ("epoch", "oldest_epoch", "_late_load"):
                group.__dict__.pop(name, None)

    @cached_property
    def lanes_in_warp(self) -> Any:
        """The number of each lane within its warp."""
        return self._of_lanes(self.chunk.lane)

    @cached_property
    def block_slots(self) -> Any:
        """The block of each lane, counted within the chunk."""
        return self._of_lanes(self.chunk.block_slot)

    @cached_property
    def block_index(self) -> Any:
        """The linear block index of each lane."""
        return self._of_lanes(self.chunk.block_index)

    @cached_property
    def shared_base(self) -> Any:
        """Where each lane's block begins in the chunk's shared memory."""
        return self.block_slots * self.chunk.launch.shared.stride

    @cached_property
    def _shared_begins(self) -> Places:
        return Places.of(self.shared_base)

    def shared_places(self, local: int) -> Places:
        """One place in the shared memory of each lane's block."""
        return self._shared_begins.moved(local)

    @cached_property
    def whole_warps(self) -> bool:
        """Whether the group consists of full warps of 32 lanes in order."""
        if self.n % WARP:
            return False
        if self.everyone:
            return bool(self.chunk.launch.threads % WARP == 0)
        first, last = self.lanes[::WARP], self.lanes[WARP - 1 :: WARP]
        if np.count_nonzero(self.chunk.lane[first]):
            return False
        return bool((self.chunk.warp[first] == self.chunk.warp[last]).all())

    @cached_property
    def warp_count(self) -> int:
        """How many warps take part."""
        if self.whole_warps:
            return self.n // WARP
        warps = self.warps
        return int(np.count_nonzero(warps[1:] != warps[:-1])) + 1

    def counts(self, which: Any) -> tuple[int, int]:
        """How many lanes a mask names, and of how many warps."""
        lanes = int(np.count_nonzero(which))
        if self.whole_warps:
            return lanes, int(np.count_nonzero(np.packbits(which).view(np.uint32)))
        warps = self.warps[which]
        return lanes, int(np.count_nonzero(warps[1:] != warps[:-1])) + (lanes > 0)

    @cached_property
    def present_bits(self) -> Any:
        """For each warp of the chunk, which of its lanes are in the group."""
        return np.bincount(
            self.warps, weights=2.0**self.lanes_in_warp, minlength=len(self.chunk.live_bits)
        ).astype(np.uint32)

    @cached_property
    def _global_threads(self) -> Any:
        launch = self.chunk.launch
        thread = self._of_lanes(self.chunk.thread)
        return ((self.block_index << launch.block_bits) + thread + 1).astype(np.int32)

    @cached_property
    def _shared_threads(self) -> Any:
        chunk = self.chunk
        of_lanes = chunk.thread if chunk.clocks is None else chunk.clocks.member
        return (self._of_lanes(of_lanes) + 1).astype(np.int32)

    def accessors(self, space: str, per_lane: int, step: int = 0) -> Accessors:
        """Who accesses memory by a step, for the race checker; each lane `per_lane` times."""
        thread = self._global_threads if space == "global" else self._shared_threads
        chunk, launch = self.chunk, self.chunk.launch
        epoch = self.epoch
        sync, exchange = self._of_lanes(chunk.sync), self._of_lanes(chunk.exchange)
        fences = None
        if space == "global" and launch.program.uses_release:
            fences = launch.fences.counts(thread)
            fences = np.repeat(fences, per_lane) if per_lane > 1 else fences
        if per_lane > 1:
            thread, epoch = np.repeat(thread, per_lane), np.repeat(epoch, per_lane)
            sync, exchange = np.repeat(sync, per_lane), np.repeat(exchange, per_lane)
        partly = chunk.partly.of(self.lanes, per_lane) if chunk.partly is not None else None
        known = self._known(space, per_lane) if chunk.clocks is not None else None
        return Accessors(
            thread,
            epoch,
            launch.time,
            sync,
            exchange,
            partly,
            fences,
            step,
            lambda: launch.program.dependence.awaited(step),
            known,
        )

    def touches_stretches(
        self, space: str, spec: AccessSpec, places: Places, history: AccessHistory
    ) -> bool:
        """Whether a plain access fills stretches of memory and is in order there: then it is
        recorded.
        """
        chunk = self.chunk
        if spec.synchronising or spec.in_bulk or chunk.epochs_split or not self.whole_warps:
            return False
        if chunk.clocks is not None or (space == "global" and chunk.launch.program.uses_release):
            return False
        thread = self._global_threads if space == "global" else self._shared_threads
        return history.stretches.touch(places, spec, thread, self.epoch, chunk.launch.time)

    def late_load(self, spec: AccessSpec, places: Places) -> LateLoad:
        """A plain load of shared memory, as it may be noted later."""
        chunk = self.chunk
        in_order = self.whole_warps and not chunk.epochs_split
        epoch = self.epoch.copy() if self.everyone else self.epoch
        parts = places, spec, self._shared_threads, epoch, self.block_slots
        return LateLoad(*parts, chunk.launch.time, in_order).brief()

    def late_load_of(self, spec: AccessSpec, local: int) -> LateLoad:
        """The same for one place in the shared memory of each lane's block."""
        begins = self._late_load
        places, time = begins.places.moved(local), self.chunk.launch.time
        return LateLoad(places, spec, *begins[2:5], time, begins.in_order, local)

    @cached_property
    def _late_load(self) -> LateLoad:
        """A late load of the first place of each lane's block."""
        return self.late_load(AccessSpec(0, 1, "load"), self._shared_begins)

    def _known(self, space: str, per_lane: int) -> Known:
        """What the lanes that access memory know of other threads, by clocks."""
        clocks = self.chunk.clocks
        assert clocks is not None
        ordered = clocks.ordered_globally if space == "global" else clocks.ordered
        first = 0 if space == "global" else 1
        return lambda at, threads, times: ordered(
            self.lanes[at // per_lane], threads - first, times
        )

    # -- findings --------------------------------------------------------------------------------

    def stop(self, fault: Fault, step: Step) -> EmulationStopped:
        """The exception for a fault of one instruction."""
        finding = self.finding(fault.kind, fault.message, step, fault.lane, fault.lanes)
        return EmulationStopped(finding)

    def tolerates(self, fault: Fault, index: int) -> bool:
        """Whether an engineer accepts a fault of an instruction: then it becomes a warning."""
        launch = self.chunk.launch
        step = launch.program.steps[index]
        finding = self.finding(fault.kind, fault.message, step, fault.lane, fault.lanes)
        reason = launch.accepts(finding)
        if reason:
            key = (fault.kind, step.location.line, step.location.header)
            accepted = msgspec.structs.replace(finding, accepted=reason)
            launch.warnings.setdefault(key, accepted)
        return bool(reason)

    def warn(self, kind: FindingKind, message: str, step: Step, lane: int) -> None:
        """Keeps a warning, once for each source line."""
        key, warnings = (kind, step.location.line, step.location.header), self.chunk.launch.warnings
        if key not in warnings:
            warnings[key] = self.finding(kind, message, step, lane, 1)

    def finding(
        self, kind: FindingKind, message: str, step: Step, lane: int, lanes: int
    ) -> Finding:
        """A finding about the lane at a position within the group."""
        block, thread = self.chunk.place_of(int(self.lanes[lane]))
        return Finding(
            kind=kind,
            message=message,
            line=step.location.line,
            callers=step.location.callers,
            header=step.location.header,
            kernel=self.chunk.launch.kernel,
            block=block,
            thread=thread,
            lanes=lanes,
            instruction=step.text,
            launch_line=self.chunk.launch.launch_line,
        )

    # -- fences and atomics between blocks -------------------------------------------------------

    def note_fence(self) -> None:
        """These lanes make a fence that other blocks can see."""
        by = self.accessors("global", 1)
        self.chunk.launch.fences.fence(by.thread, by.epoch, by.sync)

    def note_atomic(self, offsets: Any, *, acquires: bool = True, releases: bool = True) -> None:
        """These lanes access addresses through atomics, in their order."""
        launch = self.chunk.launch
        if launch.program.uses_release:
            by = self.accessors("global", 1)
            launch.fences.atomic(
                by.thread, by.epoch, launch.time, offsets, acquires=acquires, releases=releases
            )
