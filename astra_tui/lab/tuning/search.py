"""Which trials of a sweep to measure: what a model ranks first, corrected by what is measured.

The logarithm of a trial's time is taken to be the device model's, an offset of the workload, and a
smooth function of the settings that workloads share in part (a Gaussian process, mostly a sum over
dimensions). Trials are chosen by expected improvement until a tenth of them is measured, or nothing
is to be expected of the rest.
What is measured may be a GPU or a recorded sweep (`Times`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import numpy as np

from astra_tui.gpu.timing.intervals import Floats
from astra_tui.model.tuning import SweepProgress

Result = TypeVar("Result")

SHARE = 0.1
"""Of all trials of a workload: so many are measured at most."""
LEAST_TRIALS = 3
LEAST_GAIN = 0.001
"""A workload is done when no trial is expected to be faster than its best by more than this."""
BATCH = 3
"""Trials of one workload that are measured together, each against the same base."""

_OFFSET, _SHARED, _OWN, _NOISE = 1.0, 0.2, 0.1, 0.004
"""Standard deviations of log times: of a workload's offset, of what settings do on all workloads
and on one, and of a measurement."""
_LENGTH = 1.0
"""Over this distance of settings, in ranges of a dimension, a correlation falls to 1 / e."""
_TOGETHER = 0.2
"""The part of what settings do that they do together; the rest is each dimension's own."""

Place = tuple[float, ...]
"""The settings of a trial, every dimension from 0 to 1."""


class Times(Protocol):
    """Measures trials of a workload, by number: microseconds; None where there is no valid time."""

    def of(self, workload: str, trials: Sequence[int]) -> Mapping[int, float | None]:
        """The times of some trials, taken together."""
        ...


@dataclass(frozen=True)
class Candidates:
    """What there is to try on one workload: trials that do the same are one."""

    workload: str
    predicted_us: Mapping[int, float]
    """By trial; only those that can be launched."""

    def budget(self, share: float) -> int:
        """How many of them may be measured."""
        count = len(self.predicted_us)
        return min(count, max(LEAST_TRIALS, math.ceil(share * count)))


@dataclass(frozen=True)
class Searched:
    """What a search measured on one workload."""

    workload: str
    us: Mapping[int, float]
    """By trial, in the order in which they were measured; those with a valid time."""
    tried: int
    candidates: int
    expected_gain: float
    """What the model still expects of the best of the rest, as a fraction."""

    @property
    def best(self) -> int | None:
        """The fastest trial."""
        return min(self.us, key=lambda t: self.us[t], default=None)


@dataclass
class _Known:
    """All that was measured so far, of all workloads."""

    rows: list[tuple[int, int]] = field(default_factory=list)
    """Workload and trial, by number."""
    values: list[float] = field(default_factory=list)
    """Log of the time over the predicted time."""


def places(
    choices: Sequence[Sequence[int]], settings: Sequence[Sequence[int]]
) -> tuple[Place, ...]:
    """Where trials lie: the number of each choice over those of its dimension."""
    return tuple(
        tuple(
            of.index(value) / max(1, len(of) - 1) for of, value in zip(choices, trial, strict=True)
        )
        for trial in settings
    )


def search(
    candidates: Sequence[Candidates],
    where: Sequence[Place],
    times: Times,
    share: float = SHARE,
    batch: int = BATCH,
) -> tuple[Searched, ...]:
    """Measures a share of the trials of each workload, what promises most first.

    Workloads take turns, so that each learns from the others. Deterministic for the same times.
    """
    return result_of(searching(candidates, where, times, share, batch))


def searching(
    candidates: Sequence[Candidates],
    where: Sequence[Place],
    times: Times,
    share: float = SHARE,
    batch: int = BATCH,
) -> Generator[SweepProgress, None, tuple[Searched, ...]]:
    """As `search`, step by step: how many trials were measured so far."""
    most = sum(one.budget(share) for one in candidates)
    model = _Model(candidates, where)
    tried: list[dict[int, float | None]] = [{} for _ in candidates]
    expected = [math.inf] * len(candidates)
    while True:
        measured = False
        for number, one in enumerate(candidates):
            left = one.budget(share) - len(tried[number])
            chosen, expected[number] = model.choose(number, set(tried[number]), min(batch, left))
            enough = len(tried[number]) >= LEAST_TRIALS and expected[number] < LEAST_GAIN
            if not chosen or enough:
                continue
            found = times.of(one.workload, chosen)
            for trial in chosen:
                us = found.get(trial)
                tried[number][trial] = us
                model.learn(number, trial, us)
            measured = True
            count = sum(map(len, tried))
            yield SweepProgress(f"{count} of at most {most} trials measured")
        if not measured:
            break
    return tuple(
        Searched(
            one.workload,
            {t: us for t, us in seen.items() if us is not None},
            len(seen),
            len(one.predicted_us),
            gain,
        )
        for one, seen, gain in zip(candidates, tried, expected, strict=True)
    )


