"""Where wrong elements are, in words that name the bug."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from astra_tui.lab.check.judge import FIRST_WRONG, judge_output
from astra_tui.lab.check.pattern import pattern_of
from astra_tui.model.dtypes import DType
from astra_tui.model.task import Tolerance


def columns(width: int, *wrong: int | slice, rows: int = 3) -> object:
    mask = np.zeros((rows, width), bool)
    for where in wrong:
        mask[:, where] = True
    return mask


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        (columns(13, slice(8, 13)), "in columns from d - d % 8 (8) on, in all rows"),
        (columns(13, slice(12, 13)), "in columns d - 1 (12) alone, in all rows"),
        (columns(15, slice(12, 15)), "in columns from d - d % 4 (12) on, in all rows"),
        (columns(37, slice(32, 37)), "in columns from d - d % 8 = d - d % 16 (32) on, in all rows"),
        (columns(16, slice(8, 16)), "in columns from d / 2 (8) on, in all rows"),
        (columns(16, slice(0, 8)), "in columns before d / 2 (8), in all rows"),
        (columns(16, slice(3, 16, 4)), "in columns, every 4 from 3, in all rows"),
        (columns(16, slice(1, 8), slice(9, 16)),
         "in all columns but every 8 from 0, in all rows"),
        (columns(16, slice(0, 5), slice(6, 16)), "in all columns but 5, in all rows"),
        (columns(16, slice(4, 6)), "in columns 4 to 5, in all rows"),
        (columns(16, slice(0, 16)), "everywhere"),
        (columns(16), ""),
        (columns(16, slice(0, 16), rows=1), "everywhere"),
        (np.eye(4, dtype=bool), "at 25% of: in all columns, in all rows"),
        (columns(9, slice(0, 9)).T[:, :1] & (np.arange(9)[:, None] == 8),
         "in all columns, in rows n - 1 (8) alone"),
    ],
)  # fmt: skip
def test_the_words_name_the_bound(mask: np.ndarray, words: str) -> None:
    assert pattern_of(mask, ("n", "d")) == words


@given(arrays(bool, array_shapes(max_dims=3, max_side=9)))
def test_any_mask_has_words(mask: np.ndarray) -> None:
    words = pattern_of(mask, ("n", "2 * d", "8")[: mask.ndim])
    assert bool(words) == bool(mask.any())
    assert (words == "everywhere") == (bool(mask.all()) and mask.size > 0)


@given(st.integers(1, 40), st.sampled_from([2, 4, 8]))
def test_a_forgotten_tail_is_told_with_its_first_elements(width: int, vector: int) -> None:
    reference = np.ones((2, width))
    got = reference.copy()
    got[:, width - width % vector :] = 0
    bits = got.astype(np.float32).view(np.uint32)
    judged = judge_output(
        "out", bits, reference, DType.FLOAT32, Tolerance(1e-5, 1e-5, 1e-4, "test"), sizes=("n", "d")
    )
    tail = width % vector
    assert judged.ok == (tail == 0)
    assert len(judged.first) == min(FIRST_WRONG, 2 * tail)
    if tail and tail < width:
        assert judged.first[0].at == (0, width - tail)
        assert "in all rows" in judged.pattern
        assert judged.describe_wrong()[1] == f"out[0, {width - tail}] is 0, should be 1"
