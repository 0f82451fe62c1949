"""Bisection over chains of candidates, and when two timings agree."""

from __future__ import annotations

import asyncio
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from astra_tui.engine.bisection import Trial, bisect, culprit
from astra_tui.engine.verify import MIN_TOLERANCE, Accepted, disagreement, tolerance
from astra_tui.model.timing import Ratio, TimingVerdict
from tests.sessions.samples import timing


class Asked:
    """Answers from a list, and keeps who was asked."""

    def __init__(self, lost: list[bool]):
        self.lost = lost
        self.asked: list[int] = []

    async def test(self, accepted: Accepted) -> Trial:
        self.asked.append(accepted.round)
        return Trial(accepted, 0.0, self.lost[accepted.round], "")


def search(lost: list[bool]) -> tuple[Accepted | None, list[int]]:
    chain = [Accepted(f"{n:064x}", n) for n in range(len(lost))]
    asked = Asked(lost)

    async def run() -> list[Trial]:
        return [trial async for trial in bisect(chain, asked)]

    return culprit(chain, asyncio.run(run())), asked.asked


@given(st.integers(1, 60), st.integers(0, 60))
def test_the_first_loss_is_found_with_few_trials(length, first):
    lost = [n >= first for n in range(length)]
    found, asked = search(lost)
    assert (found.round if found else None) == (first if 0 < first < length else None)
    assert len(asked) <= 2 + math.ceil(math.log2(length)) if length > 1 else len(asked) == 1
    assert len(set(asked)) == len(asked), "nothing is tried twice"


@given(st.lists(st.booleans(), min_size=1, max_size=40))
def test_a_loss_that_comes_and_goes_is_found_at_one_of_its_beginnings(lost):
    found, _ = search(lost)
    if found is not None:
        assert lost[found.round]
        assert not lost[found.round - 1]
    else:
        assert lost[0] or not lost[-1]


def ratio(value: float, half: float = 0.005) -> Ratio:
    return Ratio(value, value * (1 - half), value * (1 + half), 40)


def timed(value: float, verdict: TimingVerdict = TimingVerdict.FASTER, half: float = 0.005):
    return replace(timing(), speedup=ratio(value, half), verdict=verdict, control=ratio(1.0, 0.001))


@pytest.mark.parametrize(
    ("old", "new", "agrees"),
    [
        (timed(1.30), timed(1.32), True),
        (timed(1.30), timed(1.327), False),
        (timed(1.30, half=0.02), timed(1.345, half=0.02), True),
        (timed(1.30, half=0.02), timed(1.36, half=0.02), False),
        (timed(1.01), timed(1.01, TimingVerdict.SAME), False),
    ],
)
def test_timings_agree_within_their_intervals_or_two_percent(old, new, agrees):
    assert (disagreement(old, new) == "") == agrees


def test_the_tolerance_is_the_sum_of_widths_and_what_can_be_detected():
    wide = tolerance(timed(1.3, half=0.02), timed(1.3, half=0.03))
    assert wide == pytest.approx(0.02 + 0.03 + 0.001, rel=1e-2)
    assert tolerance(timed(1.3), timed(1.3)) == MIN_TOLERANCE


@pytest.mark.parametrize("broken", [Ratio(1.3, -1, 2, 1), Ratio(math.inf, 1, math.inf, 1)])
def test_numbers_that_no_bench_gives_agree_with_nothing(broken):
    assert "no usable numbers" in disagreement(replace(timing(), speedup=broken), timing())
    assert "no usable numbers" in disagreement(timing(), replace(timing(), control=broken))
