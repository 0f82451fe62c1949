"""Validity gates: what was wrong with the GPU around a timed block. Pure functions.

A gate gives caveats. A block that a caveat invalidates is taken again; any other caveat is shown
with the number. What could not be seen is a caveat that says so, and is never taken for good.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum

from astra_tui.model.gpu import (
    GpuCounters,
    GpuIdentity,
    GpuSample,
    ThrottleReason,
    growth,
)
from astra_tui.model.timing import Caveat


class CaveatKind(StrEnum):
    """What the caveats of these gates are about, in the order in which they are given."""

    CLOCK = "clock"
    THROTTLE = "throttle"
    PROCESSES = "processes"
    ECC = "ecc"
    MIG = "mig"


LOWEST_CLOCK = 0.75
"""Share of the highest SM clock below which a block does not count (as in nvbench)."""

_VOIDING = {
    ThrottleReason.HW_SLOWDOWN,
    ThrottleReason.SW_THERMAL,
    ThrottleReason.HW_THERMAL,
    ThrottleReason.HW_POWER_BRAKE,
}
_HARMLESS = {ThrottleReason.GPU_IDLE, ThrottleReason.APPLICATION_CLOCKS}
"""The GPU rests between blocks; clocks that its owner has set are steady."""


def caveats_of_block(
    identity: GpuIdentity,
    samples: Sequence[GpuSample],
    sm_mhz: float | None,
    counters: tuple[GpuCounters, GpuCounters] | None = None,
) -> tuple[Caveat, ...]:
    """All caveats about one block, in the order of CaveatKind.

    `samples` were taken right before and right after the block, in any order; `sm_mhz` is the SM
    clock under load, from clock64 over globaltimer; `counters` were read before and after.
    """
    return (
        *_clock_caveats(identity, sm_mhz),
        *_throttle_caveats(samples, counters),
        *_process_caveats(samples),
        *_ecc_caveats(identity, samples),
        *_mig_caveats(identity),
    )


def _clock_caveats(identity: GpuIdentity, sm_mhz: float | None) -> Iterator[Caveat]:
    highest = identity.max_sm_mhz
    if sm_mhz is None:
        yield Caveat(CaveatKind.CLOCK, "SM clock under load: not measured")
    elif highest is None:
        why = identity.missing.get("max_sm_mhz", "not read")
        yield Caveat(CaveatKind.CLOCK, f"highest SM clock: {why}")
    elif sm_mhz < LOWEST_CLOCK * highest:
        share = f"{100 * sm_mhz / highest:.0f} % of {highest} MHz"
        yield _voiding(CaveatKind.CLOCK, f"the SM clock under load was {sm_mhz:.0f} MHz, {share}")


def _throttle_caveats(
    samples: Sequence[GpuSample], counters: tuple[GpuCounters, GpuCounters] | None
) -> Iterator[Caveat]:
    seen = {reason for sample in samples for reason in sample.throttle_reasons or ()}
    for reason in ThrottleReason:
        if reason in seen - _HARMLESS:
            text = f"clocks held down: {reason.replace('_', ' ')}"
            yield Caveat(CaveatKind.THROTTLE, text, invalidates=reason in _VOIDING)
    before, after = counters or (None, None)
    power = growth(before, after, "power_violation_ns")
    heat = growth(before, after, "thermal_violation_ns")
    if power:
        text = f"clocks held down by the power limit for {power / 1e6:.3g} ms of the block"
        yield Caveat(CaveatKind.THROTTLE, text)
    if heat:
        text = f"clocks held down by heat for {heat / 1e6:.3g} ms of the block"
        yield _voiding(CaveatKind.THROTTLE, text)
    hidden = [s for s in samples if s.throttle_reasons is None]
    if (hidden or not samples) and (power is None or heat is None):
        why = _why(hidden, "throttle_reasons")
        yield Caveat(CaveatKind.THROTTLE, f"reasons for low clocks: {why}")


def _process_caveats(samples: Sequence[GpuSample]) -> Iterator[Caveat]:
    others = {process.pid for sample in samples for process in sample.other_processes or ()}
    if others:
        text = ", ".join(str(pid) for pid in sorted(others))
        yield _voiding(CaveatKind.PROCESSES, f"other processes on the GPU: {text}")
    hidden = [s for s in samples if s.other_processes is None]
    if hidden or not samples:
        why = _why(hidden, "other_processes")
        yield Caveat(CaveatKind.PROCESSES, f"other processes: {why}")


def _ecc_caveats(identity: GpuIdentity, samples: Sequence[GpuSample]) -> Iterator[Caveat]:
    counts = [s.uncorrected_ecc for s in samples if s.uncorrected_ecc is not None]
    if len(set(counts)) > 1:
        text = f"uncorrected memory errors: {max(counts) - min(counts)} during the block"
        yield _voiding(CaveatKind.ECC, text)
    elif len(counts) < 2:
        hidden = [s for s in samples if s.uncorrected_ecc is None]
        off = identity.ecc_enabled is False
        why = "ECC is off, nothing is counted" if off else _why(hidden, "uncorrected_ecc")
        yield Caveat(CaveatKind.ECC, f"memory errors: {why}")


def _mig_caveats(identity: GpuIdentity) -> Iterator[Caveat]:
    if identity.mig_enabled:
        text = "MIG is on: a slice has a share of the multiprocessors and of the bandwidth"
        yield _voiding(CaveatKind.MIG, text)
    elif identity.mig_enabled is None:
        why = identity.missing.get("mig_enabled", "not read")
        yield Caveat(CaveatKind.MIG, f"MIG mode: {why}")


def _voiding(kind: CaveatKind, message: str) -> Caveat:
    return Caveat(kind, message, invalidates=True)


def _why(samples: Sequence[GpuSample], name: str) -> str:
    """The reasons of samples that lack a reading."""
    reasons = sorted({sample.missing.get(name, "not read") for sample in samples})
    return "; ".join(reasons) or "not read before and after the block"
