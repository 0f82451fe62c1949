"""Samples of a GPU a few times a second, except while something is timed, and their sums; energy;
whether a GPU is free again after a kill.

The energy counter moves in steps and counts the whole board, idle power and other processes
included; so a short block says nothing, and a block should hold nothing but the launches.
"""

from __future__ import annotations

import contextlib
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

from astra_tui.model.gpu import (
    EnergyUse,
    GpuCounters,
    GpuHealth,
    GpuOccupants,
    GpuSample,
    GpuSummary,
    Healthy,
    Spread,
    StillHeld,
    ThrottleReason,
    Unknown,
    growth,
)

_NUMBERS = (
    "sm_mhz",
    "mem_mhz",
    "power_w",
    "average_power_w",
    "temperature_c",
    "utilisation_percent",
    "memory_used_bytes",
)


def summarise(
    samples: Sequence[GpuSample],
    before: GpuCounters | None = None,
    after: GpuCounters | None = None,
) -> GpuSummary:
    """Spreads of the readings and the union of reasons; the order of samples does not matter."""
    times = [sample.seconds for sample in samples]
    values: dict[str, Any] = {name: _spread(samples, name) for name in _NUMBERS}
    names = (*_NUMBERS, "throttle_reasons")
    reasons = {name: _why_missing(samples, name) for name in names}
    return GpuSummary(
        samples=len(samples),
        seconds=max(times) - min(times) if times else 0.0,
        **values,
        throttle_reasons=union_of_reasons(samples),
        before=before,
        after=after,
        missing={name: reason for name, reason in reasons.items() if reason},
    )


def union_of_reasons(samples: Sequence[GpuSample]) -> tuple[ThrottleReason, ...] | None:
    """The reasons of any sample, in the order of their definition; None if no sample knows."""
    known = [s.throttle_reasons for s in samples if s.throttle_reasons is not None]
    if not known:
        return None
    seen = {reason for reasons in known for reason in reasons}
    return tuple(reason for reason in ThrottleReason if reason in seen)


def _spread(samples: Sequence[GpuSample], name: str) -> Spread | None:
    values = [value for s in samples if (value := getattr(s, name)) is not None]
    if not values:
        return None
    return Spread(float(min(values)), float(statistics.median(values)), float(max(values)))


def _why_missing(samples: Sequence[GpuSample], name: str) -> str:
    """Why a reading is missing from all samples or from some; "" if it is in each."""
    if not samples:
        return "no sample was taken"
    reasons = Counter(
        sample.missing.get(name, "not read") for sample in samples if getattr(sample, name) is None
    )
    text = "; ".join(sorted(reasons))
    absent = reasons.total()
    return text if absent in (0, len(samples)) else f"{absent} of {len(samples)} samples: {text}"


RATE_HZ = 4.0


