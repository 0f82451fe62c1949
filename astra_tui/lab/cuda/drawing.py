"""Random numbers that the device and NumPy draw alike, bit by bit (a NaN may have other bits).

Inputs of timed launches are drawn on the device; the judge draws the few that it needs again, so
that it never has to believe the process in which candidates ran. The twin is `value` in tools.cu.

Everything is drawn as float32, whatever the type: of whole numbers beyond 2**24 only some occur.
"""

from __future__ import annotations

import hashlib
import math
import struct
from typing import Any

import numpy as np
from msgspec.structs import replace

from astra_tui.lab.check.encoding import encode
from astra_tui.lab.cuda.messages import Fill
from astra_tui.model.dtypes import DType

POOL = 8
"""Special values that can be planted at most."""

_KINDS = ("normal", "uniform", "integers", "constant", "arange")
_LARGEST = float(np.finfo(np.float32).max)
_LARGEST_WHOLE = float(np.nextafter(np.float32(2.0**63), np.float32(0)))
"""The device counts in 64 bits with a sign."""

_FLOATS = (DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32, DType.FLOAT64)


def seed_of(seed: int, name: str) -> int:
    """The seed of one buffer, 64 bits; every set of it is drawn from a seed that follows."""
    digest = hashlib.sha256(f"{seed}|{name}".encode()).digest()
    return int.from_bytes(digest[:8], "little")


def draw_parameters(fill: Fill, seed: int, elements: int, stride: int) -> bytes:
    """What `draw` of tools.cu takes after the address; `stride` is bytes from set to set."""
    fill = _in_single(fill)
    pool = (*fill.planted, *[0.0] * POOL)[:POOL]
    return struct.pack(
        "<QQQiifffi8f",
        seed,
        elements,
        stride,
        _KINDS.index(fill.kind),
        _type_code(DType(fill.dtype)),
        fill.low,
        fill.high,
        fill.limit,
        min(len(fill.planted), POOL),
        *pool,
    )


def draw(fill: Fill, seed: int, number: int, indices: Any) -> Any:
    """The elements of set `number` at flat indices, as bit patterns of their type."""
    fill = _in_single(fill)
    with np.errstate(over="ignore"):
        of_set = _mix(np.array([seed], np.uint64) + np.uint64(number))
        values = _values(fill, of_set, np.asarray(indices, np.uint64))
    return encode(values, DType(fill.dtype))


def _in_single(fill: Fill) -> Fill:
    """The same with numbers that float32 has, so that both twins begin with the same.

    Finite numbers stay finite. The ends of a range of whole numbers are rounded inwards.
    """
    low, high = _single(fill.low), _single(fill.high)
    if fill.kind in ("integers", "arange"):
        low, high = _whole_within(fill.low, fill.high)
    planted = tuple(_single(value) for value in fill.planted)
    return replace(fill, low=low, high=high, limit=_single(fill.limit), planted=planted)


def _single(value: float) -> float:
    finite = min(max(value, -_LARGEST), _LARGEST) if math.isfinite(value) else value
    return float(np.float32(finite))


def _whole_within(low: float, high: float) -> tuple[float, float]:
    """The outermost float32 numbers from `low` to `high`; one beside them where there is none."""
    nearest_low, nearest_high = np.float32(low), np.float32(min(high, _LARGEST_WHOLE))
    if nearest_low < low:
        nearest_low = np.nextafter(nearest_low, np.float32(np.inf))
    if nearest_high > high:
        nearest_high = np.nextafter(nearest_high, np.float32(-np.inf))
    return float(min(nearest_low, nearest_high)), float(nearest_high)


def _type_code(dtype: DType) -> int:
    """The enum Type of tools.cu: integers of one size are written alike."""
    if dtype in _FLOATS:
        return _FLOATS.index(dtype)
    return len(_FLOATS) + dtype.size.bit_length() - 1


def _values(fill: Fill, seed: Any, i: Any) -> Any:
    base = seed + np.uint64(3) * i
    a, b, c = _mix(base), _mix(base + np.uint64(1)), _mix(base + np.uint64(2))
    values = _unplanted(fill, i, a, b)
    if fill.limit > 0 and fill.kind != "constant":
        limit = np.float32(fill.limit)
        values = np.minimum(np.maximum(values, -limit), limit)
    planted = fill.planted[:POOL]
    if planted:
        pool = np.array(planted, np.float32)
        chosen = (c & np.uint64(15)) == 0
        which = ((c >> np.uint64(4)) % np.uint64(len(planted))).astype(np.int64)
        values = np.where(chosen, pool[which], values)
    return values


def _unplanted(fill: Fill, i: Any, a: Any, b: Any) -> Any:
    low, high = np.float32(fill.low), np.float32(fill.high)
    match fill.kind:
        case "normal":
            total = (_parts(a) + _parts(b) - 262140).astype(np.float32)
            return total * np.float32(1.0 / 53510.0) * high + low
        case "uniform":
            unit = (a >> np.uint64(40)).astype(np.float32) * np.float32(1.0 / 16777216.0)
            return unit * (high - low) + low
        case "integers":
            span = np.uint64(int(high) - int(low) + 1)
            of_low = np.array([int(low)]).astype(np.uint64)
            return (of_low + a % span).astype(np.int64).astype(np.float32)
        case "arange":
            return (i % np.uint64(int(high) + 1)).astype(np.float32)
    return np.full(i.shape, low, np.float32)


def _mix(x: Any) -> Any:
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _parts(h: Any) -> Any:
    mask = np.uint64(0xFFFF)
    total = (
        (h & mask)
        + (h >> np.uint64(16) & mask)
        + (h >> np.uint64(32) & mask)
        + (h >> np.uint64(48))
    )
    return total.astype(np.int64)
