from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tui.gpu.timing.intervals import median_interval, order_statistic_ranks


@pytest.mark.parametrize(
    ("n", "lower", "upper"),
    [(6, 1, 6), (20, 6, 15), (100, 40, 61), (200, 86, 115), (400, 180, 221)],
)
def test_ranks_of_tables(n: int, lower: int, upper: int) -> None:
    ranks = order_statistic_ranks(n)
    assert ranks is not None
    assert ranks[:2] == (lower, upper)


def test_coverage_of_100_is_the_known_one() -> None:
    ranks = order_statistic_ranks(100)
    assert ranks is not None
    assert ranks.coverage == pytest.approx(0.9648, abs=5e-5)


@pytest.mark.parametrize("n", range(6))
def test_too_few_values_have_no_interval(n: int) -> None:
    assert order_statistic_ranks(n) is None


@given(st.integers(1, 300), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_ranks_are_the_innermost_that_cover(n: int, confidence: float) -> None:
    def coverage(lower: int) -> float:
        return 1 - 2 * sum(math.comb(n, k) for k in range(lower)) / 2**n

    ranks = order_statistic_ranks(n, confidence)
    if ranks is None:
        assert coverage(1) < confidence or n < 2
        return
    assert ranks.upper == n + 1 - ranks.lower
    assert ranks.coverage == pytest.approx(coverage(ranks.lower))
    assert ranks.coverage >= confidence
    assert coverage(ranks.lower + 1) < confidence or 2 * (ranks.lower + 1) > n


@pytest.mark.parametrize("confidence", [0, 1, 1.5])
def test_a_confidence_is_a_probability(confidence: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        order_statistic_ranks(10, confidence)


def test_an_interval_of_few_values_is_infinite() -> None:
    assert median_interval(np.arange(5.0)) == (2.0, -math.inf, math.inf)


@given(st.lists(st.floats(-1e6, 1e6), min_size=6, max_size=60))
def test_an_interval_holds_its_median(values: list[float]) -> None:
    median, low, high = median_interval(np.array(values))
    assert low <= median <= high
    assert median == pytest.approx(np.median(values))
    assert {float(low), float(high)} <= set(values)


@pytest.mark.parametrize("n", [6, 20, 50, 101])
@pytest.mark.parametrize("law", ["normal", "exponential", "standard_cauchy"])
def test_coverage_is_the_computed_one_whatever_the_law(n: int, law: str) -> None:
    """4,000 samples each; 4 standard errors of a proportion near 0.965 are 0.012."""
    random = np.random.default_rng(n)
    truth = math.log(2) if law == "exponential" else 0.0
    _, low, high = median_interval(getattr(random, law)(size=(4000, n)))
    ranks = order_statistic_ranks(n)
    assert ranks is not None
    assert np.mean((low <= truth) & (truth <= high)) == pytest.approx(ranks.coverage, abs=0.012)
