from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tui.gpu.timing.stopping import (
    LOOKS,
    decide,
    is_clear,
    minimum_detectable,
    rounds_to_add,
    threshold,
)
from astra_tui.model.timing import Ratio, TimingVerdict
from astra_tui.model.verdict_thresholds import MIN_DIFFERENCE
from tests.timing.synthetic import Machine, measure

FASTER, SLOWER, SAME, INCONCLUSIVE = TimingVerdict


def interval(low: float, high: float, rounds: int = 100) -> Ratio:
    return Ratio(math.sqrt(low * high), low, high, rounds)


ratios = st.tuples(st.floats(0.5, 2), st.floats(0, 0.2)).map(
    lambda t: interval(t[0] * math.exp(-t[1]), t[0] * math.exp(t[1]))
)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (1.004, 1.2, FASTER),
        (0.9, 0.996, SLOWER),
        (0.998, 1.002, SAME),
        (0.998, 1.01, INCONCLUSIVE),
        (0.99, 1.01, INCONCLUSIVE),
        (1.002, 1.004, INCONCLUSIVE),
        (0, math.inf, INCONCLUSIVE),
    ],
)
def test_verdicts(low: float, high: float, verdict: TimingVerdict) -> None:
    ratio = interval(low, high) if low else Ratio(1, low, high, 4)
    assert decide(ratio, 0.003) is verdict


def test_without_a_control_nothing_is_decided() -> None:
    assert threshold(None) == math.inf
    assert decide(interval(1.9, 2.1), threshold(None)) is INCONCLUSIVE


@given(ratios, st.floats(0.003, 0.05))
def test_exchanging_the_versions_exchanges_the_verdicts(ratio: Ratio, least: float) -> None:
    back = Ratio(1 / ratio.value, 1 / ratio.high, 1 / ratio.low, ratio.rounds)
    exchanged = {FASTER: SLOWER, SLOWER: FASTER}
    verdict = decide(ratio, least)
    # A bound that lies on the threshold to the last bit may round to either side.
    for bound in (ratio.low, ratio.high):
        if abs(abs(math.log(bound)) - math.log1p(least)) < 1e-12:
            return
    assert decide(back, least) is exchanged.get(verdict, verdict)


@given(ratios, st.floats(0.003, 0.05), st.floats(1, 1.5))
def test_a_higher_threshold_never_finds_a_difference(
    ratio: Ratio, least: float, factor: float
) -> None:
    if decide(ratio, least * factor) in (FASTER, SLOWER):
        assert decide(ratio, least) is decide(ratio, least * factor)


@given(ratios, st.floats(0.003, 0.05))
def test_what_is_clear_is_decided(ratio: Ratio, least: float) -> None:
    if is_clear(ratio, least):
        assert decide(ratio, least) is not INCONCLUSIVE


def test_what_could_hide_counts_width_and_distance() -> None:
    assert minimum_detectable(interval(0.999, 1.001)) == pytest.approx(0.001, rel=0.01)
    assert minimum_detectable(interval(1.001, 1.003)) == pytest.approx(0.003)
    assert minimum_detectable(interval(0.997, 0.999)) == pytest.approx(1 / 0.997 - 1)
    assert minimum_detectable(Ratio(1, 0, math.inf, 4)) == math.inf


@given(ratios)
def test_the_threshold_is_twice_that_but_never_less_than_the_least(control: Ratio) -> None:
    least = threshold(control)
    assert least >= MIN_DIFFERENCE
    assert least == pytest.approx(max(MIN_DIFFERENCE, 2 * minimum_detectable(control)))


def test_a_measurement_goes_on_look_by_look_up_to_the_limit() -> None:
    undecided = interval(0.9975, 1.0035)
    assert rounds_to_add(undecided, 0.003, 0) == 40
    assert rounds_to_add(undecided, 0.003, 30) == 10
    assert [look + rounds_to_add(undecided, 0.003, look) for look in LOOKS] == [*LOOKS[1:], 400]
    assert rounds_to_add(undecided, 0.003, 100, limit=120) == 20


def test_a_clear_difference_ends_it() -> None:
    assert rounds_to_add(interval(1.05, 1.06), 0.003, 40) == 0
    assert rounds_to_add(interval(0.9992, 1.0008), 0.003, 40) == 0


def test_a_narrow_decision_does_not_end_it() -> None:
    narrow = interval(1.0032, 1.0072)
    assert decide(narrow, 0.003) is FASTER
    assert rounds_to_add(narrow, 0.003, 100) == 40


def test_a_wide_threshold_ends_nothing_as_same() -> None:
    assert decide(interval(0.994, 0.996), 0.01) is SAME
    assert rounds_to_add(interval(0.994, 0.996), 0.01, 60) == 40


def test_what_the_limit_could_not_decide_is_not_tried() -> None:
    assert rounds_to_add(interval(0.99, 1.01), 0.003, 140) == 60
    assert rounds_to_add(interval(0.99, 1.01), 0.003, 280) == 0


def test_the_base_beside_itself_is_never_faster_or_slower() -> None:
    """5 noise levels, 200 trials each: half widths at 100 rounds of 0.05 to 0.25 %."""
    random = np.random.default_rng(31)
    for noise in (0.0013, 0.0025, 0.004, 0.005, 0.0065):
        replays = Machine(noise=noise).replay(random, [3, 3, 3], 200, 400)
        verdicts = Counter(measure(replays, i)[1].verdict for i in range(200))
        assert verdicts[FASTER] + verdicts[SLOWER] == 0, noise
        assert verdicts[SAME] >= 190, noise


@pytest.mark.parametrize(
    "machine", [Machine(drift=0.1), Machine(first=0.01), Machine(outliers=0.1)]
)
def test_nor_is_it_under_disturbance(machine: Machine) -> None:
    replays = machine.replay(np.random.default_rng(32), [3, 3, 3], 200, 400)
    assert {measure(replays, i)[1].verdict for i in range(200)} <= {SAME, INCONCLUSIVE}


@pytest.mark.parametrize("slower", [0.005, 0.01, 0.03])
@pytest.mark.parametrize("noise", [0.0013, 0.0025, 0.004])
def test_a_planted_difference_is_found(noise: float, slower: float) -> None:
    """Up to a half width of 0.16 % at 100 rounds, in at least 95 of 100, and never the reverse."""
    replays = Machine(noise=noise).replay(
        np.random.default_rng(33), [10, 10, 10 * (1 + slower)], 200, 400
    )
    verdicts = Counter(measure(replays, i)[1].verdict for i in range(200))
    assert verdicts[SLOWER] >= 190
    assert verdicts[FASTER] == verdicts[SAME] == 0


def test_looks_do_not_add_up_their_errors() -> None:
    """On the threshold itself every decision is an error: at most 5 % on either side.

    One look at an interval of 95 % is allowed 2.5 % a side; 4 standard errors of 1,000 are 2 %.
    """
    replays = Machine(noise=0.0013).replay(
        np.random.default_rng(34), [3, 3, 3 * (1 + MIN_DIFFERENCE)], 1000, 400
    )
    verdicts = Counter(measure(replays, i)[1].verdict for i in range(1000))
    assert verdicts[SLOWER] <= 50
    assert verdicts[SAME] <= 50
    assert verdicts[FASTER] == 0
