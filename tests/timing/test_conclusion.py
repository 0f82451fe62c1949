from __future__ import annotations

import numpy as np
import pytest

from astra_tui.gpu.timing.conclusion import conclude
from astra_tui.gpu.timing.intervals import Floats
from astra_tui.gpu.timing.pairing import BadSamples, PairedRounds
from astra_tui.gpu.timing.stopping import decide
from astra_tui.model.timing import TimingVerdict
from tests.timing.synthetic import LAUNCHES, Machine, measure


def rounds_of(double: Floats) -> PairedRounds:
    """Rounds whose T(N) leave no offset."""
    rows = list(range(4, len(double), 5))
    return PairedRounds.start(LAUNCHES, 3).add(double, double[rows] / 2, rows)


def replays(candidate_us: float, noise: float = 0.001) -> Floats:
    taken = Machine(noise=noise, offset_us=0).replay(
        np.random.default_rng(41), [3, 3, candidate_us], 1, 100
    )
    return taken.double[0]


def test_it_says_all_that_the_rounds_allow() -> None:
    rounds = rounds_of(replays(2.5))
    said = conclude(rounds, candidate=2, control=1)
    assert said.verdict is TimingVerdict.FASTER
    assert said.speedup == rounds.ratio(2)
    assert said.control == rounds.ratio(1)
    assert said.threshold == pytest.approx(0.003, abs=0.0005)
    assert (said.rounds_to_add, said.caveats) == (0, ())


def test_any_version_may_be_the_base() -> None:
    rounds = rounds_of(replays(2.5))
    assert conclude(rounds, candidate=0, control=1, base=0).verdict is TimingVerdict.SAME
    assert conclude(rounds, candidate=1, control=2, base=2).control == rounds.ratio(2, 2)


def test_a_ratio_that_moves_within_the_threshold_is_not_the_same() -> None:
    double = replays(3, noise=0.0002)
    double[:50, 2] *= 1.0025
    double[50:, 2] /= 1.0025
    said = conclude(rounds_of(double), candidate=2, control=1)
    assert decide(said.speedup, said.threshold) is TimingVerdict.SAME
    assert said.verdict is TimingVerdict.INCONCLUSIVE
    assert [caveat.kind for caveat in said.caveats if caveat.invalidates] == ["drift"]


def test_a_ratio_that_moves_but_is_always_faster_is_faster() -> None:
    double = replays(2.5)
    double[50:, 2] *= 1.05
    said = conclude(rounds_of(double), candidate=2, control=1)
    assert said.verdict is TimingVerdict.FASTER
    assert "drift" in [caveat.kind for caveat in said.caveats]


def test_a_noisy_control_keeps_a_small_difference_open() -> None:
    double = replays(3 / 1.01)
    double[:, 1] *= np.random.default_rng(42).normal(1, 0.02, len(double))
    said = conclude(rounds_of(double), candidate=2, control=1)
    assert said.threshold > 0.01
    assert said.verdict is not TimingVerdict.FASTER
    assert said.rounds_to_add > 0


def test_without_single_graphs_there_is_no_offset() -> None:
    rounds = PairedRounds.start(LAUNCHES, 3).add(replays(3), [], [])
    with pytest.raises(BadSamples, match="the offset needs"):
        conclude(rounds, candidate=2, control=1)


def test_a_measurement_starts_with_the_first_look() -> None:
    taken = Machine(noise=0.001).replay(np.random.default_rng(43), [3, 3, 6], 1, 400)
    assert measure(taken, 0)[0] == 40
