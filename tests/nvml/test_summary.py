from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from astra_tui.gpu.nvml import summarise
from astra_tui.model.gpu import (
    GpuCounters,
    GpuSample,
    GpuSummary,
    Spread,
    ThrottleReason,
    growth,
)
from tests.nvml.strategies import COUNTERS, SAMPLES

NUMBERS = ("sm_mhz", "mem_mhz", "power_w", "average_power_w", "temperature_c")


def test_a_block() -> None:
    samples = [
        GpuSample(1.0, sm_mhz=1980, power_w=500.0, throttle_reasons=(ThrottleReason.SW_POWER_CAP,)),
        GpuSample(2.0, sm_mhz=1755, power_w=None, missing={"power_w": "not permitted"}),
        GpuSample(3.5, sm_mhz=1965, power_w=400.0, throttle_reasons=(ThrottleReason.GPU_IDLE,)),
    ]
    before = GpuCounters(0.5, energy_mj=1000, power_violation_ns=0, thermal_violation_ns=7)
    after = GpuCounters(4.0, energy_mj=3500, power_violation_ns=2_000_000, thermal_violation_ns=7)
    summary = summarise(samples, before, after)
    assert (summary.samples, summary.seconds) == (3, 2.5)
    assert summary.sm_mhz == Spread(1755, 1965, 1980)
    assert summary.power_w == Spread(400, 450, 500)
    assert summary.throttle_reasons == (ThrottleReason.GPU_IDLE, ThrottleReason.SW_POWER_CAP)
    assert summary.missing["power_w"] == "1 of 3 samples: not permitted"
    assert summary.missing["temperature_c"] == "not read"
    assert "sm_mhz" not in summary.missing


def test_no_samples() -> None:
    summary = summarise([])
    assert (summary.samples, summary.seconds) == (0, 0.0)
    assert summary.sm_mhz is summary.throttle_reasons is None
    assert set(summary.missing.values()) == {"no sample was taken"}


@given(st.lists(SAMPLES, max_size=6), st.randoms())
def test_order_does_not_matter(samples: list[GpuSample], random: object) -> None:
    shuffled = list(samples)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert summarise(shuffled) == summarise(samples)


@given(st.lists(SAMPLES, min_size=1, max_size=6))
def test_spreads_hold_what_is_known_and_reasons_tell_of_the_rest(samples: list[GpuSample]) -> None:
    summary = summarise(samples)
    for name in NUMBERS:
        known = [v for s in samples if (v := getattr(s, name)) is not None]
        spread = getattr(summary, name)
        assert (spread is None) == (not known)
        assert (name in summary.missing) == (len(known) < len(samples))
        if spread is not None:
            assert spread.minimum == min(known)
            assert spread.minimum <= spread.median <= spread.maximum == max(known)


@given(st.lists(SAMPLES, max_size=4), st.lists(SAMPLES, max_size=4))
def test_reasons_are_a_union(some: list[GpuSample], others: list[GpuSample]) -> None:
    def union(samples: list[GpuSample]) -> set[ThrottleReason]:
        return set(summarise(samples).throttle_reasons or ())

    assert union(some + others) == union(some) | union(others)
    reasons = summarise(some + others).throttle_reasons
    assert (reasons is None) == all(s.throttle_reasons is None for s in some + others)
    assert reasons is None or list(reasons) == [r for r in ThrottleReason if r in reasons]


@given(COUNTERS, COUNTERS)
def test_counters_grow_or_tell_nothing(before: GpuCounters, after: GpuCounters) -> None:
    grown = growth(before, after, "energy_mj")
    if before.energy_mj is None or after.energy_mj is None or after.energy_mj < before.energy_mj:
        assert grown is None
    else:
        assert grown == after.energy_mj - before.energy_mj
    assert growth(None, after, "energy_mj") is growth(before, None, "energy_mj") is None


@given(st.lists(SAMPLES, max_size=3), COUNTERS, COUNTERS)
def test_survives_json(samples: list[GpuSample], before: GpuCounters, after: GpuCounters) -> None:
    summary = summarise(samples, before, after)
    assert msgspec.json.decode(msgspec.json.encode(summary), type=GpuSummary) == summary