def result_of(
    steps: Generator[SweepProgress, None, Result], told: Callable[[str], None] = lambda _: None
) -> Result:
    """What comes at the end of some steps; `told` hears how far they are."""
    while True:
        try:
            told(next(steps).text)
        except StopIteration as end:
            result: Result = end.value
            return result


class _Model:
    """The device model, corrected by a Gaussian process over workloads and settings."""

    def __init__(self, candidates: Sequence[Candidates], where: Sequence[Place]):
        self.candidates = candidates
        self.where = np.asarray(where, dtype=np.float64).reshape(len(where), -1)
        self.known = _Known()
        self.best = [math.inf] * len(candidates)
        """Log of the best time of each workload."""

    def learn(self, workload: int, trial: int, us: float | None) -> None:
        """A measured time; a trial without one counts as twice its prediction."""
        predicted = self.candidates[workload].predicted_us[trial]
        self.known.rows.append((workload, trial))
        self.known.values.append(math.log(us / predicted) if us else math.log(2.0))
        if us:
            self.best[workload] = min(self.best[workload], math.log(us))

    def choose(self, workload: int, tried: set[int], count: int) -> tuple[tuple[int, ...], float]:
        """The trials to measure next, and the improvement that is expected of the first."""
        left = [t for t in self.candidates[workload].predicted_us if t not in tried]
        if count <= 0 or not left:
            gain = float(self._gains(workload, left, self.known).max()) if left else 0.0
            return (), gain
        chosen: list[int] = []
        first = math.inf
        known = _Known(list(self.known.rows), list(self.known.values))
        while left and len(chosen) < count:
            gains = self._gains(workload, left, known)
            at = int(np.argmax(gains))
            first = float(gains[at]) if not chosen else first
            trial = left.pop(at)
            chosen.append(trial)
            mean, _ = self._posterior(workload, [trial], known)
            known.rows.append((workload, trial))  # As if it came out as expected.
            known.values.append(
                float(mean[0]) - math.log(self.candidates[workload].predicted_us[trial])
            )
        return tuple(chosen), first

    def _gains(self, workload: int, trials: Sequence[int], known: _Known) -> Floats:
        """Expected improvement on the best time, in logarithms; before there is one, the order of
        the predictions.
        """
        mean, deviation = self._posterior(workload, trials, known)
        best = self.best[workload]
        if not math.isfinite(best):
            best = float(mean.min())
            return np.asarray(10.0 - (mean - best), dtype=np.float64)
        z = (best - mean) / deviation
        normal = np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
        below = np.array([0.5 * math.erfc(-v / math.sqrt(2)) for v in z])
        return np.asarray(deviation * (z * below + normal), dtype=np.float64)

    def _posterior(
        self, workload: int, trials: Sequence[int], known: _Known
    ) -> tuple[Floats, Floats]:
        """Mean and standard deviation of log times."""
        predicted = np.log([self.candidates[workload].predicted_us[t] for t in trials])
        asked = [(workload, t) for t in trials]
        prior = _OFFSET**2 + _SHARED**2 + _OWN**2
        if not known.rows:
            return predicted, np.full(len(trials), math.sqrt(prior))
        across = self._covariance(asked, known.rows)
        inner = self._covariance(known.rows, known.rows)
        inner[np.diag_indices_from(inner)] += _NOISE**2
        solved = np.linalg.solve(inner, across.T)
        mean = predicted + np.asarray(known.values) @ solved
        variance = prior - np.sum(across.T * solved, axis=0)
        return mean, np.sqrt(np.maximum(variance, 1e-12))

    def _covariance(self, a: Sequence[tuple[int, int]], b: Sequence[tuple[int, int]]) -> Floats:
        of_a, of_b = (np.array([w for w, _ in rows]) for rows in (a, b))
        at_a, at_b = (self.where[[t for _, t in rows]] for rows in (a, b))
        apart = np.abs(at_a[:, None, :] - at_b[None, :, :]) / _LENGTH
        alone, together = np.exp(-apart).mean(axis=2), np.exp(-apart.sum(axis=2))
        near = (1 - _TOGETHER) * alone + _TOGETHER * together
        same = of_a[:, None] == of_b[None, :]
        return np.asarray(
            _SHARED**2 * near + same * (_OFFSET**2 + _OWN**2 * near), dtype=np.float64
        )
