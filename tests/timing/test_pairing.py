from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tui.gpu.timing.intervals import Floats, median_interval
from astra_tui.gpu.timing.pairing import (
    BadSamples,
    PairedRounds,
    mirrored_log_ratios,
    paired_ratio,
    pooled_offset,
)
from astra_tui.model.timing import PairedTime
from tests.timing.synthetic import LAUNCHES, Machine

RATIO = 1.25
"""Planted: the candidate takes 1/1.25 of the base's time."""

times = st.lists(st.tuples(st.floats(100, 1e4), st.floats(100, 1e4)), min_size=12, max_size=60).map(
    lambda pairs: np.array(pairs)
)


@given(times, st.floats(1e-3, 1e3))
def test_the_unit_does_not_matter(pairs: Floats, unit: float) -> None:
    plain, scaled = paired_ratio(*pairs.T), paired_ratio(*(unit * pairs).T)
    assert msgspec.structs.astuple(scaled) == pytest.approx(msgspec.structs.astuple(plain))


@given(times)
def test_exchanging_the_versions_inverts(pairs: Floats) -> None:
    there, back = paired_ratio(*pairs.T), paired_ratio(*pairs[:, ::-1].T)
    assert back.value == pytest.approx(1 / there.value)
    assert (back.low, back.high) == pytest.approx((1 / there.high, 1 / there.low))


@given(times, st.integers(0, 59), st.floats(1, 3))
def test_a_slower_replay_never_makes_a_candidate_faster(
    pairs: Floats, row: int, factor: float
) -> None:
    before = paired_ratio(*pairs.T)
    pairs[row % len(pairs), 1] *= factor
    after = paired_ratio(*pairs.T)
    for now, then in zip(
        (after.value, after.low, after.high), (before.value, before.low, before.high), strict=True
    ):
        assert now <= then * (1 + 1e-12)


@given(times, st.floats(0.25, 4))
def test_a_faster_candidate_scales_the_ratio(pairs: Floats, factor: float) -> None:
    before = paired_ratio(*pairs.T)
    after = paired_ratio(pairs[:, 0], pairs[:, 1] / factor)
    assert after.value == pytest.approx(before.value * factor)


def test_an_odd_last_round_waits_for_its_mirror() -> None:
    base, candidate = np.full(15, 300.0), np.full(15, 200.0)
    candidate[14] = 1.0
    ratio = paired_ratio(base, candidate)
    assert (ratio.value, ratio.rounds) == (pytest.approx(1.5), 14)


def test_a_few_rounds_know_nothing() -> None:
    ratio = paired_ratio([300.0] * 10, [200.0] * 10)
    assert (ratio.low, ratio.high) == (0, math.inf)
    assert ratio.half_width == math.inf


def test_the_offset_is_found_and_taken_off() -> None:
    """Without it, the ratio is drawn towards 1 by a known amount."""
    machine = Machine(noise=0.002, offset_us=40.0)
    replays = machine.replay(np.random.default_rng(5), [5, 5 / RATIO], 200, 100)
    rows = replays.single_rows
    found = [
        pooled_offset(s, d) for s, d in zip(replays.single, replays.double[:, rows], strict=True)
    ]
    assert np.mean(found) == pytest.approx(40, abs=1)
    with_offset = np.mean([paired_ratio(*d.T, 40.0).value for d in replays.double])
    without = np.mean([paired_ratio(*d.T).value for d in replays.double])
    assert with_offset == pytest.approx(RATIO, rel=5e-4)
    base = 2 * LAUNCHES * 5
    assert without == pytest.approx((base + 40) / (base / RATIO + 40), rel=5e-4)


def test_a_negative_offset_is_none() -> None:
    assert pooled_offset([[99.0, 99.0]], [[200.0, 200.0]]) == 0


@pytest.mark.parametrize(
    "single", [np.empty((0, 2)), np.ones((2, 2)), np.ones(3), np.array([[1.0, math.nan]])]
)
def test_an_offset_needs_both_graphs_of_the_same_rounds(single: Floats) -> None:
    with pytest.raises(BadSamples):
        pooled_offset(single, np.ones((1, 2)))


@pytest.mark.parametrize(
    "machine",
    [
        Machine(),
        Machine(drift=0.02),
        Machine(drift=0.2),
        Machine(first=0.01),
        Machine(first=0.02, drift=0.1),
        Machine(outliers=0.05),
        Machine(common=0.1),
    ],
    ids=str,
)
def test_unbiased_and_covering_under_disturbance(machine: Machine) -> None:
    """2,000 measurements of 100 rounds: bias below 0.01 %, coverage 95 to 98.5 %.

    50 pairs cover 96.7 % by computation; 4 standard errors of 2,000 are 1.6 %.
    """
    random = np.random.default_rng(11)
    double = machine.replay(random, [3, 3 / RATIO], 2000, 100).double
    logs = mirrored_log_ratios(double[..., 0], double[..., 1], machine.offset_us)
    median, low, high = median_interval(logs)
    truth = math.log(RATIO)
    assert np.mean(median) == pytest.approx(truth, abs=1e-4)
    assert 0.95 <= np.mean((low <= truth) & (truth <= high)) <= 0.985


