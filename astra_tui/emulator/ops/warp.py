"""Operations among the lanes of a warp, and barriers. All lanes of the mask have arrived."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from astra_tui.emulator.lanes import FULL_MASK, Group
from astra_tui.emulator.operands import DTYPES, Decoder, Run, opcode, type_of
from astra_tui.emulator.ptx.module import Immediate, Instruction, Negated, Operand
from astra_tui.emulator.step import Flow, Step, WarpOrder
from astra_tui.model.findings import FindingKind
from astra_tui.model.occupancy import WARP

_U32 = np.uint32
_INACTIVE = _U32(0xFFFF_FFFF)
"""What a shuffle from a lane that is not there gives: a NaN, so that relying on it shows."""


def _warp_step(decoder: Decoder, mask: Operand | None, run: Run) -> Step:
    step = Step(Flow.WARP, run)
    step.mask = decoder.read(mask, "u32") if mask is not None else None
    step.orders = WarpOrder.WRITES_AFTER_READS
    return step


class _Members:
    """The lanes of a group by the warp, and the mask, that they operate with.

    Half warps with masks of their own may come to one instruction together; they are apart here.
    """

    def __init__(self, group: Group, mask: Any = FULL_MASK):
        self.group = group
        uniform = not np.ndim(mask) or bool((mask == mask.flat[0]).all())
        self.whole = group.whole_warps and uniform
        if self.whole:
            self.row = np.repeat(np.arange(group.n // 32), 32)
            self.rows = group.n // 32
            return
        key = (group.warps.astype(np.int64) << 32) | np.asarray(mask).astype(np.int64)
        _, self.row = np.unique(key, return_inverse=True)
        self.rows = int(self.row.max()) + 1

    def table(self, values: Any, fill: Any) -> Any:
        """Values in 32 columns, a row for each set of members; `fill` for lanes not there."""
        values = np.broadcast_to(values, (self.group.n,))
        if self.whole:
            return values.reshape(-1, 32)
        table = np.full((self.rows, 32), fill, values.dtype)
        table[self.row, self.group.lanes_in_warp] = values
        return table

    @property
    def present(self) -> Any:
        """Which lanes are there, as a table."""
        return self.table(np.ones(self.group.n, np.bool_), False)


def _bits(table: Any) -> Any:
    """Rows of 32 truth values as uint32 masks."""
    return np.packbits(table, axis=1, bitorder="little").view("<u4")[:, 0]


# -- shuffles ------------------------------------------------------------------------------------


@opcode("shfl")
def _shfl(decoder: Decoder, instruction: Instruction) -> Step:
    mode = next(m for m in instruction.modifiers if m in ("up", "down", "bfly", "idx"))
    target, found = decoder.pair(instruction.operands[0])
    read = decoder.read(instruction.operands[1], "b32")
    read_distance, read_bounds = (decoder.read(o, "u32") for o in instruction.operands[2:4])
    write = decoder.write(target, "b32")
    write_found = decoder.write(found, "pred") if found is not None else None
    step = _warp_step(decoder, instruction.operands[4], lambda regs, group: None)
    step.is_shuffle = True

    def run(regs: dict[int, Any], group: Group) -> None:
        distance = _agreed(read_distance(regs)).astype(np.int64) & 31
        bounds = _agreed(read_bounds(regs)).astype(np.int64)
        if group.whole_warps and not (distance.ndim or bounds.ndim):
            value, inside = _shuffled(read(regs), mode, int(distance), int(bounds))
            write(regs, value)
            if write_found is not None:
                write_found(regs, np.tile(inside, group.n // WARP))
            return
        members = _Members(group)
        table, row = members.table(read(regs), _INACTIVE), members.row
        source, inside = _shuffle_source(mode, group.lanes_in_warp, distance, bounds)
        if not members.whole:
            _warn_inactive(members, source, step)
        write(regs, table[row, source])
        if write_found is not None:
            write_found(regs, np.broadcast_to(inside, (group.n,)))

    step.run = run
    return step


def _agreed(value: Any) -> Any:
    """A register's value, as one where it is the same for all threads."""
    value = np.asarray(value)
    return value[0] if value.ndim and (value == value[0]).all() else value


def _shuffled(value: Any, mode: str, distance: int, bounds: int) -> tuple[Any, Any]:
    """What whole warps read whose lanes agree on all else, and whether each lane of a warp is
    within its segment.
    """
    source, inside = _shuffle_source_of_warp(mode, distance, bounds)
    return (value.reshape(-1, WARP)[:, source].reshape(-1) if value.ndim else value), inside