class GpuSampler:
    """Calls `read` at a rate on a thread of its own and gives the samples to `on_sample`.

    `on_sample` runs on that thread. If it raises, sampling ends and `close` raises the same.
    Samples are taken only between `start` and `close`, not while paused, and never closer to each
    other than the rate says: a late one moves those after it.
    """

    def __init__(
        self,
        read: Callable[[], GpuSample],
        on_sample: Callable[[GpuSample], None],
        *,
        rate_hz: float = RATE_HZ,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if rate_hz <= 0:
            raise ValueError(f"a rate is above zero, not {rate_hz:g}")
        self._read = read
        self._on_sample = on_sample
        self._period = 1 / rate_hz
        self._clock = clock
        self._changed = threading.Condition()
        self._paused = self._closed = self._busy = False
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="gpu sampler", daemon=True)

    def start(self) -> Self:
        """Takes the first sample now."""
        self._thread.start()
        return self

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def pause(self, within_s: float = 1.0) -> bool:
        """Takes no further sample. False if one is still being read after `within_s` seconds."""
        with self._changed:
            self._paused = True
            self._changed.notify_all()
            return self._changed.wait_for(lambda: not self._busy, within_s)

    def resume(self) -> None:
        """Continues at once."""
        with self._changed:
            self._paused = False
            self._changed.notify_all()

    @contextlib.contextmanager
    def paused(self, within_s: float = 1.0) -> Iterator[bool]:
        """Paused inside, as for a timed block; gives what `pause` answers."""
        try:
            yield self.pause(within_s)
        finally:
            self.resume()

    def close(self, within_s: float = 1.0) -> bool:
        """Ends the thread. False if a reading hangs; its thread is left behind, as a daemon."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread.ident is None:
            return True
        self._thread.join(within_s)
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        return not self._thread.is_alive()

    def _run(self) -> None:
        due = self._clock()
        while self._wait_until(due):
            due = self._clock() + self._period
            try:
                sample = self._read()
                if not self._abandoned():
                    self._on_sample(sample)
            except Exception as error:
                self._failure = error
                return
            finally:
                self._rest()

    def _wait_until(self, due: float) -> bool:
        """Waits for the time of the next sample and claims it; False when closed."""
        with self._changed:
            while not self._closed:
                if self._paused:
                    self._changed.wait()
                    continue
                left = due - self._clock()
                if left <= 0:
                    self._busy = True
                    return True
                self._changed.wait(left)
        return False

    def _abandoned(self) -> bool:
        """Whether this sample came after close, when no one expects it any more."""
        with self._changed:
            return self._closed

    def _rest(self) -> None:
        with self._changed:
            self._busy = False
            self._changed.notify_all()


SHORTEST_BLOCK = 1.0
"""Seconds."""


class EnergyMeter:
    """Measures blocks of equal launches. `read` gives the counters, as GpuReader.counters does.

    The caller synchronises with the GPU before `start` and before `stop`.
    """

    def __init__(self, read: Callable[[], GpuCounters]) -> None:
        self._read = read
        self._before: GpuCounters | None = None

    def start(self) -> None:
        """Begins a block."""
        self._before = self._read()

    def stop(self, launches: int) -> EnergyUse:
        """Ends the block of so many launches. Raises RuntimeError if none was begun."""
        if self._before is None:
            raise RuntimeError("the block was not started")
        before, self._before = self._before, None
        return energy_use(before, self._read(), launches)


def energy_use(before: GpuCounters, after: GpuCounters, launches: int) -> EnergyUse:
    """Energy between two readings, shared among launches, or why it cannot be told."""
    seconds = after.seconds - before.seconds
    problem = _problem(before, after, launches)
    used = growth(before, after, "energy_mj")
    if problem or used is None:
        return EnergyUse(launches, seconds, missing=problem)
    joules = used / 1e3
    return EnergyUse(launches, seconds, joules, joules / launches, joules / seconds)


def _problem(before: GpuCounters, after: GpuCounters, launches: int) -> str:
    seconds = after.seconds - before.seconds
    if launches < 1:
        return "nothing was launched"
    if seconds < SHORTEST_BLOCK:
        return f"the block took {seconds:.3g} s; the counter needs {SHORTEST_BLOCK:g} s or more"
    for counters in (before, after):
        if counters.energy_mj is None:
            return counters.missing.get("energy_mj", "not read")
    if growth(before, after, "energy_mj") is None:
        return "the counter went back: the driver was loaded again"
    return ""


SLACK_BYTES = 64 * 2**20
"""Less than any CUDA context holds."""

POLL = 0.02
"""Seconds between two looks."""


def gpu_health(
    read: Callable[[], GpuOccupants],
    pid: int,
    floor_bytes: int | None,
    *,
    within_s: float = 10.0,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> GpuHealth:
    """Waits until process `pid` has left the GPU and its memory is back at the floor.

    `read` is GpuReader.occupants; `floor_bytes` is the memory in use before the process started,
    None if it was not read. Where processes are not visible, memory decides alone; where memory
    is not known, nothing is decided, and without a floor that is the answer at once.
    """
    end = clock() + within_s
    while True:
        health = judge_occupants(read(), pid, floor_bytes)
        left = end - clock()
        hopeless = floor_bytes is None and isinstance(health, Unknown)
        if isinstance(health, Healthy) or hopeless or left <= 0:
            return health
        sleep(min(POLL, left))


def judge_occupants(occupants: GpuOccupants, pid: int, floor_bytes: int | None) -> GpuHealth:
    """What one look says."""
    processes, used = occupants.processes, occupants.memory_used_bytes
    if processes is not None and any(process.pid == pid for process in processes):
        return StillHeld(f"process {pid} is still on the GPU")
    if used is None:
        why = occupants.missing.get("memory_used_bytes", "not read")
        return Unknown(f"memory in use: {why}")
    if floor_bytes is None:
        return Unknown("memory in use before the process started was not recorded")
    if used > floor_bytes + SLACK_BYTES:
        return StillHeld(f"{_mib(used)} are in use, {_mib(floor_bytes)} before the process started")
    if processes is None:
        why = occupants.missing.get("processes", "not read")
        return Healthy(f"memory is back at {_mib(used)}; processes: {why}")
    return Healthy(f"process {pid} is gone and memory is back at {_mib(used)}")


def _mib(count: int) -> str:
    return f"{count / 2**20:.0f} MiB"
