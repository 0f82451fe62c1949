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
    if dtype is DType.BFLOAT16:
        wide = np.asarray(bits).astype(np.uint32) << np.uint32(16)
        return wide.view(np.float32).astype(np.float64)
    typed = np.ascontiguousarray(bits).view(_NUMPY.get(dtype, dtype.value))
    return typed.astype(np.float64 if dtype.is_float else np.int64)


def ulp_distance(a: Any, b: Any, dtype: DType) -> Any:
    """How many representable values lie between two arrays of bit patterns of finite floats."""
    return np.abs(_ordered(a, dtype) - _ordered(b, dtype))


def spacing(dtype: DType) -> float:
    """The distance between the smallest representable values (subnormals)."""
    mantissa = {DType.FLOAT16: 10, DType.BFLOAT16: 7, DType.FLOAT32: 23, DType.FLOAT64: 52}[dtype]
    return dtype.smallest_normal * 2.0**-mantissa


def _ordered(bits: Any, dtype: DType) -> Any:
    """Signed integers in the order of the floats."""
    width = 8 * dtype.size
    wide = np.asarray(bits).astype(np.int64)
    if width == 64:
        return np.where(wide < 0, np.int64(-(2**63)) - wide, wide).astype(np.float64)
    magnitude = wide & ((1 << (width - 1)) - 1)
    return np.where(wide >> (width - 1), -magnitude, magnitude)


def _to_bfloat16(values: Any) -> Any:
    """Rounds once: float64 to float32 towards zero with a sticky bit, then to bfloat16."""
    with np.errstate(over="ignore", invalid="ignore"):
        near = values.astype(np.float32)
    beyond = np.abs(near.astype(np.float64)) > np.abs(values)
    down = np.where(beyond, np.nextafter(near, np.float32(0)), near).astype(np.float32)
    inexact = (down.astype(np.float64) != values) & np.isfinite(values)
    bits = down.view(np.uint32) | inexact.astype(np.uint32)
    rounding = np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    rounded = ((bits + rounding) >> np.uint32(16)).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded)
