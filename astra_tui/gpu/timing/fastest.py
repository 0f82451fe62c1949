"""The fastest of several rivals, compared with a candidate on other rounds than chose it.

The fastest of k measured times is partly the luckiest: k equal kernels, of which the one that looks
best is compared on the same rounds, would seem faster than the candidate by more the larger k is.
So every other mirror pair chooses, and the rest compares. The halves interleave, so that neither
is the earlier one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from astra_tui.gpu.timing.intervals import Floats, order_statistic_ranks
from astra_tui.gpu.timing.pairing import BadSamples, ratio_of
from astra_tui.model.timing import Ratio


@dataclass(frozen=True, eq=False)
class Fastest:
    """The rival that is compared, and what the pairs that did not choose it say.

    `speedup` is its time over the candidate's, `log_ratios` one value a pair, for a geometric mean
    over shapes (`overall.geometric_mean`).
    """

    rival: int
    speedup: Ratio
    log_ratios: Floats


def fastest_rival(log_ratios: Sequence[Floats]) -> Fastest:
    """The fastest of several rivals against one candidate on one shape.

    `log_ratios` has an array a rival: the logarithm of its time over the candidate's, one value a
    mirror pair, all of the same pairs. The first, third, ... pair chooses the rival with the
    smallest median, the others compare. Of one rival that leaves half of the pairs as well, so
    that an interval does not depend on how many there were. Raises BadSamples for fewer than 12
    pairs: 6 have to be left.
    """
    pairs = _table(log_ratios)
    choosing, comparing = pairs[:, ::2], pairs[:, 1::2]
    rival = int(np.argmin(np.median(choosing, axis=1)))
    left = comparing[rival]
    return Fastest(rival, ratio_of(left), left)


def _table(log_ratios: Sequence[Floats]) -> Floats:
    """Rivals by pairs, every value finite."""
    if not log_ratios:
        raise BadSamples("there is no rival to compare with")
    lengths = {len(each) for each in log_ratios}
    if len(lengths) > 1:
        raise BadSamples(f"rivals were timed in {sorted(lengths)} pairs; they share their pairs")
    pairs = np.asarray(log_ratios, dtype=np.float64)
    if order_statistic_ranks(pairs.shape[1] // 2) is None:
        raise BadSamples(f"{pairs.shape[1]} pairs are too few to choose on one half of them")
    if not np.isfinite(pairs).all():
        raise BadSamples("a ratio is no finite number")
    return pairs
