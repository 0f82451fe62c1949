"""Logic, shifts and bit fields."""

from __future__ import annotations

from typing import Any

import numpy as np

from astra_tui.emulator.numerics import bit_length, reverse_bits
from astra_tui.emulator.operands import DTYPES, UNSIGNED, Decoder, Run, opcode, type_of
from astra_tui.emulator.ops.arithmetic import Function, elementwise
from astra_tui.emulator.ptx.module import Immediate, Instruction
from astra_tui.emulator.step import Source

_U32, _U64 = np.uint32, np.uint64


@opcode("and")
def _and(decoder: Decoder, instruction: Instruction) -> Run:
    decoder.sources = _absorbed(decoder, instruction, lambda a: a == 0)
    return elementwise(decoder, instruction, np.bitwise_and)


@opcode("or")
def _or(decoder: Decoder, instruction: Instruction) -> Run:
    decoder.sources = _absorbed(decoder, instruction, lambda a: np.invert(a) == 0)
    return elementwise(decoder, instruction, np.bitwise_or)


def _absorbed(
    decoder: Decoder, instruction: Instruction, absorbs: Function
) -> tuple[Source, Source]:
    """What the result of `and` or `or` depends on: not on an operand that the other absorbs."""
    kind = type_of(instruction)
    operands = instruction.operands[1:3]
    a, b = map(decoder.slots_of, operands)
    read_a, read_b = (decoder.read(o, kind) for o in operands)
    return (
        Source(a, lambda regs: absorbs(read_b(regs)), b),
        Source(b, lambda regs: absorbs(read_a(regs)), a),
    )


@opcode("xor")
def _xor(decoder: Decoder, instruction: Instruction) -> Run:
    return elementwise(decoder, instruction, np.bitwise_xor)


@opcode("not")
def _not(decoder: Decoder, instruction: Instruction) -> Run:
    return elementwise(decoder, instruction, np.invert)


@opcode("cnot")
def _cnot(decoder: Decoder, instruction: Instruction) -> Run:
    dtype = DTYPES[type_of(instruction)]
    return elementwise(decoder, instruction, lambda a: (np.asarray(a) == 0).astype(dtype))


