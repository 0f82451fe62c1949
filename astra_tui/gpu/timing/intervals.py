"""Medians with intervals of known coverage, from the ranks of the values alone.

No distribution is assumed: of n independent values, the number below the true median is binomial
with p = 1/2, whatever they are drawn from. Outliers therefore cost width, never coverage.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

CONFIDENCE = 0.95


class Ranks(NamedTuple):
    """Two ranks (from 1) of sorted values, and the probability that the median is between them."""

    lower: int
    upper: int
    coverage: float


class MedianInterval(NamedTuple):
    """The median along the last axis, and its bounds; infinite where there are too few values."""

    median: Floats
    low: Floats
    high: Floats


@functools.cache
def order_statistic_ranks(n: int, confidence: float = CONFIDENCE) -> Ranks | None:
    """The innermost symmetric ranks of n values that hold the median with that confidence.

    The coverage is exact and at least `confidence`: 40 and 61 of 100 hold it with 96.5 %. None
    where even the smallest and the largest value do not suffice (n < 6 for 95 %).
    """
    if not 0 < confidence < 1:
        raise ValueError(f"a confidence lies between 0 and 1, not at {confidence}")
    total = 2**n
    outside, lower, tail = 0, 0, 0
    for rank in range(1, n // 2 + 1):
        outside += math.comb(n, rank - 1)
        if 2 * outside / total > 1 - confidence:
            break
        lower, tail = rank, outside
    if lower == 0:
        return None
    return Ranks(lower, n + 1 - lower, 1 - 2 * tail / total)


def median_interval(values: Floats, confidence: float = CONFIDENCE) -> MedianInterval:
    """Median and interval along the last axis of `values`, which must be finite and not empty."""
    n = values.shape[-1]
    ordered = np.sort(values, axis=-1)
    median = (ordered[..., (n - 1) // 2] + ordered[..., n // 2]) / 2
    ranks = order_statistic_ranks(n, confidence)
    if ranks is None:
        infinite = np.full_like(median, math.inf)
        return MedianInterval(median, -infinite, infinite)
    return MedianInterval(median, ordered[..., ranks.lower - 1], ordered[..., ranks.upper - 1])
