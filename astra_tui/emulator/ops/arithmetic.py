"""Integer and floating-point arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from astra_tui.emulator.numerics import (
    bf16_to_f32,
    f64_to_bf16,
    f64_to_f32,
    flush,
    fma_f32,
    fma_f64,
    mul_high_64,
    saturate,
    sum_f32,
)
from astra_tui.emulator.operands import CARRY, DTYPES, Decoder, Run, opcode, type_of
from astra_tui.emulator.ptx.module import Instruction, Register

Function = Callable[..., Any]

_ROUNDINGS = ("rz", "rm", "rp")
_LOW_HALF, _HALF_BITS = np.uint32(0xFFFF), np.uint32(16)
_WIDE = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}
_FLOATS = ("f32", "f64", "f16", "bf16", "f16x2", "bf16x2")


def is_float(kind: str) -> bool:
    """Whether a PTX type holds floating-point numbers."""
    return kind in _FLOATS


def rounding(instruction: Instruction) -> str:
    """The rounding mode of an instruction, to nearest unless it says otherwise."""
    return next((m for m in instruction.modifiers if m in _ROUNDINGS), "rn")


def elementwise(decoder: Decoder, instruction: Instruction, function: Function) -> Run:
    """Runs `function` on all sources; `.ftz` and `.sat` are applied around it.

    For bfloat16 and packed halves the function sees float64 (exact for one operation on halves)
    and its result is rounded once.
    """
    kind = type_of(instruction)
    sources = [decoder.read(operand, kind) for operand in instruction.operands[1:]]
    write = decoder.write(instruction.operands[0], kind)
    apply = _applied(kind, instruction.modifiers, function)
    if len(sources) == 1:
        (only,) = sources

        def run_one(regs: dict[int, Any], group: Any) -> None:
            write(regs, apply(only(regs)))

        return run_one

    if len(sources) == 2:
        first, second = sources

        def run_two(regs: dict[int, Any], group: Any) -> None:
            write(regs, apply(first(regs), second(regs)))

        return run_two

    def run(regs: dict[int, Any], group: Any) -> None:
        write(regs, apply(*(read(regs) for read in sources)))

    return run


def _applied(kind: str, modifiers: tuple[str, ...], function: Function) -> Function:
    if kind in ("f16x2", "bf16x2"):
        return _packed(kind, function, "sat" in modifiers)
    if kind == "bf16":
        return lambda *v: f64_to_bf16(function(*(bf16_to_f32(x).astype(np.float64) for x in v)))
    steps: list[Function] = []
    if "sat" in modifiers and is_float(kind):
        steps.append(saturate)
    if "ftz" in modifiers and kind == "f32":
        steps.append(flush)
        inner = function
        function = lambda *v: inner(*(flush(x) for x in v))  # noqa: E731
    if not steps:
        return function
    flushed = function

    def finished(*values: Any) -> Any:
        result = flushed(*values)
        for step in steps:
            result = step(result)
        return result

    return finished


def _packed(kind: str, function: Function, saturated: bool) -> Function:
    """The function on both halves of 32-bit registers."""
    half = kind[:-2]

    def apply(*values: Any) -> Any:
        low = [unpack_half(np.asarray(v) & _LOW_HALF, half) for v in values]
        high = [unpack_half(np.asarray(v) >> _HALF_BITS, half) for v in values]
        results = function(*low), function(*high)
        if saturated:
            results = saturate(results[0]), saturate(results[1])
        return join_halves(pack_half(results[0], half), pack_half(results[1], half))

    return apply


def unpack_half(bits: Any, half: str) -> Any:
    """16-bit patterns in any unsigned type to float64."""
    bits = np.asarray(bits).astype(np.uint16)
    value = bf16_to_f32(bits) if half == "bf16" else bits.view(np.float16)
    return np.asarray(value).astype(np.float64)


def pack_half(value: Any, half: str) -> Any:
    """float64 to 16-bit patterns, rounded once."""
    if half == "bf16":
        return np.asarray(f64_to_bf16(value))
    return np.asarray(value).astype(np.float16).view(np.uint16)


def join_halves(low: Any, high: Any) -> Any:
    """Two 16-bit patterns to one 32-bit register."""
    return low.astype(np.uint32) | (high.astype(np.uint32) << _HALF_BITS)


# -- addition and its kin --------------------------------------------------------------------------


@opcode("add", "sub")
def _add(decoder: Decoder, instruction: Instruction) -> Run:
    kind = type_of(instruction)
    subtract = instruction.operation == "sub"
    if "cc" in instruction.modifiers:
        return _with_carry(decoder, instruction, kind, subtract, reads_carry=False)
    mode = rounding(instruction)
    if kind == "f32" and mode != "rn":
        sign = -1.0 if subtract else 1.0
        return elementwise(decoder, instruction, lambda a, b: sum_f32(a, sign * b, mode))
    if kind == "s32" and "sat" in instruction.modifiers:
        step = np.subtract if subtract else np.add
        return elementwise(decoder, instruction, lambda a, b: _saturated_s32(step, a, b))
    return elementwise(decoder, instruction, np.subtract if subtract else np.add)


@opcode("addc", "subc")
def _addc(decoder: Decoder, instruction: Instruction) -> Run:
    kind = type_of(instruction)
    subtract = instruction.operation == "subc"
    return _with_carry(decoder, instruction, kind, subtract, reads_carry=True)


def _with_carry(
    decoder: Decoder, instruction: Instruction, kind: str, subtract: bool, reads_carry: bool
) -> Run:
    unsigned = "u" + kind[1:]
    first, second = (decoder.read(o, unsigned) for o in instruction.operands[1:3])
    write = decoder.write(instruction.operands[0], unsigned)
    read_carry = decoder.read(Register(CARRY), "u32")
    write_carry = decoder.write(Register(CARRY), "u32")
    writes_carry = "cc" in instruction.modifiers
    dtype = DTYPES[unsigned]

    def run(regs: dict[int, Any], group: Any) -> None:
        a, b = first(regs), second(regs)
        carry = np.asarray(read_carry(regs)).astype(dtype) if reads_carry else dtype.type(0)
        if subtract:
            result = a - b - carry
            out = (a < b) | ((a == b) & (carry != 0))
        else:
            result = a + b + carry
            out = (result < a) | ((result == a) & (carry != 0))
        write(regs, result)
        if writes_carry:
            write_carry(regs, np.asarray(out).astype(np.uint32))

    return run


def _saturated_s32(step: Function, a: Any, b: Any) -> Any:
    wide = step(np.asarray(a).astype(np.int64), np.asarray(b).astype(np.int64))
    return np.clip(wide, -(1 << 31), (1 << 31) - 1).astype(np.int32)


# -- multiplication --------------------------------------------------------------------------------


@opcode("mul")
def _mul(decoder: Decoder, instruction: Instruction) -> Run:
    kind = type_of(instruction)
    if is_float(kind):
        mode = rounding(instruction)
        if kind == "f32" and mode != "rn":
            return elementwise(
                decoder,
                instruction,
                lambda a, b: f64_to_f32(np.asarray(a).astype(np.float64) * b, mode),
            )
        return elementwise(decoder, instruction, np.multiply)
    multiply, result_kind = _integer_product(kind, instruction.modifiers)
    first, second = (decoder.read(o, kind) for o in instruction.operands[1:3])
    write = decoder.write(instruction.operands[0], result_kind)

    def run(regs: dict[int, Any], group: Any) -> None:
        write(regs, multiply(first(regs), second(regs)))

    return run


@opcode("mad")
def _mad(decoder: Decoder, instruction: Instruction) -> Run:
    kind = type_of(instruction)
    if is_float(kind):
        return _fused(decoder, instruction)
    return _integer_mad(decoder, instruction, kind, reads_carry=False)


@opcode("madc")
def _madc(decoder: Decoder, instruction: Instruction) -> Run:
    return _integer_mad(decoder, instruction, type_of(instruction), reads_carry=True)


def _integer_mad(decoder: Decoder, instruction: Instruction, kind: str, reads_carry: bool) -> Run:
    multiply, result_kind = _integer_product(kind, instruction.modifiers)
    first, second = (decoder.read(o, kind) for o in instruction.operands[1:3])
    third = decoder.read(instruction.operands[3], result_kind)
    write = decoder.write(instruction.operands[0], result_kind)
    if reads_carry or "cc" in instruction.modifiers:
        return _mad_with_carry(decoder, instruction, multiply, result_kind, kind, reads_carry)
    saturated = "sat" in instruction.modifiers

    def run(regs: dict[int, Any], group: Any) -> None:
        if saturated:
            write(regs, _saturated_s32(np.add, multiply(first(regs), second(regs)), third(regs)))
        else:
            write(regs, multiply(first(regs), second(regs)) + third(regs))

    return run


def _mad_with_carry(
    decoder: Decoder,
    instruction: Instruction,
    multiply: Function,
    result_kind: str,
    kind: str,
    reads_carry: bool,
) -> Run:
    unsigned = "u" + result_kind[1:]
    first, second = (decoder.read(o, kind) for o in instruction.operands[1:3])
    third = decoder.read(instruction.operands[3], unsigned)
    write = decoder.write(instruction.operands[0], unsigned)
    read_carry = decoder.read(Register(CARRY), "u32")
    write_carry = decoder.write(Register(CARRY), "u32")
    writes_carry = "cc" in instruction.modifiers
    dtype = DTYPES[unsigned]

    def run(regs: dict[int, Any], group: Any) -> None:
        product = np.asarray(multiply(first(regs), second(regs))).astype(dtype)
        carry = np.asarray(read_carry(regs)).astype(dtype) if reads_carry else dtype.type(0)
        result = product + third(regs) + carry
        write(regs, result)
        if writes_carry:
            out = (result < product) | ((result == product) & (carry != 0))
            write_carry(regs, np.asarray(out).astype(np.uint32))

    return run


def _integer_product(kind: str, modifiers: tuple[str, ...]) -> tuple[Function, str]:
    """How to multiply, and the type of the result."""
    if "wide" in modifiers:
        wide = DTYPES[_WIDE[kind]]
        return lambda a, b: np.multiply(a, b, dtype=wide), _WIDE[kind]
    if "hi" not in modifiers:
        return np.multiply, kind
    if kind in ("u64", "s64"):
        signed = kind == "s64"
        dtype = DTYPES[kind]
        return lambda a, b: mul_high_64(a, b, signed).view(dtype), kind
    wide, dtype = DTYPES[_WIDE[kind]], DTYPES[kind]
    shift = wide.type(8 * dtype.itemsize)
    return lambda a, b: (np.multiply(a, b, dtype=wide) >> shift).astype(dtype), kind


@opcode("mul24", "mad24")
def _mul24(decoder: Decoder, instruction: Instruction) -> Run:
    kind = type_of(instruction)
    signed, high = kind == "s32", "hi" in instruction.modifiers
    readers = [decoder.read(o, kind) for o in instruction.operands[1:]]
    write = decoder.write(instruction.operands[0], kind)
    dtype = DTYPES[kind]

    def low_24(value: Any) -> Any:
        wide = np.asarray(value).astype(np.int64) & 0xFFFFFF
        return np.where(wide & 0x800000, wide - 0x1000000, wide) if signed else wide

    def run(regs: dict[int, Any], group: Any) -> None:
        product = low_24(readers[0](regs)) * low_24(readers[1](regs))
        result = np.asarray(product >> 16 if high else product).astype(dtype)
        write(regs, result + readers[2](regs) if len(readers) == 3 else result)

    return run


@opcode("fma")
def _fma(decoder: Decoder, instruction: Instruction) -> Run:
    return _fused(decoder, instruction)


def _fused(decoder: Decoder, instruction: Instruction) -> Run:
    kind = type_of(instruction)
    mode = rounding(instruction)
    if kind == "f32":
        if mode == "rn":
            return elementwise(decoder, instruction, fma_f32)
        return elementwise(decoder, instruction, lambda a, b, c: fma_f32(a, b, c, mode))
    if kind == "f64":
        return elementwise(decoder, instruction, fma_f64)
    relu = "relu" in instruction.modifiers

    def half(a: Any, b: Any, c: Any) -> Any:
        result = np.asarray(a, np.float64) * b + c
        return np.maximum(result, 0.0) if relu else result

    if kind == "f16":
        return elementwise(decoder, instruction, lambda a, b, c: half(a, b, c).astype(np.float16))
    return elementwise(decoder, instruction, half)


# -- division --------------------------------------------------------------------------------------


def exact_division(decoder: Decoder, instruction: Instruction) -> Run:
    """`div` of every type, correctly rounded."""
    kind = type_of(instruction)
    if kind == "f64":
        return elementwise(decoder, instruction, np.divide)
    if kind == "f32":
        mode = rounding(instruction)
        if mode == "rn":
            return elementwise(decoder, instruction, np.divide)
        return elementwise(
            decoder,
            instruction,
            lambda a, b: f64_to_f32(np.asarray(a).astype(np.float64) / b, mode),
        )
    dtype = DTYPES[kind]
    return elementwise(decoder, instruction, lambda a, b: _integer_quotient(a, b, dtype)[0])


@opcode("rem")
def _rem(decoder: Decoder, instruction: Instruction) -> Run:
    dtype = DTYPES[type_of(instruction)]
    return elementwise(decoder, instruction, lambda a, b: _integer_quotient(a, b, dtype)[1])


def approximate_quotient(a: Any, b: Any) -> Any:
    """A * (1 / b) with a flushed reciprocal: 0 for 2^126 < |b| < 2^128, as PTX specifies."""
    quotient = np.divide(a, b)
    huge = (np.abs(b) > np.float32(2.0**126)) & np.isfinite(b)
    if not np.any(huge):
        return quotient
    zero = np.copysign(np.float32(0), quotient)
    return np.where(huge & np.isfinite(a), zero, np.where(huge, np.float32(np.nan), quotient))[()]


def _integer_quotient(a: Any, b: Any, dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Quotient towards zero and remainder. Division by zero gives all ones and the dividend."""
    zero = np.asarray(b) == 0
    divisor = np.where(zero, dtype.type(1), b)
    if dtype.kind == "i":
        quotient = np.floor_divide(a, divisor)
        inexact = quotient * divisor != a
        opposite = (np.asarray(a) < 0) != (divisor < 0)
        quotient = quotient + (inexact & opposite).astype(dtype)
    else:
        quotient = np.floor_divide(a, divisor)
    remainder = a - quotient * divisor
    if np.any(zero):
        ones = np.array(-1, np.int64).astype(dtype)
        quotient = np.where(zero, ones, quotient)
        remainder = np.where(zero, a, remainder)
    return np.asarray(quotient).astype(dtype)[()], np.asarray(remainder).astype(dtype)[()]


