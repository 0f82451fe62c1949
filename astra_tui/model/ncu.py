"""Hardware counters that NVIDIA's Nsight Compute (ncu) read, and those that it did not."""

from __future__ import annotations

import msgspec

DURATION = "gpu__time_duration.sum"
"""Of a launch as ncu runs it: never a time of the candidate."""

SHARED_WAVEFRONTS = "memory_l1_wavefronts_shared"
SHARED_WAVEFRONTS_IDEAL = "memory_l1_wavefronts_shared_ideal"


class Metric(msgspec.Struct, frozen=True):
    """One value in ncu's base unit, such as byte, ns or %; "" where it has none."""

    value: float
    unit: str = ""


class LaunchCounters(msgspec.Struct, frozen=True):
    """The counters of one launch. Every metric asked for is in `metrics` or in `missing`.

    ncu serialises launches, flushes caches and replays: its durations are not times of the
    candidate and give no speedup.
    """

    kernel: str
    """The C++ name that the launch plan asked for."""
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    metrics: dict[str, Metric]
    missing: dict[str, str]
    """Why a metric was not returned, by its name."""

    @property
    def excess_shared_wavefronts(self) -> float | None:
        """Passes over shared memory that bank conflicts cost: those made less the ideal ones.

        Exact and repeatable, unlike ncu's own counter of bank conflicts, which is noisy.
        """
        made = self.metrics.get(SHARED_WAVEFRONTS)
        ideal = self.metrics.get(SHARED_WAVEFRONTS_IDEAL)
        return made.value - ideal.value if made is not None and ideal is not None else None


class NcuReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """The counters of all launches of one workload, or why there are none."""

    workload: str
    launches: tuple[LaunchCounters, ...] = ()
    problem: str = ""
    """Why there are no counters; empty when there are some."""
    remedy: str = ""
    """What to do about the problem, where something can be done."""
    version: str = ""
    seconds: float = 0.0

    @property
    def available(self) -> bool:
        """Whether counters were read."""
        return not self.problem

    @property
    def outcome(self) -> str:
        """How many counters were read and on what, or why none."""
        if not self.available:
            return f"not available: {self.problem}"
        read = sum(len(launch.metrics) for launch in self.launches)
        missing = sum(len(launch.missing) for launch in self.launches)
        short = f", {missing} could not be read" if missing else ""
        return f"{read} read on workload {self.workload}{short}"


class ComparedCounter(msgspec.Struct, frozen=True):
    """One counter of the emulator and the GPU's; `gpu` and `difference` are None where ncu did
    not read it.
    """

    counter: str
    emulator: int
    gpu: float | None

    @property
    def difference(self) -> float | None:
        """GPU less emulator."""
        return None if self.gpu is None else self.gpu - self.emulator


def total(launches: tuple[LaunchCounters, ...], names: tuple[str, ...]) -> float | None:
    """Metrics added up over launches; None where one is missing."""
    found = [launch.metrics.get(name) for launch in launches for name in names]
    if not found or any(metric is None for metric in found):
        return None
    return sum(metric.value for metric in found if metric is not None)
