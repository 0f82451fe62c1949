"""Which trials of a sweep to measure: what a model ranks first, corrected by what is measured.

The logarithm of a trial's time is taken to be the device model's, an offset of the workload, and a
smooth function of the settings that workloads share in part (a Gaussian process, mostly a sum over
dimensions). Trials are chosen by expected improvement until a tenth of them is measured, or nothing
is to be expected of the rest. The first of each workload is the device model's own choice: whether
all rows run at once is a matter of one workload, and what others measured says nothing of it.
What is measured may be a GPU or a recorded sweep (`Times`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from astra_tui.gpu.timing.intervals import Floats

SHARE = 0.1
"""Of all trials of a workload: so many are measured at most."""
LEAST_TRIALS = 5
"""So many are measured on a workload that has them, however few a tenth are."""
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
    """What there is to try on one workload: trials that do the same are one, and launch bounds that
    add no blocks are left out.
    """

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


@dataclass(frozen=True)
class Batch:
    """Trials of one workload to measure together."""

    workload: str
    trials: tuple[int, ...]


class Search:
    """Chooses what to measure next, workloads in turn, so that each learns from the others.

    The same for the same times. What was chosen and is not learned yet counts as if it came out as
    expected: `ahead` so guesses what follows.
    """

    def __init__(
        self,
        candidates: Sequence[Candidates],
        where: Sequence[Place],
        share: float = SHARE,
        batch: int = BATCH,
    ):
        self._candidates = candidates
        self._numbers = {one.workload: number for number, one in enumerate(candidates)}
        self._share, self._batch = share, batch
        self._model = _Model(candidates, where)
        self._chosen: list[set[int]] = [set() for _ in candidates]
        self._measured: list[dict[int, float | None]] = [{} for _ in candidates]
        self._expected = [math.inf] * len(candidates)
        self._turn = 0

    @property
    def progress(self) -> str:
        """How far it is, in words."""
        most = sum(one.budget(self._share) for one in self._candidates)
        return f"{sum(map(len, self._measured))} of at most {most} trials measured"

    def ahead(self) -> Iterator[Batch]:
        """What is to be measured next, as far as is known before what was chosen is learned."""
        other = copy(self)
        other._chosen = [set(chosen) for chosen in self._chosen]
        other._expected = list(self._expected)
        other._model = self._model.copied()
        while (batch := other.next()) is not None:
            yield batch

    def next(self) -> Batch | None:
        """What to measure now; None once nothing is."""
        for _ in self._candidates:
            number, self._turn = self._turn, (self._turn + 1) % len(self._candidates)
            one, chosen = self._candidates[number], self._chosen[number]
            count = min(self._batch, one.budget(self._share) - len(chosen))
            expected, self._expected[number] = self._model.choose(number, chosen, count)
            enough = len(chosen) >= LEAST_TRIALS and self._expected[number] < LEAST_GAIN
            if expected and not enough:
                trials = tuple(trial for _, trial in expected)
                chosen.update(trials)
                self._model.known.update(expected)
                return Batch(one.workload, trials)
        return None

    def learn(self, batch: Batch, us: Mapping[int, float | None]) -> None:
        """What was measured; None for a trial without a valid time."""
        number = self._numbers[batch.workload]
        for trial in batch.trials:
            self._measured[number][trial] = us.get(trial)
            self._model.learn(number, trial, us.get(trial))

    @property
    def found(self) -> tuple[Searched, ...]:
        """All that was measured, by workload."""
        parts = zip(self._candidates, self._measured, self._expected, strict=True)
        return tuple(
            Searched(
                one.workload,
                {t: us for t, us in seen.items() if us is not None},
                len(seen),
                len(one.predicted_us),
                gain,
            )
            for one, seen, gain in parts
        )


def search(
    candidates: Sequence[Candidates],
    where: Sequence[Place],
    times: Times,
    share: float = SHARE,
    batch: int = BATCH,
) -> tuple[Searched, ...]:
    """Measures a share of the trials of each workload, what promises most first."""
    chooses = Search(candidates, where, share, batch)
    while (asked := chooses.next()) is not None:
        chooses.learn(asked, times.of(asked.workload, asked.trials))
    return chooses.found


_Row = tuple[int, int]
"""Workload and trial, by number."""


class _Model:
    """The device model, corrected by a Gaussian process over workloads and settings."""

    def __init__(self, candidates: Sequence[Candidates], where: Sequence[Place]):
        self.candidates = candidates
        self.where = np.asarray(where, dtype=np.float64).reshape(len(where), -1)
        self.known: dict[_Row, float] = {}
        """Log of the time over the predicted time, measured or expected."""
        self.best = [math.inf] * len(candidates)
        """Log of the best time of each workload."""

    def copied(self) -> _Model:
        """One that may learn something else."""
        other = copy(self)
        other.known, other.best = dict(self.known), list(self.best)
        return other

    def learn(self, workload: int, trial: int, us: float | None) -> None:
        """A measured time; a trial without one counts as twice its prediction."""
        predicted = self.candidates[workload].predicted_us[trial]
        self.known[workload, trial] = math.log(us / predicted) if us else math.log(2.0)
        if us:
            self.best[workload] = min(self.best[workload], math.log(us))

    def choose(self, workload: int, tried: set[int], count: int) -> tuple[dict[_Row, float], float]:
        """The trials to measure next with what is expected of them, and how much the first should
        improve on the best.
        """
        left = [t for t in self.candidates[workload].predicted_us if t not in tried]
        if count <= 0 or not left:
            gain = float(self._gains(workload, left, self.known).max()) if left else 0.0
            return {}, gain
        rows: dict[_Row, float] = {}
        first = math.inf
        while left and len(rows) < count:
            known = {**self.known, **rows}
            gains = self._gains(workload, left, known)
            at = int(np.argmax(gains)) if tried or rows else self._predicted_first(workload, left)
            first = float(gains[at]) if not rows else first
            trial = left.pop(at)
            mean, _ = self._posterior(workload, [trial], known)
            predicted = math.log(self.candidates[workload].predicted_us[trial])
            rows[workload, trial] = float(mean[0]) - predicted
        return rows, first

    def _predicted_first(self, workload: int, trials: Sequence[int]) -> int:
        """The place of the trial that the device model ranks first."""
        predicted = self.candidates[workload].predicted_us
        return min(range(len(trials)), key=lambda at: predicted[trials[at]])

    def _gains(self, workload: int, trials: Sequence[int], known: Mapping[_Row, float]) -> Floats:
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
        self, workload: int, trials: Sequence[int], known: Mapping[_Row, float]
    ) -> tuple[Floats, Floats]:
        """Mean and standard deviation of log times."""
        predicted = np.log([self.candidates[workload].predicted_us[t] for t in trials])
        asked = [(workload, t) for t in trials]
        prior = _OFFSET**2 + _SHARED**2 + _OWN**2
        if not known:
            return predicted, np.full(len(trials), math.sqrt(prior))
        across = self._covariance(asked, list(known))
        inner = self._covariance(list(known), list(known))
        inner[np.diag_indices_from(inner)] += _NOISE**2
        solved = np.linalg.solve(inner, across.T)
        mean = predicted + np.asarray(list(known.values())) @ solved
        variance = prior - np.sum(across.T * solved, axis=0)
        return mean, np.sqrt(np.maximum(variance, 1e-12))

    def _covariance(self, a: Sequence[_Row], b: Sequence[_Row]) -> Floats:
        of_a, of_b = (np.array([w for w, _ in rows]) for rows in (a, b))
        at_a, at_b = (self.where[[t for _, t in rows]] for rows in (a, b))
        apart = np.abs(at_a[:, None, :] - at_b[None, :, :]) / _LENGTH
        alone, together = np.exp(-apart).mean(axis=2), np.exp(-apart.sum(axis=2))
        near = (1 - _TOGETHER) * alone + _TOGETHER * together
        same = of_a[:, None] == of_b[None, :]
        return np.asarray(
            _SHARED**2 * near + same * (_OFFSET**2 + _OWN**2 * near), dtype=np.float64
        )
