"""Between float64 (or int64) values and the bit patterns that lie in a kernel's memory.

Bit patterns are whole items of memory. Of a type of four bits an item is a pair of elements, the
first in its lower half: there the last dimension of a tensor counts half as many items as values.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from astra_tui.model.dtypes import DType, NumberKind

_BFLOAT16_NAN = np.uint16(0x7FC0)


def raw_dtype(dtype: DType) -> np.dtype[Any]:
    """The unsigned integer type of an item."""
    return np.dtype(f"u{dtype.size}")


def encode(values: Any, dtype: DType) -> Any:
    """Values to bit patterns, floats rounded to nearest even. Items have to be full.

    What is too large becomes infinite, or the largest number of a type without infinities. NaN
    becomes the largest number of a type without NaN.
    """
    if dtype.is_narrow:
        return _packed(_narrow_codes(np.asarray(values, np.float64), dtype), dtype)
    if dtype is DType.BFLOAT16:
        values = np.asarray(values)
        is_single = values.dtype == np.float32
        return _to_bfloat16(values if is_single else np.asarray(values, np.float64))
    with np.errstate(over="ignore", invalid="ignore"):
        typed = np.asarray(values).astype(_numpy(dtype))
    return np.ascontiguousarray(typed).view(raw_dtype(dtype))


def decode(bits: Any, dtype: DType) -> Any:
    """Bit patterns to float64, or to int64 for integers (uint64 wraps)."""
    if dtype.is_narrow:
        return narrow_values(dtype)[codes(bits, dtype)]
    with np.errstate(invalid="ignore"):  # Signalling NaNs become quiet ones.
        if dtype is DType.BFLOAT16:
            wide = np.asarray(bits).astype(np.uint32) << np.uint32(16)
            return wide.view(np.float32).astype(np.float64)
        typed = np.ascontiguousarray(bits).view(_numpy(dtype))
        return typed.astype(np.float64 if dtype.is_float else np.int64)


def codes(bits: Any, dtype: DType) -> Any:
    """One bit pattern an element, in the tensor's shape."""
    if dtype.per_item == 1:
        return np.asarray(bits)
    bits = np.asarray(bits)
    pairs = np.stack((bits & np.uint8(15), bits >> np.uint8(4)), -1)
    return pairs.reshape((*bits.shape[:-1], -1))


def ulp_distance(a: Any, b: Any, dtype: DType) -> Any:
    """How many representable values lie between two arrays of bit patterns of finite floats."""
    first, second = codes(a, dtype), codes(b, dtype)
    differ = first != second
    found = np.zeros(differ.shape)
    low, high = (_ordered(each[differ], dtype) for each in (first, second))
    found[differ] = np.maximum(low, high) - np.minimum(low, high)
    return found


@cache
def narrow_values(dtype: DType) -> Any:
    """The float64 value of every code of a float type of at most 8 bits."""
    count, mantissa = 1 << dtype.bits, dtype.mantissa_bits
    magnitude = np.arange(count) & (count // 2 - 1)
    exponent, fraction = magnitude >> mantissa, (magnitude & ((1 << mantissa) - 1)) * 2.0**-mantissa
    scale = 2.0 ** (np.maximum(exponent, 1) - float(dtype.bias))
    value = (np.where(exponent > 0, 1.0, 0.0) + fraction) * scale
    beyond = value > dtype.largest
    value[beyond] = np.nan
    if dtype.has_infinity:
        value[beyond & (fraction == 0)] = np.inf
    value = np.where(np.arange(count) >= count // 2, -value, value)
    value.flags.writeable = False
    return value


@cache
def rounding_reach(dtype: DType) -> tuple[Any, Any]:
    """How far each code of a narrow type reaches, by code: towards zero, and away from it.

    A number within that distance of the code's value rounds to it; both are half a step.
    """
    value = narrow_values(dtype)
    levels = np.abs(value[: len(value) // 2])
    finite = levels[np.isfinite(levels)]
    steps = np.diff(finite) / 2
    towards, away = np.zeros(len(levels)), np.zeros(len(levels))
    towards[: len(finite)] = np.concatenate((steps[:1], steps))
    away[: len(finite)] = np.concatenate((steps, steps[-1:]))
    return np.tile(towards, 2), np.tile(away, 2)


def _narrow_codes(values: Any, dtype: DType) -> Any:
    """The code of each value: exponent and rounded mantissa side by side are one whole number."""
    size, mantissa = np.abs(values), dtype.mantissa_bits
    bounded = np.where(size <= 2 * dtype.largest, size, 2 * dtype.largest)  # No NaN, no infinity.
    exponent = np.where(bounded > 0, np.frexp(bounded)[1] - 1, 1 - dtype.bias)
    exponent = np.maximum(exponent, 1 - dtype.bias)
    code = np.rint(np.ldexp(bounded, mantissa - exponent)).astype(np.int64)
    code += (exponent + dtype.bias - 1).astype(np.int64) << mantissa
    code = np.minimum(code, largest_code(dtype) + dtype.has_infinity)
    if dtype.has_nan:
        code = np.where(np.isnan(values), (1 << (dtype.bits - 1)) - 1, code)
    negative = np.signbit(values) & ~np.isnan(values)
    return np.where(negative, code | 1 << (dtype.bits - 1), code).astype(np.uint8)


def largest_code(dtype: DType) -> int:
    """The code of the largest number of a narrow type; that of infinity, if any, is the next."""
    codes_of_one_sign = 1 << (dtype.bits - 1)
    if dtype.has_infinity:
        return codes_of_one_sign - (1 << dtype.mantissa_bits) - 1
    return codes_of_one_sign - 1 - dtype.has_nan


def _packed(codes_: Any, dtype: DType) -> Any:
    if dtype.per_item == 1:
        return codes_
    return codes_[..., 0::2] | codes_[..., 1::2] << np.uint8(4)


def _ordered(bits: Any, dtype: DType) -> Any:
    """Whole numbers in the order of the floats; both zeros are the same one."""
    sign = bits.dtype.type(1 << (dtype.bits - 1))
    magnitude = bits & (sign - bits.dtype.type(1))
    return np.where(bits & sign, sign - magnitude, sign + magnitude)


def _numpy(dtype: DType) -> np.dtype[Any]:
    return np.dtype(np.uint8 if dtype.kind is NumberKind.BOOL else dtype.value)


def _to_bfloat16(values: Any) -> Any:
    """Rounds once: by way of float32, where a tie is decided by what float32 has lost. Values are
    float64, or float32.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        near = np.asarray(values.astype(np.float32))
    bits = near.view(np.uint32)
    ties = (bits & np.uint32(0xFFFF)) == 0x8000
    if values.dtype != np.float32 and ties.any():
        exact, rounded = np.abs(values[ties]), np.abs(near[ties]).astype(np.float64)
        bits[ties] += (exact > rounded).astype(np.uint32) - (exact < rounded).astype(np.uint32)
    rounding = np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    result = ((bits + rounding) >> np.uint32(16)).astype(np.uint16)
    return np.where(np.isnan(values), _BFLOAT16_NAN, result)
