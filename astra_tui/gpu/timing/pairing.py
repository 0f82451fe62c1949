"""From the raw microseconds of graph replays to times a launch and ratios of paired rounds.

The graph G(N) of a version holds N launches, G(2N) twice as many. T(N) and T(2N) are what an event
pair round one replay reads. The names here: `single` is T(N), `double` is T(2N). Last, the
arithmetic of the Astra paper's protocol (section 4.1), which pairs nothing.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from astra_tui.gpu.timing.intervals import Floats, median_interval
from astra_tui.model.timing import PairedTime, PaperTime, Ratio

MIN_ROUNDS = 12
"""Rounds (6 mirror pairs) below which the median has no interval of 95 %."""


class BadSamples(ValueError):
    """Samples from which nothing can be computed; the message says which, and why."""


def pooled_offset(single: ArrayLike, double: ArrayLike) -> float:
    """What an event pair adds to one replay, in microseconds, whatever is replayed.

    `single` and `double` have one row a round and one column a version, of the same rounds. The
    offset is the median of 2 T(N) - T(2N) over all of them. One offset for all versions, because
    it belongs to the events and the graph launch; estimated for each version or each round, its
    noise would enter every ratio. Less than 0 is noise, since an event pair cannot shorten a
    replay, and counts as 0.
    """
    singles, doubles = _table("T(N)", single), _table("T(2N)", double)
    if singles.shape != doubles.shape or singles.size == 0:
        raise BadSamples(
            f"the offset needs T(N) and T(2N) of the same rounds; their shapes are "
            f"{singles.shape} and {doubles.shape}"
        )
    return max(0.0, float(np.median(2 * singles - doubles)))


def mirrored_log_ratios(base: ArrayLike, candidate: ArrayLike, offset: float = 0.0) -> Floats:
    """One value a mirror pair: the mean of the log ratios, base over candidate, of its two rounds.

    `base` and `candidate` are T(2N), one a round in the order in which they were taken (the last
    axis). An odd last round waits for its mirror and is left out.

    The rounds of a pair are combined because each carries what its order adds: the time between
    the two replays when clocks drift, and the effect of being first. With opposite signs in the
    mirror, both cancel in the mean. Taken singly they make two humps, on whose flanks the
    median stays unbiased but its interval grows to the distance of the humps, and the rounds are
    not independent. Independent equal noise costs the same interval either way;
    benchmarks/timing_statistics.py has the figures.
    """
    pairs = np.shape(base)[-1] // 2
    over = [np.asarray(t, dtype=np.float64)[..., : 2 * pairs] - offset for t in (base, candidate)]
    if over[0].shape != over[1].shape or pairs == 0:
        raise BadSamples("a ratio needs as many times of the base as of the candidate, 2 or more")
    if not all(np.isfinite(t).all() and (t > 0).all() for t in over):
        raise BadSamples(
            f"a replay took no longer than the offset of {offset:.3f} us, or its time is no number"
        )
    logs = np.log(over[0]) - np.log(over[1])
    return np.asarray(logs.reshape(*logs.shape[:-1], pairs, 2).mean(axis=-1), dtype=np.float64)


def ratio_of(log_ratios: Floats) -> Ratio:
    """The ratio by mirror pairs: exp of their median and of its order-statistic interval.

    `log_ratios` has one value a pair. With fewer than 6 pairs the interval is from 0 to infinity:
    nothing is known.
    """
    median, low, high = (float(v) for v in median_interval(log_ratios))
    return Ratio(math.exp(median), math.exp(low), math.exp(high), 2 * log_ratios.shape[-1])


def paired_ratio(base: ArrayLike, candidate: ArrayLike, offset: float = 0.0) -> Ratio:
    """Time of the base over time of the candidate: T(2N) in microseconds, one a round each.

    N cancels, since both versions are launched as often. Raises BadSamples.
    """
    return ratio_of(mirrored_log_ratios(base, candidate, offset))


@dataclass(frozen=True, eq=False)
class PairedRounds:
    """The rounds of one workload that have been taken so far, of all versions; it never changes.

    `double` has shape (rounds, versions); `single` has one row for each round that `single_rounds`
    names. Times are in microseconds of a whole replay.
    """

    launches: int
    """N."""
    double: Floats
    single: Floats
    single_rounds: NDArray[np.int64]

    @classmethod
    def start(cls, launches: int, versions: int) -> PairedRounds:
        """No rounds yet."""
        none = np.empty((0, versions))
        return cls(launches, none, none, np.empty(0, dtype=np.int64))

    def add(self, double: ArrayLike, single: ArrayLike, single_rows: Sequence[int]) -> PairedRounds:
        """These rounds and a block of more.

        `double`: (rounds of the block, versions). `single`: a row for each of `single_rows`, which
        are rows of `double`. Raises BadSamples, naming round and version, for a time that is not
        finite and above 0; nothing is dropped in silence, since a replay that could not be
        timed says that the measurement is broken.
        """
        doubles = _table("T(2N)", double, self.versions, first=self.rounds)
        singles = _table("T(N)", single, self.versions, first=self.rounds, rows=single_rows)
        if any(not 0 <= row < len(doubles) for row in single_rows):
            raise BadSamples(f"T(N) of rows {list(single_rows)} in a block of {len(doubles)}")
        return PairedRounds(
            self.launches,
            np.concatenate([self.double, doubles]),
            np.concatenate([self.single, singles]),
            np.concatenate(
                [self.single_rounds, self.rounds + np.asarray(single_rows, dtype=np.int64)]
            ),
        )

    @property
    def rounds(self) -> int:
        """How many rounds have been taken."""
        return len(self.double)

    @property
    def versions(self) -> int:
        """How many versions each of them replayed."""
        return int(self.double.shape[1])

    @functools.cached_property
    def offset_us(self) -> float:
        """The pooled offset of all rounds so far."""
        return pooled_offset(self.single, self.double[self.single_rounds])

    @property
    def offset_share(self) -> float:
        """The offset over the time of the shortest version's G(2N)."""
        return self.offset_us / float(np.median(self.double, axis=0).min())

    def launch_us(self, version: int) -> float:
        """Median time of a launch in microseconds, without the offset."""
        replay = float(np.median(self.double[:, version]))
        return (replay - self.offset_us) / (2 * self.launches)

    def launches_us(self, versions: Sequence[int]) -> Floats:
        """Time of a launch in every round, without the offset: shape (rounds, versions)."""
        replays = self.double[:, list(versions)]
        return np.asarray((replays - self.offset_us) / (2 * self.launches), dtype=np.float64)

    def log_ratios(self, candidate: int, base: int = 0) -> Floats:
        """One log ratio a mirror pair, in the order in which they were taken."""
        return mirrored_log_ratios(self.double[:, base], self.double[:, candidate], self.offset_us)

    def ratio(self, candidate: int, base: int = 0) -> Ratio:
        """The ratio of two versions by all rounds so far."""
        return ratio_of(self.log_ratios(candidate, base))

    def paired_time(self, candidate: int, base: int = 0) -> PairedTime | None:
        """Times a launch and their ratio; None before there are enough rounds for an interval."""
        if self.rounds < MIN_ROUNDS:
            return None
        return PairedTime(
            self.launch_us(base), self.launch_us(candidate), self.ratio(candidate, base)
        )


