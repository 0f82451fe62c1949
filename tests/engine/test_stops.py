"""When a run has nothing left to gain."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from astra_tui.engine.stops import at_roof
from astra_tui.model.dtypes import DType
from astra_tui.model.timing import (
    Caveat,
    Floor,
    PairedTime,
    Ratio,
    Timing,
    TimingVerdict,
    WorkloadTiming,
)

SAME = Ratio(1.0, 0.999, 1.001, 40)
FLOOR = Floor(launch_us=1.3, copy_us=10.0, compulsory_bytes=1 << 20)


def workload(name: str, us: float) -> WorkloadTiming:
    cold = PairedTime(us, us, SAME)
    return WorkloadTiming(
        name, {"n": 1}, DType.FLOAT16, TimingVerdict.SAME, cold, 0.003, floor=FLOOR
    )


def timing(*workloads: WorkloadTiming) -> Timing:
    return Timing("cuda:0", "a GPU", "a", "b", workloads, SAME, SAME, TimingVerdict.SAME, ())


def test_a_run_ends_when_less_than_two_percent_is_left_on_every_workload() -> None:
    found = at_roof(timing(workload("short", 10.1), workload("long", 9.8)), 0.98)
    assert found.startswith("at most 2 % is left on every workload")
    assert "short 10.10 us, floor 10.00 us (99 %)" in found
    assert "long 9.80 us, floor 10.00 us (102 %)" in found


@pytest.mark.parametrize(
    "other",
    [
        workload("long", 10.3),
        replace(workload("long", 10.1), floor=None),
        replace(workload("long", 10.1), caveats=(Caveat("clock", "slow", invalidates=True),)),
    ],
)
def test_it_goes_on_while_one_workload_is_not_known_to_be_there(other: WorkloadTiming) -> None:
    assert at_roof(timing(workload("short", 10.0), other), 0.98) == ""
    assert at_roof(timing(), 0.98) == ""


def test_a_producer_in_the_time_is_not_held_against_a_kernel() -> None:
    behind = replace(workload("short", 14.0), chained=PairedTime(10.1, 10.1, SAME), producer=True)
    assert "short 10.10 us" in at_roof(timing(behind), 0.98)


def test_a_kernel_that_does_not_overlap_where_it_could_has_that_left() -> None:
    alone = timing(workload("short", 10.1))
    behind = replace(workload("short", 14.0), chained=PairedTime(10.1, 10.1, SAME), producer=True)
    assert at_roof(alone, 0.98)
    assert at_roof(alone, 0.98, overlaps=True) == ""
    assert at_roof(timing(behind), 0.98, overlaps=True)
    below = replace(behind, chained=PairedTime(9.5, 9.5, SAME))
    assert at_roof(timing(below), 0.98)
    assert at_roof(timing(below), 0.98, overlaps=True) == "", "a copy is no floor of it"
