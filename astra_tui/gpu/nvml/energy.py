"""Energy per launch, from the board's energy counter over a block of at least a second.

The counter moves in steps and counts the whole board, idle power and other processes included; so
a short block says nothing, and a block should hold nothing but the launches.
"""

from __future__ import annotations

from collections.abc import Callable

from astra_tui.model.gpu import EnergyUse, GpuCounters, growth

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
        return "the counter went back: the driver was loaded anew"
    return ""
