"""Arithmetic as the GPU does it, where NumPy differs: bfloat16, fused multiply-add, rounding."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any
"""A NumPy array or scalar; registers hold scalars where all threads agree."""

_F32_MIN_NORMAL = np.float32(2.0**-126)
_LOW_29_BITS = np.uint64(0x1FFF_FFFF)
_HALF_OF_F32 = np.uint64(0x1000_0000)
_FEW = 1024
"""Threads of which `np.where` chooses in less time than `blend` takes, however the mask varies."""
_SIGN, _TWO, _LARGEST_SUBNORMAL = np.uint32(1), np.uint32(2), np.uint32(0xFF_FFFC)


def bf16_to_f32(bits: Array) -> Array:
    """bfloat16 bits (uint16) to float32."""
    return (np.asarray(bits).astype(np.uint32) << np.uint32(16)).view(np.float32)[()]


def f32_to_bf16(value: Array) -> Array:
    """float32 to bfloat16 bits, rounded to nearest even; NaN becomes 0x7FFF as on the GPU."""
    bits = np.asarray(value, np.float32).view(np.uint32)
    rounding = np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    rounded: Array = ((bits + rounding) >> np.uint32(16)).astype(np.uint16)
    result: Array = np.where(np.isnan(value), np.uint16(0x7FFF), rounded)
    return result[()]


def canonical_nan(bits: Array) -> Array:
    """float32 bits that arithmetic has left (uint32): each NaN is 0x7FFFFFFF as on the GPU."""
    is_nan = (bits & np.uint32(0x7FFF_FFFF)) > np.uint32(0x7F80_0000)
    return np.where(is_nan, np.uint32(0x7FFF_FFFF), bits)[()] if is_nan.any() else bits


def f64_to_f32(value: Array, mode: str = "rn") -> Array:
    """float64 to float32 in one of PTX's rounding modes: rn, rz, rm (down) or rp (up)."""
    value = np.asarray(value, np.float64)
    nearest = value.astype(np.float32)
    return (nearest if mode == "rn" else _towards(mode, nearest, value - nearest))[()]


def _towards(mode: str, nearest: Array, excess: Array) -> Array:
    """The float32 on the wanted side of values that exceed their nearest float32 by so much."""
    too_high, too_low = excess < 0, excess > 0
    if mode == "rz":
        too_high, too_low = too_high & (nearest > 0), too_low & (nearest < 0)
    if mode != "rp":
        nearest = np.where(too_high, np.nextafter(nearest, np.float32(-np.inf)), nearest)
    if mode != "rm":
        nearest = np.where(too_low, np.nextafter(nearest, np.float32(np.inf)), nearest)
    return nearest


def f64_to_bf16(value: Array) -> Array:
    """float64 to bfloat16 bits with a single rounding."""
    return f32_to_bf16(_to_odd_f32(np.asarray(value, np.float64)))


def _to_odd_f32(value: Array) -> Array:
    """float64 to float32, an inexact result ending in a 1 bit, so that rounding again is safe."""
    toward_zero = np.asarray(f64_to_f32(value, "rz"))
    inexact = (toward_zero.astype(np.float64) != value) & np.isfinite(toward_zero)
    bits = toward_zero.view(np.uint32)
    return np.where(inexact, bits | np.uint32(1), bits).view(np.float32)


def all_bits(which: Array, size: int) -> Array:
    """Unsigned integers of `size` bytes with all bits set where a mask is, and none elsewhere."""
    if size == 1:
        return np.negative(which.view(np.uint8))
    return np.negative(which.astype(f"u{size}"))


def chosen(which: Array, first: Array, second: Array) -> Array:
    """The first value where a mask is, else the second; both of one type."""
    if len(which) <= _FEW:
        return np.where(which, first, second)
    return blend(all_bits(which, first.itemsize), first, second)


