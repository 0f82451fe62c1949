"""Copies, packing, comparisons and choices."""

from __future__ import annotations

from typing import Any

import numpy as np

from astra_tui.emulator.address_space import (
    LOCAL,
    PARAM,
    PEER_OFFSET,
    PEER_SHIFT,
    SHARED,
    all_to_generic,
    space_of,
    to_generic,
)
from astra_tui.emulator.faults import Fault, first_true
from astra_tui.emulator.numerics import bf16_to_f32, chosen, flush
from astra_tui.emulator.operands import DTYPES, UNSIGNED, Decoder, Reader, Run, opcode, type_of
from astra_tui.emulator.ops.arithmetic import Function, is_float, join_halves, unpack_half
from astra_tui.emulator.ptx.module import Instruction, Vector
from astra_tui.emulator.step import Source
from astra_tui.model.findings import FindingKind


@opcode("mov")
def _mov(decoder: Decoder, instruction: Instruction) -> Run:
    kind = type_of(instruction) if "b128" not in instruction.modifiers else "b128"
    destination, source = instruction.operands
    if isinstance(source, Vector):
        return _pack(decoder, instruction, kind)
    if isinstance(destination, Vector):
        return _unpack(decoder, instruction, kind)
    read, write = decoder.read(source, kind), decoder.write(destination, kind)

    def run(regs: dict[int, Any], group: Any) -> None:
        write(regs, read(regs))

    return run


def _pack(decoder: Decoder, instruction: Instruction, kind: str) -> Run:
    parts = decoder.vector(instruction.operands[1])
    dtype = UNSIGNED[DTYPES[kind].itemsize]
    size = dtype.itemsize // len(parts)
    readers = [decoder.read(part, f"b{8 * size}") for part in parts]
    shifts = [dtype.type(8 * size * n) for n in range(len(parts))]
    write = decoder.write(instruction.operands[0], f"b{8 * dtype.itemsize}")

    def run(regs: dict[int, Any], group: Any) -> None:
        result = readers[0](regs).astype(dtype)
        for read, shift in zip(readers[1:], shifts[1:], strict=True):
            result = result | (read(regs).astype(dtype) << shift)
        write(regs, result)

    return run


def _unpack(decoder: Decoder, instruction: Instruction, kind: str) -> Run:
    parts = decoder.vector(instruction.operands[0])
    dtype = UNSIGNED[DTYPES[kind].itemsize]
    size = dtype.itemsize // len(parts)
    writers = [decoder.write(part, f"b{8 * size}") for part in parts]
    shifts = [dtype.type(8 * size * n) for n in range(len(parts))]
    narrow = UNSIGNED[size]
    read = decoder.read(instruction.operands[1], f"b{8 * dtype.itemsize}")

    def run(regs: dict[int, Any], group: Any) -> None:
        value = read(regs)
        for write, shift in zip(writers, shifts, strict=True):
            write(regs, (value >> shift if shift else value).astype(narrow))

    return run


@opcode("selp")
def _selp(decoder: Decoder, instruction: Instruction) -> Run:
    kind = type_of(instruction)
    first, second = (decoder.read(o, kind) for o in instruction.operands[1:3])
    condition = decoder.read(instruction.operands[3], "pred")
    write = decoder.write(instruction.operands[0], kind)
    decoder.sources = _choice(decoder, instruction, condition)

    def run(regs: dict[int, Any], group: Any) -> None:
        which = condition(regs)
        if which.ndim:
            write(regs, chosen(which, first(regs), second(regs)))
        else:
            write(regs, first(regs) if which else second(regs))

    return run


@opcode("slct")
def _slct(decoder: Decoder, instruction: Instruction) -> Run:
    kinds = [m for m in instruction.modifiers if m in DTYPES]
    first, second = (decoder.read(o, kinds[0]) for o in instruction.operands[1:3])
    condition = decoder.read(instruction.operands[3], kinds[-1])
    write = decoder.write(instruction.operands[0], kinds[0])
    decoder.sources = _choice(decoder, instruction, lambda regs: condition(regs) >= 0)

    def run(regs: dict[int, Any], group: Any) -> None:
        write(regs, np.where(condition(regs) >= 0, first(regs), second(regs)))

    return run


def _choice(decoder: Decoder, instruction: Instruction, holds: Reader) -> tuple[Source, ...]:
    """What the result of `selp` or `slct` depends on: not on the operand that is not chosen."""
    first, second, condition = map(decoder.slots_of, instruction.operands[1:4])
    return (
        Source(condition),
        Source(first, lambda regs: np.logical_not(holds(regs)), condition),
        Source(second, holds, condition),
    )


