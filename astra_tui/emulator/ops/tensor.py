"""Tensor-core instructions of one warp: ldmatrix, stmatrix and mma.sync.

Fragment layouts are those of the PTX ISA (matrix fragments for mma.m16n8k8, m16n8k16 and
m16n8k32).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from astra_tui.emulator.access import resolve
from astra_tui.emulator.lanes import Group
from astra_tui.emulator.operands import Decoder, opcode
from astra_tui.emulator.ops.arithmetic import unpack_half
from astra_tui.emulator.ptx.module import Instruction
from astra_tui.emulator.step import AccessSpec, Flow, Step

_LANE = np.arange(32)
_GROUP, _MEMBER = _LANE // 4, _LANE % 4
_LOW, _BITS = np.uint32(0xFFFF), np.uint32(16)
_ROW_BYTES = 16


def _matrix_count(instruction: Instruction) -> int:
    return next(int(m[1]) for m in instruction.modifiers if m in ("x1", "x2", "x4"))


def _row_addresses(group: Group, addresses: Any, count: int) -> tuple[Group, Any]:
    """The lanes that give row addresses (the first 8 a matrix), and their addresses."""
    addresses = np.broadcast_to(addresses, (group.n,))
    giving = np.flatnonzero(group.lanes_in_warp < 8 * count)
    return group.part(giving), addresses[giving]


@opcode("ldmatrix")
def _ldmatrix(decoder: Decoder, instruction: Instruction) -> Step:
    count = _matrix_count(instruction)
    transposed = "trans" in instruction.modifiers
    address = decoder.address(instruction.operands[1])
    writers = [decoder.write(part, "b32") for part in decoder.vector(instruction.operands[0])]
    spec = AccessSpec(decoder.index, _ROW_BYTES, "load")

    def run(regs: dict[int, Any], group: Group) -> None:
        rows, addresses = _row_addresses(group, address(regs), count)
        target = resolve(rows, spec, "shared", addresses)
        data = target.views[2][(target.offsets >> 1)[:, None] + np.arange(8)]
        matrices = data.reshape(-1, count, 8, 8)
        if transposed:
            matrices = matrices.transpose(0, 1, 3, 2)
        for number, write in enumerate(writers):
            low = matrices[:, number, _GROUP, 2 * _MEMBER].astype(np.uint32)
            high = matrices[:, number, _GROUP, 2 * _MEMBER + 1].astype(np.uint32)
            write(regs, (low | (high << _BITS)).reshape(-1))

    return Step(Flow.WARP, run)


@opcode("stmatrix")
def _stmatrix(decoder: Decoder, instruction: Instruction) -> Step:
    count = _matrix_count(instruction)
    transposed = "trans" in instruction.modifiers
    address = decoder.address(instruction.operands[0])
    readers = [decoder.read(part, "b32") for part in decoder.vector(instruction.operands[1])]
    spec = AccessSpec(decoder.index, _ROW_BYTES, "store")

    def run(regs: dict[int, Any], group: Group) -> None:
        rows, addresses = _row_addresses(group, address(regs), count)
        matrices = np.zeros((group.n // 32, count, 8, 8), np.uint16)
        for number, read in enumerate(readers):
            value = np.broadcast_to(read(regs), (group.n,)).reshape(-1, 32)
            matrices[:, number, _GROUP, 2 * _MEMBER] = value & _LOW
            matrices[:, number, _GROUP, 2 * _MEMBER + 1] = value >> _BITS
        if transposed:
            matrices = matrices.transpose(0, 1, 3, 2)
        target = resolve(rows, spec, "shared", addresses)
        index = (target.offsets >> 1)[:, None] + np.arange(8)
        target.views[2][index] = matrices.reshape(-1, 8)

    return Step(Flow.WARP, run)


@opcode("mma")
def _mma(decoder: Decoder, instruction: Instruction) -> Step:
    if "s32" in instruction.modifiers:
        return _mma_of_bytes(decoder, instruction)
    shape = next(m for m in instruction.modifiers if m.startswith("m16n8"))
    kinds = [m for m in instruction.modifiers if m in ("f16", "bf16", "tf32", "f32")]
    result, left, right, addend = kinds
    depth = int(shape.rpartition("k")[2])
    supported = {("f16", 16), ("bf16", 16), ("f16", 8), ("bf16", 8), ("tf32", 8)}
    layout_ok = instruction.modifiers[3:5] == ("row", "col")
    if left != right or (left, depth) not in supported or result != addend or not layout_ok:
        decoder.refuse(instruction)
    if result == "f16" and left != "f16":
        decoder.refuse(instruction)
    d, a, b, c = (decoder.vector(operand) for operand in instruction.operands)
    read_a, read_b = ([decoder.read(x, "b32") for x in parts] for parts in (a, b))
    read_c = [decoder.read(x, "b32" if result == "f16" else "f32") for x in c]
    write_d = [decoder.write(x, "b32" if result == "f16" else "f32") for x in d]

    def run(regs: dict[int, Any], group: Group) -> None:
        warps = group.n // 32

        def lanes(value: Any) -> Any:
            return np.broadcast_to(value, (group.n,)).reshape(warps, 32)

        matrix_a, matrix_b = np.zeros((warps, 16, depth)), np.zeros((warps, depth, 8))
        for number, read in enumerate(read_a):
            _fill_a(matrix_a, lanes(read(regs)), number, left)
        for number, read in enumerate(read_b):
            _fill_b(matrix_b, lanes(read(regs)), number, left)
        matrix_c = np.zeros((warps, 16, 8))
        for number, read in enumerate(read_c):
            _fill_c(matrix_c, lanes(read(regs)), number, result)
        total = matrix_a @ matrix_b + matrix_c
        for number, write in enumerate(write_d):
            write(regs, _take_d(total, number, result).reshape(-1))

    return Step(Flow.WARP, run)


def _mma_of_bytes(decoder: Decoder, instruction: Instruction) -> Step:
    """Products of 8-bit integers, four to a register; sums are exact, and wrap at 32 bits."""
    words = instruction.modifiers[2:]
    shape, left, right = words[0], *words[4:6]
    known = {"m16n8k16": 16, "m16n8k32": 32}
    expected = (shape, "row", "col", "s32", left, right, "s32")
    if shape not in known or words != expected or not {left, right} <= {"s8", "u8"}:
        decoder.refuse(instruction)
    d, a, b, c = (decoder.vector(operand) for operand in instruction.operands)
    read_a, read_b = ([decoder.read(x, "b32") for x in parts] for parts in (a, b))
    read_c, write_d = [decoder.read(x, "s32") for x in c], [decoder.write(x, "s32") for x in d]

    def run(regs: dict[int, Any], group: Group) -> None:
        warps, depth = group.n // 32, known[shape]

        def lanes(read: Any) -> Any:
            return np.broadcast_to(read(regs), (group.n,)).reshape(warps, 32)

        matrix_a, matrix_b = np.zeros((warps, 16, depth)), np.zeros((warps, depth, 8))
        matrix_c = np.zeros((warps, 16, 8))
        for number, read in enumerate(read_a):
            row, column = _GROUP + 8 * (number & 1), 4 * _MEMBER + 16 * (number >> 1)
            for byte, value in enumerate(_bytes(lanes(read), left)):
                matrix_a[:, row, column + byte] = value
        for number, read in enumerate(read_b):
            for byte, value in enumerate(_bytes(lanes(read), right)):
                matrix_b[:, 4 * _MEMBER + byte + 16 * number, _GROUP] = value
        for number, read in enumerate(read_c):
            _fill_c(matrix_c, lanes(read), number, "s32")
        total = (matrix_a @ matrix_b + matrix_c).astype(np.int64).astype(np.int32)
        for number, write in enumerate(write_d):
            rows, columns = _GROUP + 8 * (number >> 1), 2 * _MEMBER + (number & 1)
            write(regs, total[:, rows, columns].reshape(-1))

    return Step(Flow.WARP, run)


def _bytes(bits: Any, kind: str) -> list[Any]:
    """The four 8-bit integers of each register, the lowest first."""
    parts = ((bits >> np.uint32(8 * n)).astype(np.uint8) for n in range(4))
    return [part.view(np.int8) if kind == "s8" else part for part in parts]


def _halves(bits: Any, kind: str) -> tuple[Any, Any]:
    return unpack_half(bits & _LOW, kind), unpack_half(bits >> _BITS, kind)


def _fill_a(matrix: Any, bits: Any, number: int, kind: str) -> None:
    """Register `number` of A: rows by its lowest bit, columns by the next."""
    row = _GROUP + 8 * (number & 1)
    if kind == "tf32":
        matrix[:, row, _MEMBER + 4 * (number >> 1)] = _tf32(bits)
        return
    for half, value in enumerate(_halves(bits, kind)):
        matrix[:, row, 2 * _MEMBER + half + 8 * (number >> 1)] = value


def _fill_b(matrix: Any, bits: Any, number: int, kind: str) -> None:
    if kind == "tf32":
        matrix[:, _MEMBER + 4 * number, _GROUP] = _tf32(bits)
        return
    for half, value in enumerate(_halves(bits, kind)):
        matrix[:, 2 * _MEMBER + half + 8 * number, _GROUP] = value


def _fill_c(matrix: Any, value: Any, number: int, kind: str) -> None:
    if kind == "f16":
        for half, part in enumerate(_halves(value, "f16")):
            matrix[:, _GROUP + 8 * number, 2 * _MEMBER + half] = part
        return
    matrix[:, _GROUP + 8 * (number >> 1), 2 * _MEMBER + (number & 1)] = value


def _take_d(total: Any, number: int, kind: str) -> Any:
    if kind == "f16":
        rows = _GROUP + 8 * number
        low = total[:, rows, 2 * _MEMBER].astype(np.float16).view(np.uint16).astype(np.uint32)
        high = total[:, rows, 2 * _MEMBER + 1].astype(np.float16).view(np.uint16).astype(np.uint32)
        return low | (high << _BITS)
    rows, columns = _GROUP + 8 * (number >> 1), 2 * _MEMBER + (number & 1)
    return total[:, rows, columns].astype(np.float32)


def _tf32(bits: Any) -> Any:
    """The tensor core reads the upper 19 bits."""
    return np.asarray(bits & np.uint32(0xFFFF_E000)).view(np.float32).astype(np.float64)