# -- the rest --------------------------------------------------------------------------------------


@opcode("sad")
def _sad(decoder: Decoder, instruction: Instruction) -> Run:
    def distance(a: Any, b: Any, c: Any) -> Any:
        return np.where(a < b, b - a, a - b) + c

    return elementwise(decoder, instruction, distance)


@opcode("neg")
def _neg(decoder: Decoder, instruction: Instruction) -> Run:
    kind = type_of(instruction)
    if kind in ("f16x2", "bf16x2"):
        return _sign_bits(decoder, instruction, kind, lambda v: v ^ np.uint32(0x8000_8000))
    if kind == "bf16":
        return _sign_bits(decoder, instruction, kind, lambda v: v ^ np.uint16(0x8000))
    return elementwise(decoder, instruction, np.negative)


@opcode("abs")
def _abs(decoder: Decoder, instruction: Instruction) -> Run:
    kind = type_of(instruction)
    if kind in ("f16x2", "bf16x2"):
        return _sign_bits(decoder, instruction, kind, lambda v: v & np.uint32(0x7FFF_7FFF))
    if kind == "bf16":
        return _sign_bits(decoder, instruction, kind, lambda v: v & np.uint16(0x7FFF))
    return elementwise(decoder, instruction, np.abs)


def _sign_bits(decoder: Decoder, instruction: Instruction, kind: str, change: Function) -> Run:
    read = decoder.read(instruction.operands[1], kind)
    write = decoder.write(instruction.operands[0], kind)

    def run(regs: dict[int, Any], group: Any) -> None:
        write(regs, change(read(regs)))

    return run