def _table(
    what: str,
    times: ArrayLike,
    versions: int | None = None,
    first: int = 0,
    rows: Sequence[int] | None = None,
) -> Floats:
    """`times` as rounds by versions, every one finite and above 0.

    `first` is the number of the first round and `rows` the rows' places after it, for messages.
    """
    table = np.asarray(times, dtype=np.float64)
    if table.size == 0 and versions is not None:
        table = table.reshape(0, versions)
    if table.ndim != 2 or (versions is not None and table.shape[1] != versions):
        raise BadSamples(f"{what} has shape {table.shape}; rounds by {versions or 'versions'} fits")
    if rows is not None and len(table) != len(rows):
        raise BadSamples(f"{what} has {len(table)} rows for {len(rows)} rounds")
    bad = np.argwhere(~(np.isfinite(table) & (table > 0)))
    if len(bad):
        row, version = (int(i) for i in bad[0])
        place = first + (rows[row] if rows is not None else row)
        raise BadSamples(
            f"{what} of version {version} in round {place} is {table[row, version]} us"
            f"{f', and {len(bad) - 1} more like it' if len(bad) > 1 else ''}"
        )
    return table


WARM_UPS = 20
LAUNCHES = 100


def paper_time(base_us: Sequence[float], candidate_us: Sequence[float]) -> PaperTime:
    """Arithmetic means of 100 event pairs each, in microseconds, one pair a launch from the host.

    No offset is subtracted: the time of the launch is meant to be in it. Raises
    BadSamples for another number of launches, which would not be the protocol, and for a time
    that is not finite and above 0.
    """
    for name, times in (("base", base_us), ("candidate", candidate_us)):
        if len(times) != LAUNCHES:
            raise BadSamples(f"the paper's protocol has {LAUNCHES} launches; {name}: {len(times)}")
        for index, time in enumerate(times):
            if not (math.isfinite(time) and time > 0):
                raise BadSamples(f"launch {index} of the {name} took {time} us")
    return PaperTime(statistics.fmean(base_us), statistics.fmean(candidate_us))
