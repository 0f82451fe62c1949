from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tui.gpu.timing.validity import CaveatKind, caveats_of_block
from astra_tui.model.gpu import (
    GpuCounters,
    GpuIdentity,
    GpuProcess,
    GpuSample,
    ThrottleReason,
)
from astra_tui.model.timing import Caveat
from tests.nvml.strategies import COUNTERS, IDENTITIES, SAMPLES

H100 = GpuIdentity(max_sm_mhz=1980, ecc_enabled=True, mig_enabled=False)
CLEAN = GpuSample(0.0, throttle_reasons=(), other_processes=(), uncorrected_ecc=0)
QUIET = (GpuCounters(0, 0, 0, 0), GpuCounters(1, 9, 0, 0))


def changed(**fields: object) -> GpuSample:
    values = {name: getattr(CLEAN, name) for name in CLEAN.__struct_fields__}
    return GpuSample(**(values | fields))  # type: ignore[arg-type]


def test_a_clean_block() -> None:
    assert caveats_of_block(H100, (CLEAN, CLEAN), 1900.0, QUIET) == ()


@pytest.mark.parametrize(("mhz", "low"), [(1485.0, False), (1484.0, True)])
def test_clock_below_three_quarters(mhz: float, low: bool) -> None:
    caveats = caveats_of_block(H100, (CLEAN, CLEAN), mhz, QUIET)
    assert [(d.kind, d.invalidates) for d in caveats] == ([(CaveatKind.CLOCK, True)] if low else [])


@pytest.mark.parametrize(
    ("reason", "invalidates"),
    [
        (ThrottleReason.HW_SLOWDOWN, True),
        (ThrottleReason.SW_THERMAL, True),
        (ThrottleReason.HW_THERMAL, True),
        (ThrottleReason.HW_POWER_BRAKE, True),
        (ThrottleReason.SW_POWER_CAP, False),
        (ThrottleReason.OTHER, False),
    ],
)
def test_throttle_reasons(reason: ThrottleReason, invalidates: bool) -> None:
    after = changed(throttle_reasons=(ThrottleReason.GPU_IDLE, reason))
    (caveat,) = caveats_of_block(H100, (CLEAN, after), 1900.0, QUIET)
    assert (caveat.kind, caveat.invalidates) == (CaveatKind.THROTTLE, invalidates)
    assert reason.replace("_", " ") in caveat.message


def test_idle_and_chosen_clocks_are_no_caveat() -> None:
    reasons = (ThrottleReason.GPU_IDLE, ThrottleReason.APPLICATION_CLOCKS)
    idle = changed(throttle_reasons=reasons)
    assert caveats_of_block(H100, (idle, idle), 1900.0, QUIET) == ()


def test_counters_see_what_samples_miss() -> None:
    after = GpuCounters(1, 9, power_violation_ns=4_000_000, thermal_violation_ns=250_000)
    power, heat = caveats_of_block(H100, (CLEAN, CLEAN), 1900.0, (QUIET[0], after))
    assert power == Caveat(
        "throttle", "clocks held down by the power limit for 4 ms of the block", invalidates=False
    )
    assert heat == Caveat(
        "throttle", "clocks held down by heat for 0.25 ms of the block", invalidates=True
    )


def test_other_processes() -> None:
    before, after = (changed(other_processes=(GpuProcess(pid),)) for pid in (31, 7))
    (caveat,) = caveats_of_block(H100, (before, after), 1900.0, QUIET)
    assert caveat == Caveat("processes", "other processes on the GPU: 7, 31", invalidates=True)


def test_processes_that_a_container_hides() -> None:
    why = "not visible from this container: NVML lists no process"
    hidden = changed(other_processes=None, missing={"other_processes": why})
    (caveat,) = caveats_of_block(H100, (hidden, hidden), 1900.0, QUIET)
    assert caveat == Caveat("processes", f"other processes: {why}", invalidates=False)


def test_memory_errors() -> None:
    (caveat,) = caveats_of_block(H100, (CLEAN, changed(uncorrected_ecc=2)), 1900.0, QUIET)
    assert caveat == Caveat(
        "ecc", "uncorrected memory errors: 2 during the block", invalidates=True
    )
    before = changed(uncorrected_ecc=2)
    assert caveats_of_block(H100, (before, before), 1900.0, QUIET) == ()


def test_mig() -> None:
    sliced = GpuIdentity(max_sm_mhz=1980, ecc_enabled=True, mig_enabled=True)
    (caveat,) = caveats_of_block(sliced, (CLEAN, CLEAN), 1900.0, QUIET)
    assert (caveat.kind, caveat.invalidates) == (CaveatKind.MIG, True)


def test_without_nvml_everything_is_unknown() -> None:
    why = "no NVIDIA driver here"
    fields = ("throttle_reasons", "other_processes", "uncorrected_ecc")
    sample = GpuSample(0.0, missing=dict.fromkeys(fields, why))
    identity = GpuIdentity(missing=dict.fromkeys(("max_sm_mhz", "mig_enabled"), why))
    caveats = caveats_of_block(identity, (sample, sample), None)
    assert [d.kind for d in caveats] == list(CaveatKind)
    assert not any(d.invalidates for d in caveats)
    assert all(why in d.message for d in caveats[1:])


PAIRS = st.none() | st.tuples(COUNTERS, COUNTERS)
CLOCKS = st.none() | st.floats(1, 3000)


@given(IDENTITIES, st.lists(SAMPLES, max_size=4), CLOCKS, PAIRS, st.randoms())
def test_order_of_samples_does_not_matter(
    identity: GpuIdentity,
    samples: list[GpuSample],
    mhz: float | None,
    counters: tuple[GpuCounters, GpuCounters] | None,
    random: object,
) -> None:
    caveats = caveats_of_block(identity, samples, mhz, counters)
    shuffled = list(samples)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert caveats_of_block(identity, shuffled, mhz, counters) == caveats
    order = list(CaveatKind)
    assert [order.index(CaveatKind(d.kind)) for d in caveats] == sorted(
        order.index(CaveatKind(d.kind)) for d in caveats
    )


@given(IDENTITIES, st.lists(SAMPLES, max_size=3), st.lists(SAMPLES, max_size=3), CLOCKS)
def test_more_samples_never_clear_a_block(
    identity: GpuIdentity, some: list[GpuSample], more: list[GpuSample], mhz: float | None
) -> None:
    voided = {d.kind for d in caveats_of_block(identity, some, mhz) if d.invalidates}
    assert voided <= {d.kind for d in caveats_of_block(identity, some + more, mhz) if d.invalidates}


@given(IDENTITIES, st.lists(SAMPLES, min_size=1, max_size=3), CLOCKS)
def test_what_could_not_be_seen_is_said(
    identity: GpuIdentity, samples: list[GpuSample], mhz: float | None
) -> None:
    kinds = {d.kind for d in caveats_of_block(identity, samples, mhz)}
    if mhz is None or identity.max_sm_mhz is None:
        assert CaveatKind.CLOCK in kinds
    if identity.mig_enabled is None:
        assert CaveatKind.MIG in kinds
    if any(s.other_processes is None for s in samples):
        assert CaveatKind.PROCESSES in kinds
    if any(s.throttle_reasons is None for s in samples):
        assert CaveatKind.THROTTLE in kinds
