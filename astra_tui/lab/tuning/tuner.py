"""A sweep from its sources to its winners: search, fresh times of the best, what serves where."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass

from astra_tui.lab.on_gpu.bench import Bench
from astra_tui.lab.on_gpu.measuring import MeasurementFailed
from astra_tui.lab.on_gpu.workload import Compiled
from astra_tui.lab.tuning.portfolio import (
    Dims,
    Gains,
    Part,
    Portfolio,
    best_on_average,
    portfolio,
    refined,
)
from astra_tui.lab.tuning.search import SHARE, Place, Searched, searching
from astra_tui.lab.tuning.sweep import (
    FINAL,
    SCREENING,
    GpuTimes,
    TrialTime,
    finalists,
    timed,
    trial_time,
)
from astra_tui.lab.tuning.trials import Trial, candidates_of, works_of
from astra_tui.model.errors import UserError
from astra_tui.model.task import KernelTask, Workload
from astra_tui.model.timing import Timing
from astra_tui.model.tuning import SweepProgress

OWN = 0
"""The number of the trial that is the source itself."""


@dataclass(frozen=True)
class Tuned:
    """What a sweep found."""

    searched: tuple[Searched, ...]
    finals: Gains
    """Fresh times of the trials that were measured again, against the source itself."""
    portfolio: Portfolio


@dataclass(frozen=True)
class Tuner:
    """Sweeps the trials of one source on a GPU; the first is the source as it is."""

    task: KernelTask
    bench: Bench
    workloads: tuple[Workload, ...]
    trials: Sequence[Trial]
    where: Sequence[Place]
    rivals: Sequence[Trial] = ()
    """Sources that are not searched and are timed with the best, such as what the source was made
    from; numbered after the trials.
    """

    def tune(self, share: float = SHARE) -> Generator[SweepProgress, None, Tuned]:
        """Searches, times the best again in a fresh process, and joins what pays.

        Says in words how far it is. Raises UserError for a plan that refuses a workload,
        MeasurementFailed where the source itself cannot be timed.
        """
        own = self._compiled(OWN)
        named = {w.name: w for w in self.workloads}
        self.bench.options = SCREENING
        itself = timed(self.bench, self.workloads, own, [own])[0].workloads
        floors = {t.workload: t.floor for t in itself if t.floor is not None}
        attributes = self.bench.facts.attributes
        works = works_of(self.task, self.trials, attributes)
        candidates = candidates_of(
            {name: found for name, found in works.items() if name in floors and name in named},
            floors,
            attributes["sm_count"],
        )
        count = sum(len(c.predicted_us) for c in candidates)
        words = f"{len(self.trials)} sources, {count} different trials on {len(named)} workloads"
        yield SweepProgress(words)
        times = GpuTimes(self.bench, named, own, self.trials)
        searched = yield from searching(candidates, self.where, times, share)
        self.bench.renew()
        self.bench.options = FINAL
        chosen = tuple(dict.fromkeys((OWN, *finalists(searched), *self._rivals)))
        finals = self._gains(OWN, chosen)
        default = best_on_average(finals, OWN, {w.name: w.weight for w in self.workloads})
        yield SweepProgress(f"{len(chosen) - 1} measured again")
        gains = finals if default == OWN else self._gains(default, chosen)
        sizes = {w.name: w.dims for w in self.workloads}
        found = portfolio(default, sizes, gains)
        parts = tuple(self._refined(default, part, sizes) for part in found.parts)
        return Tuned(searched, finals, Portfolio(default, parts, found.dropped))

    @property
    def _rivals(self) -> tuple[int, ...]:
        """The numbers of those that compile."""
        first = len(self.trials)
        return tuple(n for n, rival in enumerate(self.rivals, first) if rival.compiled is not None)

    def against(self, base: Compiled, candidate: Compiled) -> Timing:
        """A final timing of one source against another on all workloads."""
        self.bench.options = FINAL
        return timed(self.bench, self.workloads, base, [candidate])[0]

    def _compiled(self, trial: int) -> Compiled:
        of = (*self.trials, *self.rivals)[trial]
        if of.compiled is None:
            raise UserError(of.problem)
        return of.compiled

    def _gains(self, base: int, trials: Sequence[int]) -> Gains:
        """Final times of trials against one of them."""
        others = [t for t in trials if t != base]
        found: dict[int, dict[str, TrialTime]] = {
            base: {w.name: TrialTime(base, 1.0, 1.0, 1.0, 1.0) for w in self.workloads}
        }
        if others:
            compiled = [self._compiled(t) for t in others]
            timings = timed(self.bench, self.workloads, self._compiled(base), compiled)
            for trial, timing in zip(others, timings, strict=True):
                found[trial] = {
                    w.workload: trial_time(trial, w, w.cold.base_us) for w in timing.workloads
                }
        return found

    def _refined(self, default: int, part: Part, sizes: Mapping[str, Dims]) -> Part:
        dtype = self.workloads[0].dtype
        base, candidate = self._compiled(default), self._compiled(part.trial)

        def gain(dims: Dims) -> TrialTime | None:
            if self.task.violated(dims, dtype):
                return None
            workload = Workload("x".join(map(str, dims.values())), dict(dims), dtype)
            try:
                (timing,) = timed(self.bench, [workload], base, [candidate])
            except (UserError, MeasurementFailed):
                self.bench.renew()
                return None
            return trial_time(part.trial, timing.workloads[0], timing.workloads[0].cold.base_us)

        return refined(part, sizes, gain)
