"""Blocks that run together, and the groups of their lanes that stand at one instruction."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from astra_tui.lab.emulator import special
from astra_tui.lab.emulator.copies import PendingCopies
from astra_tui.lab.emulator.memory import views_of
from astra_tui.lab.emulator.races import AccessHistory, Accessors
from astra_tui.lab.emulator.registers import GroupRegisters, HomeRegisters
from astra_tui.model.findings import FindingKind

if TYPE_CHECKING:
    from astra_tui.lab.emulator.machine import Machine

WARP = 32
_UNDEFINED_BYTE = 0xFF


class Chunk:
    """Some blocks that run together, one lane a thread."""

    def __init__(self, machine: Machine, first_block: int, blocks: int):
        self.machine = machine
        self.first_block = first_block
        self.blocks = blocks
        self.grid, self.block = machine.grid, machine.block
        threads = machine.threads
        self.width = blocks * threads
        self.lanes = np.arange(self.width)
        self.thread = self.lanes % threads
        self.block_slot = self.lanes // threads
        self.block_index = self.block_slot + first_block
        self.lane = self.thread % WARP
        self.warp = self.block_slot * machine.warps_per_block + self.thread // WARP
        self.epoch = np.zeros(self.width, np.int32)
        self.sync = np.zeros(self.width, np.int32)
        self.all_live = True
        self.live_in_block = np.full(blocks, threads)
        self.live_bits = np.bincount(
            self.warp, weights=2.0**self.lane, minlength=blocks * machine.warps_per_block
        ).astype(np.uint32)
        self.dynamic_shared = machine.dynamic_shared
        self.shared_size = machine.shared.static_size + machine.dynamic_shared
        self.registers = HomeRegisters(self.width, machine.program.slot_dtypes)
        for slot, name in machine.program.special_slots.items():
            self.registers[slot] = special.value(name, self)
        self.everyone = Group(self, self.lanes, self.registers)

    @cached_property
    def shared(self) -> Any:
        """Shared memory of all blocks of the chunk, one after another."""
        return np.full(self.blocks * self.machine.shared.stride, _UNDEFINED_BYTE, np.uint8)

    @cached_property
    def shared_views(self) -> dict[int, Any]:
        """The same, as integers of each width."""
        return views_of(self.shared)

    @cached_property
    def shared_state(self) -> Any:
        """Which words of shared memory somebody has written."""
        return np.zeros(self.blocks * self.machine.shared.words_per_block, np.bool_)

    @cached_property
    def shared_history(self) -> AccessHistory:
        """Who touched shared memory."""
        shared = self.machine.shared
        words = self.blocks * shared.words_per_block
        bits = shared.granule_bits
        return AccessHistory(
            words,
            FindingKind.SHARED_RACE,
            31,
            lambda word: shared.describe_offset((word << bits) % shared.stride),
        )

    @cached_property
    def copies(self) -> PendingCopies:
        """Asynchronous copies that nobody has waited for yet."""
        return PendingCopies(self.width, len(self.shared_state))

    @property
    def pending_copies(self) -> Any:
        """Which words of shared memory an asynchronous copy will write, or None."""
        return self.copies.words if "copies" in self.__dict__ else None

    @cached_property
    def local(self) -> Any:
        """The threads' own arrays, one thread after another."""
        return np.zeros(max(self.width * self.machine.local.size, 16), np.uint8)

    @cached_property
    def local_views(self) -> dict[int, Any]:
        """The same, as integers of each width."""
        return views_of(self.local)

    def place_of(self, lane: int) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
        """Block and thread indices of a lane."""
        return (
            _indices(int(self.block_index[lane]), self.grid),
            _indices(int(self.thread[lane]), self.block),
        )

    def end(self, lanes: Any) -> None:
        """Marks lanes as having left the kernel."""
        self.all_live = False
        np.subtract.at(self.live_in_block, self.block_slot[lanes], 1)
        bits = np.uint32(1) << self.lane[lanes].astype(np.uint32)
        np.bitwise_and.at(self.live_bits, self.warp[lanes], ~bits)


class Group:
    """Lanes that run together. `lanes` are positions in the chunk, in order."""

    def __init__(self, chunk: Chunk, lanes: Any, registers: Any):
        self.chunk = chunk
        self.lanes = lanes
        self.registers = registers
        self.n = len(lanes)
        self.everyone = self.n == chunk.width

    @classmethod
    def of(cls, chunk: Chunk, lanes: Any) -> Group:
        """The group of some lanes, with registers of its own until they are flushed."""
        if len(lanes) == chunk.width:
            return chunk.everyone
        return cls(chunk, lanes, GroupRegisters(chunk.registers, chunk.width, lanes))

    def part(self, positions: Any) -> Group:
        """The lanes at some positions of this group, whose registers are this group's."""
        registers = GroupRegisters(self.registers, self.n, positions)
        return Group(self.chunk, self.lanes[positions], registers)

    def flush(self) -> None:
        """Writes changed registers back to where they were taken from."""
        if isinstance(self.registers, GroupRegisters):
            self.registers.flush()

    def _of_lanes(self, values: Any) -> Any:
        return values if self.everyone else values[self.lanes]

    @cached_property
    def warps(self) -> Any:
        """The warp of each lane."""
        return self._of_lanes(self.chunk.warp)

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
        return self.block_slots * self.chunk.machine.shared.stride

    @cached_property
    def whole_warps(self) -> bool:
        """Whether the group consists of full warps of 32 lanes in order."""
        if self.n % WARP:
            return False
        if self.everyone:
            return bool(self.chunk.machine.threads % WARP == 0)
        rows = self.warps.reshape(-1, WARP)
        return bool((rows[:, 0] == rows[:, -1]).all()) and bool(
            (self.lanes_in_warp.reshape(-1, WARP)[:, 0] == 0).all()
        )

    @cached_property
    def warp_count(self) -> int:
        """How many warps take part."""
        if self.whole_warps:
            return self.n // WARP
        return int(np.count_nonzero(np.diff(self.warps))) + 1

    @cached_property
    def present_bits(self) -> Any:
        """For each warp of the chunk, which of its lanes are in the group."""
        return np.bincount(
            self.warps, weights=2.0**self.lanes_in_warp, minlength=len(self.chunk.live_bits)
        ).astype(np.uint32)

    @cached_property
    def _global_threads(self) -> Any:
        machine = self.chunk.machine
        thread = self._of_lanes(self.chunk.thread)
        return ((self.block_index << machine.block_bits) + thread + 1).astype(np.int32)

    @cached_property
    def _shared_threads(self) -> Any:
        return (self._of_lanes(self.chunk.thread) + 1).astype(np.int32)

    def accessors(self, space: str, per_lane: int) -> Accessors:
        """Who accesses memory, for the race checker; each lane `per_lane` times."""
        thread = self._global_threads if space == "global" else self._shared_threads
        epoch = self._of_lanes(self.chunk.epoch)
        sync = self._of_lanes(self.chunk.sync)
        if per_lane > 1:
            thread, epoch, sync = (np.repeat(v, per_lane) for v in (thread, epoch, sync))
        return Accessors(thread, epoch, sync)


def _indices(linear: int, sizes: tuple[int, int, int]) -> tuple[int, int, int]:
    x, y, _ = sizes
    return linear % x, linear // x % y, linear // (x * y)
