"""Measures the trials of a sweep on a GPU: in small batches against one base, winners once more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from astra_tui.lab.on_gpu.bench import Bench
from astra_tui.lab.on_gpu.measuring import Chain, MeasurementFailed, Options
from astra_tui.lab.on_gpu.workload import Compiled
from astra_tui.lab.tuning.search import Candidates, Searched
from astra_tui.lab.tuning.trials import Trial
from astra_tui.model.errors import UserError
from astra_tui.model.task import Workload
from astra_tui.model.timing import Timing, WorkloadTiming

SCREENING = Options(warm=False, chain=Chain.ITSELF, round_limit=20)
"""Of every trial: enough to tell those apart that differ by more than about 1 %."""
FINAL = Options(warm=False, chain=Chain.ITSELF, least_rounds=40, round_limit=100)
"""Of the few that are left, measured again: the best of many first times is flattered."""

NEAR = 0.01
"""Trials within this of a workload's best are measured again with it."""
FINALISTS = 3
"""Of one workload, at most."""


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


@dataclass
class GpuTimes:
    """Times of trials by a bench, kept as they come (`search.Times`).

    A trial's microseconds are the first base's over its ratio: pairs are compared within a batch,
    and the base's own time moves from one batch to the next.
    """

    bench: Bench
    workloads: Mapping[str, Workload]
    base: Compiled
    trials: Sequence[Trial]
    found: dict[str, dict[int, TrialTime]] = field(default_factory=dict)
    base_us: dict[str, float] = field(default_factory=dict)

    def of(self, workload: str, trials: Sequence[int]) -> Mapping[int, float | None]:
        """Measures some trials together; each alone where that fails."""
        known = self.found.setdefault(workload, {})
        try:
            known.update(self._together(workload, trials))
        except (MeasurementFailed, UserError) as error:
            self.bench.renew()
            if len(trials) > 1:
                for trial in trials:
                    self.of(workload, [trial])
            else:
                known[trials[0]] = TrialTime(trials[0], problem=str(error))
        return {t: known[t].us or None for t in trials}

    def _together(self, workload: str, trials: Sequence[int]) -> dict[int, TrialTime]:
        compiled = [c for t in trials if (c := self.trials[t].compiled) is not None]
        assert len(compiled) == len(trials), "a trial that did not compile is no candidate"
        timings = timed(self.bench, [self.workloads[workload]], self.base, compiled)
        base_us = self.base_us.setdefault(workload, timings[0].workloads[0].cold.base_us)
        return {
            t: trial_time(t, timing.workloads[0], base_us)
            for t, timing in zip(trials, timings, strict=True)
        }


def timed(
    bench: Bench, workloads: Sequence[Workload], base: Compiled, candidates: Sequence[Compiled]
) -> list[Timing]:
    """The timings of candidates, in their order. Raises as `Bench.time`."""
    return [e for e in bench.time(workloads, base, candidates) if isinstance(e, Timing)]


def trial_time(trial: int, timing: WorkloadTiming, base_us: float) -> TrialTime:
    """A trial's time, by its ratio to the base."""
    for caveat in timing.caveats:
        if caveat.invalidates:
            return TrialTime(trial, problem=caveat.message)
    ratio = timing.cold.speedup
    return TrialTime(trial, base_us / ratio.value, ratio.value, ratio.low, ratio.high)


def measure_all(times: GpuTimes, candidates: Iterable[Candidates], batch: int = 8) -> None:
    """The full sweep: every trial of every workload."""
    for one in candidates:
        trials = list(one.predicted_us)
        for first in range(0, len(trials), batch):
            times.of(one.workload, trials[first : first + batch])


def finalists(searched: Iterable[Searched]) -> tuple[int, ...]:
    """The trials to measure again: the best of each workload, and what seems as good."""
    found: dict[int, None] = {}
    for one in searched:
        ranked = sorted(one.us, key=lambda t: one.us[t])
        if ranked:
            bound = one.us[ranked[0]] * (1 + NEAR)
            found.update(dict.fromkeys(t for t in ranked[:FINALISTS] if one.us[t] <= bound))
    return tuple(found)


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
