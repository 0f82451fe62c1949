"""Bit patterns of every element type, against NumPy and torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from astra_tui.model.dtypes import DType
from astra_tui.model.encoding import decode, encode, spacing, ulp_distance

FLOATS = (DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32, DType.FLOAT64)
TORCH = {
    DType.FLOAT16: torch.float16,
    DType.BFLOAT16: torch.bfloat16,
    DType.FLOAT32: torch.float32,
    DType.FLOAT64: torch.float64,
}
values = st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=50)


@pytest.mark.parametrize("dtype", FLOATS)
@given(values=values)
def test_floats_round_as_torch_rounds_them(dtype: DType, values: list[float]) -> None:
    data = np.array(values)
    wanted = torch.from_numpy(data).to(TORCH[dtype]).to(torch.float64).numpy()
    np.testing.assert_array_equal(decode(encode(data, dtype), dtype), wanted)


@given(st.lists(st.floats(allow_nan=False), min_size=1, max_size=50))
def test_bfloat16_is_rounded_once(values: list[float]) -> None:
    """Going through float32 would round twice, and differently between two bfloat16 values."""
    got = decode(encode(np.array(values), DType.BFLOAT16), DType.BFLOAT16)
    for value, near in zip(values, got, strict=True):
        if not np.isfinite(near):
            assert abs(value) > DType.BFLOAT16.largest
            continue
        step = max(abs(near) * 2.0**-7, spacing(DType.BFLOAT16))
        assert abs(value - near) <= step / 2 * (1 + 1e-12)


@pytest.mark.parametrize("dtype", FLOATS)
def test_every_sixteen_bit_pattern_survives(dtype: DType) -> None:
    if dtype.size != 2:
        bits = np.random.Generator(np.random.Philox(1)).integers(0, 1 << 32, 999)
        bits = bits.astype(f"u{dtype.size}") << np.array(8 * (dtype.size - 4), f"u{dtype.size}")
    else:
        bits = np.arange(1 << 16).astype(np.uint16)
    numbers = bits[~np.isnan(decode(bits, dtype))]
    assert (encode(decode(numbers, dtype), dtype) == numbers).all()


@pytest.mark.parametrize("dtype", [d for d in DType if not d.is_float])
def test_integers_keep_their_limits(dtype: DType) -> None:
    low, high = dtype.integer_range
    kept = decode(encode(np.array([low, high], object), dtype), dtype)
    assert kept[0] == low
    assert kept[1] == (high if dtype is not DType.UINT64 else -1)


@pytest.mark.parametrize("dtype", FLOATS)
def test_neighbours_are_one_ulp_apart(dtype: DType) -> None:
    tiny = spacing(dtype)
    pairs = encode(np.array([0.0, tiny, -tiny, 1.0]), dtype)
    assert ulp_distance(pairs[0:1], pairs[1:2], dtype)[0] == 1
    assert ulp_distance(pairs[2:3], pairs[1:2], dtype)[0] == 2
    beyond_one = pairs[3:4] + pairs.dtype.type(1)
    assert ulp_distance(pairs[3:4], beyond_one, dtype)[0] == 1