@lru_cache
def _shuffle_source_of_warp(mode: str, distance: int, bounds: int) -> tuple[Any, Any]:
    lanes = np.arange(WARP)
    return _shuffle_source(mode, lanes, np.int64(distance), np.int64(bounds))


def _shuffle_source(mode: str, lane: Any, distance: Any, bounds: Any) -> tuple[Any, Any]:
    """The lane that each lane reads, and whether it is within its segment (PTX ISA, shfl)."""
    segment, clamp = (bounds >> 8) & 31, bounds & 31
    highest = (lane & segment) | (clamp & ~segment & 31)
    lowest = lane & segment
    if mode == "bfly":
        source = lane ^ distance
        inside = source <= highest
    elif mode == "up":
        source = lane - distance
        inside = source >= highest
    elif mode == "down":
        source = lane + distance
        inside = source <= highest
    else:
        source = lowest | (distance & ~segment & 31)
        inside = source <= highest
    return np.where(inside, source, lane), inside


def _warn_inactive(members: _Members, source: Any, step: Step) -> None:
    group = members.group
    absent = ~members.present[members.row, source]
    if absent.any():
        lane = int(absent.argmax())
        group.warn(
            FindingKind.INACTIVE_SHUFFLE,
            f"a shuffle reads lane {int(np.broadcast_to(source, (group.n,))[lane])}, which does "
            "not take part; its value is undefined",
            step,
            lane,
        )


# -- votes and reductions ------------------------------------------------------------------------


@opcode("vote")
def _vote(decoder: Decoder, instruction: Instruction) -> Step:
    mode = next(m for m in instruction.modifiers if m in ("all", "any", "uni", "ballot"))
    read = decoder.read(instruction.operands[1], "pred")
    write = decoder.write(instruction.operands[0], "b32" if mode == "ballot" else "pred")

    read_mask = decoder.read(instruction.operands[2], "u32")

    def run(regs: dict[int, Any], group: Group) -> None:
        members = _Members(group, read_mask(regs))
        yes, here = _bits(members.table(read(regs), False)), _bits(members.present)
        if mode == "ballot":
            result = yes
        elif mode == "any":
            result = yes != 0
        elif mode == "all":
            result = yes == here
        else:
            result = (yes == 0) | (yes == here)
        write(regs, result[members.row])

    return _warp_step(decoder, instruction.operands[2], run)


@opcode("match")
def _match(decoder: Decoder, instruction: Instruction) -> Step:
    kind = type_of(instruction)
    target, agreed = decoder.pair(instruction.operands[0])
    read = decoder.read(instruction.operands[1], kind)
    write = decoder.write(target, "b32")
    write_agreed = decoder.write(agreed, "pred") if agreed is not None else None
    everyone = "all" in instruction.modifiers
    read_mask = decoder.read(instruction.operands[2], "u32")

    def run(regs: dict[int, Any], group: Group) -> None:
        members = _Members(group, read_mask(regs))
        table, row, present = members.table(read(regs), 0), members.row, members.present
        equal = (table[:, :, None] == table[:, None, :]) & present[:, None, :]
        masks = _bits(equal.reshape(-1, 32)).reshape(-1, 32)
        mine = masks[row, group.lanes_in_warp]
        if everyone:
            agree = mine == _bits(present)[row]
            mine = np.where(agree, mine, _U32(0))
            if write_agreed is not None:
                write_agreed(regs, agree)
        write(regs, mine)

    return _warp_step(decoder, instruction.operands[2], run)


_REDUCE = {
    "add": (np.add, 0),
    "min": (np.minimum, None),
    "max": (np.maximum, None),
    "and": (np.bitwise_and, -1),
    "or": (np.bitwise_or, 0),
    "xor": (np.bitwise_xor, 0),
}