def test_rounds_taken_singly_would_pay_for_their_position() -> None:
    """Why mirror pairs are combined: the first replay of a round takes 2 % more."""
    double = Machine(first=0.02).replay(np.random.default_rng(12), [3, 3], 500, 100).double
    single = median_interval(np.log(double[..., 0] / double[..., 1]))
    paired = median_interval(mirrored_log_ratios(double[..., 0], double[..., 1]))
    assert np.mean(single.high - single.low) > 5 * np.mean(paired.high - paired.low)


def test_sequential_measurement_would_be_wrong_under_drift() -> None:
    """Base first and candidate afterwards: a drift of 2 % reads as a difference of 1 %."""
    double = Machine(drift=0.02).replay(np.random.default_rng(13), [3, 3], 200, 100).double
    halves = np.median(double[:, :50, 0], axis=1) / np.median(double[:, 50:, 1], axis=1)
    assert np.mean(halves) == pytest.approx(0.99, abs=0.002)
    paired = [paired_ratio(*d.T).value for d in double]
    assert np.mean(paired) == pytest.approx(1, abs=2e-4)


@pytest.fixture
def replays() -> tuple[Floats, Floats, list[int]]:
    taken = Machine().replay(np.random.default_rng(21), [3, 3, 3 / RATIO], 1, 400)
    return taken.double[0], taken.single[0], taken.single_rows


def streamed(replays: tuple[Floats, Floats, list[int]], sizes: list[int]) -> list[PairedRounds]:
    double, single, rows = replays
    stages, rounds = [], PairedRounds.start(LAUNCHES, 3)
    for size in sizes:
        begin, end = rounds.rounds, rounds.rounds + size
        block = [i for i, row in enumerate(rows) if begin <= row < end]
        rounds = rounds.add(double[begin:end], single[block], [rows[i] - begin for i in block])
        stages.append(rounds)
    return stages


def test_blocks_give_what_one_block_gives(replays: tuple[Floats, Floats, list[int]]) -> None:
    whole = streamed(replays, [400])[-1]
    parts = streamed(replays, [20, 7, 1, 72, 300])[-1]
    assert parts.ratio(2) == whole.ratio(2)
    assert parts.offset_us == whole.offset_us


def test_the_interval_narrows(replays: tuple[Floats, Floats, list[int]]) -> None:
    widths = [s.ratio(2).half_width for s in streamed(replays, [20] * 20)]
    assert widths[0] > 3 * widths[-1]
    for rounds, width in zip(range(40, 401, 20), widths[1:], strict=True):
        assert width == pytest.approx(widths[-1] * math.sqrt(400 / rounds), rel=0.5)


def test_times_of_a_launch(replays: tuple[Floats, Floats, list[int]]) -> None:
    paired = streamed(replays, [400])[0].paired_time(candidate=2)
    assert paired is not None
    assert paired.base_us == pytest.approx(3, rel=0.005)
    assert paired.candidate_us == pytest.approx(3 / RATIO, rel=0.005)
    assert msgspec.json.decode(msgspec.json.encode(paired), type=PairedTime) == paired


def test_no_times_before_there_is_an_interval(
    replays: tuple[Floats, Floats, list[int]],
) -> None:
    ten, twelve = streamed(replays, [10, 2])
    assert ten.paired_time(2) is None
    paired = twelve.paired_time(2)
    assert paired is not None
    assert math.isfinite(paired.speedup.high)


@pytest.mark.parametrize("bad", [math.nan, math.inf, 0.0, -3.0])
def test_a_time_that_is_none_is_refused_with_its_place(bad: float) -> None:
    rounds = PairedRounds.start(LAUNCHES, 2).add(np.full((20, 2), 300.0), [[151.0, 151.0]], [4])
    block = np.full((20, 2), 300.0)
    block[3, 1] = bad
    with pytest.raises(BadSamples, match=r"T\(2N\) of version 1 in round 23 is"):
        rounds.add(block, [[151.0, 151.0]], [4])
    with pytest.raises(BadSamples, match=r"T\(N\) of version 0 in round 29 is"):
        rounds.add(np.full((20, 2), 300.0), [[151.0, 151.0], [bad, 151.0]], [4, 9])


@pytest.mark.parametrize(
    ("double", "single", "rows"),
    [
        (np.ones((20, 3)), [[1.0, 1.0]], [4]),
        (np.ones((20, 2)), [[1.0, 1.0]], [4, 9]),
        (np.ones((20, 2)), [[1.0, 1.0]], [20]),
        (np.ones(20), [[1.0, 1.0]], [4]),
    ],
)
def test_a_block_of_another_shape_is_refused(
    double: Floats, single: list[list[float]], rows: list[int]
) -> None:
    with pytest.raises(BadSamples):
        PairedRounds.start(LAUNCHES, 2).add(double, single, rows)


def test_a_replay_shorter_than_the_offset_is_refused() -> None:
    with pytest.raises(BadSamples, match=r"offset of 5\.000 us"):
        paired_ratio([4.0] * 12, [9.0] * 12, 5.0)
