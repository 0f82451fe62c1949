from __future__ import annotations

import math

import pytest

from astra_tui.gpu.timing.pairing import BadSamples, paper_time


def test_means_and_not_medians() -> None:
    times = paper_time([10.0] * 99 + [110.0], [5.0] * 100)
    assert (times.base_us, times.candidate_us) == (11.0, 5.0)
    assert times.speedup == pytest.approx(2.2)


def test_another_number_of_launches_is_not_the_protocol() -> None:
    with pytest.raises(BadSamples, match="100 launches; candidate: 99"):
        paper_time([1.0] * 100, [1.0] * 99)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_a_time_that_is_none_is_refused(bad: float) -> None:
    with pytest.raises(BadSamples, match="launch 7 of the base"):
        paper_time([1.0] * 7 + [bad] + [1.0] * 92, [1.0] * 100)
