"""Whether the rounds of a measurement are what its interval takes them for: alike and independent.

The caveats found here never change a number. Each test raises a false alarm in less than one of a
hundred sound measurements.
"""

from __future__ import annotations

import math

import numpy as np

from astra_tui.gpu.timing.intervals import Floats, median_interval
from astra_tui.gpu.timing.pairing import PairedRounds
from astra_tui.model.timing import Caveat

LARGEST_OFFSET = 0.02
"""Share of a replay above which the offset is no longer a small correction."""

MIN_PAIRS = 20
"""Mirror pairs below which halves and neighbours say nothing."""

LARGEST_OUTPUT_EFFECT = 0.02
"""By how much a version's time may depend on the outputs' old contents, as a fraction."""

_OUTPUTS_MATTER = "its time depends on what its outputs held before"

MIN_STALE = 6
"""Pairs of replays below which that is not asked."""

_SURE = 2.58
"""Standard deviations that one sound measurement in 200 exceeds on one side."""


def drift_caveat(log_ratios: Floats, threshold: float) -> Caveat | None:
    """A caveat if the ratio is not the same in the first and in the second half.

    `log_ratios` has one value a mirror pair, in the order taken. The halves disagree when their
    intervals have nothing in common. That invalidates the measurement if their medians are further
    apart than `threshold` and not both beyond it on one side: then the verdict would depend on
    when it was measured.
    """
    if len(log_ratios) < MIN_PAIRS:
        return None
    middle = len(log_ratios) // 2
    early, late = median_interval(log_ratios[:middle]), median_interval(log_ratios[middle:])
    if early.low <= late.high and late.low <= early.high:
        return None
    first, second = float(early.median), float(late.median)
    bound = math.log1p(threshold)
    one_side = min(first, second) > bound or max(first, second) < -bound
    return Caveat(
        "drift",
        f"the ratio was {math.exp(first):.4f} in the first half of the rounds "
        f"and {math.exp(second):.4f} in the second",
        invalidates=abs(second - first) > bound and not one_side,
    )


def autocorrelation_caveat(log_ratios: Floats) -> Caveat | None:
    """A caveat if neighbouring mirror pairs are alike, so that the interval is too narrow.

    The correlation of neighbours is taken of ranks, which outliers cannot dominate; of n
    independent values it has mean -1/n and standard deviation about 1/sqrt(n). Neighbours that
    differ more than by chance only widen the interval and raise no caveat.
    """
    n = len(log_ratios)
    if n < MIN_PAIRS:
        return None
    ranks = _ranks(log_ratios)
    centred = ranks - ranks.mean()
    power = float(centred @ centred)
    if power == 0:
        return None
    correlation = float(centred[:-1] @ centred[1:]) / power
    if correlation * math.sqrt(n) <= _SURE:
        return None
    wider = math.sqrt((1 + correlation) / (1 - correlation))
    return Caveat(
        "autocorrelation",
        f"neighbouring rounds are alike (correlation {correlation:.2f}): "
        f"the interval should be about {wider:.1f} times as wide",
    )


def offset_caveat(rounds: PairedRounds) -> Caveat | None:
    """A caveat if the offset is more than 2 % of a replay: too few launches are in the graph."""
    share = rounds.offset_share
    if share <= LARGEST_OFFSET:
        return None
    return Caveat(
        "offset",
        f"the offset of {rounds.offset_us:.2f} us is {100 * share:.1f} % of a replay of "
        f"{2 * rounds.launches} launches; more launches in a graph would make it small",
    )


def outputs_caveat(log_ratios: Floats) -> Caveat | None:
    """A caveat that invalidates if a version's time depends on what its outputs held before.

    `log_ratios` has one value a pair of replays that differ in nothing else. No honest kernel
    looks at its outputs; one that leaves alone what is right already does. The bound is on the
    end of the interval that is nearer to 0.
    """
    if len(log_ratios) < MIN_STALE:
        return None
    found = median_interval(log_ratios)
    low, high = float(found.low), float(found.high)
    nearer = low if low > 0 else high if high < 0 else 0.0
    if abs(nearer) <= LARGEST_OUTPUT_EFFECT:
        return None
    share = math.expm1(abs(float(found.median)))
    text = f"{100 * share:.1f} % between poison and its own outputs"
    return Caveat("outputs_matter", f"{_OUTPUTS_MATTER}: {text}", invalidates=True)


def poisons_caveat(nan: Floats, finite: Floats) -> Caveat | None:
    """A caveat that invalidates if a ratio depends on whether outputs held NaN or numbers before.

    Log ratios of rounds of either kind. They differ when their intervals are that far apart.
    """
    if min(len(nan), len(finite)) < MIN_STALE:
        return None
    one, other = median_interval(nan), median_interval(finite)
    gap = max(float(one.low - other.high), float(other.low - one.high))
    if gap <= LARGEST_OUTPUT_EFFECT:
        return None
    share = math.expm1(abs(float(one.median - other.median)))
    text = f"{100 * share:.1f} % between NaN and finite numbers"
    return Caveat("outputs_matter", f"{_OUTPUTS_MATTER}: {text}", invalidates=True)


def _ranks(values: Floats) -> Floats:
    """Ranks from 0, the mean of them for equal values, which coarse clocks make."""
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts) - 1
    return np.asarray((last - (counts - 1) / 2)[which], dtype=np.float64)
