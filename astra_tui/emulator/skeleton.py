"""Runs the skeleton of a launch: every thread of the whole grid, on sizes and indices alone.

Stores only mark which bytes are written, and by which blocks where that was asked for. So what
costs minutes in full takes a fraction of a second, and no buffer has to exist. What is recorded
of branches: which sides were taken, by which blocks, and where such a thread stored next.

Threads run in tiles: some blocks by some threads of each, at one instruction. A register is an
array that broadcasts to the tile, so what depends on the block alone, or on the thread alone, is
computed once for all of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from astra_tui.emulator import special
from astra_tui.emulator.access import require_writable
from astra_tui.emulator.address_space import GLOBAL, space_of
from astra_tui.emulator.faults import Fault
from astra_tui.emulator.memory import Buffer, GlobalMemory, require_aligned
from astra_tui.emulator.places import Places
from astra_tui.emulator.registers import HomeRegisters
from astra_tui.emulator.sliced_program import Op, sliced_program
from astra_tui.emulator.slicing import DataDecision, Slice
from astra_tui.emulator.step import AccessSpec, Flow, Step, WriteAccess
from astra_tui.emulator.stores import StoreMap
from astra_tui.emulator.tiles import Sample, Tile, joined
from astra_tui.model.findings import Finding, FindingKind
from astra_tui.model.occupancy import NO_CLUSTER

CHUNK_LANES = 1 << 17
_STEP = 8
"""What an instruction costs for a tile, beyond one for each 1,024 threads."""


@dataclass
class Side:
    """One side of an instruction's outcome: how many threads took it (a thread in a loop counts
    each time), and of the first and the last block that did a thread each.
    """

    lanes: int
    first: Sample
    last: Sample


@dataclass(frozen=True)
class Skeleton:
    """The result of the skeleton of one launch."""

    data: tuple[DataDecision, ...]
    """What was left to data; empty where the slice says all."""
    sides: Mapping[tuple[int, int], Side]
    """By an instruction's place in the program, and its outcome."""
    finding: Finding | None
    """What is wrong, if anything is; the launch was not run beyond it."""
    steps: int
    """What it took of the budget."""


def run_skeleton(
    part: Slice,
    memory: GlobalMemory,
    parameters: bytes,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    stores: StoreMap,
    *,
    budget: int,
    kernel: str = "",
    launch_line: int = 0,
    dynamic_shared: int = 0,
    cluster: tuple[int, int, int] = NO_CLUSTER,
    blocks: Any = None,
) -> Skeleton:
    """Runs the slice of a kernel for every thread of a launch; stores are marked in `stores`.

    Of `memory` only the places of the buffers matter. An instruction of a tile costs 8 of
    `budget`, and 1 for each 1,024 threads; that it is spent is a finding. `blocks` are the linear
    indices of those that run, by default all. Of a branch that data decides all sides are run, so
    that everything is marked that may be stored.
    """
    recorder = _Recorder(stores)
    launch = _Launch(parameters, grid, block, cluster, dynamic_shared, memory)
    runner = _Runner(part, sliced_program(part), launch, recorder, budget)
    finding = None
    try:
        with np.errstate(all="ignore"):
            runner.run(np.arange(launch.blocks) if blocks is None else blocks)
    except _Stopped as stopped:
        finding = stopped.finding(kernel, launch_line, launch)
    return Skeleton(part.data, recorder.sides, finding, budget - runner.budget)


@dataclass(frozen=True)
class _Launch:
    parameters: bytes
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    dynamic_shared: int
    memory: GlobalMemory

    @property
    def threads(self) -> int:
        return math.prod(self.block)

    @property
    def blocks(self) -> int:
        return math.prod(self.grid)


class _Stopped(Exception):
    """A fault of one thread."""

    def __init__(self, fault: Fault, step: Step, block: int, thread: int):
        super().__init__(fault.message)
        self.fault, self.step, self.block, self.thread = fault, step, block, thread

    def finding(self, kernel: str, launch_line: int, launch: _Launch) -> Finding:
        return Finding(
            kind=self.fault.kind,
            message=self.fault.message,
            line=self.step.location.line,
            callers=self.step.location.callers,
            header=self.step.location.header,
            kernel=kernel,
            block=special.indices(self.block, launch.grid),
            thread=special.indices(self.thread, launch.block),
            lanes=self.fault.lanes,
            instruction=self.step.text,
            launch_line=launch_line,
        )


