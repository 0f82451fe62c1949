"""A sweep from its trials to its winners: search, fresh times of the best, what serves where."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from astra_tui.gpu.messages import DeviceFacts
from astra_tui.lab.requests import CompiledTrial, TrialTimings
from astra_tui.lab.tuning.portfolio import (
    Dims,
    Gain,
    Gains,
    Part,
    Portfolio,
    best_on_average,
    portfolio,
    refined,
)
from astra_tui.lab.tuning.search import SHARE, Batch, Place, Search, Searched
from astra_tui.lab.tuning.sweep import (
    Measure,
    Times,
    TrialTime,
    finalists,
    time_batch,
    trial_time,
)
from astra_tui.lab.tuning.trials import candidates_of
from astra_tui.model.errors import UserError
from astra_tui.model.task import KernelTask, Workload
from astra_tui.model.timing import WorkloadTiming
from astra_tui.model.verdict_thresholds import MIN_DIFFERENCE

Result = TypeVar("Result")

OWN = 0
"""The number of the trial that is the source itself."""


@dataclass(frozen=True)
class Tuned:
    """What a sweep found."""

    searched: tuple[Searched, ...]
    finals: Gains
    """Fresh times of the trials that were measured again, against the source itself."""
    portfolio: Portfolio
    gpu_seconds: float
    """How long trials had a GPU to themselves, of all GPUs."""
    seconds: float
    """From before the first of them to after the last."""
    gpus: tuple[str, ...]
    """UUIDs of those that timed them."""
    cut: str = ""
    """Of a sweep that did not come to its end: how far it was."""

    @property
    def trials(self) -> int:
        """How many differ, over all workloads."""
        return sum(s.candidates for s in self.searched)

    @property
    def timed(self) -> int:
        """How many of them were measured."""
        return sum(s.tried for s in self.searched)


@dataclass
class _Known:
    """What a sweep knows until now."""

    search: Search | None = None
    times: Times = field(default_factory=Times)
    finals: Gains = field(default_factory=dict)
    begun: float = field(default_factory=time.monotonic)


@dataclass(frozen=True)
class Tuner:
    """Sweeps the trials of one source; the first is the source as it is.

    So many measurements are taken `at_once`, each on a GPU of its own. The result does not depend
    on how many: what is measured ahead of its turn counts when its turn comes, if it does.
    """

    task: KernelTask
    facts: DeviceFacts
    workloads: tuple[Workload, ...]
    trials: Sequence[CompiledTrial]
    where: Sequence[Place]
    measure: Measure
    rivals: Sequence[CompiledTrial] = ()
    """Sources that are not searched and are timed with the best, such as what the source was made
    from; numbered after the trials.
    """
    at_once: int = 1
    told: Callable[[str], None] = lambda _: None
    """Hears in words how far it is."""
    unbounded: Mapping[int, int] = field(default_factory=dict)
    """By trial whose launch bounds ask for blocks the one without them."""
    _known: _Known = field(default_factory=_Known)
    _timings: list[TrialTimings] = field(default_factory=list)
    _begun: set[asyncio.Task[Any]] = field(default_factory=set)

    async def tune(self, share: float = SHARE) -> Tuned:
        """Searches, times the best again in fresh processes, and joins what pays.

        Raises UserError where the source itself cannot be timed.
        """
        try:
            return await self._tune(share)
        except BaseException:
            for task in self._begun:
                task.cancel()
            raise
        finally:
            await asyncio.gather(*self._begun, return_exceptions=True)

    def so_far(self) -> Tuned | None:
        """What the trials that are measured until now come to, by their first times where they have
        no others; None before the first of them.
        """
        search, finals = self._known.search, self._known.finals
        if search is None or not any(one.tried for one in search.found):
            return None
        gains = finals or self._first_gains()
        default = best_on_average(gains, OWN, self._weights)
        found = portfolio(default, self._sizes, _over(gains, default))
        again = max(0, len(finals) - 1) or "none"
        return self._tuned(search.found, finals, found, f"{search.progress}, {again} of them again")

    async def _tune(self, share: float) -> Tuned:
        self._known.begun = time.monotonic()
        itself = (await self._spread(OWN, [OWN], final=False))[OWN]
        floors = {w: timing.floor for w, timing in itself.items() if timing.floor is not None}
        multiprocessors = self.facts.attributes["sm_count"]
        candidates = candidates_of(self.trials, floors, multiprocessors, self.unbounded)
        count = sum(len(c.predicted_us) for c in candidates)
        self.told(
            f"{len(self.trials)} sources, {count} different trials on "
            f"{len(self.workloads)} workloads"
        )
        self._known.search = Search(candidates, self.where, share)
        searched = await self._searched(self._known.search)
        chosen = tuple(dict.fromkeys((OWN, *finalists(searched), *self._rivals)))
        finals = self._known.finals = await self._gains(OWN, chosen)
        default = best_on_average(finals, OWN, self._weights)
        self.told(f"{len(chosen) - 1} measured again")
        may_pay = [t for t in chosen if t == default or _may_pay(finals[t], finals[default])]
        gains = finals if default == OWN else await self._gains(default, may_pay)
        found = portfolio(default, self._sizes, gains)
        parts = await self._all(self._refined(default, part, self._sizes) for part in found.parts)
        await asyncio.gather(*self._begun)  # Also what was measured ahead for nothing.
        return self._tuned(searched, finals, Portfolio(default, tuple(parts), found.dropped))

    def _tuned(
        self, searched: tuple[Searched, ...], finals: Gains, found: Portfolio, cut: str = ""
    ) -> Tuned:
        gpu_seconds = sum(one.seconds for one in self._timings)
        seconds = time.monotonic() - self._known.begun
        uuids = sorted({t.uuid for one in self._timings for t in one.timings})
        return Tuned(searched, finals, found, gpu_seconds, seconds, tuple(uuids), cut)

    @property
    def _sizes(self) -> dict[str, Dims]:
        return {w.name: w.dims for w in self.workloads}

    @property
    def _weights(self) -> dict[str, float]:
        return {w.name: w.weight for w in self.workloads}

    def _first_gains(self) -> Gains:
        """First times of all trials that have one, against the source itself."""
        found: dict[int, dict[str, Gain]] = {}
        for workload, times in self._known.times.found.items():
            for trial, of in times.items():
                found.setdefault(trial, {})[workload] = of
        return {**found, OWN: self._itself(OWN)}

    def _itself(self, trial: int) -> dict[str, Gain]:
        """A trial's gains over itself."""
        return {w.name: TrialTime(trial, 1.0, 1.0, 1.0, 1.0) for w in self.workloads}

    async def _searched(self, search: Search) -> tuple[Searched, ...]:
        """What a search finds; GPUs that are free measure what will probably be asked next."""
        times, named = self._known.times, {w.name: w for w in self.workloads}
        asked: dict[tuple[str, int], asyncio.Task[dict[int, WorkloadTiming | str]]] = {}

        def begin(batch: Batch) -> None:
            trials = [t for t in batch.trials if (batch.workload, t) not in asked]
            if trials:
                timing = time_batch(self._measured, named[batch.workload], OWN, trials)
                task = self._begin(timing)
                asked.update({(batch.workload, t): task for t in trials})

        def busy() -> set[asyncio.Task[dict[int, WorkloadTiming | str]]]:
            return {task for task in asked.values() if not task.done()}

        while (batch := search.next()) is not None:
            begin(batch)
            needed = {t: asked[batch.workload, t] for t in batch.trials}
            ahead = search.ahead()
            while not all(task.done() for task in needed.values()):
                while len(busy()) < self.at_once and (following := next(ahead, None)):
                    begin(following)
                await asyncio.wait(busy(), return_when=asyncio.FIRST_COMPLETED)
            timed = {trial: task.result()[trial] for trial, task in needed.items()}
            search.learn(batch, times.keep(batch.workload, timed))
            self.told(search.progress)
        return search.found

    @property
    def _rivals(self) -> tuple[int, ...]:
        """The numbers of those that compile."""
        first = len(self.trials)
        return tuple(n for n, r in enumerate(self.rivals, first) if r.compilation is not None)

    def _begin(self, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        task = asyncio.create_task(work)
        self._begun.add(task)
        return task

    async def _all(self, works: Iterable[Coroutine[Any, Any, Result]]) -> list[Result]:
        """The results of work that is done at once, in its order."""
        return await asyncio.gather(*map(self._begin, works))

    async def _measured(
        self, workloads: Sequence[Workload], base: int, trials: Sequence[int], *, final: bool
    ) -> TrialTimings:
        found = await self.measure(workloads, base, trials, final=final)
        self._timings.append(found)
        return found

    async def _spread(
        self, base: int, trials: Sequence[int], *, final: bool
    ) -> dict[int, dict[str, WorkloadTiming]]:
        """Trials against a base on all workloads, each workload on one GPU. Raises UserError."""
        together = [self.workloads] if self.at_once == 1 else [(w,) for w in self.workloads]
        timed = await self._all(
            self._measured(some, base, trials, final=final) for some in together
        )
        for one in timed:
            if one.problem:
                raise UserError(one.problem)
        return {
            trial: {w.workload: w for one in timed for w in one.timings[number].workloads}
            for number, trial in enumerate(trials)
        }

    async def _gains(self, base: int, trials: Sequence[int]) -> Gains:
        """Final times of trials against one of them."""
        others = [t for t in trials if t != base]
        timed = await self._spread(base, others, final=True) if others else {}
        return {
            base: self._itself(base),
            **{
                trial: {name: trial_time(trial, w, w.cold.base_us) for name, w in of.items()}
                for trial, of in timed.items()
            },
        }

    async def _refined(self, default: int, part: Part, sizes: Mapping[str, Dims]) -> Part:
        dtype = self.workloads[0].dtype

        async def gain(dims: Dims) -> TrialTime | None:
            if self.task.violated(dims, dtype):
                return None
            workload = Workload("x".join(map(str, dims.values())), dict(dims), dtype)
            found = await self._measured([workload], default, [part.trial], final=True)
            if found.problem:
                return None
            (timing,) = found.timings[0].workloads
            return trial_time(part.trial, timing, timing.cold.base_us)

        return await refined(part, sizes, gain)


def _may_pay(gains: Mapping[str, Gain], over: Mapping[str, Gain]) -> bool:
    """Whether a trial may be better than another one on a workload, as far as a third tells."""
    return any(
        gains[name].valid and gains[name].high > gain.low * (1 + MIN_DIFFERENCE)
        for name, gain in over.items()
    )


def _over(gains: Gains, default: int) -> Gains:
    """Gains over a trial that has been timed everywhere, from those that it shares a base with."""
    base = gains[default]
    return {
        trial: {
            name: TrialTime(
                trial,
                1.0,
                gain.speedup / base[name].speedup,
                gain.low / base[name].high,
                gain.high / base[name].low,
            )
            for name, gain in of.items()
            if gain.valid
        }
        for trial, of in gains.items()
    }