@opcode("lop3")
def _lop3(decoder: Decoder, instruction: Instruction) -> Run:
    table = instruction.operands[4]
    if not isinstance(table, Immediate):
        decoder.refuse(instruction)
    assert isinstance(table, Immediate)
    readers = [decoder.read(o, "b32") for o in instruction.operands[1:4]]
    write = decoder.write(instruction.operands[0], "b32")
    rows = [i for i in range(8) if table.value >> i & 1]

    def run(regs: dict[int, Any], group: Any) -> None:
        a, b, c = (read(regs) for read in readers)
        result = _U32(0)
        for row in rows:
            result = result | (
                (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
            )
        write(regs, result)

    return run


# -- shifts ----------------------------------------------------------------------------------------


@opcode("shl", "shr")
def _shift(decoder: Decoder, instruction: Instruction) -> Run:
    kind = type_of(instruction)
    dtype = DTYPES[kind]
    width = 8 * dtype.itemsize
    read = decoder.read(instruction.operands[1], kind)
    read_count = decoder.read(instruction.operands[2], "u32")
    write = decoder.write(instruction.operands[0], kind)
    left = instruction.operation == "shl"
    shift = np.left_shift if left else np.right_shift
    keeps_sign = not left and dtype.kind == "i"
    if isinstance(instruction.operands[2], Immediate):
        return _constant_shift(read, write, shift, instruction.operands[2].value, dtype, keeps_sign)

    def run(regs: dict[int, Any], group: Any) -> None:
        count = np.asarray(read_count(regs))
        result = shift(read(regs), np.minimum(count, width - 1).astype(dtype))
        write(regs, result if keeps_sign else np.where(count >= width, dtype.type(0), result))

    return run


def _constant_shift(
    read: Function, write: Function, shift: Function, count: int, dtype: Any, keeps_sign: bool
) -> Run:
    width = 8 * dtype.itemsize
    beyond = count >= width
    amount = dtype.type(min(count, width - 1))

    def run(regs: dict[int, Any], group: Any) -> None:
        result = shift(read(regs), amount)
        write(regs, result * dtype.type(0) if beyond and not keeps_sign else result)

    return run


@opcode("shf")
def _funnel_shift(decoder: Decoder, instruction: Instruction) -> Run:
    low, high, count = (decoder.read(o, "u32") for o in instruction.operands[1:4])
    write = decoder.write(instruction.operands[0], "b32")
    wrap, left = "wrap" in instruction.modifiers, "l" in instruction.modifiers

    def run(regs: dict[int, Any], group: Any) -> None:
        n = np.asarray(count(regs))
        n = (n & _U32(31) if wrap else np.minimum(n, _U32(32))).astype(_U64)
        both = (np.asarray(high(regs)).astype(_U64) << _U64(32)) | low(regs)
        shifted = ((both << n) >> _U64(32)) if left else both >> n
        write(regs, shifted.astype(_U32))

    return run


# -- bit fields ------------------------------------------------------------------------------------


def _mask(count: Any) -> Any:
    """uint64 masks of `count` low ones, for counts up to 64."""
    whole = np.asarray(count) >= 64
    partial = (_U64(1) << np.minimum(count, 63).astype(_U64)) - _U64(1)
    return np.where(whole, ~_U64(0), partial)


@opcode("bfe")
def _extract(decoder: Decoder, instruction: Instruction) -> Run:
    kind = type_of(instruction)
    dtype = DTYPES[kind]
    width, signed = 8 * dtype.itemsize, dtype.kind == "i"
    read = decoder.read(instruction.operands[1], kind)
    position, count = (decoder.read(o, "u32") for o in instruction.operands[2:4])
    write = decoder.write(instruction.operands[0], kind)

    def run(regs: dict[int, Any], group: Any) -> None:
        value = np.asarray(read(regs))
        wide = value.astype(np.int64 if signed else _U64).view(_U64)
        begin = np.asarray(position(regs)) & _U32(255)
        length = np.asarray(count(regs)) & _U32(255)
        mask = _mask(length)
        shift = np.minimum(begin, 63)
        moved = wide >> shift.astype(_U64)
        if signed:
            moved = (wide.view(np.int64) >> shift.astype(np.int64)).view(_U64)
        field = np.where(begin >= width, _U64(0), moved)
        if not signed:
            write(regs, (field & mask).astype(dtype))
            return
        last = np.minimum(begin + length - _U32(1), width - 1)
        sign = (wide >> np.minimum(last, 63).astype(_U64)) & _U64(1)
        filled = np.where(sign != 0, (field & mask) | ~mask, field & mask)
        beyond = np.where(sign != 0, ~_U64(0), _U64(0))
        filled = np.where(begin >= width, beyond, filled)
        write(
            regs,
            np.where(length == 0, _U64(0), filled).astype(UNSIGNED[dtype.itemsize]).view(dtype),
        )

    return run


@opcode("bfi")
def _insert(decoder: Decoder, instruction: Instruction) -> Run:
    kind = type_of(instruction)
    dtype = DTYPES[kind]
    field, base = (decoder.read(o, kind) for o in instruction.operands[1:3])
    position, count = (decoder.read(o, "u32") for o in instruction.operands[3:5])
    write = decoder.write(instruction.operands[0], kind)
    width = 8 * dtype.itemsize

    def run(regs: dict[int, Any], group: Any) -> None:
        begin = np.asarray(position(regs)) & _U32(255)
        length = np.asarray(count(regs)) & _U32(255)
        shift = np.minimum(begin, 63).astype(_U64)
        mask = np.where(begin >= width, _U64(0), _mask(length) << shift)
        old = np.asarray(base(regs)).astype(_U64)
        new = np.asarray(field(regs)).astype(_U64) << shift
        write(regs, ((old & ~mask) | (new & mask)).astype(dtype))

    return run


@opcode("bfind")
def _find(decoder: Decoder, instruction: Instruction) -> Run:
    kind = type_of(instruction)
    dtype = DTYPES[kind]
    width = 8 * dtype.itemsize
    read = decoder.read(instruction.operands[1], kind)
    write = decoder.write(instruction.operands[0], "u32")
    shift_amount = "shiftamt" in instruction.modifiers

    def run(regs: dict[int, Any], group: Any) -> None:
        value = np.asarray(read(regs))
        value = np.where(value < 0, ~value, value) if dtype.kind == "i" else value
        length = bit_length(value.view(UNSIGNED[dtype.itemsize]))
        found = _U32(width) - length if shift_amount else length - _U32(1)
        write(regs, np.where(length == 0, _U32(0xFFFFFFFF), found))

    return run


@opcode("brev")
def _reverse(decoder: Decoder, instruction: Instruction) -> Run:
    return elementwise(decoder, instruction, reverse_bits)


@opcode("clz", "popc")
def _count(decoder: Decoder, instruction: Instruction) -> Run:
    kind = type_of(instruction)
    width = 8 * DTYPES[kind].itemsize
    read = decoder.read(instruction.operands[1], kind)
    write = decoder.write(instruction.operands[0], "u32")
    zeros = instruction.operation == "clz"

    def run(regs: dict[int, Any], group: Any) -> None:
        value = read(regs)
        if zeros:
            write(regs, _U32(width) - bit_length(value))
        else:
            write(regs, np.bitwise_count(value).astype(_U32))

    return run


@opcode("szext")
def _extend(decoder: Decoder, instruction: Instruction) -> Run:
    signed, wrap = "s32" in instruction.modifiers, "wrap" in instruction.modifiers
    read, read_count = (decoder.read(o, "u32") for o in instruction.operands[1:3])
    write = decoder.write(instruction.operands[0], "u32")

    def run(regs: dict[int, Any], group: Any) -> None:
        count = np.asarray(read_count(regs))
        count = count & _U32(31) if wrap else np.minimum(count, _U32(32))
        mask = _mask(count).astype(_U32)
        value = np.asarray(read(regs)) & mask
        if signed:
            top = np.where(count == 0, _U32(0), value >> np.maximum(count, 1) - _U32(1)) & _U32(1)
            value = np.where(top != 0, value | ~mask, value)
        write(regs, value)

    return run


@opcode("bmsk")
def _make_mask(decoder: Decoder, instruction: Instruction) -> Run:
    wrap = "wrap" in instruction.modifiers
    read_position, read_count = (decoder.read(o, "u32") for o in instruction.operands[1:3])
    write = decoder.write(instruction.operands[0], "b32")

    def run(regs: dict[int, Any], group: Any) -> None:
        begin, count = np.asarray(read_position(regs)), np.asarray(read_count(regs))
        if wrap:
            begin, count = begin & _U32(31), count & _U32(31)
        begin, count = np.minimum(begin, _U32(32)), np.minimum(count, _U32(32))
        write(regs, (_mask(count) << begin.astype(_U64)).astype(_U32))

    return run


# -- bytes -----------------------------------------------------------------------------------------


@opcode("prmt")
def _permute(decoder: Decoder, instruction: Instruction) -> Run:
    low, high, selector = (decoder.read(o, "u32") for o in instruction.operands[1:4])
    write = decoder.write(instruction.operands[0], "b32")
    choose = _SELECTORS[next((m for m in instruction.modifiers if m != "b32"), "")]

    def run(regs: dict[int, Any], group: Any) -> None:
        both = (np.asarray(high(regs)).astype(_U64) << _U64(32)) | low(regs)
        control = np.asarray(selector(regs))
        result: Any = _U32(0)
        for place in range(4):
            index, copy_sign = choose(control, place)
            byte = (both >> (index.astype(_U64) * _U64(8))).astype(_U32) & _U32(255)
            sign = np.where(byte & _U32(128), _U32(255), _U32(0))
            result = result | (np.where(copy_sign, sign, byte) << _U32(8 * place))
        write(regs, result)

    return run


def _free_choice(control: Any, place: int) -> tuple[Any, Any]:
    nibble = (control >> _U32(4 * place)) & _U32(15)
    return nibble & _U32(7), (nibble & _U32(8)) != 0


def _mode(index: Function) -> Function:
    def choose(control: Any, place: int) -> tuple[Any, Any]:
        chosen = np.asarray(index((control & _U32(3)).astype(np.int64), place)).astype(_U32)
        return chosen, np.zeros(chosen.shape, np.bool_)

    return choose


_SELECTORS: dict[str, Function] = {
    "": _free_choice,
    "f4e": _mode(lambda c, place: c + place),
    "b4e": _mode(lambda c, place: (c - place) & 7),
    "rc8": _mode(lambda c, place: c),
    "ecl": _mode(lambda c, place: np.maximum(c, place)),
    "ecr": _mode(lambda c, place: np.minimum(c, place)),
    "rc16": _mode(lambda c, place: (c & 1) * 2 + place % 2),
}


@opcode("fns")
def _fns(decoder: Decoder, instruction: Instruction) -> Run:
    kinds = ("b32", "u32", "s32")
    read_mask, read_base, read_offset = (
        decoder.read(o, kind) for o, kind in zip(instruction.operands[1:], kinds, strict=True)
    )
    write = decoder.write(instruction.operands[0], "b32")

    def run(regs: dict[int, Any], group: Any) -> None:
        mask = np.asarray(read_mask(regs)).astype(np.int64)
        base = np.asarray(read_base(regs)).astype(np.int64)
        write(regs, _nth_set_bit(mask, base, np.asarray(read_offset(regs)).astype(np.int64)))

    return run


def _nth_set_bit(mask: Any, base: Any, offset: Any) -> Any:
    """The place of the set bit that is |offset|-th from `base` on, itself included, upwards or
    downwards; at `base` alone for an offset of 0; all ones where there is none (PTX ISA, fns).
    """
    mask, base, offset = np.broadcast_arrays(mask, base, offset)
    found = np.full(mask.shape, 0xFFFF_FFFF, np.uint32)
    left = np.maximum(np.abs(offset), 1)
    for distance in range(32):
        place = base + np.where(offset < 0, -distance, distance)
        inside = (place >= 0) & (place < 32) & ((offset != 0) | (distance == 0))
        is_set = inside & ((mask >> np.clip(place, 0, 31)) & 1 == 1)
        left = left - is_set
        found = np.where(is_set & (left == 0), place.astype(np.uint32), found)
    return found[()]
