"""Atomic operations: lanes take their turns in order, so results are the same every time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from astra_tui.emulator.access import resolve
from astra_tui.emulator.lanes import Group
from astra_tui.emulator.operands import DTYPES, UNSIGNED, Decoder, Run, opcode, type_of
from astra_tui.emulator.ops.arithmetic import is_float, join_halves, pack_half, unpack_half
from astra_tui.emulator.ops.memory import releases, space_of_instruction
from astra_tui.emulator.ptx.module import Instruction
from astra_tui.emulator.step import AccessSpec, WriteAccess
from astra_tui.model.device import COMMUNICATES, COMPARE_AND_SWAP, FLOAT_ATOMIC

Update = Callable[[Any, Any, Any], Any]
"""From the old value and one or two operands to the new value."""

PLAIN: dict[str, Update] = {
    "add": lambda old, a, b: old + a,
    "min": lambda old, a, b: np.fmin(old, a) if old.dtype.kind == "f" else np.minimum(old, a),
    "max": lambda old, a, b: np.fmax(old, a) if old.dtype.kind == "f" else np.maximum(old, a),
    "and": lambda old, a, b: old & a,
    "or": lambda old, a, b: old | a,
    "xor": lambda old, a, b: old ^ a,
    "exch": lambda old, a, b: a,
    "cas": lambda old, a, b: np.where(old == a, b, old),
    "inc": lambda old, a, b: np.where(old >= a, old.dtype.type(0), old + old.dtype.type(1)),
    "dec": lambda old, a, b: np.where((old == 0) | (old > a), a, old - old.dtype.type(1)),
}


@opcode("atom", "red")
def _atomic(decoder: Decoder, instruction: Instruction) -> Run:
    kind = type_of(instruction)
    name = next(m for m in instruction.modifiers if m in PLAIN)
    space = space_of_instruction(instruction)
    returns = instruction.operation == "atom"
    operands = instruction.operands[1:] if returns else instruction.operands
    size = DTYPES[kind].itemsize
    held = f"b{8 * size}" if name in ("exch", "cas") else kind
    dtype, raw = DTYPES[held], UNSIGNED[size]
    address = decoder.address(operands[0])
    readers = [decoder.read(operand, held) for operand in operands[1 : 3 if name == "cas" else 2]]
    write = decoder.write(instruction.operands[0], held) if returns else None
    update = _half_update(kind, name) if kind in ("f16", "f16x2", "bf16", "bf16x2") else PLAIN[name]
    if kind in ("f16", "f16x2", "bf16", "bf16x2"):
        dtype = raw
    spec = AccessSpec(decoder.index, size, "atomic", synchronising=True)
    releasing = releases(instruction)
    decoder.traits.add(COMMUNICATES)
    if name == "add" and is_float(kind):
        decoder.traits.add(FLOAT_ATOMIC)
    if name == "cas":
        decoder.traits.add(COMPARE_AND_SWAP)
    decoder.written = WriteAccess(address, spec, space)

    def run(regs: dict[int, Any], group: Group) -> None:
        target = resolve(group, spec, space, address(regs))
        values = [np.broadcast_to(read(regs), (group.n,)).view(dtype) for read in readers]
        index = target.offsets >> (size.bit_length() - 1)
        old = _in_turns(target.views[size].view(dtype), index, values, update)
        if target.space == "global":
            if releasing:
                group.note_fence()
            group.note_atomic(target.offsets)
        if write is not None:
            write(regs, old.view(raw).view(DTYPES[held]))

    return run


def _in_turns(memory: Any, index: Any, values: list[Any], update: Update) -> Any:
    """Applies updates lane by lane, all lanes at once that have an address of their own."""
    old = np.empty(len(index), memory.dtype)
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    first = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    starts = np.flatnonzero(first)
    turn = np.arange(len(index)) - np.repeat(starts, np.diff(np.append(starts, len(index))))
    for number in range(int(turn.max()) + 1 if len(turn) else 0):
        lanes = order[turn == number]
        places = index[lanes]
        before = memory[places]
        old[lanes] = before
        a = values[0][lanes]
        b = values[1][lanes] if len(values) > 1 else a
        memory[places] = update(before, a, b)
    return old


def _half_update(kind: str, name: str) -> Update:
    """Atomics on halves: computed exactly, rounded once."""
    half = kind.removesuffix("x2")
    function = {"add": np.add, "min": np.fmin, "max": np.fmax}[name]

    def one(old: Any, a: Any) -> Any:
        return pack_half(function(unpack_half(old, half), unpack_half(a, half)), half)

    if kind == half:
        return lambda old, a, b: one(old, a)
    mask, shift = np.uint32(0xFFFF), np.uint32(16)
    return lambda old, a, b: join_halves(one(old & mask, a & mask), one(old >> shift, a >> shift))
