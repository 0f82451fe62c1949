"""cvt: between integers, floats and packed narrow floats, with PTX's rounding and saturation."""

from __future__ import annotations

from typing import Any

import numpy as np

from astra_tui.emulator.numerics import (
    bf16_to_f32,
    f32_to_bf16,
    f64_to_bf16,
    f64_to_f32,
    flush,
    saturate,
)
from astra_tui.emulator.operands import DTYPES, Decoder, Run, opcode
from astra_tui.emulator.ops.arithmetic import Function, is_float, join_halves
from astra_tui.emulator.ptx.module import Instruction
from astra_tui.model.bit_patterns import encode, narrow_values
from astra_tui.model.dtypes import DType

_TO_INTEGER = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
_FP8 = {"e4m3x2": DType.FLOAT8_E4M3FN, "e5m2x2": DType.FLOAT8_E5M2}


@opcode("cvt")
def _cvt(decoder: Decoder, instruction: Instruction) -> Run:
    modifiers = instruction.modifiers
    kinds = [m for m in modifiers if m in DTYPES or m in _FP8 or m == "tf32"]
    to, source = kinds[0], kinds[-1]
    if to in _FP8:
        return _to_fp8(decoder, instruction, to, source)
    if source in _FP8:
        return _from_fp8(decoder, instruction, to, source)
    if to in ("f16x2", "bf16x2"):
        return _to_packed(decoder, instruction, to, source)
    if to == "tf32":
        return _to_tf32(decoder, instruction)
    convert = _conversion(to, source, modifiers)
    read = decoder.read(instruction.operands[1], source)
    write = decoder.write(instruction.operands[0], to)

    def run(regs: dict[int, Any], group: Any) -> None:
        write(regs, convert(read(regs)))

    return run


def _conversion(to: str, source: str, modifiers: tuple[str, ...]) -> Function:
    if is_float(source):
        narrow = _float_to_float if is_float(to) else _float_to_integer
        convert = narrow(to, source, modifiers)
    else:
        convert = _integer_to_float(to, modifiers) if is_float(to) else _integer(to, modifiers)
    return convert


def _integer(to: str, modifiers: tuple[str, ...]) -> Function:
    dtype = DTYPES[to]
    if "sat" not in modifiers:
        return lambda v: v.astype(dtype)
    limits = np.iinfo(dtype)

    def clamp(value: Any) -> Any:
        own = np.iinfo(value.dtype)
        low, high = max(limits.min, own.min), min(limits.max, own.max)
        return np.clip(value, value.dtype.type(low), value.dtype.type(high)).astype(dtype)

    return clamp


def _integer_to_float(to: str, modifiers: tuple[str, ...]) -> Function:
    mode = _mode(modifiers)
    if to == "bf16":
        return lambda v: f64_to_bf16(_exact_enough(v))
    dtype = DTYPES[to]
    if to == "f32" and mode != "rn":
        return lambda v: f64_to_f32(_exact_enough(v), mode)
    if to == "f16":
        return lambda v: _exact_enough(v).astype(dtype)
    return lambda v: v.astype(dtype)


def _exact_enough(value: Any) -> Any:
    """Integers as float64, those beyond 53 bits rounded to odd so that rounding again is safe."""
    value = np.asarray(value)
    if value.dtype.itemsize < 8:
        return value.astype(np.float64)
    low = value & value.dtype.type(0xFFF)
    trimmed = (value & ~value.dtype.type(0xFFF)) | np.where(
        low != 0, value.dtype.type(0x800), value.dtype.type(0)
    )
    large = np.abs(value.astype(np.float64)) >= 2.0**53
    return np.where(large, trimmed, value).astype(np.float64)


def _float_to_integer(to: str, source: str, modifiers: tuple[str, ...]) -> Function:
    dtype = DTYPES[to]
    limits = np.iinfo(dtype)
    to_whole = _TO_INTEGER[next((m for m in modifiers if m in _TO_INTEGER), "rzi")]
    flushes = "ftz" in modifiers
    # As recorded on an H100: NaN gives 0, or the sign bit alone where 64 bits are involved.
    wide = source == "f64" or dtype.itemsize == 8
    for_nan = np.array(1 << (8 * dtype.itemsize - 1) if wide else 0, np.uint64).astype(dtype)

    def convert(value: Any) -> Any:
        if source == "bf16":
            value = bf16_to_f32(value)
        if flushes:
            value = flush(value)
        whole = to_whole(np.asarray(value).astype(np.float64))
        nan = np.isnan(whole)
        below, above = whole <= float(limits.min), whole >= float(limits.max)
        inside = np.where(below | above | nan, 0.0, whole).astype(dtype)
        result = np.where(above, dtype.type(limits.max), inside)
        return np.where(nan, for_nan, np.where(below, dtype.type(limits.min), result))

    return convert


def _float_to_float(to: str, source: str, modifiers: tuple[str, ...]) -> Function:
    steps: list[Function] = []
    if source == "bf16":
        steps.append(bf16_to_f32)
    if "ftz" in modifiers and source == "f32":
        steps.append(flush)
    whole = next((m for m in modifiers if m in _TO_INTEGER), None)
    if whole:
        steps.append(_TO_INTEGER[whole])
    steps.append(_narrow(to, source, _mode(modifiers)))
    if "sat" in modifiers:
        steps.append(saturate)
    if "relu" in modifiers:
        steps.append(_relu(to))
    if "ftz" in modifiers and to == "f32":
        steps.append(flush)

    def convert(value: Any) -> Any:
        for step in steps:
            value = step(value)
        return value

    return steps[0] if len(steps) == 1 else convert


