"""The fastest rival is chosen on other pairs than it is compared on, so luck gains nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astra_tui.gpu.timing.fastest import fastest_rival
from astra_tui.gpu.timing.overall import geometric_mean
from astra_tui.gpu.timing.pairing import BadSamples

NOISE = 0.01
TRIALS = 400


def _equal(random: np.random.Generator, rivals: int, pairs: int, heavy: bool) -> np.ndarray:
    """Rivals as fast as the candidate, whose own noise is in every ratio."""
    draw = (lambda shape: random.standard_t(3, shape)) if heavy else random.standard_normal
    candidate = draw((1, pairs))
    return NOISE * (draw((rivals, pairs)) - candidate)


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    rivals=st.integers(2, 8),
    pairs=st.integers(12, 60),
    heavy=st.booleans(),
)
def test_among_equals_the_choice_has_no_bias(
    seed: int, rivals: int, pairs: int, heavy: bool
) -> None:
    random = np.random.default_rng(seed)
    found, naive, covered = [], [], 0
    for _ in range(TRIALS):
        ratios = _equal(random, rivals, pairs, heavy)
        fastest = fastest_rival(list(ratios))
        found.append(math.log(fastest.speedup.value))
        naive.append(float(np.median(ratios, axis=1).min()))
        covered += fastest.speedup.low <= 1 <= fastest.speedup.high
    error = np.std(found) / math.sqrt(TRIALS)
    assert abs(np.mean(found)) < 5 * error
    assert np.mean(naive) < -3 * error  # What choosing and comparing on the same pairs would say.
    assert covered / TRIALS > 0.90


@given(seed=st.integers(0, 2**32 - 1), rivals=st.integers(1, 8))
def test_one_that_is_faster_is_found_and_its_lead_is_told(seed: int, rivals: int) -> None:
    random = np.random.default_rng(seed)
    ratios = _equal(random, rivals, 40, heavy=False)
    best = int(random.integers(rivals))
    ratios[best] += math.log(0.9)
    fastest = fastest_rival(list(ratios))
    assert fastest.rival == best
    assert fastest.speedup.value == pytest.approx(0.9, rel=0.02)


@given(seed=st.integers(0, 2**32 - 1))
def test_the_pairs_that_choose_do_not_compare(seed: int) -> None:
    random = np.random.default_rng(seed)
    ratios = _equal(random, 4, 24, heavy=False)
    before = fastest_rival(list(ratios))
    ratios[before.rival, ::2] -= 1.0
    after = fastest_rival(list(ratios))
    assert after.rival == before.rival
    assert after.speedup == before.speedup
    ratios[:, 1::2] += 1.0
    assert fastest_rival(list(ratios)).rival == before.rival


def test_a_geometric_mean_goes_over_shapes() -> None:
    random = np.random.default_rng(1)
    shapes = [fastest_rival(list(_equal(random, 3, 40, heavy=False) + 0.1)) for _ in range(5)]
    mean = geometric_mean([shape.log_ratios for shape in shapes])
    assert mean.value == pytest.approx(math.exp(0.1), rel=0.01)
    assert mean.rounds == 5 * 40


def test_too_few_pairs_and_unequal_ones_are_refused() -> None:
    with pytest.raises(BadSamples, match="11 pairs are too few"):
        fastest_rival([np.zeros(11)])
    with pytest.raises(BadSamples, match="no rival"):
        fastest_rival([])
    with pytest.raises(BadSamples, match="share their pairs"):
        fastest_rival([np.zeros(12), np.zeros(14)])
    with pytest.raises(BadSamples, match="no finite number"):
        fastest_rival([np.full(12, np.nan)])
