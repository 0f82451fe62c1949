"""What tools and timings told about a candidate: on the panes, in the log and in the top line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from astra_tui.model.approval import Answer, ApprovalGate, ApprovalStatus, Question
from astra_tui.model.counters import DURATION, LaunchCounters, Metric, NcuReport
from astra_tui.model.digest import short
from astra_tui.model.events import (
    AnswerAwaited,
    ApprovalAsked,
    BestChanged,
    CodeWritten,
    CopyFound,
    Event,
    HardwareCountersRead,
    ProfileTaken,
    Sanitized,
    SessionOpened,
    StageBegan,
    SweepAdvanced,
    SweepFinished,
    TimingFinished,
)
from astra_tui.model.findings import SanitizerVerdict, not_looked_at
from astra_tui.model.fold import fold
from astra_tui.model.state import SessionState
from astra_tui.model.timing import Ratio, TimingVerdict
from astra_tui.model.tuning import SweptCandidate
from astra_tui.present.checks import sanitizer_blocks
from astra_tui.present.counters import hardware_blocks, metric_words
from astra_tui.present.events import describe
from astra_tui.present.layout import line_cells, line_text
from astra_tui.present.tones import Phrase, Tone
from astra_tui.present.words import STAGES, best_of
from astra_tui.sessions.folder import write_blob
from astra_tui.sessions.journal_lines import Record
from astra_tui.sessions.timeline import Timeline
from astra_tui.tui.source import SavedSource
from astra_tui.tui.text_layout import Page
from astra_tui.tui.widgets.session_code import marks_of
from tests.sessions.samples import (
    BASELINE_SOURCE,
    BETTER,
    BETTER_SOURCE,
    hardware,
    sanitized,
    shipped,
    timing,
    whole_session,
)
from tests.tui.harness import TESTER, WIDE, Desk, on_a_loop, seated
from tests.tui.test_typing import AUTHOR, Asker

ENGINE = Path(__file__).resolve().parents[2] / "astra_tui" / "engine"


def shown(folder: Path, events: Iterable[Event]) -> AbstractAsyncContextManager[Desk]:
    """The screen on a session of these events."""
    for text in (BASELINE_SOURCE, BETTER_SOURCE):
        write_blob(folder, text)
    records = tuple(
        Record(number, "2026-01-01T12:00:00.000Z", float(number), event)  # type: ignore[arg-type]
        for number, event in enumerate(events)
    )

    async def opened() -> SavedSource:
        return SavedSource(folder, Timeline(records))

    return seated(opened, WIDE)


def words_of(page: Page) -> str:
    return " ".join(" ".join(map(line_text, page.lines)).split())


def up_to(kind: type[Event], events: Sequence[Event]) -> list[Event]:
    """The events up to the last of a kind."""
    last = max(index for index, event in enumerate(events) if isinstance(event, kind))
    return list(events[: last + 1])


def test_every_stage_of_the_engine_has_words() -> None:
    texts = (file.read_text(encoding="utf-8") for file in ENGINE.glob("*.py"))
    stages = {name for text in texts for name in re.findall(r'StageBegan\(\s*"(\w+)"', text)}
    assert stages == set(STAGES)


@on_a_loop
async def test_the_panes_say_what_the_sanitizer_and_ncu_found(tmp_path: Path) -> None:
    events = [*whole_session()[:-1], HardwareCountersRead(BETTER, hardware())]
    async with shown(tmp_path, events) as desk:
        await desk.press("5")
        await desk.until(lambda: "memcheck" in desk.text("#tests"), "the tools")
        tests = " ".join(desk.text("#tests").split())
        assert "memcheck, initcheck: nothing found in case" in tests
        assert "racecheck: not looked at: was not done after 60 s" in tests
        await desk.press("6")
        await desk.until(lambda: "hardware counters" in desk.text("#profile"), "the counters")
        profile = " ".join(desk.text("#profile").split())
        assert "2 read on workload decode, 1 could not be read, by ncu 2025.3.1" in profile
        assert "lts__t_sector_hit_rate.pct 50.25 %" in profile
        assert DURATION not in profile
        assert "not read: dram__bytes_read.sum: ncu left it empty" in profile
        await desk.press("8")
        await desk.until(lambda: "hardware counters of" in desk.text("#log"), "the log")


@on_a_loop
async def test_a_candidate_in_which_a_tool_found_something_has_not_passed(tmp_path: Path) -> None:
    events = whole_session()
    found = next(i for i, e in enumerate(events) if isinstance(e, Sanitized) and e.reports[0].found)
    state = fold(events[: found + 1])
    (mark,) = marks_of(state.candidate(BETTER))
    assert mark.text == "memcheck: global_out_of_bounds: read of 2 bytes"
    async with shown(tmp_path, events[: found + 1]) as desk:
        await desk.press("5")
        await desk.until(lambda: "memcheck" in desk.text("#tests"), "the tools")
        tests = " ".join(desk.text("#tests").split())
        assert "but compute-sanitizer found errors" in tests
        assert "memcheck: line 1: global_out_of_bounds: read of 2 bytes" in tests
        assert "1 error in case" in tests


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (False, "Hardware counters were not asked for: --ncu reads them."),
        (True, "Hardware counters are read of the baseline and of every new best."),
    ],
)
def test_the_profile_says_why_there_are_no_hardware_counters(
    tmp_path: Path, asked: bool, told: str
) -> None:
    events = [
        replace(e, settings=replace(e.settings, ncu=asked))
        if isinstance(e, SessionOpened)
        else replace(e, profile=replace(e.profile, device="cuda:0"))
        if isinstance(e, ProfileTaken)
        else e
        for e in whole_session()
        if not isinstance(e, CopyFound)  # With it the counters of its original would be shown.
    ]

    @on_a_loop
    async def test() -> None:
        async with shown(tmp_path, events) as desk:
            await desk.press("6")
            await desk.until(lambda: told in " ".join(desk.text("#profile").split()), told)

    test()


def test_what_could_not_look_says_why_and_what_helps() -> None:
    page = Page(60)
    missing = not_looked_at(SanitizerVerdict.UNAVAILABLE, "is missing", "install it")
    page.blocks(sanitizer_blocks(missing))
    page.blocks(hardware_blocks(NcuReport("decode", problem="no permission", remedy="ask for it")))
    text = words_of(page)
    assert "memcheck, racecheck, initcheck, synccheck: not looked at: is missing" in text
    assert text.count("install it") == 1
    assert "hardware counters: not available: no permission" in text
    assert "ask for it" in text


def test_the_log_has_both_in_words() -> None:
    said = partial(map, describe)
    found, unread = said(
        [
            Sanitized(BETTER, sanitized(found=True)),
            HardwareCountersRead(BETTER, NcuReport("decode", problem="no permission")),
        ]
    )
    assert found is not None
    assert unread is not None
    assert "memcheck: 1 error in case" in found.text
    assert found.tone is Tone.BAD
    assert unread.text.endswith("not available: no permission")


@pytest.mark.parametrize(
    ("metric", "words"),
    [
        (Metric(1234567.0, "byte"), "1,234,567 byte"),
        (Metric(50.25, "%"), "50.25 %"),
        (Metric(2.0), "2"),
        (Metric(float("nan")), "nan"),
    ],
)
def test_metrics_have_their_units(metric: Metric, words: str) -> None:
    assert metric_words(metric) == words


@given(st.text(max_size=40), st.text(max_size=40), st.floats(), st.integers(24, 100))
def test_counters_fit_whatever_they_are_called(
    name: str, unit: str, value: float, width: int
) -> None:
    launch = LaunchCounters(name, (1, 1, 1), (1, 1, 1), {name: Metric(value, unit)}, {name: unit})
    page = Page(width)
    page.blocks(hardware_blocks(NcuReport(name, (launch,), remedy=unit, version=unit)))
    assert all(line_cells(line) <= width for line in page.lines)


def best_after(*more: Event) -> Phrase:
    state: SessionState = fold([*up_to(BestChanged, whole_session()), *more])
    return best_of(state)


def test_times_tell_how_good_the_best_is_where_there_are_times() -> None:
    assert best_after() == Phrase("1.333x vs its base", Tone.GOOD)
    slow_start = TimingFinished(timing(), final=True)
    assert best_after(slow_start).text == "1.333x vs baseline.cu"
    yardstick = replace(timing(), base="p" * 64, speedup=Ratio(1.02, 1.01, 1.03, 40))
    finals = slow_start, TimingFinished(yardstick, final=True)
    assert best_after(*finals).text == "1.020x vs tuned.cu"
    assert best_after(*finals, shipped("")).text == "1.020x vs tuned.cu"
    assert best_after(*finals, shipped()).text == "1.060x vs fastest shipped"
    doubtful = replace(timing(), verdict=TimingVerdict.INCONCLUSIVE)
    told = best_after(TimingFinished(doubtful, final=True))
    assert told == Phrase("1.333x vs baseline.cu (inconclusive)", Tone.CAUTION)
    lost = tuple(replace(w, verdict=TimingVerdict.SLOWER) for w in timing().workloads[:1])
    partly = replace(timing(), workloads=(*lost, *timing().workloads[1:]))
    told = best_after(TimingFinished(partly, final=True))
    assert (told.tone, "slower)" in told.text) == (Tone.CAUTION, True)


def test_counters_tell_it_where_there_are_no_times() -> None:
    events = [e for e in up_to(BestChanged, whole_session()) if not isinstance(e, TimingFinished)]
    assert best_of(fold(events)).text == "50.0 % fewer requests"
    assert best_of(fold(events[:-1])).text == ""


@on_a_loop
async def test_the_top_line_has_the_speedup_of_the_best(tmp_path: Path) -> None:
    async with shown(tmp_path, up_to(BestChanged, whole_session())) as desk:
        await desk.until(lambda: "best 1.333x vs its base" in desk.text("#status"), "the speedup")
        assert "requests" not in desk.text("#status")


@on_a_loop
async def test_a_sweep_is_followed_and_told_where_its_code_is_asked_about(tmp_path: Path) -> None:
    before, after = (write_blob(tmp_path, text) for text in (BASELINE_SOURCE, BETTER_SOURCE))
    swept = write_blob(tmp_path, BETTER_SOURCE + "// 256 threads\n")
    engine = Asker(tmp_path)
    engine.baseline = before

    async def opened() -> Asker:
        return engine

    async with seated(opened) as desk:  # type: ignore[arg-type]
        plan = engine.ask()
        accepted = Answer(plan.id, plan.subject, ApprovalStatus.ACCEPTED, TESTER)
        await engine.answer(accepted)
        engine.tell(CodeWritten(1, 0, 0, after, before, AUTHOR))
        engine.pass_on(StageBegan("sweep", 1))
        engine.pass_on(SweepAdvanced(after, "5 of at most 8 trials measured"))
        await desk.until(
            lambda: "sweeping, 5 of at most 8 trials measured" in desk.text("#status"), "progress"
        )
        found = SweptCandidate("threads = 256", swept, 8, 6)
        engine.tell(SweepFinished(after, found))
        engine.tell(CodeWritten(1, 0, 1, swept, before, AUTHOR, found.summary))
        asked = Question("1.0.diff.1", ApprovalGate.DIFF, 1, 0, swept, 1, before, 2)
        engine.tell(ApprovalAsked(asked))
        engine.pass_on(AnswerAwaited(asked))
        await desk.asked("diff")
        assert "swept, threads = 256" in desk.text("#approval")
        assert "6 of 8 trials timed, threads = 256" in desk.text("#plan")
        await desk.press("N")
        await desk.told(f"the next round stands on {short(swept)}")
        assert engine.orders == [swept]