# -- comparisons -----------------------------------------------------------------------------------

_ORDERED: dict[str, Function] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lo": np.less,
    "ls": np.less_equal,
    "hi": np.greater,
    "hs": np.greater_equal,
}

_OPPOSITES = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}

_COMBINE: dict[str, Function] = {
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
}


def _unordered(a: Any, b: Any) -> Any:
    return np.isnan(a) | np.isnan(b)


def _comparison(name: str, kind: str) -> Function:
    if not is_float(kind):
        return _ORDERED[name]
    if name == "ne":
        return lambda a, b: np.less(a, b) | np.greater(a, b)
    if name in _ORDERED:
        return _ORDERED[name]
    if name == "nan":
        return _unordered
    if name == "num":
        return lambda a, b: ~_unordered(a, b)
    if name == "neu":
        return np.not_equal
    if name == "equ":
        return lambda a, b: np.equal(a, b) | _unordered(a, b)
    opposite = _ORDERED[_OPPOSITES[name[:-1]]]
    return lambda a, b: ~opposite(a, b)


def _compare(decoder: Decoder, instruction: Instruction, kind: str) -> tuple[Function, str]:
    """A function from registers to the comparison's result, and the kind of halves compared."""
    name = next(
        m for m in instruction.modifiers if m in _ORDERED or m[-1:] == "u" or m in ("nan", "num")
    )
    compare = _comparison(name, kind)
    if "ftz" in instruction.modifiers and kind == "f32":
        inner = compare
        compare = lambda a, b: inner(flush(a), flush(b))  # noqa: E731
    first, second = (decoder.read(o, kind) for o in instruction.operands[1:3])
    if kind == "bf16":
        return lambda regs: compare(bf16_to_f32(first(regs)), bf16_to_f32(second(regs))), ""
    if kind in ("f16x2", "bf16x2"):
        return _compare_halves(compare, first, second, kind[:-2]), kind
    return lambda regs: compare(first(regs), second(regs)), ""


def _compare_halves(compare: Function, first: Function, second: Function, half: str) -> Function:
    def both(regs: dict[int, Any]) -> tuple[Any, Any]:
        a, b = np.asarray(first(regs)), np.asarray(second(regs))
        low = compare(unpack_half(a & 0xFFFF, half), unpack_half(b & 0xFFFF, half))
        return low, compare(unpack_half(a >> 16, half), unpack_half(b >> 16, half))

    return both


@opcode("setp")
def _setp(decoder: Decoder, instruction: Instruction) -> Run:
    kind = type_of(instruction)
    compare, packed = _compare(decoder, instruction, kind)
    target, other = decoder.pair(instruction.operands[0])
    write = decoder.write(target, "pred")
    write_other = decoder.write(other, "pred") if other is not None else None
    combine, condition = _combination(decoder, instruction, 3)

    def run_plain(regs: dict[int, Any], group: Any) -> None:
        write(regs, compare(regs))

    def run(regs: dict[int, Any], group: Any) -> None:
        result = compare(regs)
        if packed:
            low, high = result
            write(regs, combine(low, regs, condition))
            if write_other is not None:
                write_other(regs, combine(high, regs, condition))
            return
        if write_other is not None:
            write_other(regs, combine(np.logical_not(result), regs, condition))
        write(regs, combine(result, regs, condition))

    return run if packed or write_other is not None or condition is not None else run_plain


def _combination(decoder: Decoder, instruction: Instruction, index: int) -> tuple[Function, Any]:
    """How `.and`, `.or` and `.xor` join a comparison with the predicate operand at `index`."""
    names = [m for m in instruction.modifiers if m in _COMBINE]
    if not names:
        return lambda result, regs, condition: result, None
    operation = _COMBINE[names[0]]
    condition = decoder.read(instruction.operands[index], "pred")
    return lambda result, regs, read: operation(result, read(regs)), condition


