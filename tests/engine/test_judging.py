"""The verdict on a correct candidate, from profiles made by hand."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from astra_tui.engine.judging import judge_counters
from astra_tui.model.counters import AccessCount, Counters, LineCount
from astra_tui.model.dtypes import DType
from astra_tui.model.occupancy import H100_MULTIPROCESSORS
from astra_tui.model.verdict import KernelUse, Outcome, Profile, RoundVerdict, WorkloadProfile

MANY = 4 * H100_MULTIPROCESSORS


@dataclass(frozen=True)
class Made:
    """A workload with these counts; `weight` is the bytes that it has to move."""

    sectors: int = 1000
    requests: int = 500
    instructions: int = 9000
    blocks: int = MANY
    weight: int = 1 << 20


def profile_of(*workloads: Made, occupancy: float = 1.0) -> Profile:
    made = tuple(_workload(f"w{number}", w) for number, w in enumerate(workloads))
    return Profile("emulator", made, (KernelUse("k", 200, 0, 0, occupancy),))


def _workload(name: str, made: Made) -> WorkloadProfile:
    access = AccessCount(1, "global", "load", 4, made.requests, made.sectors, 32 * made.sectors, 0)
    counters = Counters((access,), (LineCount(1, made.instructions, 32, 0, 0),))
    return WorkloadProfile(
        name, {"rows": 1}, DType.FLOAT16, ("k",), counters, made.blocks, 256, made.weight
    )


def verdict(base: Profile, candidate: Profile) -> RoundVerdict:
    return judge_counters("b" * 64, base, "c" * 64, candidate)


@pytest.mark.parametrize(
    ("after", "outcome"),
    [
        (Made(), Outcome.SAME),
        (Made(sectors=999), Outcome.BETTER),
        (Made(sectors=1001), Outcome.WORSE),
        (Made(requests=499), Outcome.BETTER),
        (Made(requests=501), Outcome.WORSE),
        (Made(instructions=8999), Outcome.BETTER),
        (Made(instructions=9001), Outcome.WORSE),
        (Made(sectors=999, requests=900, instructions=99_000), Outcome.BETTER),
        (Made(sectors=1001, requests=1, instructions=1), Outcome.WORSE),
        (Made(requests=499, instructions=99_000), Outcome.BETTER),
    ],
)
def test_sectors_decide_before_requests_before_instructions(after: Made, outcome: Outcome) -> None:
    assert verdict(profile_of(Made()), profile_of(after)).outcome is outcome


@pytest.mark.parametrize(
    ("before", "after", "outcome"),
    [
        (MANY, H100_MULTIPROCESSORS, Outcome.BETTER),
        (MANY, H100_MULTIPROCESSORS - 1, Outcome.INCONCLUSIVE),
        (MANY, 1, Outcome.INCONCLUSIVE),
        (8, 8, Outcome.BETTER),
        (8, 7, Outcome.INCONCLUSIVE),
    ],
)
def test_multiprocessors_that_go_idle_leave_it_open(
    before: int, after: int, outcome: Outcome
) -> None:
    base = profile_of(Made(blocks=before))
    found = verdict(base, profile_of(Made(sectors=10, blocks=after)))
    assert found.outcome is outcome
    if outcome is Outcome.INCONCLUSIVE:
        assert found.reasons[0].startswith(f"w0: {after} blocks of 256 threads instead of {before}")


@pytest.mark.parametrize(
    ("idle_bytes", "busy_bytes", "outcome"),
    [(1, 99, Outcome.BETTER), (50, 50, Outcome.BETTER), (51, 49, Outcome.INCONCLUSIVE)],
)
def test_idle_multiprocessors_weigh_as_much_as_their_traffic(
    idle_bytes: int, busy_bytes: int, outcome: Outcome
) -> None:
    base = profile_of(Made(weight=idle_bytes), Made(weight=busy_bytes))
    new = profile_of(Made(10, blocks=8, weight=idle_bytes), Made(10, weight=busy_bytes))
    found = verdict(base, new)
    assert found.outcome is outcome
    assert any("w0: 8 blocks" in reason for reason in found.reasons), "it is said either way"


@pytest.mark.parametrize(
    ("before", "after", "outcome"),
    [
        (1.0, 0.25, Outcome.BETTER),
        (1.0, 0.24, Outcome.INCONCLUSIVE),
        (0.125, 0.125, Outcome.BETTER),
        (0.125, 0.0625, Outcome.INCONCLUSIVE),
    ],
)
def test_few_resident_warps_leave_it_open(before: float, after: float, outcome: Outcome) -> None:
    base = profile_of(Made(), occupancy=before)
    assert verdict(base, profile_of(Made(10), occupancy=after)).outcome is outcome


def test_a_comparison_holds_both_keys_and_the_ratios() -> None:
    found = verdict(profile_of(Made()), profile_of(Made(requests=250)))
    assert found.comparison is not None
    assert found.comparison.base_key == (1000, 500, 9000)
    assert found.comparison.candidate_key == (1000, 250, 9000)
    assert found.comparison.ratios["requests"] == 0.5
    assert found.reasons == ("requests 500 to 250 (-50.0 %)",)
