"""Times sources against the kernels that others ship, shape by shape, on a GPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from astra_tui.gpu.timing.fastest import fastest_rival
from astra_tui.gpu.timing.intervals import Floats
from astra_tui.gpu.timing.overall import geometric_mean
from astra_tui.gpu.timing.pairing import BadSamples, mirrored_log_ratios
from astra_tui.lab.on_gpu.bench import Bench, WorkloadDone
from astra_tui.lab.on_gpu.workload import Compiled
from astra_tui.lab.yardsticks.opening import NotBuilt, Shipped, refusal
from astra_tui.model.errors import UserError
from astra_tui.model.task import KernelTask, Workload
from astra_tui.model.timing import Progress, Ratio
from astra_tui.model.yardsticks import ChainTimes, FastestShipped, ShapeTimes, VersionTimes

MIN_ROUNDS = 60
"""30 mirror pairs: 15 choose the fastest shipped kernel, 15 compare."""


@dataclass(frozen=True)
class TimedVersion:
    """One version that is timed: a source of ours, or a shipped kernel."""

    name: str
    compiled: Compiled
    is_shipped: bool = False


def timed_versions(
    shipped: Sequence[Shipped | NotBuilt], workload: Workload, attributes: Mapping[str, int]
) -> Iterator[TimedVersion]:
    """Every shipped kernel that serves a workload, without and, where it waits, with `pdl=`."""
    for each in shipped:
        if isinstance(each, NotBuilt) or refusal(each.task, each.yardstick, workload, attributes):
            continue
        for pdl in (False, True)[: 1 + each.yardstick.pdl]:
            name = each.yardstick.version(pdl)
            yield TimedVersion(name, each.compiled(workload, pdl=pdl), True)


@dataclass(frozen=True)
class YardstickTimer:
    """Times a baseline, sources and shipped kernels of one task, in the chain of its bench."""

    task: KernelTask
    bench: Bench
    base: TimedVersion
    sources: Sequence[TimedVersion]
    shipped: Sequence[Shipped | NotBuilt]
    attributes: Mapping[str, int]

    def time(self, workloads: Sequence[Workload]) -> Iterator[Progress | ShapeTimes | ChainTimes]:
        """A ShapeTimes a workload, the ChainTimes last.

        Raises UserError for a source that refuses a workload, or where there is nothing to time
        on one, and MeasurementFailed.
        """
        shapes: list[ShapeTimes] = []
        means: dict[str, list[Floats]] = {source.name: [] for source in self.sources}
        for workload in workloads:
            for event in self._shape(workload):
                if isinstance(event, Progress):
                    yield event
                    continue
                times, ratios = event
                shapes.append(times)
                for name, found in ratios.items():
                    means[name].append(found)
                yield times
        yield ChainTimes(
            self.bench.options.chain.value,
            tuple(shapes),
            {name: _mean(found, workloads) for name, found in means.items()},
        )

    def _shape(
        self, workload: Workload
    ) -> Iterator[Progress | tuple[ShapeTimes, dict[str, Floats]]]:
        rivals = list(timed_versions(self.shipped, workload, self.attributes))
        versions = [*self.sources, *rivals]
        if not versions:
            raise UserError(
                f"nothing is timed against {self.base.name} on {workload.name}: no shipped kernel "
                "that serves it is to be had",
                hint="name a source",
            )
        found: dict[int, WorkloadDone] = {}
        gpu_seconds = 0.0
        for event in self.bench.time(
            [workload], self.base.compiled, [v.compiled for v in versions]
        ):
            if isinstance(event, Progress):
                yield event
            elif isinstance(event, WorkloadDone):
                found[event.candidate] = event
            else:  # Of each version the same: all were measured together.
                gpu_seconds = event.gpu_seconds
        done = [found[i] for i in range(len(versions))]
        compared = self._compared(workload, rivals, done)
        times = ShapeTimes(
            workload=workload.name,
            dims=dict(workload.dims),
            dtype=workload.dtype,
            floor_us=done[0].timing.floor.us if done and done[0].timing.floor else None,
            base=self.base.name,
            base_us=done[0].timing.cold.base_us,
            versions=tuple(
                VersionTimes(
                    version.name,
                    one.timing.cold.candidate_us,
                    one.timing.cold.speedup,
                    version.is_shipped,
                    tuple(c for c in one.timing.caveats if c.invalidates),
                )
                for version, one in zip(versions, done, strict=True)
            ),
            fastest={name: shipped for name, (shipped, _) in compared.items()},
            not_timed=self._not_timed(workload),
            gpu_seconds=gpu_seconds,
            weight=workload.weight,
        )
        yield times, {name: ratios for name, (_, ratios) in compared.items()}

    def _not_timed(self, workload: Workload) -> dict[str, str]:
        """Yardsticks that serve a shape and could not be built, with the reason."""
        return {
            each.yardstick.name: each.reason
            for each in self.shipped
            if isinstance(each, NotBuilt)
            and not refusal(self.task, each.yardstick, workload, self.attributes)
        }

    def _compared(
        self, workload: Workload, rivals: Sequence[TimedVersion], done: Sequence[WorkloadDone]
    ) -> dict[str, tuple[FastestShipped, Floats]]:
        """Each source against the fastest shipped kernel; nothing where one could not be timed."""
        count = len(self.sources)
        void = any(one.timing.invalidated for one in done[count:])
        if not rivals or void or self._not_timed(workload):
            return {}
        of_rivals = [_log_ratios(one) for one in done[count:]]
        found = {}
        for source, one in zip(self.sources, done[:count], strict=True):
            if one.timing.invalidated:
                continue
            own = _log_ratios(one)
            try:
                fastest = fastest_rival([own - rival for rival in of_rivals])
            except BadSamples:
                continue
            found[source.name] = (
                FastestShipped(rivals[fastest.rival].name, fastest.speedup),
                fastest.log_ratios,
            )
        return found


def _log_ratios(done: WorkloadDone) -> Floats:
    """Base over version, one value a mirror pair."""
    return mirrored_log_ratios(done.rounds_us[:, 0], done.rounds_us[:, 1])


def _mean(found: Sequence[Floats], workloads: Sequence[Workload]) -> Ratio | None:
    """Over all shapes by their weights; None where one of them has no comparison."""
    if len(found) != len(workloads) or not workloads:
        return None
    weights = [workload.weight for workload in workloads]
    return geometric_mean([np.asarray(each) for each in found], weights=weights)
