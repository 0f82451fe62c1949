"""A GPU made of random numbers: replay times whose true ratio is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from astra_tui.gpu.timing.conclusion import Conclusion, conclude
from astra_tui.gpu.timing.intervals import Floats
from astra_tui.gpu.timing.pairing import PairedRounds
from astra_tui.gpu.timing.schedule import SINGLE_EVERY, mirrored_orders
from astra_tui.gpu.timing.stopping import ROUND_LIMIT

LAUNCHES = 64
"""N."""


class Replays(NamedTuple):
    """Microseconds of many measurements: T(2N) and T(N), shapes (trials, rounds, versions)."""

    double: Floats
    single: Floats
    """Of every fifth round only."""

    @property
    def single_rows(self) -> list[int]:
        """The rounds of which `single` is."""
        return list(range(SINGLE_EVERY - 1, self.double.shape[1], SINGLE_EVERY))


@dataclass(frozen=True)
class Machine:
    """What makes two replays of one graph differ. Fractions are of a replay's time."""

    noise: float = 0.003
    """Standard deviation of a replay, each by itself."""
    common: float = 0.02
    """Of a whole round: clocks, heat."""
    correlation: float = 0.0
    """Of the noise of one version from mirror pair to mirror pair."""
    drift: float = 0.0
    """Growth of all times from the first replay to the last."""
    first: float = 0.0
    """What the first replay of a round takes more."""
    outliers: float = 0.0
    """Share of replays that are disturbed, by |normal| of 10 times the noise."""
    offset_us: float = 3.0
    grid_us: float = 0.032
    """Resolution of the events, as measured on an H100."""

    def replay(
        self, random: np.random.Generator, launch_us: Sequence[float], trials: int, rounds: int
    ) -> Replays:
        """Measures versions whose launches take so long."""
        versions = len(launch_us)
        shape = (trials, rounds, versions)
        orders = [mirrored_orders(versions, rounds, random) for _ in range(trials)]
        slot = np.argsort(np.stack(orders), axis=-1)
        moment = (np.arange(rounds)[:, None] + slot / versions) / rounds
        load = self.drift * moment + self.first * (slot == 0)
        load = (
            load + random.normal(0, self.common, (trials, rounds, 1)) + self._noise(random, shape)
        )
        if self.correlation:
            load = load + self._walk(random, shape)
        truth = 2 * LAUNCHES * np.asarray(launch_us)
        double = truth * np.exp(load) + self.offset_us
        rows = slice(SINGLE_EVERY - 1, None, SINGLE_EVERY)
        single = truth / 2 * np.exp(load[:, rows] + self._noise(random, load[:, rows].shape))
        single += self.offset_us
        return Replays(self._read(random, double), self._read(random, single))

    def _noise(self, random: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        noise = random.normal(0, self.noise, shape)
        if self.outliers:
            hit = random.random(shape) < self.outliers
            noise = np.where(hit, 10 * np.abs(noise), noise)
        return noise

    def _walk(self, random: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Autoregressive noise of the same size as the independent one, one step a mirror pair."""
        trials, rounds, versions = shape
        fresh = random.normal(0, self.noise, (trials, rounds // 2, versions))
        fresh *= np.sqrt(1 - self.correlation**2)
        walk = np.empty_like(fresh)
        walk[:, 0] = random.normal(0, self.noise, (trials, versions))
        for step in range(1, rounds // 2):
            walk[:, step] = self.correlation * walk[:, step - 1] + fresh[:, step]
        return np.repeat(walk, 2, axis=1)

    def _read(self, random: np.random.Generator, times: Floats) -> Floats:
        """What events with a coarse clock read: both ends fall on its grid."""
        if not self.grid_us:
            return times
        begin = random.random(times.shape)
        return np.asarray(np.floor(begin + times / self.grid_us) * self.grid_us)


def measure(replays: Replays, trial: int, limit: int = ROUND_LIMIT) -> tuple[int, Conclusion]:
    """Runs one measurement as the lab does: blocks until no more rounds are asked for.

    Version 0 is the base, 1 its copy, 2 the candidate. Gives the rounds taken and the conclusion.
    """
    taken = PairedRounds.start(LAUNCHES, 3)
    add, rows = 40, replays.single_rows
    while True:
        begin, end = taken.rounds, taken.rounds + add
        block = [i for i, row in enumerate(rows) if begin <= row < end]
        taken = taken.add(
            replays.double[trial, begin:end],
            replays.single[trial, block],
            [rows[i] - begin for i in block],
        )
        said = conclude(taken, candidate=2, control=1, limit=limit)
        add = said.rounds_to_add
        if add == 0:
            return taken.rounds, said
