"""One way to write each kind of number, and one tone for each outcome."""

from __future__ import annotations

import math
import re
from enum import StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from astra_tui.model.approval import ApprovalStatus
from astra_tui.model.check import CaseOutcome, CheckVerdict
from astra_tui.model.citations import CitationStatus
from astra_tui.model.environment import Health
from astra_tui.model.export import StepOutcome
from astra_tui.model.findings import SanitizerVerdict
from astra_tui.model.fold import fold
from astra_tui.model.ledger import Score
from astra_tui.model.plan import Counter
from astra_tui.model.timing import Ratio, TimingVerdict
from astra_tui.model.verdict import Outcome
from astra_tui.model.yardsticks import BEST, FastestShipped, ShippedTimes
from astra_tui.present import numbers
from astra_tui.present.document import changed
from astra_tui.present.tones import Phrase, Tone, tone_of
from astra_tui.present.words import (
    round_verdict,
    score_words,
    shipped_verdict,
    timing_verdict,
)
from tests.sessions.samples import BETTER, shipped, timing, whole_session

POSITIVE = st.floats(1e-6, 1e12)
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


def read(text: str) -> list[tuple[float, float]]:
    """The numbers of a text, each with half a unit of its last digit."""
    found = NUMBER.findall(text)
    return [(float(n.replace(",", "")), 0.5 * 10.0 ** -len(n.partition(".")[2])) for n in found]


@given(POSITIVE)
def test_a_number_as_it_is_written_is_the_number_to_its_last_digit(value: float) -> None:
    for text, scale in (
        (numbers.microseconds(value), 1.0),
        (numbers.time(value), 1.0),
        (numbers.ratio(value), 1.0),
        (numbers.percent(value, 1), 100.0),
        (numbers.points(value), 100.0),
        (numbers.decimal(value, 3), 1.0),
    ):
        ((read_value, half),) = read(text)
        assert read_value == pytest.approx(scale * value, rel=1e-12, abs=half * 1.000001)


@given(POSITIVE, st.floats(0, 0.5), st.floats(0, 0.5))
def test_a_speedup_has_its_interval_where_there_is_one(
    value: float, down: float, up: float
) -> None:
    found = Ratio(value, value * (1 - down), value * (1 + up), 40)
    (shown, half), *ends = read(numbers.speedup(found))
    assert shown == pytest.approx(value, abs=half * 1.000001)
    assert len(ends) == 2
    assert ends[0][0] <= ends[1][0]
    assert numbers.speedup(replace(found, high=math.inf)) == numbers.ratio(value)


@given(st.integers(1, 10**12), st.integers(1, 10**12))
def test_a_change_says_its_direction(before: int, after: int) -> None:
    found = changed(before, after)
    assert found is None if before == after else found.text[0] == ("+" if after > before else "-")


@given(st.floats(0, 10**7), st.floats(0, 10**7))
def test_longer_is_never_written_as_less(first: float, second: float) -> None:
    scales = {"s": 1, "min": 60, "h": 3600}

    def length(text: str) -> float:
        words = text.split()
        return sum(float(n) * scales[u] for n, u in zip(words[::2], words[1::2], strict=True))

    low, high = sorted((first, second))
    assert length(numbers.seconds(low)) <= length(numbers.seconds(high))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_said_in_words(value: float) -> None:
    writers = (numbers.time, numbers.ratio, numbers.percent, numbers.change, numbers.points)
    assert all(re.search("not a number|infinite", write(value)) for write in writers)


@pytest.mark.parametrize(
    "kind",
    [
        Outcome, TimingVerdict, CheckVerdict, CaseOutcome, SanitizerVerdict, ApprovalStatus,
        StepOutcome, Health, CitationStatus,
    ],
)  # fmt: skip
def test_every_outcome_has_a_tone(kind: type[StrEnum]) -> None:
    assert all(tone_of(member) in Tone for member in kind)
    assert tone_of(SanitizerVerdict.FAILED) is Tone.CAUTION


def losing(workloads: int) -> ShippedTimes:
    """Faster by the mean, and slower in some of seven shapes."""
    times = shipped().shipped.times
    assert times is not None
    found = times.shapes[0].fastest[BEST]
    slower = FastestShipped(found.name, Ratio(0.9, 0.89, 0.91, 40))
    shapes = tuple(
        replace(times.shapes[0], fastest={BEST: slower if n < workloads else found})
        for n in range(7)
    )
    means: dict[str, Ratio | None] = {BEST: Ratio(1.05, 1.04, 1.06, 40)}
    return ShippedTimes(replace(times, shapes=shapes, means=means), {})


def test_nothing_is_good_news_where_a_workload_lost() -> None:
    assert shipped_verdict(losing(0)) == Phrase("faster", Tone.GOOD)
    assert shipped_verdict(losing(2)) == Phrase("inconclusive, 2 of 7 slower", Tone.CAUTION)
    assert timing_verdict(timing()) == Phrase("faster", Tone.GOOD)
    lost = tuple(replace(w, verdict=TimingVerdict.SLOWER) for w in timing().workloads)
    partly = replace(timing(), workloads=lost)
    words = f"faster, {len(lost)} of {len(lost)} slower"
    assert timing_verdict(partly) == Phrase(words, Tone.CAUTION)
    state = fold(whole_session())
    (verdict,) = (p.verdict for r in state.rounds for p in r.proposals)
    assert verdict is not None
    assert round_verdict(state, verdict) == Phrase("better", Tone.GOOD)
    known = state.candidate(BETTER)
    timed = tuple(replace(t, timing=partly) for t in known.timings)
    state = replace(state, candidates={**state.candidates, BETTER: replace(known, timings=timed)})
    assert round_verdict(state, verdict).tone is Tone.CAUTION


@pytest.mark.parametrize(
    ("predicted", "measured", "words", "tone"),
    [
        (0.2, 0.125, "-87.5 %, off by 7.5 points", Tone.PLAIN),
        (0.125, 0.125, "-87.5 %, off by 0.0 points", Tone.GOOD),
        (1.0, 0.6458, "-35.4 %, off by 35.4 points", Tone.CAUTION),
    ],
)
def test_a_prediction_is_scored_by_how_far_it_is_off(
    predicted: float, measured: float, words: str, tone: Tone
) -> None:
    score = Score(Counter.REQUESTS, predicted, measured, abs(measured - predicted), 0.0)
    assert score_words(score) == Phrase(words, tone)