def _narrow(to: str, source: str, mode: str) -> Function:
    if to == "bf16":
        if mode == "rz":
            return lambda v: (np.asarray(v, np.float32).view(np.uint32) >> np.uint32(16)).astype(
                np.uint16
            )
        return f64_to_bf16 if source == "f64" else f32_to_bf16
    dtype = DTYPES[to]
    if to == "f32" and source == "f64" and mode != "rn":
        return lambda v: f64_to_f32(v, mode)
    if to == "f16" and mode == "rz":
        return _f16_towards_zero
    return lambda v: v.astype(dtype)


def _f16_towards_zero(value: Any) -> Any:
    near = np.asarray(value).astype(np.float16)
    wide = np.asarray(value).astype(np.float64)
    beyond = np.abs(near.astype(np.float64)) > np.abs(wide)
    return np.where(beyond, np.nextafter(near, np.float16(0)), near)[()]


def _relu(to: str) -> Function:
    if to == "bf16":
        return lambda v: np.where(np.asarray(v) & np.uint16(0x8000), np.uint16(0), v)
    return lambda v: np.maximum(v, np.asarray(v).dtype.type(0)) + np.asarray(v).dtype.type(0)


def _mode(modifiers: tuple[str, ...]) -> str:
    return next((m for m in modifiers if m in ("rz", "rm", "rp")), "rn")


# -- packed results --------------------------------------------------------------------------------


def _to_packed(decoder: Decoder, instruction: Instruction, to: str, source: str) -> Run:
    """cvt.f16x2.f32 d, a, b: a goes to the upper half."""
    if source != "f32":
        decoder.refuse(instruction)
    high, low = (decoder.read(o, source) for o in instruction.operands[1:3])
    write = decoder.write(instruction.operands[0], to)
    mode, half = _mode(instruction.modifiers), to[:-2]
    steps = [_narrow(half, source, mode)]
    if "relu" in instruction.modifiers:
        steps.append(_relu(half))
    if "satfinite" in instruction.modifiers:
        decoder.refuse(instruction)

    def bits(value: Any) -> Any:
        for step in steps:
            value = step(value)
        return np.asarray(value).view(np.uint16)

    def run(regs: dict[int, Any], group: Any) -> None:
        write(regs, join_halves(bits(low(regs)), bits(high(regs))))

    return run


def _to_tf32(decoder: Decoder, instruction: Instruction) -> Run:
    """Keeps 10 bits of the mantissa, rounded to nearest, ties away from zero (rna) or to even."""
    read = decoder.read(instruction.operands[1], "b32")
    write = decoder.write(instruction.operands[0], "b32")
    away = "rna" in instruction.modifiers

    def run(regs: dict[int, Any], group: Any) -> None:
        bits = np.asarray(read(regs))
        kept = (bits >> np.uint32(13)) & np.uint32(1)
        rounding = np.uint32(0x1000) if away else np.uint32(0x0FFF) + kept
        special = (bits & np.uint32(0x7F80_0000)) == np.uint32(0x7F80_0000)
        rounded = (bits + rounding) & np.uint32(0xFFFF_E000)
        write(regs, np.where(special, bits, rounded))

    return run


def _encode_fp8(value: Any, kind: str) -> Any:
    """float32 to the nearest code, ties to even, too large a value to the largest finite one."""
    dtype = _FP8[kind]
    return encode(np.clip(value, -dtype.largest, dtype.largest), dtype).astype(np.uint16)


def _to_fp8(decoder: Decoder, instruction: Instruction, to: str, source: str) -> Run:
    if "satfinite" not in instruction.modifiers or source not in ("f32", "f16x2"):
        decoder.refuse(instruction)
    write = decoder.write(instruction.operands[0], "b16")
    relu = "relu" in instruction.modifiers
    readers = [decoder.read(o, source) for o in instruction.operands[1:]]

    def run(regs: dict[int, Any], group: Any) -> None:
        if source == "f32":
            high, low = (np.asarray(read(regs)) for read in readers)
        else:
            both = np.asarray(readers[0](regs))
            low = (both & np.uint32(0xFFFF)).astype(np.uint16).view(np.float16)
            high = (both >> np.uint32(16)).astype(np.uint16).view(np.float16)
        if relu:
            low, high = np.fmax(low, 0), np.fmax(high, 0)
        write(regs, _encode_fp8(low, to) | (_encode_fp8(high, to) << np.uint16(8)))

    return run


def _from_fp8(decoder: Decoder, instruction: Instruction, to: str, source: str) -> Run:
    if to != "f16x2":
        decoder.refuse(instruction)
    read = decoder.read(instruction.operands[1], "b16")
    write = decoder.write(instruction.operands[0], to)
    table = narrow_values(_FP8[source]).astype(np.float16).view(np.uint16)

    def run(regs: dict[int, Any], group: Any) -> None:
        codes = np.asarray(read(regs))
        write(regs, join_halves(table[codes & np.uint16(0xFF)], table[codes >> np.uint16(8)]))

    return run
