"""Times of the trials of a sweep: in small batches against one base, winners once more."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from astra_tui.lab.on_gpu.bench import Bench
from astra_tui.lab.on_gpu.measuring import Chain, MeasurementFailed, Options
from astra_tui.lab.on_gpu.workload import Compiled
from astra_tui.lab.requests import TrialTimings
from astra_tui.lab.tuning.search import Searched
from astra_tui.model.errors import UserError
from astra_tui.model.task import Workload
from astra_tui.model.timing import Timing, WorkloadTiming

SCREENING = Options(warm=False, chain=Chain.ITSELF, round_limit=20, judged_parts=2)
"""Of every trial: enough to tell those apart that differ by more than about 1 %, and those that are
wrong from the rest; the best are timed and judged again.
"""
FINAL = Options(warm=False, chain=Chain.ITSELF, least_rounds=40, round_limit=100)
"""Of the few that are left, measured again: the best of many first times is flattered."""

NEAR = 0.01
"""Trials within this of a workload's best are as good, by first times."""
FINALISTS = 2
"""Of one workload, at least, where so many are as good."""


class TrialTime(msgspec.Struct, frozen=True, omit_defaults=True):
    """A trial on a workload, against the sweep's base: above 1 the trial is faster."""

    trial: int
    us: float = 0.0
    speedup: float = 0.0
    low: float = 0.0
    high: float = 0.0
    problem: str = ""
    """Why there is no time."""

    @property
    def valid(self) -> bool:
        """Whether it has a time."""
        return self.us > 0


class Measure(Protocol):
    """Times trials against a base of theirs by their numbers, where a GPU is free for it."""

    async def __call__(
        self, workloads: Sequence[Workload], base: int, trials: Sequence[int], *, final: bool
    ) -> TrialTimings:
        """All in one process on one GPU; SCREENING, or FINAL in a fresh process."""
        ...


@dataclass
class Times:
    """Times of trials against the source, kept as they are learned.

    A trial's microseconds are the first base's over its ratio: pairs are compared within a batch,
    and the base's own time moves from one batch, and one GPU, to the next.
    """

    found: dict[str, dict[int, TrialTime]] = field(default_factory=dict)
    _base_us: dict[str, float] = field(default_factory=dict)

    def keep(
        self, workload: str, timed: Mapping[int, WorkloadTiming | str]
    ) -> Mapping[int, float | None]:
        """Timings, or problems, of some trials; microseconds of each that has a valid time."""
        known = self.found.setdefault(workload, {})
        for trial, timing in timed.items():
            if isinstance(timing, str):
                known[trial] = TrialTime(trial, problem=timing)
                continue
            base_us = self._base_us.setdefault(workload, timing.cold.base_us)
            known[trial] = trial_time(trial, timing, base_us)
        return {trial: known[trial].us or None for trial in timed}


async def time_batch(
    measure: Measure, workload: Workload, base: int, trials: Sequence[int]
) -> dict[int, WorkloadTiming | str]:
    """The timings of some trials together; each alone where that fails, with its problem."""
    found = await measure([workload], base, trials, final=False)
    if not found.problem:
        return {t: x.workloads[0] for t, x in zip(trials, found.timings, strict=True)}
    if len(trials) == 1:
        return {trials[0]: found.problem}
    alone = [await time_batch(measure, workload, base, [trial]) for trial in trials]
    return {trial: timing for one in alone for trial, timing in one.items()}


def time_trials(
    bench: Bench, workloads: Sequence[Workload], base: Compiled, trials: Sequence[Compiled]
) -> TrialTimings:
    """The timings of trials by a bench, which has a fresh process after a failure."""
    begun = time.monotonic()
    try:
        timings = [e for e in bench.time(workloads, base, trials) if isinstance(e, Timing)]
    except (MeasurementFailed, UserError) as error:
        bench.renew()
        return TrialTimings((), time.monotonic() - begun, str(error))
    return TrialTimings(tuple(timings), time.monotonic() - begun)


def trial_time(trial: int, timing: WorkloadTiming, base_us: float) -> TrialTime:
    """A trial's time, by its ratio to the base."""
    for caveat in timing.caveats:
        if caveat.invalidates:
            return TrialTime(trial, problem=caveat.message)
    ratio = timing.cold.speedup
    return TrialTime(trial, base_us / ratio.value, ratio.value, ratio.low, ratio.high)


def finalists(searched: Iterable[Searched]) -> tuple[int, ...]:
    """The trials to measure again, on all workloads: few that are among the best of many.

    Each workload has FINALISTS of those that seem as good as its best. Every further one costs a
    time on each workload.
    """
    near = [_near_best(one.us) for one in searched if one.us]
    left = [min(len(trials), FINALISTS) for trials in near]
    found: list[int] = []

    def worth(trial: int) -> tuple[int, float, int]:
        of = [
            trials[trial]
            for trials, more in zip(near, left, strict=True)
            if more and trial in trials
        ]
        return len(of), -sum(of), -trial

    while any(left):
        found.append(max({t for trials in near for t in trials}.difference(found), key=worth))
        left = [
            more - (more > 0 and found[-1] in trials)
            for trials, more in zip(near, left, strict=True)
        ]
    return tuple(found)


def _near_best(us: Mapping[int, float]) -> dict[int, float]:
    """The trials that seem as good as the best, and how much slower than that each was."""
    best = min(us.values())
    return {trial: time / best - 1 for trial, time in us.items() if time <= best * (1 + NEAR)}


@dataclass(frozen=True)
class RecordedTimes:
    """Times of a full sweep that was written down, as if they were measured (`search.Times`)."""

    us: Mapping[str, Mapping[int, float]]
    """By workload and trial; those without a valid time are left out."""

    @classmethod
    def read(cls, recorded: Mapping[str, Any]) -> RecordedTimes:
        """From the `times` that `benchmarks/gpu_tuning.py` writes."""
        return cls(
            {
                workload: {t["trial"]: t["us"] for t in times if t.get("us")}
                for workload, times in recorded.items()
            }
        )

    def of(self, workload: str, trials: Sequence[int]) -> Mapping[int, float | None]:
        """What was written down."""
        return {t: self.us[workload].get(t) for t in trials}
