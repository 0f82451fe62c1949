from __future__ import annotations

import numpy as np
import pytest

from astra_tui.gpu.timing.pairing import PairedRounds
from astra_tui.gpu.timing.stability import (
    autocorrelation_caveat,
    drift_caveat,
    offset_caveat,
    outputs_caveat,
    poisons_caveat,
)

FALSE_ALARMS = 20
"""Of 2,000 sound measurements: one of a hundred."""


@pytest.mark.parametrize("pairs", [20, 50, 200])
def test_sound_rounds_raise_few_caveats(pairs: int) -> None:
    values = np.random.default_rng(pairs).normal(0, 0.003, (2000, pairs))
    assert sum(drift_caveat(v, 0.003) is not None for v in values) <= FALSE_ALARMS
    assert sum(autocorrelation_caveat(v) is not None for v in values) <= FALSE_ALARMS


def test_a_ratio_that_moves_by_more_than_the_threshold_voids() -> None:
    noise = np.random.default_rng(1).normal(0, 0.001, 100)
    moved = noise + np.where(np.arange(100) < 50, 0.0, 0.01)
    caveat = drift_caveat(moved, 0.003)
    assert caveat is not None
    assert caveat.invalidates
    assert "1.00" in caveat.message
    assert "1.01" in caveat.message


def test_a_ratio_that_moves_beyond_the_threshold_is_only_doubted() -> None:
    noise = np.random.default_rng(1).normal(0, 0.001, 100)
    moved = noise + np.where(np.arange(100) < 50, 0.02, 0.03)
    for values in (moved, -moved):
        caveat = drift_caveat(values, 0.003)
        assert caveat is not None
        assert not caveat.invalidates


def test_a_ratio_that_moves_by_less_does_not() -> None:
    noise = np.random.default_rng(1).normal(0, 0.001, 100)
    caveat = drift_caveat(noise + np.where(np.arange(100) < 50, 0.0, 0.0025), 0.003)
    assert caveat is not None
    assert not caveat.invalidates


def test_neighbours_that_are_alike_raise_a_caveat() -> None:
    fresh = np.random.default_rng(2).normal(size=200)
    smooth = np.convolve(fresh, np.ones(5) / 5, mode="valid")
    caveat = autocorrelation_caveat(smooth)
    assert caveat is not None
    assert not caveat.invalidates
    alternating = np.tile([1.0, -1.0], 50) + np.random.default_rng(3).normal(0, 0.1, 100)
    assert autocorrelation_caveat(alternating) is None


def test_a_clock_too_coarse_to_tell_rounds_apart_raises_no_caveat() -> None:
    assert autocorrelation_caveat(np.zeros(100)) is None
    coarse = np.random.default_rng(4).integers(0, 2, 200).astype(np.float64)
    assert autocorrelation_caveat(coarse) is None


def test_few_pairs_say_nothing() -> None:
    assert autocorrelation_caveat(np.arange(19.0)) is None
    assert drift_caveat(np.arange(19.0), 0.003) is None


@pytest.mark.parametrize(("offset", "doubted"), [(3.0, False), (10.0, True)])
def test_a_large_offset_raises_a_caveat(offset: float, doubted: bool) -> None:
    launches, double, single = 10, 300.0 + offset, 150.0 + offset
    rounds = PairedRounds.start(launches, 2).add(
        np.full((20, 2), double), np.full((4, 2), single), [4, 9, 14, 19]
    )
    caveat = offset_caveat(rounds)
    assert (caveat is not None) is doubted
    if caveat:
        assert "10.00 us" in caveat.message
        assert "20 launches" in caveat.message


@pytest.mark.parametrize("noise", [0.001, 0.01, 0.1])
def test_what_outputs_held_before_matters_only_where_it_does(noise: float) -> None:
    random = np.random.default_rng(7)
    sound = [random.normal(0, noise, 8) for _ in range(2000)]
    assert sum(outputs_caveat(v) is not None for v in sound) <= FALSE_ALARMS
    pairs = zip(sound[::2], sound[1::2], strict=True)
    assert sum(poisons_caveat(a, b) is not None for a, b in pairs) <= FALSE_ALARMS
    for caveat in (
        outputs_caveat(random.normal(0.9, noise, 8)),
        outputs_caveat(random.normal(-0.9, noise, 8)),
        poisons_caveat(random.normal(0.9, noise, 8), random.normal(0, noise, 8)),
    ):
        assert caveat is not None
        assert caveat.invalidates
        assert "its time depends on what its outputs held before: 1" in caveat.message
