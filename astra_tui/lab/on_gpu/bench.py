"""Times candidates against a base on all workloads of a task, and says what that amounts to."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Self

from astra_tui.gpu.gpu_process import GpuProcess
from astra_tui.gpu.messages import DeviceFacts
from astra_tui.gpu.timing.intervals import Floats
from astra_tui.gpu.timing.overall import geometric_mean, judge_overall
from astra_tui.gpu.timing.stopping import threshold
from astra_tui.gpu.tools import ToolKernels
from astra_tui.gpu.watch import Watch
from astra_tui.lab.check.oracle import Oracle
from astra_tui.lab.on_gpu.floors import Floors
from astra_tui.lab.on_gpu.measuring import Measured, Options, Timer
from astra_tui.lab.on_gpu.workload import Compiled
from astra_tui.model.digest import content_hash
from astra_tui.model.task import KernelTask, Workload
from astra_tui.model.timing import Progress, Timing, WorkloadTiming


@dataclass(frozen=True)
class WorkloadDone:
    """One candidate's timing on one workload."""

    candidate: int
    timing: WorkloadTiming
    rounds_us: Floats
    """Shape (rounds, 2): microseconds a launch of base and candidate, in the order taken."""


BenchEvent = Progress | WorkloadDone | Timing
"""What a bench tells while it runs; one Timing a candidate comes last."""


class Bench:
    """One GPU, one task, one process that measures; `renew` takes a fresh one."""

    def __init__(
        self,
        task: KernelTask,
        facts: DeviceFacts,
        tools: ToolKernels,
        oracle: Oracle,
        options: Options | None = None,
    ):
        self._task = task
        self.facts = facts
        self._tools = tools
        self._oracle = oracle
        self.options = options or Options()
        """What is measured; may be changed between two timings."""
        self._process = GpuProcess(facts.uuid, tools)
        self._open = ExitStack()
        self._watch = Watch(facts.uuid, self._own_processes)
        self._open.callback(self._watch.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the process that measures."""
        self._process.close()
        self._open.close()

    @property
    def gpu_processes(self) -> tuple[int, ...]:
        """The id of the process that measures, once it holds the GPU."""
        opened = self._process.opened
        return (opened.pid,) if opened is not None else ()

    def renew(self) -> None:
        """Takes a fresh process: nothing of what ran before is left in it."""
        self._process.close()

    def time(
        self, workloads: Sequence[Workload], base: Compiled, candidates: Sequence[Compiled]
    ) -> Iterator[BenchEvent]:
        """Times candidates that passed their check against a base.

        Raises UserError for a launch plan that refuses a workload, MeasurementFailed otherwise.
        """
        began = time.perf_counter()
        self._process.start()
        self._oracle.start()
        measured: list[list[Measured]] = [[] for _ in candidates]
        for workload in workloads:
            first = workload is workloads[0]
            for event in self._timer().time(workload, base, candidates, is_first=first):
                if isinstance(event, Progress):
                    yield event
                    continue
                for index, one in enumerate(event):
                    measured[index].append(one)
                    yield WorkloadDone(index, one.timing, one.rounds_us)
        for candidate, found in zip(candidates, measured, strict=True):
            yield self._timing(base, candidate, found, time.perf_counter() - began)

    def _timer(self) -> Timer:
        floors = Floors(self._process, self.facts, self._tools)
        return Timer(
            self._task,
            self.facts,
            self._process,
            self._oracle,
            floors,
            self._watch,
            self.options,
        )

    def _timing(
        self, base: Compiled, candidate: Compiled, measured: list[Measured], seconds: float
    ) -> Timing:
        workloads = tuple(one.timing for one in measured)
        weights = [timing.weight for timing in workloads]
        mean = geometric_mean([one.log_ratios for one in measured], weights=weights)
        control = geometric_mean([one.control_ratios for one in measured], weights=weights)
        overall = judge_overall(workloads, mean, threshold(control))
        return Timing(
            device=f"cuda:{self.facts.ordinal}",
            gpu=self.facts.name,
            base=content_hash(base.source.text),
            candidate=content_hash(candidate.source.text),
            workloads=workloads,
            speedup=mean,
            control=control,
            verdict=overall.verdict,
            reasons=overall.reasons,
            seconds=seconds,
            gpu_seconds=sum(one.gpu_seconds for one in measured),
            uuid=self.facts.uuid,
        )

    def _own_processes(self) -> tuple[int, ...]:
        of_oracle = (self._oracle.pid,) if self._oracle.pid else ()
        return (*self.gpu_processes, *of_oracle)