@opcode("min", "max")
def _min_max(decoder: Decoder, instruction: Instruction) -> Run:
    kind = type_of(instruction)
    smaller = instruction.operation == "min"
    if not is_float(kind):
        return elementwise(decoder, instruction, np.minimum if smaller else np.maximum)
    choose = _float_choice(smaller, nan_wins="NaN" in instruction.modifiers)
    return elementwise(decoder, instruction, choose)


def _float_choice(smaller: bool, nan_wins: bool) -> Function:
    """Minimum or maximum in which -0 is less than +0, as on the GPU."""
    pick = (
        (np.minimum if smaller else np.maximum) if nan_wins else (np.fmin if smaller else np.fmax)
    )

    zero = -0.0 if smaller else 0.0

    def choose(*values: Any) -> Any:
        result = values[0]
        for value in values[1:]:
            picked = pick(result, value)
            zeros = np.equal(result, value) & (np.signbit(result) != np.signbit(value))
            if np.any(zeros):
                picked = np.where(zeros, np.asarray(picked).dtype.type(zero), picked)[()]
            result = picked
        return result

    return choose


@opcode("copysign")
def _copysign(decoder: Decoder, instruction: Instruction) -> Run:
    return elementwise(decoder, instruction, lambda a, b: np.copysign(b, a))