@opcode("set")
def _set(decoder: Decoder, instruction: Instruction) -> Run:
    kinds = [m for m in instruction.modifiers if m in DTYPES]
    to, kind = kinds[0], kinds[-1]
    compare, packed = _compare(decoder, instruction, kind)
    combine, condition = _combination(decoder, instruction, 3)
    write = decoder.write(instruction.operands[0], to)
    if packed:
        one = {"f16": 0x3C00, "bf16": 0x3F80}.get(kind[:-2] if is_float(to) else "", 0xFFFF)

        def run_packed(regs: dict[int, Any], group: Any) -> None:
            low, high = (np.where(half, np.uint16(one), np.uint16(0)) for half in compare(regs))
            write(regs, join_halves(low, high))

        return run_packed
    dtype = DTYPES[to]
    if to == "bf16":
        true, false = dtype.type(0x3F80), dtype.type(0)
    elif is_float(to):
        true, false = dtype.type(1), dtype.type(0)
    else:
        true, false = np.array(-1, np.int64).astype(dtype)[()], dtype.type(0)

    def run(regs: dict[int, Any], group: Any) -> None:
        write(regs, np.where(combine(compare(regs), regs, condition), true, false))

    return run


# -- address spaces --------------------------------------------------------------------------------


@opcode("cvta")
def _cvta(decoder: Decoder, instruction: Instruction) -> Run:
    kind = type_of(instruction)
    read = decoder.read(instruction.operands[1], kind)
    write = decoder.write(instruction.operands[0], kind)
    spaces = [m.split("::")[0] for m in instruction.modifiers]
    space = next((s for s in ("shared", "local", "global", "const", "param") if s in spaces), "")
    if not space:
        decoder.refuse(instruction)
    base = np.uint64(0 if space == "param" else to_generic(space, 0))
    to_space = "to" in instruction.modifiers

    def run(regs: dict[int, Any], group: Any) -> None:
        value = np.asarray(read(regs)).astype(np.uint64)
        moved = value - base if to_space else all_to_generic(space, value)
        write(regs, moved.astype(DTYPES[kind]))

    return run


@opcode("isspacep")
def _isspacep(decoder: Decoder, instruction: Instruction) -> Run:
    space, _, part = instruction.modifiers[0].partition("::")
    wanted = {"shared": SHARED, "local": LOCAL, "global": 0, "param": PARAM}.get(space)
    read = decoder.read(instruction.operands[1], "u64")
    write = decoder.write(instruction.operands[0], "pred")

    def run(regs: dict[int, Any], group: Any) -> None:
        address = read(regs)
        found = np.asarray(space_of(address) == (-1 if wanted is None else wanted))
        if space == "shared" and part != "cluster":
            found = found & (_rank_of(address, group) == group.chunk.rank[group.block_slots])
        write(regs, found)

    return run


@opcode("mapa")
def _mapa(decoder: Decoder, instruction: Instruction) -> Run:
    """An address in shared memory of another block of the cluster."""
    kind = type_of(instruction)
    read = decoder.read(instruction.operands[1], kind)
    read_rank = decoder.read(instruction.operands[2], "u32")
    write = decoder.write(instruction.operands[0], kind)

    def run(regs: dict[int, Any], group: Any) -> None:
        rank = np.asarray(read_rank(regs)).astype(np.uint64)
        blocks = group.chunk.launch.cluster_blocks
        if (rank >= blocks).any():
            at, lanes = first_true(np.broadcast_to(rank >= blocks, (group.n,)))
            text = (
                f"mapa of block {int(rank.flat[at % rank.size])} of a cluster, which has {blocks}"
            )
            raise Fault(FindingKind.SHARED_OUT_OF_BOUNDS, text, at, lanes)
        address = np.asarray(read(regs)).astype(np.uint64) & ~np.uint64(_PEER_BITS)
        write(regs, (address | (rank + np.uint64(1)) << np.uint64(PEER_SHIFT)).astype(DTYPES[kind]))

    return run


_PEER_BITS = 0xFFFF_FFFF & ~PEER_OFFSET


@opcode("getctarank")
def _getctarank(decoder: Decoder, instruction: Instruction) -> Run:
    """The rank of the block whose shared memory an address is in."""
    kind = type_of(instruction)
    read = decoder.read(instruction.operands[1], kind)
    write = decoder.write(instruction.operands[0], "u32")

    def run(regs: dict[int, Any], group: Any) -> None:
        write(regs, _rank_of(read(regs), group).astype(np.uint32))

    return run


def _rank_of(address: Any, group: Any) -> Any:
    """The rank of the block in whose shared memory an address is; one's own has no mark."""
    peer = (np.asarray(address).astype(np.int64) & _PEER_BITS) >> PEER_SHIFT
    return np.where(peer > 0, peer - 1, group.chunk.rank[group.block_slots])
