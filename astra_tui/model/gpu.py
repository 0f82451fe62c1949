"""What NVML tells about a GPU: who it is, how it was during a block, and who holds it.

Every reading may be None. `missing` then holds the reason under the field's name, in words for
the engineer: a driver that is not there, a GPU that does not support the question, a user who may
not ask it, a container that hides the answer.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


class ThrottleReason(StrEnum):
    """Why the clocks are not the highest, as nvml.h lists them (nvmlClocksEventReason*)."""

    GPU_IDLE = "gpu_idle"
    APPLICATION_CLOCKS = "application_clocks"
    SW_POWER_CAP = "sw_power_cap"
    HW_SLOWDOWN = "hw_slowdown"
    SYNC_BOOST = "sync_boost"
    SW_THERMAL = "sw_thermal_slowdown"
    HW_THERMAL = "hw_thermal_slowdown"
    HW_POWER_BRAKE = "hw_power_brake"
    DISPLAY_CLOCKS = "display_clocks"
    BOARD_LIMIT = "board_limit"
    RELIABILITY = "reliability"
    OTHER = "other"
    """A bit that this version has no name for."""


class GpuProcess(msgspec.Struct, frozen=True):
    """A process with a context on the GPU. The id is the host's; memory is None if not told."""

    pid: int
    memory_bytes: int | None = None


class GpuIdentity(msgspec.Struct, frozen=True):
    """What does not change while a session runs; part of every record of a measurement."""

    name: str | None = None
    uuid: str | None = None
    pci: str | None = None
    """PCI bus id, as NVML writes it: 00000000:1B:00.0."""
    driver: str | None = None
    cuda_driver: str | None = None
    """The newest CUDA version that the driver supports, as 13.0."""
    vbios: str | None = None
    compute_capability: tuple[int, int] | None = None
    sm_count: int | None = None
    memory_bytes: int | None = None
    l2_bytes: int | None = None
    """The L2 cache, as CUDA tells it: NVML does not. None in sessions of before it was kept."""
    max_sm_mhz: int | None = None
    max_mem_mhz: int | None = None
    power_limit_w: float | None = None
    """The limit in force, the smallest of all that apply."""
    ecc_enabled: bool | None = None
    mig_enabled: bool | None = None
    persistence: bool | None = None
    missing: dict[str, str] = msgspec.field(default_factory=dict)


class GpuSample(msgspec.Struct, frozen=True):
    """One reading. `seconds` is of the monotonic clock of the process that took it."""

    seconds: float
    sm_mhz: int | None = None
    mem_mhz: int | None = None
    power_w: float | None = None
    """Of this instant."""
    average_power_w: float | None = None
    """Over the last second."""
    temperature_c: int | None = None
    utilisation_percent: int | None = None
    """Share of time in which any kernel ran; it says nothing about how full the GPU was."""
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    throttle_reasons: tuple[ThrottleReason, ...] | None = None
    other_processes: tuple[GpuProcess, ...] | None = None
    """Those that are not the session's own; None where they cannot be seen, as in containers."""
    uncorrected_ecc: int | None = None
    """Uncorrected memory errors since the driver was loaded."""
    missing: dict[str, str] = msgspec.field(default_factory=dict)


class GpuCounters(msgspec.Struct, frozen=True):
    """Counters that only grow; the difference over a block misses nothing."""

    seconds: float
    energy_mj: int | None = None
    """Energy of the whole board since the driver was loaded, in millijoules."""
    power_violation_ns: int | None = None
    """Time below the wanted clocks because of the power limit."""
    thermal_violation_ns: int | None = None
    """Time below the wanted clocks because of heat."""
    missing: dict[str, str] = msgspec.field(default_factory=dict)


class GpuOccupants(msgspec.Struct, frozen=True):
    """Who holds the GPU: all its processes, the session's own too, and the memory in use."""

    processes: tuple[GpuProcess, ...] | None = None
    memory_used_bytes: int | None = None
    missing: dict[str, str] = msgspec.field(default_factory=dict)


class Spread(msgspec.Struct, frozen=True):
    """Smallest, middle and largest of several readings."""

    minimum: float
    median: float
    maximum: float


class GpuSummary(msgspec.Struct, frozen=True):
    """The samples around one block, and the counters before and after it.

    `missing` gives the reasons of readings that no sample has, and of those that only some have.
    """

    samples: int
    seconds: float
    """From the first sample to the last."""
    sm_mhz: Spread | None = None
    mem_mhz: Spread | None = None
    power_w: Spread | None = None
    average_power_w: Spread | None = None
    temperature_c: Spread | None = None
    utilisation_percent: Spread | None = None
    memory_used_bytes: Spread | None = None
    throttle_reasons: tuple[ThrottleReason, ...] | None = None
    """Those of any sample, in the order of their definition."""
    before: GpuCounters | None = None
    after: GpuCounters | None = None
    missing: dict[str, str] = msgspec.field(default_factory=dict)


class EnergyUse(msgspec.Struct, frozen=True):
    """Energy of a block of equal launches; all None, with the reason, where it cannot be told."""

    launches: int
    seconds: float
    joules: float | None = None
    joules_per_launch: float | None = None
    watts: float | None = None
    """Mean over the block."""
    missing: str = ""


class Healthy(msgspec.Struct, frozen=True, tag="healthy"):
    """The GPU is free again; `evidence` says by which readings."""

    evidence: str


class StillHeld(msgspec.Struct, frozen=True, tag="still_held"):
    """The killed process, or its memory, is still on the GPU."""

    reason: str


class Unknown(msgspec.Struct, frozen=True, tag="unknown"):
    """NVML does not tell enough to say whether the GPU is free."""

    reason: str


GpuHealth = Healthy | StillHeld | Unknown


def growth(before: GpuCounters | None, after: GpuCounters | None, counter: str) -> int | None:
    """By how much a counter of GpuCounters grew; None if unread, or reset in between."""
    first = getattr(before, counter, None)
    last = getattr(after, counter, None)
    if first is None or last is None or last < first:
        return None
    return int(last - first)