@opcode("redux")
def _redux(decoder: Decoder, instruction: Instruction) -> Step:
    kind = type_of(instruction)
    dtype = DTYPES[kind]
    name = next(m for m in instruction.modifiers if m in _REDUCE)
    function, neutral = _REDUCE[name]
    if neutral is None:
        limits = np.iinfo(dtype)
        neutral = limits.max if name == "min" else limits.min
    fill = np.array(neutral, np.int64).astype(dtype)
    read = decoder.read(instruction.operands[1], kind)
    write = decoder.write(instruction.operands[0], kind)
    read_mask = decoder.read(instruction.operands[2], "u32")

    def run(regs: dict[int, Any], group: Group) -> None:
        members = _Members(group, read_mask(regs))
        table = members.table(read(regs), fill)
        write(regs, function.reduce(table, axis=1, dtype=dtype)[members.row])

    return _warp_step(decoder, instruction.operands[2], run)


@opcode("activemask")
def _activemask(decoder: Decoder, instruction: Instruction) -> Run:
    write = decoder.write(instruction.operands[0], "b32")

    def run(regs: dict[int, Any], group: Group) -> None:
        members = _Members(group)
        write(regs, _bits(members.present)[members.row])

    return run


@opcode("elect")
def _elect(decoder: Decoder, instruction: Instruction) -> Step:
    target, chosen = decoder.pair(instruction.operands[0])
    write = decoder.write(target, "b32")
    write_chosen = decoder.write(chosen, "pred") if chosen is not None else None
    read_mask = decoder.read(instruction.operands[1], "u32")

    def run(regs: dict[int, Any], group: Group) -> None:
        members = _Members(group, read_mask(regs))
        leader = members.present.argmax(axis=1)[members.row]
        write(regs, leader.astype(_U32))
        if write_chosen is not None:
            write_chosen(regs, leader == group.lanes_in_warp)

    return _warp_step(decoder, instruction.operands[1], run)


# -- barriers --------------------------------------------------------------------------------------


@opcode("barrier.cluster")
def _cluster_barrier(decoder: Decoder, instruction: Instruction) -> Step | Run:
    if "arrive" in instruction.modifiers:
        releases = "relaxed" not in instruction.modifiers
        return lambda regs, group: group.chunk.cluster_barrier.arrive(group.lanes, releases)
    if "wait" not in instruction.modifiers:
        decoder.refuse(instruction)
    step = Step(Flow.WAIT, lambda regs, group: group.chunk.cluster_barrier.leave(group.lanes))
    step.wait = lambda group: group.chunk.cluster_barrier.is_complete(group.lanes)
    return step


@opcode("bar", "barrier")
def _bar(decoder: Decoder, instruction: Instruction) -> Step:
    if "warp" in instruction.modifiers:
        return _syncwarp(decoder, instruction)
    if "red" in instruction.modifiers:
        return _reducing_barrier(decoder, instruction)
    if "sync" not in instruction.modifiers:
        decoder.refuse(instruction)
    step = Step(Flow.BARRIER)
    operands = instruction.operands or (Immediate(0),)
    _name_barrier(decoder, step, operands[0], operands[1] if len(operands) > 1 else Immediate(0))
    return step


def _syncwarp(decoder: Decoder, instruction: Instruction) -> Step:
    step = _warp_step(decoder, instruction.operands[0], lambda regs, group: None)
    step.orders = WarpOrder.ALL
    return step


def _name_barrier(decoder: Decoder, step: Step, number: Operand, count: Operand) -> None:
    read_number, read_count = decoder.read(number, "u32"), decoder.read(count, "u32")
    step.barrier = lambda regs: (read_number(regs), read_count(regs))


def _reducing_barrier(decoder: Decoder, instruction: Instruction) -> Step:
    """__syncthreads_count, _and and _or: a vote of the block with its barrier."""
    mode = next(m for m in instruction.modifiers if m in ("popc", "and", "or"))
    operands = instruction.operands
    vote = operands[-1]
    read = decoder.read(vote, "pred")
    write = decoder.write(operands[0], "u32" if mode == "popc" else "pred")
    if not isinstance(vote, Negated) and len(operands) < 3:
        decoder.refuse(instruction)

    def run(regs: dict[int, Any], group: Group) -> None:
        votes = np.broadcast_to(read(regs), (group.n,))
        slots, blocks = group.block_slots, group.chunk.blocks
        yes = np.bincount(slots, weights=votes, minlength=blocks)
        here = np.bincount(slots, minlength=blocks)
        result = {"popc": yes.astype(_U32), "and": yes == here, "or": yes > 0}[mode]
        write(regs, result[slots])

    step = Step(Flow.BARRIER, run)
    _name_barrier(decoder, step, operands[1], operands[2] if len(operands) > 3 else Immediate(0))
    return step
