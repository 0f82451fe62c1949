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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from astra_tui.lab.emulator import special
from astra_tui.lab.emulator.access import AccessSpec, require_writable
from astra_tui.lab.emulator.address_space import GLOBAL, space_of
from astra_tui.lab.emulator.faults import Fault
from astra_tui.lab.emulator.memory import Buffer, GlobalMemory, require_aligned
from astra_tui.lab.emulator.ptx.module import Immediate
from astra_tui.lab.emulator.registers import HomeRegisters
from astra_tui.lab.emulator.slicing import CONTROL, DataDecision, Slice
from astra_tui.lab.emulator.step import Flow, Step, Written
from astra_tui.model.findings import Finding, FindingKind

CHUNK_LANES = 1 << 17
_MOST_TILES = 8
"""Tiles at one instruction; more of them are put together as single threads."""

_STEP = 8
"""What an instruction costs for a tile, beyond one for each 1,024 threads."""

_STORED, _WANTED = 1, 2


@dataclass
class Sample:
    """A thread that took a side, and where it stored next, if it did."""

    block: int
    thread: int
    buffer: str = ""
    offset: int = -1


@dataclass
class Side:
    """One side of an instruction's outcome: how many threads took it (a thread in a loop counts
    each time), and of the first and the last block that did a thread each.
    """

    lanes: int
    first: Sample
    last: Sample


