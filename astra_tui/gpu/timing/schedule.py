"""In which order versions are replayed, and how many launches and buffer sets a graph has."""

from __future__ import annotations

import math
from typing import NamedTuple

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


MIN_REPLAY_US = 250.0
"""Of the short graph, so that what an event pair adds (5 to 8 us on an H100, most of it the start
of a graph) stays under 2 % of the long one; the grain of an event is 0.5 us."""
L2_MULTIPLE = 5
"""All sets together are so many times the L2 cache, so that what a replay begins with (lines of
the flush, which have to be written back) is a small part of it."""
MIN_LAUNCHES = 4
MAX_SETS = 4096
MEMORY_SHARE = 0.25
"""Of the free device memory that the sets may take."""
MAX_WARM_LAUNCHES = 256
"""More would let values that are changed in place grow out of float16."""


class GraphSize(NamedTuple):
    """Launches of the short graph, sets that both graphs take in order, what is flushed before."""

    launches: int
    sets: int
    flush_bytes: int
    is_cold: bool
    """Whether every launch finds its set outside L2."""


def cold_size(
    fastest_us: float, set_bytes: int, l2_bytes: int, free_bytes: int, copies: int = 1
) -> GraphSize:
    """The graph for cold launches: every launch of the long graph has a set of its own.

    So no replay reads what it has written. `fastest_us` is about one call of the fastest
    version, `set_bytes` what one set takes with the pristine copies of what is changed in place,
    `copies` how often the sets are there.
    """
    set_bytes = max(set_bytes, 1)
    wanted = max(
        math.ceil(L2_MULTIPLE * l2_bytes / (2 * set_bytes)),
        math.ceil(MIN_REPLAY_US / max(fastest_us, 0.1)),
        MIN_LAUNCHES,
    )
    fitting = int(MEMORY_SHARE * free_bytes / (2 * set_bytes * copies))
    launches = max(1, min(wanted, MAX_SETS // 2, fitting))
    is_cold = 2 * launches * set_bytes >= L2_MULTIPLE * l2_bytes
    return GraphSize(launches, 2 * launches, 2 * l2_bytes, is_cold)


def warm_size(fastest_us: float) -> GraphSize:
    """The graph for warm launches, all on one set."""
    launches = math.ceil(MIN_REPLAY_US / max(fastest_us, 0.1))
    return GraphSize(min(max(launches, MIN_LAUNCHES), MAX_WARM_LAUNCHES), 1, 0, False)
