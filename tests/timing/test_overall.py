from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tui.gpu.timing.intervals import Floats
from astra_tui.gpu.timing.overall import geometric_mean, judge_overall
from astra_tui.gpu.timing.pairing import BadSamples, ratio_of
from astra_tui.model.dtypes import DType
from astra_tui.model.timing import (
    Caveat,
    PairedTime,
    Ratio,
    TimingVerdict,
    WorkloadTiming,
    mean_name,
    mean_ratio,
)

FASTER, SLOWER, SAME, INCONCLUSIVE = TimingVerdict
LEAST = 0.003


def rounds_of(ratio: float, pairs: int, seed: int, noise: float = 0.003) -> Floats:
    return np.random.default_rng(seed).normal(math.log(ratio), noise, pairs)


def timing(name: str, ratio: float, warm: float | None = None) -> WorkloadTiming:
    def paired(value: float) -> PairedTime:
        return PairedTime(value, 1.0, Ratio(value, value * 0.999, value * 1.001, 100))

    return WorkloadTiming(
        workload=name,
        dims={},
        dtype=DType.FLOAT16,
        verdict=FASTER if ratio > 1 else SLOWER,
        cold=paired(ratio),
        threshold=LEAST,
        warm=None if warm is None else paired(warm),
    )


def narrow(value: float) -> Ratio:
    return Ratio(value, value * 0.9995, value * 1.0005, 400)


def test_the_mean_is_geometric() -> None:
    mean = geometric_mean([rounds_of(2, 50, 1), rounds_of(0.5, 100, 2), rounds_of(1, 20, 3)])
    assert mean.value == pytest.approx(1, rel=0.002)
    assert mean.low < mean.value < mean.high
    assert mean.rounds == 340


def test_it_is_repeatable_by_its_seed() -> None:
    workloads = [rounds_of(1.1, 50, 1), rounds_of(1.2, 50, 2)]
    assert geometric_mean(workloads, seed=7) == geometric_mean(workloads, seed=7)
    assert geometric_mean(workloads, seed=7) != geometric_mean(workloads, seed=8)


@pytest.mark.parametrize("pairs", [21, 50])
def test_resampled_medians_follow_the_bootstrap(pairs: int) -> None:
    """Against medians of resamples that are really drawn, 40,000 each."""
    values = rounds_of(1.0, pairs, 4)
    drawn = np.random.default_rng(5).choice(values, (40_000, pairs))
    low, high = np.quantile(np.median(drawn, axis=1), [0.025, 0.975])
    mean = geometric_mean([values], resamples=40_000)
    assert math.log(mean.low) == pytest.approx(low, abs=1e-4)
    assert math.log(mean.high) == pytest.approx(high, abs=1e-4)


@pytest.mark.parametrize("count", [1, 4, 12])
def test_its_interval_covers(count: int) -> None:
    """1,000 candidates on so many workloads: 92.5 to 98.5 % hold the true mean."""
    truth = np.linspace(0.9, 1.3, count)
    hits = 0
    for seed in range(1000):
        workloads = [rounds_of(r, 50, 1000 * seed + i) for i, r in enumerate(truth)]
        mean = geometric_mean(workloads, seed=seed, resamples=1000)
        hits += mean.low <= math.exp(np.log(truth).mean()) <= mean.high
    assert 925 <= hits <= 985


def test_more_workloads_narrow_it() -> None:
    few = geometric_mean([rounds_of(1, 50, i) for i in range(2)])
    many = geometric_mean([rounds_of(1, 50, i) for i in range(18)])
    assert many.half_width < 0.5 * few.half_width


def test_one_workload_gives_about_its_own_interval() -> None:
    values = rounds_of(1.3, 100, 9)
    alone, mean = ratio_of(values), geometric_mean([values])
    assert mean.value == pytest.approx(alone.value)
    assert mean.half_width == pytest.approx(alone.half_width, rel=0.3)


@pytest.mark.parametrize("workloads", [[], [np.zeros(5)], [np.zeros(50), np.zeros(3)]])
def test_too_little_has_no_mean(workloads: list[Floats]) -> None:
    with pytest.raises(BadSamples):
        geometric_mean(workloads)


@pytest.mark.parametrize(("ratio", "verdict"), [(1.1, FASTER), (0.9, SLOWER), (1.0, SAME)])
def test_the_mean_decides(ratio: float, verdict: TimingVerdict) -> None:
    overall = judge_overall([timing("a", ratio)], narrow(ratio), LEAST)
    assert overall.verdict is verdict
    assert f"geometric mean {ratio:.4f}" in overall.reasons[0]
    assert "threshold of 0.30 %" in overall.reasons[0]