# -- what is seen ----------------------------------------------------------------------------------


@dataclass
class _Recorder:
    """What one run of a skeleton has seen so far."""

    stores: StoreMap
    sides: dict[tuple[int, int], Side] = field(default_factory=dict)
    watched: list[Sample] = field(default_factory=list)
    """Samples whose next store is waited for."""

    def outcome(self, index: int, value: Any, tile: Tile) -> None:
        """Notes the truth value of an instruction for all threads of a tile."""
        if not value.ndim:
            self.note(index, int(value), tile, (0, 0), tile.n)
            return
        yes = int(np.count_nonzero(value))
        for side, mask, count in ((1, value, yes), (0, ~value, value.size - yes)):
            if count:
                first = divmod(int(mask.argmax()), mask.shape[1])
                self.note(index, side, tile, first, count * (tile.n // value.size), mask)

    def note(
        self,
        index: int,
        outcome: int,
        tile: Tile,
        first: tuple[int, int],
        count: int,
        mask: Any = None,
    ) -> None:
        """Notes one outcome; `first` is the row and column of a thread that had it."""
        side = self.sides.get((index, outcome))
        if side is None:
            sample = self._sample(tile, *first)
            side = self.sides[(index, outcome)] = Side(0, sample, sample)
        side.lanes += count
        last = tile.shape[0] - 1
        column = first[1]
        if mask is not None and mask.shape[0] > 1:
            place = mask.size - 1 - int(mask.reshape(-1)[::-1].argmax())
            last, column = divmod(place, mask.shape[1])
        if int(tile.block[last, 0]) > side.last.block:
            side.last = self._sample(tile, last, column)

    def _sample(self, tile: Tile, row: int, column: int) -> Sample:
        thread = int(tile.thread[row if tile.flat else 0, column])
        sample = Sample(int(tile.block[row, 0]), thread)
        self.watched.append(sample)
        return sample

    def stored(
        self, buffer: Buffer, offsets: Any, size: int, tile: Tile, low: int, high: int
    ) -> None:
        """Notes a store of all threads of a tile, at offsets (R or 1, C or 1) into one buffer.

        `low` is the smallest offset, `high` the largest or anything above it.
        """
        wanted = self.stores.wants_of(buffer, low, high)
        places = np.broadcast_to(offsets, tile.shape) if wanted else offsets
        self.stores.mark(buffer, places.reshape(-1), size, tile.blocks if wanted else None)
        waiting = self.watched
        if waiting:
            self.watched = []
            for sample in waiting:
                at = tile.position(sample)
                if at is None:
                    self.watched.append(sample)
                    continue
                sample.buffer = buffer.name
                sample.offset = int(np.broadcast_to(offsets, tile.shape)[divmod(at, tile.shape[1])])


# -- the run ---------------------------------------------------------------------------------------


class _Launched:
    """What special registers and loads of parameters ask of a chunk."""

    def __init__(self, launch: _Launch, block: Any, thread: Any):
        self.grid, self.block, self.cluster = launch.grid, launch.block, launch.cluster
        self.block_index, self.thread, self.lane = block, thread, thread % 32
        self.dynamic_shared = self.shared_size = launch.dynamic_shared
        self.launch = self
        self.cluster_blocks = math.prod(launch.cluster)
        self.chunk = self
        self.parameters = np.frombuffer(launch.parameters.ljust(8, b"\0"), np.uint8)


class _Runner:
    def __init__(
        self, part: Slice, ops: list[Op], launch: _Launch, recorder: _Recorder, budget: int
    ):
        self.program = part.program
        self.ops = ops
        self.launch = launch
        self.recorder = recorder
        self.budget = budget
        used = {slot for op in ops for slot in op.live}
        self.special = {s: n for s, n in part.program.special_slots.items() if s in used}
        self.ready: dict[int, list[Tile]] = {}

    def run(self, blocks: Any) -> None:
        thread = np.arange(self.launch.threads)[None, :]
        at_once = max(1, CHUNK_LANES // max(self.launch.threads, 1))
        for first in range(0, len(blocks), at_once):
            block = blocks[first : first + at_once, None]
            self.group = _Launched(self.launch, block, thread)
            registers = HomeRegisters(0, self.program.slot_dtypes)
            for slot, name in self.special.items():
                registers[slot] = special.value(name, self.group)
            self.recorder.watched.clear()
            self._chunk(Tile(block, thread, registers))

    def _chunk(self, tile: Tile) -> None:
        self.ready = {0: [tile]}
        while self.ready:
            index = min(self.ready)
            tiles = self.ready.pop(index)
            if len(tiles) > 1:
                tiles = joined(tiles, self.ops[index].live)
            for tile in tiles:
                self._advance(tile, index, min(self.ready, default=len(self.ops)))

    def _advance(self, tile: Tile, index: int, stop: int) -> None:
        """Runs a tile from one instruction on, until it splits, ends, or reaches `stop`."""
        cost = _STEP + (tile.n >> 10)
        while index < stop:
            if index == tile.until:
                return
            op = self.ops[index]
            step = op.step
            self.budget -= cost
            try:
                if self.budget < 0:
                    raise Fault(
                        FindingKind.BUDGET, "the instruction budget is spent: an endless loop?"
                    )
                if step.flow is Flow.NEXT:
                    self._run(op, tile)
                    index += 1
                    continue
                following = self._flow(op, index, tile)
            except Fault as fault:
                raise _Stopped(fault, step, *tile.place(min(fault.lane, tile.n - 1))) from None
            if following < 0:
                return
            index = following
        if index < len(self.ops) and index != tile.until:
            self.ready.setdefault(index, []).append(tile)

    def _condition(self, op: Op, tile: Tile) -> Any:
        """True, False, or a mask of the threads whose predicate holds."""
        value: Any = np.asarray(tile.registers[op.step.predicate])
        if op.step.negated:
            value = ~value
        if value.ndim:
            count = int(np.count_nonzero(value))
            if 0 < count < value.size:
                return value
            value = np.bool_(count > 0)
        return value

    def _run(self, op: Op, tile: Tile) -> None:
        step, registers = op.step, tile.registers
        condition: Any = np.True_ if step.predicate < 0 else self._condition(op, tile)
        if not condition.ndim and not condition:
            return
        if op.is_store:
            parts = tile.split(condition)[0] if condition.ndim else [tile]
            for part in parts:
                self._store(op, part)
            return
        if op.runs:
            assert step.run is not None
            if condition.ndim:
                before = {slot: registers[slot] for slot in step.writes}
                step.run(registers, self.group)
                for slot, old in before.items():
                    new = registers[slot]
                    registers[slot] = np.where(condition, new, old.view(new.dtype))
            else:
                step.run(registers, self.group)
        if op.outcome >= 0 or op.constant >= 0:
            self._note(op, condition, tile)

    def _note(self, op: Op, condition: Any, tile: Tile) -> None:
        """Notes the outcome of a root for the threads that run it."""
        is_partial = condition.ndim and not op.runs
        for part in tile.split(condition)[0] if is_partial else (tile,):
            value = part.registers[op.outcome] if op.outcome >= 0 else np.bool_(op.constant)
            self.recorder.outcome(op.index, value != 0, part)

    def _store(self, op: Op, tile: Tile) -> None:
        """A store stays within a buffer that may be written, and is noted."""
        written = op.step.written
        assert written is not None
        addresses = np.asarray(written.address(tile.registers))
        if written.space == "generic":
            is_global = space_of(addresses) == 0
            if not is_global.all():
                if not is_global.any():
                    return
                tile = tile.flattened(np.flatnonzero(tile.spread(is_global)))
                addresses = np.asarray(written.address(tile.registers))
        if not addresses.ndim:
            addresses = addresses.reshape(1, 1)
        if written.size is None:
            self._mark(written, addresses, tile)
            return
        sizes = np.asarray(written.size(tile.registers))
        for size in np.unique(sizes).tolist():
            part, first = tile, addresses
            if sizes.size > 1 and (sizes != size).any():
                at = np.flatnonzero(tile.spread(sizes) == size)
                part, first = tile.flattened(at), tile.spread(addresses)[at][:, None]
            for behind in range(0, size, written.spec.size):
                self._mark(written, first + np.uint64(behind), part)

    def _mark(self, written: WriteAccess, addresses: Any, tile: Tile) -> None:
        memory, spec = self.launch.memory, written.spec
        low, high = int(addresses.min()) - GLOBAL, int(addresses.max()) - GLOBAL
        buffer = memory.holder(low, high, spec.size)
        if buffer is not None and buffer.tracked:
            offsets = (addresses - np.uint64(GLOBAL + buffer.begin)).view(np.int64)
            if not (int(np.bitwise_or.reduce(offsets, None)) + buffer.begin) & (spec.size - 1):
                self.recorder.stored(buffer, offsets, spec.size, tile, low - buffer.begin, high)
                return
        self._mark_apart(spec, (addresses - np.uint64(GLOBAL)).view(np.int64), tile)

    def _mark_apart(self, spec: AccessSpec, offsets: Any, tile: Tile) -> None:
        """A store to several buffers, or a wrong one."""
        memory = self.launch.memory
        try:
            every = offsets.reshape(-1)
            places = Places(every, None)
            buffer = memory.locate(places, spec.size, spec.direction)
            require_aligned(places, spec.size, spec.direction)
            require_writable(memory, every, buffer, spec)
        except Fault as fault:
            row, column = divmod(fault.lane, offsets.shape[1])
            fault.lane = row * tile.shape[1] + column
            fault.lanes *= tile.n // offsets.size
            raise
        spread = tile.spread(offsets)
        owners = memory.owners(spread)
        for owner in np.unique(owners):
            at = np.flatnonzero(owners == owner)
            of = memory.buffers[int(owner)]
            inside = spread[at][:, None] - of.begin
            low, high = int(inside.min()), int(inside.max())
            self.recorder.stored(of, inside, spec.size, tile.flattened(at), low, high)

    # -- where control goes ------------------------------------------------------------------------

    def _flow(self, op: Op, index: int, tile: Tile) -> int:
        """The next instruction for the whole tile, or -1 when its threads were sent elsewhere."""
        step = op.step
        if op.is_data_branch:
            self._fork(op, tile)
            return -1
        condition: Any = np.True_
        if step.predicate >= 0:
            condition = self._condition(op, tile)
            self.recorder.outcome(op.index, condition, tile)
        if not condition.ndim:
            if not condition:
                return index + 1
            return self._take(op, tile)
        ends = step.flow is Flow.EXIT
        targets = () if ends else op.targets or (op.target,)
        tile.keep(frozenset().union(*(self.ops[t].live for t in (index + 1, *targets))))
        taken, others = tile.split(condition)
        self.ready.setdefault(index + 1, []).extend(others)
        for part in () if ends else taken:
            following = self._take(op, part)
            if following >= 0:
                self.ready.setdefault(following, []).append(part)
        return -1

    def _fork(self, op: Op, tile: Tile) -> None:
        """Sends the threads to the first side, and copies of them along others to where they meet.

        All wait for their turn: in a loop, copies would otherwise gather without bound.
        """
        self.ready.setdefault(op.targets[0], []).append(tile)
        for side in op.targets[1:]:
            if side == len(self.ops):
                continue
            self.ready.setdefault(side, []).append(tile.copy(op.target))

    def _take(self, op: Op, tile: Tile) -> int:
        if op.step.flow is Flow.BRANCH:
            return op.target
        if op.step.flow is Flow.TABLE:
            self._branch_by_table(op, tile)
        return -1

    def _branch_by_table(self, op: Op, tile: Tile) -> None:
        assert op.step.selector is not None
        choice = np.asarray(op.step.selector(tile.registers))
        for value in np.unique(choice).tolist():
            mask = choice == value
            parts = [tile] if not mask.ndim or mask.all() else tile.split(mask)[0]
            if value >= len(op.targets):
                raise Fault(FindingKind.TRAP, f"a switch jumped to entry {value} of its table")
            for part in parts:
                self.recorder.note(op.index, value, part, (0, 0), part.n)
                self.ready.setdefault(op.targets[value], []).append(part)