def blend(bits: Array, first: Array, second: Array) -> Array:
    """The first value where `all_bits` has bits, else the second; both of one type.

    As `np.where`, whose time depends on how the mask varies.
    """
    mine, others = first.view(bits.dtype), second.view(bits.dtype)
    mixed = (mine ^ others) & bits
    mixed ^= others
    return mixed.view(first.dtype)


def flush(value: Array) -> Array:
    """Subnormal float32 values to zero of the same sign (`.ftz`)."""
    small = np.abs(value) < _F32_MIN_NORMAL
    flushed = np.where(small, np.copysign(np.float32(0), value), value)
    return np.asarray(flushed)[()]


def saturate(value: Array) -> Array:
    """Clamps to [0, 1]; NaN and -0 become 0 (`.sat`)."""
    dtype = np.asarray(value).dtype
    return (np.minimum(np.fmax(value, 0), 1) + 0).astype(dtype, copy=False)[()]


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded sum, and exactly what rounding lost (Knuth's TwoSum, float64)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def fma_f32(a: Array, b: Array, c: Array, mode: str = "rn") -> Array:
    """float32 fused multiply-add with a single rounding.

    The float64 product of two floats is exact; their sum with c is rounded once to float64, and
    matters only where that result lies exactly between two floats: there the lost part decides.
    """
    product = np.asarray(a).astype(np.float64) * b
    if mode != "rn":
        return _directed(product, np.asarray(c, np.float64), mode)
    total = np.asarray(product + c)
    result = total.astype(np.float32)
    doubtful = (total.view(np.uint64) & _LOW_29_BITS) == _HALF_OF_F32
    # Subnormal: zero alone becomes the largest number below.
    doubtful |= (result.view(np.uint32) << _SIGN) - _TWO <= _LARGEST_SUBNORMAL
    if np.count_nonzero(doubtful):
        at = np.flatnonzero(doubtful)
        exact, addend = (_at(v, at) for v in (product, np.asarray(c, np.float64)))
        if np.count_nonzero(two_sum(exact, addend)[1]):
            nudged = _nudge(exact, addend, _at(total, at))
            result.reshape(-1)[at] = nudged.astype(np.float32)
    return result[()]


def _at(values: Array, at: Array) -> Array:
    """Some of the values of threads; the one value where all agree."""
    return values[at] if np.ndim(values) else values


def sum_f32(a: Array, b: Array, mode: str) -> Array:
    """float32 sum in a directed rounding mode."""
    return _directed(np.asarray(a).astype(np.float64), np.asarray(b).astype(np.float64), mode)


def _directed(a: Array, b: Array, mode: str) -> Array:
    """The exact sum of two float64 values, rounded once to float32 towards rz, rm or rp."""
    total = np.asarray(a + b)
    nearest = total.astype(np.float32)
    excess = total - nearest
    # Where float64 lost nothing that shows, what it lost still tells on which side the sum lies.
    hidden = (excess == 0) & np.isfinite(total)
    if np.count_nonzero(hidden):
        excess = np.where(hidden, two_sum(a, b)[1], excess)
    result = _towards(mode, nearest, excess)
    if mode == "rm":
        # Only here is an exact zero negative, unless both parts are positive zeros.
        cancelled = (result == 0) & (total == 0) & (np.signbit(a) | np.signbit(b))
        if cancelled.any():
            result = np.where(cancelled, np.float32(-0.0), result)
    return result[()]


def _nudge(product: Array, c: Array, total: Array) -> Array:
    """Moves float64 results that lie between two floats towards the part that rounding lost."""
    total, lost = two_sum(product, c)
    scaled = np.abs(np.asarray(total)) * 2.0**149
    subnormal = (np.abs(total) < 2.0**-126) & (np.mod(scaled, 1.0) == 0.5)
    bits = np.asarray(total).view(np.uint64)
    on_float = (bits & _LOW_29_BITS) == np.uint64(0)
    between = ((bits & _LOW_29_BITS) == _HALF_OF_F32) | subnormal | on_float
    inexact = (lost != 0) & np.isfinite(lost) & between
    direction = np.where(lost > 0, np.inf, -np.inf)
    return np.where(inexact, np.nextafter(total, direction), total)


def fma_f64(a: Array, b: Array, c: Array) -> Array:
    """float64 fused multiply-add (Boldo and Melquiond: exact product, sum rounded to odd)."""
    a, b, c = np.broadcast_arrays(*(np.asarray(x, np.float64) for x in (a, b, c)))
    result = _fma_in_range(a, b, c)
    # The product alone may leave the range although the sum does not.
    overflowed = np.isinf(a * b) & np.isfinite(a) & np.isfinite(b)
    if overflowed.any():
        scale = 2.0**-60
        scaled = _fma_in_range(a * scale, b * scale, c * scale * scale) / scale / scale
        result = np.where(overflowed, np.where(np.isinf(c), c, scaled), result)
    return result[()]


def _fma_in_range(a: Array, b: Array, c: Array) -> Array:
    high = a * b
    low = _product_error(a, b, high)
    upper, upper_lost = two_sum(c, low)
    total, total_lost = two_sum(high, upper)
    result = total + _add_to_odd(total_lost, upper_lost)
    plain = high + c
    fused = np.isfinite(result) & (result != 0)
    return np.where(fused, result, plain)


def _product_error(a: Array, b: Array, product: Array) -> Array:
    """What rounding lost in a * b (Dekker, with Veltkamp's splitting)."""
    a_high, a_low = _split(a)
    b_high, b_low = _split(b)
    return ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _split(value: Array) -> tuple[Array, Array]:
    scaled = value * 134_217_729.0
    high = scaled - (scaled - value)
    return high, value - high


def _add_to_odd(a: Array, b: Array) -> Array:
    total, lost = two_sum(a, b)
    bits = np.asarray(total).view(np.uint64)
    even = (bits & np.uint64(1)) == 0
    direction = np.where(lost > 0, np.inf, -np.inf)
    return np.where((lost != 0) & even, np.nextafter(total, direction), total)


def mul_high_64(a: Array, b: Array, signed: bool) -> Array:
    """The upper 64 bits of a 128-bit product."""
    a, b = np.asarray(a).view(np.uint64), np.asarray(b).view(np.uint64)
    mask, shift = np.uint64(0xFFFF_FFFF), np.uint64(32)
    a_low, a_high, b_low, b_high = a & mask, a >> shift, b & mask, b >> shift
    middle = a_high * b_low + ((a_low * b_low) >> shift)
    other = a_low * b_high + (middle & mask)
    high = a_high * b_high + (middle >> shift) + (other >> shift)
    if signed:
        high = high - np.where(a >> np.uint64(63), b, np.uint64(0))
        high = high - np.where(b >> np.uint64(63), a, np.uint64(0))
    return high


def bit_length(value: Array) -> Array:
    """Position of the highest set bit, counted from 1; 0 for zero. For unsigned arrays."""
    value = np.asarray(value).astype(np.uint64)
    length = np.zeros(value.shape, np.uint32)
    for step in (32, 16, 8, 4, 2, 1):
        big = value >> np.uint64(step) != 0
        length = length + np.where(big, np.uint32(step), np.uint32(0))
        value = np.where(big, value >> np.uint64(step), value)
    return length + (value != 0).astype(np.uint32)


def reverse_bits(value: Array) -> Array:
    """Bits in the opposite order, for uint32 and uint64."""
    value = np.ascontiguousarray(value)
    count = value.dtype.itemsize
    raw = value.reshape(-1).view(np.uint8).reshape(-1, count)
    flipped = np.packbits(np.unpackbits(raw, axis=1, bitorder="little"), axis=1, bitorder="big")
    return np.ascontiguousarray(flipped[:, ::-1]).view(value.dtype).reshape(value.shape)[()]