class StoreMap:
    """Which bytes of the writable buffers are stored, in pieces of `granule` bytes."""

    def __init__(self, memory: GlobalMemory, granule: int):
        self.granule_bits = granule.bit_length() - 1
        self.marks: dict[str, Any] = {
            b.name: np.zeros(-(-max(b.size, 1) // 16) * 16 >> self.granule_bits, np.uint8)
            for b in memory.buffers
            if b.tracked
        }
        self.writers: dict[str, dict[int, set[int]]] = {}
        """Of wanted pieces, by buffer and piece: the blocks that store them."""
        self.wanted: dict[str, Any] = {}

    def want(self, buffer: str, offsets: Any) -> None:
        """Asks for the writers of the pieces that hold some bytes."""
        pieces = np.unique(np.asarray(offsets, np.int64) >> self.granule_bits)
        self.marks[buffer][pieces] |= _WANTED
        self.wanted[buffer] = pieces

    def wants_of(self, buffer: Buffer, low: int, high: int) -> bool:
        """Whether writers are asked for of pieces between two offsets."""
        pieces = self.wanted.get(buffer.name)
        if pieces is None:
            return False
        first = low >> self.granule_bits
        at = int(np.searchsorted(pieces, first))
        return at < len(pieces) and int(pieces[at]) <= (high + 16) >> self.granule_bits

    def mark(
        self, buffer: Buffer, offsets: Any, size: int, blocks: Callable[[], Any] | None
    ) -> None:
        """Marks `size` bytes at offsets into the buffer, which are aligned.

        `blocks` gives who stores, one for each offset, where a wanted piece may be among them.
        """
        marks, first = self.marks[buffer.name], offsets >> self.granule_bits
        count = max(size >> self.granule_bits, 1)
        at_once = min(count, 8)
        if at_once > 1:
            marks = marks.view(f"u{at_once}")
            first >>= at_once.bit_length() - 1
        for part in range(count // at_once):
            self._mark(buffer, marks, first + part if part else first, blocks)

    def _mark(
        self, buffer: Buffer, marks: Any, places: Any, blocks: Callable[[], Any] | None
    ) -> None:
        at_once = marks.itemsize
        stored = marks.dtype.type(int.from_bytes(bytes([_STORED]) * at_once, "little"))
        if blocks is None:
            marks[places] = stored
            return
        before = marks[places]
        marks[places] = before | stored
        hits = np.flatnonzero(before & marks.dtype.type(stored * _WANTED))
        if not len(hits):
            return
        known, wanted = self.writers.setdefault(buffer.name, {}), self.marks[buffer.name]
        for place, block in zip(places[hits].tolist(), blocks()[hits].tolist(), strict=True):
            for piece in range(place * at_once, (place + 1) * at_once):
                if wanted[piece] & _WANTED:
                    known.setdefault(piece, set()).add(block)

    def offsets(self, buffer: str) -> Any:
        """The offsets of all stored pieces of a buffer."""
        return np.flatnonzero(self.marks[buffer] & _STORED) << self.granule_bits

    def is_stored(self, buffer: str, offsets: Any) -> Any:
        """Whether the bytes at these offsets are stored."""
        return (self.marks[buffer][offsets >> self.granule_bits] & _STORED) != 0


def first_missing(maps: Sequence[StoreMap], buffer: Buffer) -> tuple[int, int] | None:
    """The first byte of a buffer that no launch stores, and how many there are; None if none."""
    both = maps[0].marks[buffer.name]
    for other in maps[1:]:
        both = both | other.marks[buffer.name]
    bits = maps[0].granule_bits
    pieces = -(-buffer.size // (1 << bits))
    # Nearly always all is stored: looked at in words of 8 pieces, without a copy.
    whole = both[: pieces & ~7].view(np.uint64)
    every = np.uint64(int.from_bytes(bytes([_STORED]) * 8, "little"))
    done = np.bitwise_and.reduce(whole, initial=every) & every == every
    first = len(whole) * 8 if done else 0
    missing = np.flatnonzero((both[first:pieces] & _STORED) == 0)
    if not len(missing):
        return None
    return (first + int(missing[0])) << bits, len(missing) << bits


@dataclass(frozen=True)
class Skeleton:
    """What the skeleton of one launch came to."""

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
    blocks: Any = None,
) -> Skeleton:
    """Runs the slice of a kernel for every thread of a launch; stores are marked in `stores`.

    Of `memory` only the places of the buffers matter. An instruction of a tile costs 8 of
    `budget`, and 1 for each 1,024 threads; that it is spent is a finding. `blocks` are the linear
    indices of those that run, by default all. Of a branch that data decides all sides are run, so
    that everything is marked that may be stored.
    """
    recorder = _Recorder(stores)
    launch = _Launch(parameters, grid, block, dynamic_shared, memory)
    runner = _Runner(part, _Builder(part).ops(), launch, recorder, budget)
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
            kernel=kernel,
            block=special.indices(self.block, launch.grid),
            thread=special.indices(self.thread, launch.block),
            lanes=self.fault.lanes,
            instruction=self.step.text,
            launch_line=launch_line,
        )


# -- tiles -----------------------------------------------------------------------------------------


class _Tile:
    """Threads at one instruction: rows of blocks by columns of threads.

    `block` is a column (R, 1). `thread` is a row (1, C), or a column of R where the tile is flat:
    one thread in each row. Registers are scalars, or arrays that broadcast to (R, C).
    """

    def __init__(self, block: Any, thread: Any, registers: HomeRegisters, until: int = -1):
        self.block, self.thread, self.registers = block, thread, registers
        self.until = until
        """The instruction at which the tile ends, for copies that follow another side."""
        self.shape = (len(block), thread.shape[1])
        self.n = self.shape[0] * self.shape[1]

    @property
    def flat(self) -> bool:
        return len(self.thread) == self.shape[0] and self.shape[1] == 1

    def blocks(self) -> Any:
        """The block of each thread, row by row."""
        return np.broadcast_to(self.block, self.shape).reshape(-1)

    def spread(self, value: Any) -> Any:
        """A value for each thread, row by row."""
        return np.broadcast_to(value, self.shape).reshape(-1)

    def place(self, position: int) -> tuple[int, int]:
        """Block and thread at a position, counted row by row."""
        row, column = divmod(position, self.shape[1])
        return int(self.block[row, 0]), int(self.thread[row if self.flat else 0, column])

    def position(self, sample: Sample) -> int | None:
        """Where a thread is, counted row by row; None where it is not in the tile."""
        at = np.flatnonzero((self.block == sample.block) & (self.thread == sample.thread))
        return int(at[0]) if len(at) else None

    def rows(self, which: Any) -> _Tile:
        """The tile with some of its rows."""
        thread = self.thread[which] if self.flat else self.thread
        registers = self._changed(lambda v: v[which] if v.ndim and len(v) > 1 else v)
        return _Tile(self.block[which], thread, registers, self.until)

    def columns(self, which: Any) -> _Tile:
        """The tile with some of its columns."""
        registers = self._changed(lambda v: v[:, which] if v.ndim and v.shape[1] > 1 else v)
        return _Tile(self.block, self.thread[:, which], registers, self.until)

    def flattened(self, which: Any) -> _Tile:
        """Some threads, by position, as rows of their own."""
        registers = self._changed(lambda v: self.spread(v)[which][:, None] if v.ndim else v)
        thread = self.spread(self.thread)[which][:, None]
        return _Tile(self.blocks()[which][:, None], thread, registers, self.until)

    def copy(self, until: int) -> _Tile:
        """The same threads, up to an instruction."""
        return _Tile(self.block, self.thread, self._changed(lambda v: v), until)

    def keep(self, live: frozenset[int]) -> None:
        """Forgets the registers that nothing reads any more."""
        for slot in self.registers.keys() - live:
            del self.registers[slot]

    def _changed(self, change: Callable[[Any], Any]) -> HomeRegisters:
        changed = HomeRegisters(0, self.registers.dtypes)
        changed.update((slot, change(value)) for slot, value in self.registers.items())
        return changed

    def split(self, mask: Any) -> tuple[list[_Tile], list[_Tile]]:
        """The threads where a mask holds, and the others."""
        if mask.shape[0] == 1:
            return [self.columns(np.flatnonzero(mask))], [self.columns(np.flatnonzero(~mask))]
        if mask.shape[1] == 1:
            return [self.rows(np.flatnonzero(mask))], [self.rows(np.flatnonzero(~mask))]
        if (mask == mask[0]).all():
            return self.split(mask[:1])
        count = mask.sum(axis=1)
        yes, no = np.flatnonzero(count == mask.shape[1]), np.flatnonzero(count == 0)
        mixed = np.flatnonzero((count > 0) & (count < mask.shape[1]))
        rest, of_rest = self.rows(mixed), mask[mixed].reshape(-1)
        taken = [self.rows(yes), rest.flattened(np.flatnonzero(of_rest))]
        others = [self.rows(no), rest.flattened(np.flatnonzero(~of_rest))]
        return [t for t in taken if t.n], [t for t in others if t.n]


def _joined(tiles: list[_Tile], live: frozenset[int]) -> list[_Tile]:
    """The same threads in fewer tiles, with the registers that matter from here on."""
    for tile in tiles:
        tile.keep(live)
    joined: list[_Tile] = []
    for tile in tiles:
        for number, other in enumerate(joined):
            axis = _axis(other, tile)
            if axis is not None:
                joined[number] = _concatenated([other, tile], axis)
                break
        else:
            joined.append(tile)
    if len(joined) > _MOST_TILES:
        flat = [t if t.flat else t.flattened(slice(None)) for t in joined]
        ends = dict.fromkeys(t.until for t in flat)
        return [_concatenated([t for t in flat if t.until == end], 0) for end in ends]
    return joined


def _axis(a: _Tile, b: _Tile) -> int | None:
    """The axis along which two tiles continue each other."""
    if a.until != b.until:
        return None
    if a.flat and b.flat:
        return 0
    if a.flat or b.flat:
        return None
    if a.block is b.block or np.array_equal(a.block, b.block):
        return 1
    if a.thread is b.thread or np.array_equal(a.thread, b.thread):
        return 0
    return None


def _concatenated(tiles: list[_Tile], axis: int) -> _Tile:
    registers = HomeRegisters(0, tiles[0].registers.dtypes)
    slots = dict.fromkeys(s for t in tiles for s in t.registers)
    for slot in slots:
        values = [t.registers[slot] for t in tiles]
        first = values[0]
        if all(v is first for v in values) and (not first.ndim or first.shape[axis] == 1):
            registers[slot] = first
            continue
        across = 1 - axis
        parts = []
        width = max((v.shape[across] if v.ndim else 1) for v in values)
        for tile, value in zip(tiles, values, strict=True):
            shape = [0, 0]
            shape[axis], shape[across] = tile.shape[axis], width
            parts.append(np.broadcast_to(value, tuple(shape)))
        registers[slot] = np.concatenate([p.view(parts[0].dtype) for p in parts], axis)
    until = tiles[0].until
    if axis == 1:
        thread = np.concatenate([t.thread for t in tiles], 1)
        return _Tile(tiles[0].block, thread, registers, until)
    thread = np.concatenate([t.thread for t in tiles], 0) if tiles[0].flat else tiles[0].thread
    return _Tile(np.concatenate([t.block for t in tiles], 0), thread, registers, until)


# -- what is seen ----------------------------------------------------------------------------------


@dataclass
class _Recorder:
    """What one run of a skeleton has seen so far."""

    stores: StoreMap
    sides: dict[tuple[int, int], Side] = field(default_factory=dict)
    watched: list[Sample] = field(default_factory=list)
    """Samples whose next store is waited for."""

    def outcome(self, index: int, value: Any, tile: _Tile) -> None:
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
        tile: _Tile,
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

    def _sample(self, tile: _Tile, row: int, column: int) -> Sample:
        thread = int(tile.thread[row if tile.flat else 0, column])
        sample = Sample(int(tile.block[row, 0]), thread)
        self.watched.append(sample)
        return sample

    def stored(
        self, buffer: Buffer, offsets: Any, size: int, tile: _Tile, low: int, high: int
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


# -- the program -----------------------------------------------------------------------------------


@dataclass
class _Op:
    """A step of the slice. `index` is its place in the whole program."""

    index: int
    step: Step
    target: int = -1
    """Where a branch leads; where the sides of a fork meet."""
    targets: tuple[int, ...] = ()
    """The entries of a table; the sides of a fork."""
    is_store: bool = False
    outcome: int = -1
    """The slot whose truth value is to be noted after it."""
    constant: int = -1
    """The truth value that is to be noted, where it is none of a slot."""
    runs: bool = True
    live: frozenset[int] = frozenset()
    """The register slots that are read here or later."""

    @property
    def is_fork(self) -> bool:
        """Whether data decides where it leads, so that it leads everywhere."""
        return self.step.flow is Flow.TABLE and self.step.selector is None


class _Builder:
    """Makes the slice a program of its own."""

    def __init__(self, part: Slice):
        self.part = part

    def ops(self) -> list[_Op]:
        kept: list[_Op] = []
        begins: list[int] = []
        # Places beyond the last step stand for the end.
        for index, step in enumerate(self.part.program.steps):
            begins.append(len(kept))
            made = self._op(index, step)
            if made is not None:
                kept.append(made)
        begins.append(len(kept))
        for op in kept:
            op.target = begins[op.target] if op.target >= 0 else -1
            op.targets = tuple(begins[t] for t in op.targets)
        _note_live(kept)
        return kept

    def _op(self, index: int, step: Step) -> _Op | None:
        part = self.part
        if index in part.skips:
            return _jump(index, part.skips[index])
        if index in part.stores:
            return self._store(index, step)
        if step.flow in CONTROL:
            if index in part.forks:
                fork = part.forks[index]
                return _Op(index, Step(Flow.TABLE), fork.meets, fork.sides)
            return _Op(index, step, step.target, step.targets)
        if index in part.roots:
            return self._root(index, step)
        return _Op(index, step) if index in part.steps else None

    def _root(self, index: int, step: Step) -> _Op:
        """A root, with the predicate that it writes, the register that it reads, or a constant."""
        predicates = [s for s in step.writes if self.part.program.slot_dtypes[s].kind == "b"]
        if predicates or step.reads:
            outcome = min(predicates or step.reads)
            return _Op(index, step, outcome=outcome, runs=bool(predicates))
        constant = self.part.program.instructions[index].operands[-1]
        assert isinstance(constant, Immediate)
        return _Op(index, step, constant=int(constant.value != 0), runs=False)

    def _store(self, index: int, step: Step) -> _Op | None:
        """A store, taken to happen where data decides whether; None where its address is data."""
        if step.addresses & self.part.tainted:
            return None
        if step.predicate in self.part.tainted:
            step = step.copy()
            step.predicate = -1
        return _Op(index, step, is_store=True)


def _jump(index: int, target: int) -> _Op:
    return _Op(index, Step(Flow.BRANCH), target)


def _note_live(ops: list[_Op]) -> None:
    """Finds for each op the registers that it or a later one reads."""
    following = [list(_after(n, op)) for n, op in enumerate(ops)]
    changed = True
    while changed:
        changed = False
        for number in range(len(ops) - 1, -1, -1):
            op = ops[number]
            reads = op.step.addresses if op.is_store else op.step.reads
            live = set(reads) | ({op.step.predicate} if op.step.predicate >= 0 else set())
            later = {s for n in following[number] if n < len(ops) for s in ops[n].live}
            live |= later if op.step.predicate >= 0 else later - op.step.writes
            if op.outcome >= 0 and not op.runs:
                live.add(op.outcome)
            if live != op.live:
                op.live, changed = frozenset(live), True


def _after(number: int, op: _Op) -> Iterator[int]:
    if op.step.flow is Flow.BRANCH:
        yield op.target
    elif op.step.flow is Flow.TABLE:
        yield from op.targets
    if op.is_fork:
        return
    if op.step.flow not in CONTROL or op.step.predicate >= 0:
        yield number + 1


# -- the run ---------------------------------------------------------------------------------------


class _Launched:
    """What special registers and loads of parameters ask of a chunk."""

    def __init__(self, launch: _Launch, block: Any, thread: Any):
        self.grid, self.block = launch.grid, launch.block
        self.block_index, self.thread, self.lane = block, thread, thread % 32
        self.dynamic_shared = self.shared_size = launch.dynamic_shared
        self.machine = self
        self.chunk = self
        self.parameters = np.frombuffer(launch.parameters.ljust(8, b"\0"), np.uint8)


class _Runner:
    def __init__(
        self, part: Slice, ops: list[_Op], launch: _Launch, recorder: _Recorder, budget: int
    ):
        self.program = part.program
        self.ops = ops
        self.launch = launch
        self.recorder = recorder
        self.budget = budget
        used = {slot for op in ops for slot in op.live}
        self.special = {s: n for s, n in part.program.special_slots.items() if s in used}
        self.ready: dict[int, list[_Tile]] = {}

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
            self._chunk(_Tile(block, thread, registers))

    def _chunk(self, tile: _Tile) -> None:
        self.ready = {0: [tile]}
        while self.ready:
            index = min(self.ready)
            tiles = self.ready.pop(index)
            if len(tiles) > 1:
                tiles = _joined(tiles, self.ops[index].live)
            for tile in tiles:
                self._advance(tile, index, min(self.ready, default=len(self.ops)))

    def _advance(self, tile: _Tile, index: int, stop: int) -> None:
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
        if index < len(self.ops):
            self.ready.setdefault(index, []).append(tile)

    def _condition(self, op: _Op, tile: _Tile) -> Any:
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

    def _run(self, op: _Op, tile: _Tile) -> None:
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

    def _note(self, op: _Op, condition: Any, tile: _Tile) -> None:
        """Notes the outcome of a root for the threads that run it."""
        is_partial = condition.ndim and not op.runs
        for part in tile.split(condition)[0] if is_partial else (tile,):
            value = part.registers[op.outcome] if op.outcome >= 0 else np.bool_(op.constant)
            self.recorder.outcome(op.index, value != 0, part)

    def _store(self, op: _Op, tile: _Tile) -> None:
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
        self._mark(written, addresses, tile)

    def _mark(self, written: Written, addresses: Any, tile: _Tile) -> None:
        memory, spec = self.launch.memory, written.spec
        low, high = int(addresses.min()) - GLOBAL, int(addresses.max()) - GLOBAL
        buffer = memory.holder(low, high, spec.size)
        if buffer is not None and buffer.tracked:
            offsets = (addresses - np.uint64(GLOBAL + buffer.begin)).view(np.int64)
            if not (int(np.bitwise_or.reduce(offsets, None)) + buffer.begin) & (spec.size - 1):
                self.recorder.stored(buffer, offsets, spec.size, tile, low - buffer.begin, high)
                return
        self._mark_apart(spec, (addresses - np.uint64(GLOBAL)).view(np.int64), tile)

    def _mark_apart(self, spec: AccessSpec, offsets: Any, tile: _Tile) -> None:
        """A store to several buffers, or a wrong one."""
        memory = self.launch.memory
        try:
            every = offsets.reshape(-1)
            buffer = memory.locate(every, spec.size, spec.direction)
            require_aligned(every, spec.size, spec.direction)
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

    def _flow(self, op: _Op, index: int, tile: _Tile) -> int:
        """The next instruction for the whole tile, or -1 when its threads were sent elsewhere."""
        step = op.step
        if op.is_fork:
            return self._fork(op, tile)
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

    def _fork(self, op: _Op, tile: _Tile) -> int:
        """Follows the first side; copies of the threads follow the others to where they meet."""
        for side in op.targets[1:]:
            if side == len(self.ops):
                continue
            self.ready.setdefault(side, []).append(tile.copy(op.target))
        return op.targets[0]

    def _take(self, op: _Op, tile: _Tile) -> int:
        if op.step.flow is Flow.BRANCH:
            return op.target
        if op.step.flow is Flow.TABLE:
            self._branch_by_table(op, tile)
        return -1

    def _branch_by_table(self, op: _Op, tile: _Tile) -> None:
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
