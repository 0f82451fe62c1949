"""From intervals to verdicts: the least difference that counts, and when to stop measuring.

All comparisons are made on logarithms, so that exchanging base and candidate exchanges FASTER and
SLOWER and changes nothing else.
"""

from __future__ import annotations

import math

from astra_tui.model.timing import Ratio, TimingVerdict
from astra_tui.model.verdict_thresholds import MIN_DIFFERENCE

LOOKS = (40, 60, 100, 140, 200, 280, 400)
"""Rounds after which it is decided whether to continue."""

ROUND_LIMIT = LOOKS[-1]

STRETCH = 1.5
"""An interval that ends a measurement early is first stretched so much about its value.

Seven looks at intervals of 95 % would be wrong more often than one. Stretched by half they are
intervals of about 99.7 %, and the looks together are wrong about as often as the last alone.
"""


def minimum_detectable(control: Ratio) -> float:
    """How large a difference could hide in this measurement, as a fraction.

    `control` is the base against a copy of itself, so that its true ratio is 1: the end of its
    interval that is further from 1 tells how far a ratio can be read wrong. It counts both the
    width of the interval and how far its centre is off.
    """
    return math.expm1(max(abs(_log(control.low)), abs(_log(control.high))))


def threshold(control: Ratio | None) -> float:
    """The least difference that counts: twice what the control can detect, 0.3 % or more.

    Without a control nothing is known about the machine, and no difference counts (infinity).
    """
    if control is None:
        return math.inf
    return max(MIN_DIFFERENCE, 2 * minimum_detectable(control))


def decide(ratio: Ratio, threshold: float) -> TimingVerdict:
    """FASTER or SLOWER if the whole interval lies beyond the threshold, SAME if it lies within."""
    if not (math.isfinite(threshold) and math.isfinite(ratio.high)):
        return TimingVerdict.INCONCLUSIVE
    return _decide(_log(ratio.low), _log(ratio.high), math.log1p(threshold))


def _decide(low: float, high: float, bound: float) -> TimingVerdict:
    if low > bound:
        return TimingVerdict.FASTER
    if high < -bound:
        return TimingVerdict.SLOWER
    if -bound <= low and high <= bound:
        return TimingVerdict.SAME
    return TimingVerdict.INCONCLUSIVE


def rounds_to_add(ratio: Ratio, threshold: float, done: int, limit: int = ROUND_LIMIT) -> int:
    """How many more rounds to take: 0 when it is decided, hopeless or at the limit.

    The first look comes after 40 rounds. From there on a measurement ends early if it is clear
    (see `is_clear`), or if not even `limit` rounds could be expected to decide it.
    """
    if done >= limit:
        return 0
    following = min([look for look in LOOKS if look > done] + [limit])
    if done < LOOKS[0]:
        return min(LOOKS[0], limit) - done
    if is_clear(ratio, threshold) or not _can_be_decided(ratio, threshold, done, limit):
        return 0
    return min(following, limit) - done


def is_clear(ratio: Ratio, threshold: float) -> bool:
    """Whether the interval, stretched, decides already.

    SAME must hold within 0.3 %: a larger threshold stems from a control that is still wide, narrows
    with more rounds, and could let a difference appear.
    """
    if not (math.isfinite(threshold) and math.isfinite(ratio.high)):
        return False
    value = _log(ratio.value)
    low = value - STRETCH * (value - _log(ratio.low))
    high = value + STRETCH * (_log(ratio.high) - value)
    apart = low > math.log1p(threshold) or high < -math.log1p(threshold)
    bound = math.log1p(min(threshold, MIN_DIFFERENCE))
    return apart or (-bound <= low and high <= bound)


def _can_be_decided(ratio: Ratio, threshold: float, done: int, limit: int) -> bool:
    """Whether some true ratio inside the interval would be told apart by `limit` rounds.

    Widths shrink with the root of the rounds; the threshold's too, down to the least.
    """
    low, high = _log(ratio.low), _log(ratio.high)
    if not (math.isfinite(threshold) and math.isfinite(high)):
        return True
    shrink = math.sqrt(done / limit)
    bound = math.log1p(max(MIN_DIFFERENCE, threshold * shrink))
    half = (high - low) / 2 * shrink
    apart = high > bound + half or low < -(bound + half)
    within = half < bound and low < bound - half and high > half - bound
    return apart or within


def _log(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf
