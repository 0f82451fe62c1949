"""Finds the accepted candidate that introduced a regression, in as few trials as it takes."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from astra_tui.engine.lab import Lab
from astra_tui.engine.rerun import check, named_source, time_pair
from astra_tui.engine.verify import Accepted
from astra_tui.model.check import Case, Checked, worst_error
from astra_tui.model.errors import UserError, nearest
from astra_tui.model.timing import TimingVerdict
from astra_tui.model.verdict import Profile


@dataclass(frozen=True)
class Trial:
    """What was found of one candidate; `value` is the number that was looked at."""

    accepted: Accepted
    value: float
    regressed: bool
    text: str


class Regression(Protocol):
    """A regression to look for."""

    async def test(self, accepted: Accepted) -> Trial:
        """Tries one candidate. Raises UserError where it cannot be tried."""
        ...


async def bisect(chain: Sequence[Accepted], regression: Regression) -> AsyncIterator[Trial]:
    """Tries candidates until of two neighbours only the later one is known to have the regression.

    `chain` is in order. The ends come first: where the last has no regression, or the
    first has it already, there is nothing to look for. At most 2 + log2(len(chain)) trials.
    """
    last = await regression.test(chain[-1])
    yield last
    if not last.regressed or len(chain) == 1:
        return
    first = await regression.test(chain[0])
    yield first
    if first.regressed:
        return
    good, bad = 0, len(chain) - 1
    while bad - good > 1:
        middle = (good + bad) // 2
        trial = await regression.test(chain[middle])
        yield trial
        if trial.regressed:
            bad = middle
        else:
            good = middle


def culprit(chain: Sequence[Accepted], trials: Sequence[Trial]) -> Accepted | None:
    """The first candidate with the regression, where the one before it was tried and has none."""
    regressed = {t.accepted: t.regressed for t in trials}
    for before, after in pairwise(chain):
        if regressed.get(before) is False and regressed.get(after) is True:
            return after
    return None


@dataclass(frozen=True)
class Sources:
    """Where the sources come from, and the lab that runs them."""

    lab: Lab
    read: Callable[[str], str]
    cases: tuple[Case, ...] = ()

    async def check(self, hash_: str) -> Checked:
        """Checks a candidate."""
        return await check(self.lab, named_source(self.read(hash_), hash_), self.cases)


@dataclass(frozen=True)
class ErrorAbove:
    """Whether some output is further from the float64 reference than a share of what is allowed.

    Every accepted candidate is within 1; absolute errors would only tell how large the values of
    the suite are.
    """

    sources: Sources
    bound: float

    async def test(self, accepted: Accepted) -> Trial:
        """Checks the candidate."""
        checked = await self.sources.check(accepted.hash)
        if not checked.passed:
            return Trial(accepted, math.inf, True, f"its check fails: {checked.report.message}")
        value = worst_error(checked.results)
        text = f"largest error {value:.3g} of what is allowed"
        return Trial(accepted, value, value > self.bound, text)


@dataclass(frozen=True)
class CounterRose:
    """Whether a counter of a workload is more than `by`, a fraction, above that of the first."""

    sources: Sources
    workload: str
    counter: str
    good: str
    by: float

    async def test(self, accepted: Accepted) -> Trial:
        """Profiles the candidate and the one that it is compared with."""
        if accepted.hash == self.good:
            return _reference(accepted)
        base, count = await self._count(self.good), await self._count(accepted.hash)
        rise = count / base - 1 if base else (math.inf if count else 0.0)
        text = f"{self.counter.replace('_', ' ')} {count:,} ({rise:+.1%})"
        return Trial(accepted, count, rise > self.by, text)

    async def _count(self, hash_: str) -> int:
        source = named_source(self.sources.read(hash_), hash_)
        profiled = await self.sources.lab.open(source).profile()
        return _counted(profiled.profile, self.workload, self.counter)


@dataclass(frozen=True)
class Slower:
    """Whether a candidate is slower than the first on a workload, by more than `by` if given."""

    sources: Sources
    workload: str
    good: str
    by: float | None

    async def test(self, accepted: Accepted) -> Trial:
        """Times the candidate against the one that it is compared with, once it has passed."""
        if accepted.hash == self.good:
            return _reference(accepted)
        checked = await self.sources.check(accepted.hash)
        if not checked.passed:
            return Trial(accepted, math.inf, True, f"its check fails: {checked.report.message}")
        base, candidate = (
            named_source(self.sources.read(h), h) for h in (self.good, accepted.hash)
        )
        timing = await time_pair(self.sources.lab, base, candidate, (self.workload,))
        (workload,) = timing.workloads
        ratio = workload.cold.speedup
        if self.by is None:
            lost = workload.verdict is TimingVerdict.SLOWER
        else:
            lost = 1 / ratio.value - 1 > self.by
        text = f"{ratio.value:.3f} [{ratio.low:.3f}, {ratio.high:.3f}] {workload.verdict.value}"
        return Trial(accepted, ratio.value, lost, text)


def _reference(accepted: Accepted) -> Trial:
    return Trial(accepted, 0.0, False, "the one that the others are compared with")


def _counted(profile: Profile, workload: str, counter: str) -> int:
    known = {w.workload: w.counters for w in profile.workloads}
    if workload not in known:
        why = profile.uncounted
        raise UserError(f"workload {workload} was not counted {why}", hint=nearest(workload, known))
    return int(getattr(known[workload], counter))
