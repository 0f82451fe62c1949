"""What a candidate gets as a whole: geometric mean over its workloads, and the verdict on it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from astra_tui.gpu.timing.intervals import CONFIDENCE, Floats, order_statistic_ranks
from astra_tui.gpu.timing.pairing import BadSamples
from astra_tui.gpu.timing.stopping import decide
from astra_tui.model.timing import Ratio, TimingVerdict, WorkloadTiming, mean_name, mean_ratio
from astra_tui.model.verdict_thresholds import LARGEST_LOSS

RESAMPLES = 10_000


class Overall(NamedTuple):
    """A verdict with its reasons, the most important first."""

    verdict: TimingVerdict
    reasons: tuple[str, ...]


def geometric_mean(
    workloads: Sequence[Floats],
    seed: int = 0,
    resamples: int = RESAMPLES,
    weights: Sequence[float] | None = None,
) -> Ratio:
    """The geometric mean of the workloads' ratios, and its interval by the bootstrap.

    `weights` say how much each workload counts, relative to the others; by default equally.

    `workloads` holds one array a workload, of one log ratio a mirror pair. In each of `resamples`
    resamples every workload's pairs are drawn again with replacement, and the geometric mean of the
    medians is taken; the interval has 2.5 % of them on either side. The workloads themselves are
    not drawn: they are the ones that count, not a sample of others. `rounds` is the sum over the
    workloads. Raises BadSamples if one has fewer than 6 pairs.
    """
    if not workloads:
        raise BadSamples("a geometric mean needs a workload")
    if any(order_statistic_ranks(len(w)) is None for w in workloads):
        raise BadSamples("a workload has too few rounds for an interval")
    random = np.random.default_rng(seed)
    drawn = [_resampled_medians(w, resamples, random) for w in workloads]
    means = np.average(drawn, axis=0, weights=weights)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    value = mean_ratio([math.exp(np.median(w)) for w in workloads], weights)
    rounds = 2 * sum(len(w) for w in workloads)
    return Ratio(value, math.exp(float(low)), math.exp(float(high)), rounds)


def _resampled_medians(values: Floats, resamples: int, random: np.random.Generator) -> Floats:
    """Medians of bootstrap resamples, exact in distribution, without drawing the resamples.

    A resample of n values takes the values at n uniform places; the k-th smallest of n uniforms
    follows Beta(k, n + 1 - k), and the next one lies above it by a Beta(1, n - k) share of what
    is left.
    """
    ordered, n = np.sort(values), len(values)
    k = (n + 1) // 2
    lower = random.beta(k, n + 1 - k, resamples)
    upper = lower if n % 2 else lower + (1 - lower) * random.beta(1, n - k, resamples)
    places = [np.minimum((u * n).astype(np.int64), n - 1) for u in (lower, upper)]
    return np.asarray((ordered[places[0]] + ordered[places[1]]) / 2, dtype=np.float64)


def judge_overall(
    workloads: Sequence[WorkloadTiming],
    mean: Ratio,
    threshold: float,
    largest_loss: float = LARGEST_LOSS,
) -> Overall:
    """The verdict on a candidate by all its workloads.

    `mean` is the geometric mean over `workloads` and `threshold` that of the controls' geometric
    mean. It decides as a single ratio does, with exceptions that all make it INCONCLUSIVE:

    - a voided workload: its number may decide nothing, so no mean with it does;
    - FASTER or SAME, but a workload is SLOWER, cold, by more than `largest_loss`: it could be the
      one that someone serves;
    - SAME, but a workload is FASTER by as much: they differ, in both directions.

    A candidate that is SLOWER as a whole stays so, and a workload that gained is named. Cold
    launches decide; what is lost on warm ones is named.
    """
    voided = tuple(_voided(workloads))
    if voided:
        return Overall(TimingVerdict.INCONCLUSIVE, voided)
    verdict = decide(mean, threshold)
    text = _in_words(mean, threshold, verdict, mean_name(w.weight for w in workloads))
    lost = tuple(_beyond(workloads, TimingVerdict.SLOWER, largest_loss))
    warm = tuple(_beyond(workloads, TimingVerdict.SLOWER, largest_loss, "warm"))
    gained = tuple(_beyond(workloads, TimingVerdict.FASTER, largest_loss))
    if verdict is TimingVerdict.FASTER:
        if lost:
            return Overall(TimingVerdict.INCONCLUSIVE, (*lost, text, *warm))
        return Overall(verdict, (text, *warm))
    if verdict is TimingVerdict.SAME and (lost or gained):
        return Overall(TimingVerdict.INCONCLUSIVE, (*lost, *gained, text, *warm))
    return Overall(verdict, (text, *lost, *gained, *warm))


def _voided(workloads: Sequence[WorkloadTiming]) -> Iterator[str]:
    for timing in workloads:
        for caveat in timing.caveats:
            if caveat.invalidates:
                yield f"{timing.workload} may decide nothing: {caveat.message}"


def _beyond(
    workloads: Sequence[WorkloadTiming], verdict: TimingVerdict, bound: float, state: str = "cold"
) -> Iterator[str]:
    """Workloads with that verdict whose ratio is further than `bound` from 1, in words."""
    for timing in workloads:
        paired = timing.cold if state == "cold" else timing.warm
        if paired is None or decide(paired.speedup, timing.threshold) is not verdict:
            continue
        if abs(math.log(paired.speedup.value)) > math.log1p(bound):
            yield (
                f"{timing.workload} is {_difference(paired.speedup.value)} ({state}), "
                f"more than the {100 * bound:.3g} % that one workload may differ"
            )


def _difference(ratio: float) -> str:
    """3.1 % slower: by how much the time is longer, or the speed higher."""
    if ratio >= 1:
        return f"{100 * (ratio - 1):.1f} % faster"
    return f"{100 * (1 / ratio - 1):.1f} % slower"


def _in_words(mean: Ratio, threshold: float, verdict: TimingVerdict, what: str) -> str:
    place = {
        TimingVerdict.FASTER: "above the threshold",
        TimingVerdict.SLOWER: "below the threshold",
        TimingVerdict.SAME: "within the threshold",
        TimingVerdict.INCONCLUSIVE: "on both sides of the threshold",
    }[verdict]
    if not math.isfinite(threshold):
        return f"{what} {mean.value:.4f}, without a control to compare it with"
    return (
        f"{what} {mean.value:.4f} ({mean.low:.4f} to {mean.high:.4f}), "
        f"{place} of {100 * threshold:.2f} % around 1"
    )
