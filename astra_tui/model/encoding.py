"""Between float64 (or int64) values and the bit patterns that lie in a kernel's memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from astra_tui.model.dtypes import DType

_NUMPY = {
    DType.FLOAT16: np.float16,
    DType.FLOAT32: np.float32,
    DType.FLOAT64: np.float64,
    DType.BOOL: np.uint8,
}


def raw_dtype(dtype: DType) -> np.dtype[Any]:
    """The unsigned integer type of the same size."""
    return np.dtype(f"u{dtype.size}")


def encode(values: Any, dtype: DType) -> Any:
    """Values to bit patterns, floats rounded to nearest even."""
    if dtype is DType.BFLOAT16:
        return _to_bfloat16(np.asarray(values, np.float64))
    with np.errstate(over="ignore", invalid="ignore"):
        typed = np.asarray(values).astype(_NUMPY.get(dtype, dtype.value))
    return np.ascontiguousarray(typed).view(raw_dtype(dtype))


def decode(bits: Any, dtype: DType) -> Any:
    """Bit patterns to float64, or to int64 for integers (uint64 wraps)."""
    with np.errstate(invalid="ignore"):  # Signalling NaNs become quiet ones.
        if dtype is DType.BFLOAT16:
            wide = np.asarray(bits).astype(np.uint32) << np.uint32(16)
            return wide.view(np.float32).astype(np.float64)
        typed = np.ascontiguousarray(bits).view(_NUMPY.get(dtype, dtype.value))
        return typed.astype(np.float64 if dtype.is_float else np.int64)


def ulp_distance(a: Any, b: Any, dtype: DType) -> Any:
    """How many representable values lie between two arrays of bit patterns of finite floats."""
    first, second = _ordered(a, dtype), _ordered(b, dtype)
    return (np.maximum(first, second) - np.minimum(first, second)).astype(np.float64)


def spacing(dtype: DType) -> float:
    """The distance between the smallest representable values (subnormals)."""
    mantissa = {DType.FLOAT16: 10, DType.BFLOAT16: 7, DType.FLOAT32: 23, DType.FLOAT64: 52}[dtype]
    return dtype.smallest_normal * 2.0**-mantissa


def _ordered(bits: Any, dtype: DType) -> Any:
    """Whole numbers in the order of the floats; both zeros are the same one."""
    bits = np.asarray(bits)
    sign = bits.dtype.type(1 << (8 * dtype.size - 1))
    magnitude = bits & (sign - bits.dtype.type(1))
    return np.where(bits & sign, sign - magnitude, sign + magnitude)


def _to_bfloat16(values: Any) -> Any:
    """Rounds once: by way of float32, where a tie is decided by what float32 has lost."""
    with np.errstate(over="ignore", invalid="ignore"):
        near = np.asarray(values.astype(np.float32))
    bits = near.view(np.uint32)
    ties = (bits & np.uint32(0xFFFF)) == 0x8000
    if ties.any():
        exact, rounded = np.abs(values[ties]), np.abs(near[ties]).astype(np.float64)
        bits[ties] += (exact > rounded).astype(np.uint32) - (exact < rounded).astype(np.uint32)
    rounding = np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    result = ((bits + rounding) >> np.uint32(16)).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), result)
