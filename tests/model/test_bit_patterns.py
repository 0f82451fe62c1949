"""Bit patterns of every element type, against NumPy and torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from astra_tui.model.bit_patterns import (
    codes,
    decode,
    encode,
    narrow_values,
    rounding_reach,
    ulp_distance,
)
from astra_tui.model.dtypes import DType, item_shape

FLOATS = tuple(d for d in DType if d.is_float and d.per_item == 1)
NARROW = tuple(d for d in DType if d.is_narrow)
values = st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=50)


@pytest.mark.parametrize("dtype", FLOATS)
@given(values=values)
def test_floats_round_as_torch_rounds_them(dtype: DType, values: list[float]) -> None:
    data = np.array(values)
    if not dtype.has_infinity:  # There torch has NaN for what is too large.
        data = np.clip(data, -dtype.largest, dtype.largest)
    wanted = torch.from_numpy(data).to(getattr(torch, dtype.torch)).to(torch.float64).numpy()
    np.testing.assert_array_equal(decode(encode(data, dtype), dtype), wanted)


@given(st.lists(st.floats(allow_nan=False), min_size=1, max_size=50))
def test_bfloat16_is_rounded_once(values: list[float]) -> None:
    """Going through float32 would round twice, and differently between two bfloat16 values."""
    got = decode(encode(np.array(values), DType.BFLOAT16), DType.BFLOAT16)
    for value, near in zip(values, got, strict=True):
        if not np.isfinite(near):
            assert abs(value) > DType.BFLOAT16.largest
            continue
        step = max(abs(near) * 2.0**-7, DType.BFLOAT16.smallest_step)
        assert abs(value - near) <= step / 2 * (1 + 1e-12)


@pytest.mark.parametrize("dtype", FLOATS)
def test_every_pattern_of_up_to_sixteen_bits_survives(dtype: DType) -> None:
    if dtype.size == 1:
        bits = np.arange(1 << 8).astype(np.uint8)
    elif dtype.size != 2:
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
    tiny = dtype.smallest_step
    pairs = encode(np.array([0.0, tiny, -tiny, 1.0]), dtype)
    assert ulp_distance(pairs[0:1], pairs[1:2], dtype)[0] == 1
    assert ulp_distance(pairs[2:3], pairs[1:2], dtype)[0] == 2
    beyond_one = pairs[3:4] + pairs.dtype.type(1)
    assert ulp_distance(pairs[3:4], beyond_one, dtype)[0] == 1


@pytest.mark.parametrize("dtype", [d for d in NARROW if d.per_item == 1])
def test_every_code_of_eight_bits_means_what_torch_says(dtype: DType) -> None:
    every = np.arange(256).astype(np.uint8)
    wanted = torch.from_numpy(every).view(getattr(torch, dtype.torch)).double().numpy()
    np.testing.assert_array_equal(decode(every, dtype), wanted)
    nan = np.isnan(wanted)
    assert set(encode(wanted[nan], dtype).tolist()) == {0x7F}


def test_four_bits_hold_sixteen_values_and_pairs_share_a_byte() -> None:
    dtype = DType.FLOAT4_E2M1FN
    magnitudes = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
    assert narrow_values(dtype).tolist() == [*magnitudes, *(-m for m in magnitudes)]
    values = np.array([[0.5, -6.0, 2.5, 1.0], [100.0, np.nan, -0.0, 5.0]])
    packed = encode(values, dtype)
    assert packed.tolist() == [[0xF1, 0x24], [0x77, 0x68]]  # 2.5 and 5 are ties: to even.
    assert decode(packed, dtype).tolist() == [[0.5, -6.0, 2.0, 1.0], [6.0, 6.0, -0.0, 4.0]]
    assert item_shape((3, 4), dtype) == (3, 2)


@pytest.mark.parametrize("dtype", NARROW)
@given(values=st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=50))
def test_a_narrow_code_is_the_nearest_and_reaches_half_a_step(
    dtype: DType, values: list[float]
) -> None:
    data = np.array(values[: len(values) // 2 * 2])
    bits = encode(data, dtype)
    got, (towards, away) = decode(bits, dtype), rounding_reach(dtype)
    every = narrow_values(dtype)
    nearest = np.abs(every[np.isfinite(every)] - data[:, None]).min(1)
    finite = np.isfinite(got)
    assert (np.abs(got - data) == nearest)[finite].all()
    reach = np.where(
        np.abs(data) > np.abs(got), away[codes(bits, dtype)], towards[codes(bits, dtype)]
    )
    inside = finite & (np.abs(data) <= dtype.largest)
    assert (np.abs(got - data) <= reach)[inside].all()
