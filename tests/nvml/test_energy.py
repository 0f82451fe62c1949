from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tui.gpu.nvml import EnergyMeter, GpuReader, energy_use
from astra_tui.model.gpu import GpuCounters
from tests.nvml.conftest import UUIDS, FakeNvml
from tests.nvml.strategies import COUNTERS


def test_energy_of_a_block(fake: FakeNvml) -> None:
    now = 10.0
    with GpuReader(UUIDS[0], clock=lambda: now) as reader:
        meter = EnergyMeter(reader.counters)
        meter.start()
        now = 12.0
        fake.value("nvmlDeviceGetTotalEnergyConsumption", 1_000_000 + 900_000)
        use = meter.stop(launches=300_000)
    assert (use.joules, use.watts, use.seconds) == (900.0, 450.0, 2.0)
    assert use.joules_per_launch == pytest.approx(0.003)
    assert use.missing == ""


def test_a_block_that_was_not_started() -> None:
    meter = EnergyMeter(lambda: GpuCounters(0.0))
    with pytest.raises(RuntimeError, match="not started"):
        meter.stop(1)


@pytest.mark.parametrize(
    ("before", "after", "launches", "reason"),
    [
        (GpuCounters(0, 1), GpuCounters(0.5, 9), 1, "the block took 0.5 s"),
        (GpuCounters(0, 1), GpuCounters(2, 9), 0, "nothing was launched"),
        (GpuCounters(0, 9), GpuCounters(2, 1), 1, "the counter went back"),
        (GpuCounters(0, missing={"energy_mj": "too old"}), GpuCounters(2, 1), 1, "too old"),
        (GpuCounters(0, 1), GpuCounters(2), 1, "not read"),
    ],
)
def test_refused_with_a_reason(
    before: GpuCounters, after: GpuCounters, launches: int, reason: str
) -> None:
    use = energy_use(before, after, launches)
    assert use.joules is use.joules_per_launch is use.watts is None
    assert use.missing.startswith(reason)


@given(COUNTERS, COUNTERS, st.integers(-1, 10**6))
def test_a_value_or_a_reason(before: GpuCounters, after: GpuCounters, launches: int) -> None:
    use = energy_use(before, after, launches)
    assert (use.joules is None) == bool(use.missing)
    if use.joules is not None and use.joules_per_launch is not None:
        assert use.joules_per_launch * launches == pytest.approx(use.joules)
        assert use.seconds >= 1.0
