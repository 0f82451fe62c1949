"""Element types agree with NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

from astra_tui.model.dtypes import DType

_IN_NUMPY = [dtype for dtype in DType if dtype is not DType.BFLOAT16]
_FLOATS = [DType.FLOAT16, DType.FLOAT32, DType.FLOAT64]
_INTEGERS = [dtype for dtype in DType if not dtype.is_float and dtype is not DType.BOOL]


@pytest.mark.parametrize("dtype", _IN_NUMPY)
def test_sizes_are_those_of_numpy(dtype: DType) -> None:
    assert dtype.size == np.dtype(dtype.value).itemsize


@pytest.mark.parametrize("dtype", _FLOATS)
def test_ranges_of_floats_are_those_of_numpy(dtype: DType) -> None:
    info = np.finfo(dtype.value)
    assert dtype.is_float
    assert dtype.largest == float(info.max)
    assert dtype.smallest_normal == float(info.smallest_normal)


@pytest.mark.parametrize("dtype", _INTEGERS)
def test_ranges_of_integers_are_those_of_numpy(dtype: DType) -> None:
    info = np.iinfo(dtype.value)
    assert dtype.integer_range == (info.min, info.max)
    assert dtype.is_signed == (info.min < 0)


def test_bfloat16_is_the_upper_half_of_float32() -> None:
    largest = np.array([0x7F7F0000], np.uint32).view(np.float32)[0]
    smallest = np.array([0x00800000], np.uint32).view(np.float32)[0]
    assert (DType.BFLOAT16.size, DType.BFLOAT16.is_float) == (2, True)
    assert DType.BFLOAT16.largest == float(largest)
    assert DType.BFLOAT16.smallest_normal == float(smallest)


def test_bool_counts_as_zero_and_one() -> None:
    assert DType.BOOL.integer_range == (0, 1)
    assert not DType.BOOL.is_signed


@pytest.mark.parametrize("dtype", [*_FLOATS, DType.BFLOAT16])
def test_floats_have_no_integer_range(dtype: DType) -> None:
    with pytest.raises(ValueError, match=f"{dtype.value} is not an integer type"):
        _ = dtype.integer_range


def test_every_type_has_a_name_of_its_own_in_cuda() -> None:
    assert len({dtype.cuda for dtype in DType}) == len(DType)
