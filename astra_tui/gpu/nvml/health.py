"""Whether a GPU is free again after a process that used it was killed."""

from __future__ import annotations

import time
from collections.abc import Callable

from astra_tui.model.gpu import GpuHealth, GpuOccupants, Healthy, StillHeld, Unknown

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
    is not known, nothing is decided, and without a floor that is said without waiting.
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
