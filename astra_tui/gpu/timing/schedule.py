"""In which order the versions are replayed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SINGLE_EVERY = 5
"""Every so many rounds the graphs of N launches are replayed too, for the offset."""


def mirrored_orders(versions: int, rounds: int, random: np.random.Generator) -> NDArray[np.int64]:
    """The order of the versions in each round: shape (rounds, versions), a permutation a row.

    Rounds 2k and 2k + 1 are a mirror pair: the first is random, the second is the first
    backwards. Raises ValueError for an odd number of rounds, which would leave one without its
    mirror.
    """
    if rounds % 2:
        raise ValueError(f"rounds are replayed in mirror pairs; {rounds} is odd")
    first = random.permuted(np.tile(np.arange(versions), (rounds // 2, 1)), axis=1)
    return np.stack([first, first[:, ::-1]], axis=1).reshape(rounds, versions)


def takes_stale(index: int) -> bool:
    """Whether the graphs G(2N) are replayed once more on their own outputs in this round."""
    return index % SINGLE_EVERY == 1


def takes_single(index: int) -> bool:
    """Whether G(N) is replayed in the round with this index (from 0), after the graphs G(2N)."""
    return index % SINGLE_EVERY == SINGLE_EVERY - 1
