"""Whether two measurements of the same pair say the same."""

from __future__ import annotations

import math

from astra_tui.gpu.timing.verdict import minimum_detectable
from astra_tui.model.timing import Ratio, Timing

MIN_TOLERANCE = 0.02
"""Between two machines, or two days on one, less is not to be had: clocks and heat differ."""


def tolerance(recorded: Timing, measured: Timing) -> float:
    """How far two ratios may be apart, as a fraction.

    The sum of both half-widths and of the larger minimum detectable difference, 2 % or more.
    Nothing is allowed where one has no usable numbers, as in a session that no engine wrote.
    """
    if not all(_usable(r) for t in (recorded, measured) for r in (t.speedup, t.control)):
        return 0.0
    widths = recorded.speedup.half_width + measured.speedup.half_width
    detectable = max(minimum_detectable(t.control) for t in (recorded, measured))
    return max(MIN_TOLERANCE, widths + detectable)


def disagreement(recorded: Timing, measured: Timing) -> str:
    """Why two timings do not say the same, in words; empty where they do."""
    if recorded.verdict is not measured.verdict:
        return f"the verdict was {recorded.verdict.value}, and is {measured.verdict.value}"
    allowed = tolerance(recorded, measured)
    if not allowed:
        return "one of the timings has no usable numbers"
    apart = abs(measured.speedup.value / recorded.speedup.value - 1)
    if apart <= allowed:
        return ""
    return f"the ratios are {apart:.1%} apart, and {allowed:.1%} is allowed"


def _usable(ratio: Ratio) -> bool:
    numbers = (ratio.low, ratio.value, ratio.high)
    return all(math.isfinite(n) and n > 0 for n in numbers) and ratio.low <= ratio.high