def test_a_workload_that_loses_much_holds_up_a_faster_candidate() -> None:
    overall = judge_overall([timing("small", 0.95), timing("large", 1.4)], narrow(1.15), LEAST)
    assert overall.verdict is INCONCLUSIVE
    assert "small is 5.3 % slower (cold)" in overall.reasons[0]
    assert "more than the 2 %" in overall.reasons[0]
    assert (
        judge_overall([timing("small", 0.985), timing("large", 1.4)], narrow(1.17), LEAST)[0]
        is FASTER
    )
    allowed = judge_overall([timing("small", 0.95)], narrow(1.15), LEAST, largest_loss=0.1)
    assert allowed.verdict is FASTER


def test_what_a_win_loses_warm_is_named_and_decides_nothing() -> None:
    overall = judge_overall([timing("a", 1.2, warm=0.9)], narrow(1.2), LEAST)
    assert overall.verdict is FASTER
    assert "11.1 % slower (warm)" in overall.reasons[1]
    assert len(judge_overall([timing("a", 1.2, warm=0.99)], narrow(1.2), LEAST).reasons) == 1


def test_gains_that_losses_cancel_are_not_the_same() -> None:
    workloads = [timing("up", 1.1), timing("down", 1 / 1.1)]
    overall = judge_overall(workloads, narrow(1.0), LEAST)
    assert overall.verdict is INCONCLUSIVE
    assert "down is 10.0 % slower" in overall.reasons[0]
    assert "up is 10.0 % faster" in overall.reasons[1]


def test_a_slower_candidate_stays_so_and_its_gain_is_named() -> None:
    overall = judge_overall([timing("up", 1.1), timing("down", 0.5)], narrow(0.74), LEAST)
    assert overall.verdict is SLOWER
    assert "geometric mean" in overall.reasons[0]
    assert any("up is 10.0 % faster" in reason for reason in overall.reasons)


def test_a_voided_workload_decides_nothing() -> None:
    void = msgspec.structs.replace(
        timing("a", 1.5), caveats=(Caveat("clock", "the clock fell", invalidates=True),)
    )
    overall = judge_overall([void, timing("b", 1.5)], narrow(1.5), LEAST)
    assert overall == (INCONCLUSIVE, ("a may decide nothing: the clock fell",))
    doubted = msgspec.structs.replace(void, caveats=(Caveat("clock", "unknown"),))
    assert judge_overall([doubted], narrow(1.5), LEAST).verdict is FASTER


def test_without_a_control_there_is_no_verdict() -> None:
    overall = judge_overall([timing("a", 1.5)], narrow(1.5), math.inf)
    assert overall.verdict is INCONCLUSIVE
    assert "without a control" in overall.reasons[0]


def test_weights_count_as_copies_would() -> None:
    """A workload of weight 3 counts as three of the same."""
    one, other = rounds_of(2, 60, 1), rounds_of(0.5, 60, 2)
    weighted = geometric_mean([one, other], weights=[3, 1])
    assert weighted.value == pytest.approx(geometric_mean([one, one, one, other]).value)
    assert weighted.low < weighted.value < weighted.high
    assert geometric_mean([one, other], weights=[2, 2]) == geometric_mean([one, other])


@given(
    st.lists(st.tuples(st.floats(0.01, 100), st.integers(1, 9)), min_size=1, max_size=8),
    st.floats(0.1, 10),
)
def test_the_mean_of_every_table(found: list[tuple[float, int]], factor: float) -> None:
    """Copies count as weights do, the unit of weights does not, and it lies among its ratios."""
    ratios, weights = [r for r, _ in found], [float(w) for _, w in found]
    mean = mean_ratio(ratios, weights)
    copies = [ratio for ratio, weight in found for _ in range(weight)]
    assert mean == pytest.approx(mean_ratio(copies))
    assert mean == pytest.approx(mean_ratio(ratios, [factor * w for w in weights]))
    assert min(ratios) * (1 - 1e-9) <= mean <= max(ratios) * (1 + 1e-9)
    constant = [np.full(6, math.log(ratio)) for ratio in ratios]
    assert mean == pytest.approx(geometric_mean(constant, resamples=2, weights=weights).value)
    assert mean_name(weights).startswith("weighted") == (len(set(weights)) > 1)
