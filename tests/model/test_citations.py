"""A plan's evidence quotes numbers that can be looked up, wherever they were measured."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from astra_tui.model.citations import METRICS, CitationStatus, check_citation, check_citations
from astra_tui.model.counters import (
    AccessCount,
    Counters,
    LaunchCounters,
    LineCount,
    Metric,
    NcuReport,
)
from astra_tui.model.dtypes import DType
from astra_tui.model.events import TimingFinished
from astra_tui.model.plan import (
    Citation,
    CodePlace,
    Counter,
    Observation,
    Plan,
    Prediction,
    Risk,
    places_words,
)
from astra_tui.model.state import CandidateState
from astra_tui.model.timing import (
    Floor,
    PairedTime,
    Ratio,
    Timing,
    TimingVerdict,
    WorkloadTiming,
)
from astra_tui.model.verdict import KernelUse, Profile, Waves, WorkloadProfile

from .helpers import PROPERTY

ONE = Ratio(1.0, 0.99, 1.01, 20)


def counters(requests: int) -> Counters:
    accesses = (
        AccessCount(7, "global", "load", 2, requests, 640, 20480, 0),
        AccessCount(9, "global", "store", 2, 100, 200, 6400, 0),
    )
    return Counters(accesses, (LineCount(7, 50, 1600, 0, 0), LineCount(9, 30, 960, 2, 0)))


def workload(name: str, requests: int) -> WorkloadProfile:
    return WorkloadProfile(
        name, {"d": 8}, DType.FLOAT16, ("k<__half>",), counters(requests), 264, 128, 4096,
        Waves(1.5, 0.5),
    )  # fmt: skip


def timed(us: float) -> TimingFinished:
    times = WorkloadTiming(
        "decode", {"d": 8}, DType.FLOAT16, TimingVerdict.SAME, PairedTime(4.0, us, ONE), 0.003,
        floor=Floor(1.0, 2.0, 4096),
    )  # fmt: skip
    return TimingFinished(
        Timing("cuda:0", "H100", "b", "c", (times,), ONE, ONE, TimingVerdict.SAME, ())
    )


KNOWN = CandidateState(
    "c" * 64,
    profile=Profile(
        "cuda:0",
        (workload("decode", 400), workload("prefill", 600)),
        (KernelUse("k<__half>", 24, 0, 512, 0.75, 12),),
    ),
    timings=(timed(4.0), timed(5.0)),
    hardware=NcuReport(
        "decode",
        (LaunchCounters("k<__half>", (1, 1, 1), (128, 1, 1), {"dram.sum": Metric(7, "byte")}, {}),),
    ),
)


@pytest.mark.parametrize(
    ("citation", "known", "standing"),
    [
        (Citation("requests", 1200), 1200, CitationStatus.AGREES),
        (Citation("requests", 500, "decode"), 500, CitationStatus.AGREES),
        (Citation("requests", 1000, lines=(CodePlace(1, 8),)), 1000, CitationStatus.AGREES),
        (Citation("requests", 600, "prefill", (CodePlace(7, 7),)), 600, CitationStatus.AGREES),
        (Citation("requests", 5200), 1200, CitationStatus.DIFFERS),
        (Citation("requests", 1205), 1200, CitationStatus.AGREES),
        (Citation("barriers", 4), 4, CitationStatus.AGREES),
        (Citation("barriers", 4, lines=(CodePlace(1, 1 << 60),)), 4, CitationStatus.AGREES),
        (Citation("registers", 24, "k"), 24, CitationStatus.AGREES),
        (Citation("occupancy", 75), 0.75, CitationStatus.AGREES),
        (Citation("occupancy", 0.5), 0.75, CitationStatus.DIFFERS),
        (Citation("waves", 1.5, "decode"), 1.5, CitationStatus.AGREES),
        (Citation("time_us", 4.0, "decode"), 4.0, CitationStatus.AGREES),
        (Citation("time_us", 9.0), 5.0, CitationStatus.DIFFERS),
        (Citation("of_floor", 50), 0.5, CitationStatus.AGREES),
        (Citation("dram.sum", 7, "decode"), 7, CitationStatus.AGREES),
        (Citation("dram.sum", 7, "prefill"), None, CitationStatus.MISSING),
        (Citation("time_us", 4.0, lines=(CodePlace(7, 7),)), None, CitationStatus.MISSING),
        (Citation("requests", 1, "no such workload"), None, CitationStatus.MISSING),
        (Citation("luck", 13), None, CitationStatus.MISSING),
        (Citation("requests", float("inf")), 1200, CitationStatus.DIFFERS),
    ],
)
def test_numbers_are_found_where_they_were_measured(
    citation: Citation, known: float | None, standing: CitationStatus
) -> None:
    found = check_citation(citation, KNOWN)
    assert (found.known, found.standing) == (known, standing)


def test_what_disagrees_is_said_in_words() -> None:
    said = check_citation(
        Citation("requests", 5200, "decode", (CodePlace(7, 7), CodePlace(9, 12))), KNOWN
    )
    assert said.describe() == (
        "requests at lines 7 and 9 to 12 of decode: says 5,200; the profile has 500"
    )
    assert (
        check_citation(Citation("luck", 0.125), KNOWN).describe()
        == "luck: says 0.125; not in the profile"
    )
    cited = Observation("so", (Citation("registers", 24), Citation("time_us", 9)))
    assert [reading.describe() for reading in check_citations(cited, KNOWN)] == [
        "registers: 24, as in the profile",
        "time in us: says 9; the profile has 5",
    ]
    assert check_citations(Observation("so"), KNOWN) == ()


def test_nothing_was_measured_of_a_new_source() -> None:
    new = CandidateState("n" * 64)
    assert {check_citation(Citation(m, 1), new).standing for m in METRICS} == {
        CitationStatus.MISSING
    }


FINITE = st.floats(allow_nan=False, allow_infinity=False)
PLACES = st.builds(CodePlace, st.integers(1, 99), st.integers(1, 99))
CITATIONS = st.builds(
    Citation,
    metric=st.one_of(st.sampled_from(METRICS), st.text(max_size=8)),
    value=FINITE,
    of=st.sampled_from(("", "decode", "k", "other")),
    lines=st.lists(PLACES, max_size=3).map(tuple),
)
EVIDENCE = st.one_of(
    st.text(max_size=20),
    st.builds(Observation, st.text(max_size=20), st.lists(CITATIONS, max_size=3).map(tuple)),
)


@PROPERTY
@given(st.lists(EVIDENCE, max_size=4).map(tuple))
def test_evidence_comes_back_from_json_with_the_same_hash(
    evidence: tuple[str | Observation, ...],
) -> None:
    expected = Prediction(1.0, 1.5, Counter.SECTORS, 0.5)
    plan = Plan("title", "bottleneck", evidence, "change", expected, Risk.LOW)
    again = msgspec.json.decode(msgspec.json.encode(plan), type=Plan)
    assert (again, again.hash) == (plan, plan.hash)
    assert [o.sentence for o in again.observations] == [
        e if isinstance(e, str) else e.sentence for e in evidence
    ]


@PROPERTY
@given(CITATIONS)
def test_a_number_that_is_quoted_as_it_was_read_agrees(citation: Citation) -> None:
    found = check_citation(citation, KNOWN)
    if found.known is None:
        assert found.standing is CitationStatus.MISSING
    else:
        quoted = msgspec.structs.replace(citation, value=found.known)
        assert check_citation(quoted, KNOWN).standing is CitationStatus.AGREES


def test_there_is_no_efficiency_where_nothing_is_moved() -> None:
    def standing(line: int, value: float) -> CitationStatus:
        at = (CodePlace(line, line),)
        return check_citation(Citation("sector_efficiency", value, lines=at), KNOWN).standing

    assert standing(7, 1.0) is CitationStatus.AGREES
    assert standing(8, 1.0) is CitationStatus.MISSING


@pytest.mark.parametrize(
    "made_up",
    [
        replace(workload("decode", 1), blocks=10**400),
        replace(workload("decode", 1), counters=counters(10**400)),
        replace(workload("decode", 1), waves=Waves(math.inf, math.nan)),
    ],
)
@pytest.mark.parametrize("value", [1.0, math.inf, math.nan])
def test_numbers_of_a_made_up_journal_are_no_numbers_to_agree_with(
    made_up: WorkloadProfile, value: float
) -> None:
    candidate = replace(CandidateState("c" * 64), profile=Profile("cuda:0", (made_up,), ()))
    for metric, whole in (("blocks", 264), ("requests", 101), ("waves", 1.5)):
        found = check_citation(Citation(metric, value), candidate)
        assert found.describe()
        if found.known is None or not math.isfinite(found.known):
            assert found.standing is not CitationStatus.AGREES or value == found.known
        else:
            assert found.known == whole


def test_a_version_that_took_no_time_has_no_share_of_the_floor() -> None:
    candidate = replace(KNOWN, timings=(timed(0.0),))
    assert check_citation(Citation("of_floor", 1.0), candidate).standing is CitationStatus.MISSING


@pytest.mark.parametrize(
    ("places", "words"),
    [
        ((CodePlace(7, 7),), "line 7"),
        ((CodePlace(7, 9),), "lines 7 to 9"),
        ((CodePlace(7, 7), CodePlace(9, 9)), "lines 7 and 9"),
        ((CodePlace(1, 2), CodePlace(7, 7), CodePlace(9, 9)), "lines 1 to 2, 7 and 9"),
    ],
)
def test_places_in_words(places: tuple[CodePlace, ...], words: str) -> None:
    assert places_words(places) == words