@opcode("testp")
def _testp(decoder: Decoder, instruction: Instruction) -> Run:
    kind = type_of(instruction)
    least = np.finfo(DTYPES[kind]).smallest_normal
    tests: dict[str, Function] = {
        "finite": np.isfinite,
        "infinite": np.isinf,
        "number": lambda a: ~np.isnan(a),
        "notanumber": np.isnan,
        "normal": lambda a: np.isfinite(a) & ((np.abs(a) >= least) | (a == 0)),
        "subnormal": lambda a: (np.abs(a) < least) & (a != 0),
    }
    test = tests[instruction.modifiers[0]]
    read = decoder.read(instruction.operands[1], kind)
    write = decoder.write(instruction.operands[0], "pred")

    def run(regs: dict[int, Any], group: Any) -> None:
        write(regs, test(read(regs)))

    return run


@opcode("dp4a")
def _dp4a(decoder: Decoder, instruction: Instruction) -> Run:
    return _dot_product(decoder, instruction, (0, 8, 16, 24), (0, 8, 16, 24), 8)


@opcode("dp2a")
def _dp2a(decoder: Decoder, instruction: Instruction) -> Run:
    second = (16, 24) if "hi" in instruction.modifiers else (0, 8)
    return _dot_product(decoder, instruction, (0, 16), second, 16)


def _dot_product(
    decoder: Decoder,
    instruction: Instruction,
    first_shifts: tuple[int, ...],
    second_shifts: tuple[int, ...],
    first_bits: int,
) -> Run:
    kinds = [m for m in instruction.modifiers if m in ("u32", "s32")]
    first, second = (decoder.read(o, "u32") for o in instruction.operands[1:3])
    result_kind = "s32" if "s32" in kinds else "u32"
    third = decoder.read(instruction.operands[3], result_kind)
    write = decoder.write(instruction.operands[0], result_kind)

    def part(value: Any, shift: int, bits: int, signed: bool) -> Any:
        field = (np.asarray(value).astype(np.int64) >> shift) & ((1 << bits) - 1)
        return np.where(field >> (bits - 1), field - (1 << bits), field) if signed else field

    def run(regs: dict[int, Any], group: Any) -> None:
        total = np.asarray(third(regs)).astype(np.int64)
        a, b = first(regs), second(regs)
        for i, j in zip(first_shifts, second_shifts, strict=True):
            left = part(a, i, first_bits, kinds[0] == "s32")
            total = total + left * part(b, j, 8, kinds[-1] == "s32")
        write(regs, total.astype(DTYPES[result_kind]))

    return run
