"""A session on a GPU as lines, and its result."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from astra_tui.model.events import (
    CodeWritten,
    CompileFinished,
    Event,
    GpuSampled,
    PlanProposed,
    RoundOpened,
    RoundsTimed,
    Sanitized,
    SessionOpened,
    StageBegan,
    TimingFinished,
    Transient,
)
from astra_tui.model.findings import SanitizerVerdict, not_looked_at
from astra_tui.model.fold import apply, fold
from astra_tui.model.gpu import GpuSample
from astra_tui.model.state import SessionState
from astra_tui.model.visible import can_act
from astra_tui.plain import print_blocks, print_json
from astra_tui.plain.console import console
from astra_tui.plain.run import RunLines
from astra_tui.present.document import Listing, Table
from astra_tui.present.sessions import result_blocks
from astra_tui.present.tones import Phrase
from astra_tui.sessions.summary import final_timings, run_report
from tests.sessions.samples import BASELINE, BETTER, RATIO, shipped, timing, whole_session

TUNED = "p" * 64
FINAL = [
    TimingFinished(timing(), final=True),
    TimingFinished(msgspec.structs.replace(timing(), base=TUNED), final=True),
]
ROUNDS = RoundsTimed(BETTER, BASELINE, "16x4096", 2.0, 1.5, RATIO, 40)


def session(*more: Event) -> list[Event]:
    *before, closed = whole_session()
    return [*before, *more, closed]


def lines_of(events: list[Event], *, progress: bool = False) -> list[str]:
    written: list[str] = []
    lines = RunLines(written.append, progress)
    for state, event in states_of(events):
        lines.show(event, lambda state=state: state)
    return written


def states_of(events: list[Event]) -> Iterator[tuple[SessionState, Event]]:
    """Each event with the state that it made; what comes after a session makes none."""
    state = SessionState()
    for event in events:
        if state.closed is None and not isinstance(event, Transient):
            state = apply(state, event)
        yield state, event


def test_device_and_timings_are_lines_and_samples_are_not() -> None:
    sample = GpuSampled(GpuSample(1.0, sm_mhz=1755))
    written = lines_of(session(StageBegan("time", 1), sample, *FINAL))
    assert "device cuda:0, NVIDIA H100, driver unknown" in written
    assert "  timing ..." in written
    found = "1.333x [1.320, 1.340]"
    assert f"    16x4096 float16: {found} faster, 2.00 to 1.50 us" in "\n".join(written)
    told = f"{found}, faster: geometric mean 1.3333 (0.0 s)"
    assert f"  {BETTER[:12]} timed against {BASELINE[:12]}: {told}" in written
    again = [x for x in written if x.startswith("  the best, re-measured against ")]
    assert [x.split()[4] for x in again] == [f"{BASELINE[:12]}:", f"{TUNED[:12]}:"]
    assert not any("1755" in x for x in written)


@pytest.mark.parametrize(("reports", "expected"), [(9, 0), (10, 1), (39, 3)])
def test_progress_is_a_line_for_every_tenth_report(reports: int, expected: int) -> None:
    rounds: list[Event] = [ROUNDS] * reports
    assert len(lines_of(rounds, progress=True)) == expected
    assert lines_of(rounds, progress=False) == []


def test_the_end_has_the_best_beside_baseline_and_tuned(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    print_blocks(result_blocks(fold(session(*FINAL)), tmp_path))
    out = capsys.readouterr().out
    for other in ("baseline.cu", "tuned.cu"):
        assert f"\nfaster Best against {other} (cuda:0, " in out
    assert out.count("\ngeometric mean 1.3333\n") == 2
    assert "shipped" not in out
    assert "NVIDIA H100" in out
    assert "counted by the emulator" in out


def test_the_end_has_the_best_against_what_others_ship(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    headline = "against the fastest shipped kernels: 1.060x [1.050, 1.070], faster"
    assert f"  {BETTER[:12]} {headline}" in lines_of(session(*FINAL, shipped()))
    state = fold(session(*FINAL, shipped()))
    assert run_report(state, tmp_path).shipped == shipped().shipped
    assert state.usage.gpu_seconds == fold(session(*FINAL)).usage.gpu_seconds + 0.25
    print_blocks(result_blocks(state, tmp_path))
    out = capsys.readouterr().out
    assert f"\nbest {headline}\n" in out
    assert "16x4096" in out[out.index("fastest shipped") :]
    print_blocks(result_blocks(fold(session(*FINAL, shipped(""))), tmp_path))
    out = capsys.readouterr().out
    assert "fastest shipped kernels: not compared, since not all that serve" in out
    assert "flashinfer is not timed: triton 3.9.0 is not in the cache" in out


def test_only_final_timings_count_as_the_result(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    state = fold(whole_session())
    assert final_timings(state) == ()
    print_blocks(result_blocks(state, tmp_path))
    out = capsys.readouterr().out
    assert "\nTimes\n" not in out
    assert " against " not in out.replace("each against baseline.cu there", "")
    assert run_report(state, tmp_path).timings == ()


def test_the_report_has_the_final_timings(tmp_path: Path) -> None:
    report = run_report(fold(session(*FINAL)), tmp_path)
    assert [t.against for t in report.timings] == ["baseline.cu", "tuned.cu"]
    assert [t.timing.base for t in report.timings] == [BASELINE, TUNED]
    assert {t.timing.candidate for t in report.timings} == {BETTER}


def test_what_tools_found_is_said_with_its_line_and_what_did_not_look_only_once() -> None:
    unavailable = not_looked_at(SanitizerVerdict.UNAVAILABLE, "compute-sanitizer was not found")
    events = [Sanitized(BASELINE, unavailable), Sanitized(BETTER, unavailable)]
    written = lines_of([*session(), *events])
    assert "    memcheck: 1 error in case float16/one_row" in "\n".join(written)
    assert "      memcheck: line 1: global_out_of_bounds: read of 2 bytes" in "\n".join(written)
    assert "    racecheck: not looked at: was not done after 60 s" in "\n".join(written)
    assert sum("compute-sanitizer was not found" in line for line in written) == 1
    assert f"  hardware counters of {BASELINE[:12]}: 2 read on" in "\n".join(written)


def test_lines_say_which_plan_they_are_about_where_there_are_several() -> None:
    events = two_plans()
    written = lines_of(events)
    assert "  plan 2: " in "\n".join(written)
    begin = [x.strip().split(" ")[0] for x in written if not x.startswith("  plan ")]
    assert begin == ["round", "[1]", "[2]", "[2]", "[2]", "[1]", "round", "compiled"]


def test_lines_say_so_too_where_a_session_goes_on_in_the_middle_of_a_round() -> None:
    written: list[str] = []
    lines = RunLines(written.append, progress=False)
    for state, event in list(states_of(two_plans()))[5:]:
        lines.show(event, lambda state=state: state)
    assert [x.split()[0] for x in written if "compiled" in x] == ["[2]", "[1]", "compiled"]


HOSTILE = "\x1b]0;title\x07 \x9b31m \u202e rtl"


def test_what_is_printed_of_a_session_cannot_act_on_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    replace = msgspec.structs.replace
    (begun, *_) = session()
    assert isinstance(begun, SessionOpened)
    settings = replace(begun.settings, task=HOSTILE, model=HOSTILE, device=HOSTILE)
    print_blocks(
        result_blocks(
            fold([replace(begun, settings=settings), *session()[1:], *FINAL]), Path(HOSTILE)
        )
    )
    console().print(Text.assemble((HOSTILE, "bold"), HOSTILE))
    table = Table(HOSTILE, (HOSTILE,), (((HOSTILE,),),))
    print_blocks([table, Listing(HOSTILE, (Phrase(HOSTILE),))])
    said = capsys.readouterr().out
    assert said.count("«ESC»]0;title") == 10
    assert not [c for c in said if can_act(c)]


@given(st.dictionaries(st.text(max_size=20), st.text(max_size=20), max_size=4))
def test_json_cannot_act_either_and_means_the_same(data: dict[str, str]) -> None:
    written = io.StringIO()
    with contextlib.redirect_stdout(written):
        print_json({**data, "hostile": HOSTILE + "\U000e0041\u0301é"})
    said = written.getvalue()
    assert not [c for c in said if can_act(c)]
    assert "é" in said
    assert json.loads(said) == {**data, "hostile": HOSTILE + "\U000e0041\u0301é"}


def two_plans() -> list[Event]:
    """Two plans of which the second is quicker; then a round of one."""
    one, other = BASELINE, BETTER
    (proposed, *_) = (e for e in whole_session() if isinstance(e, PlanProposed))
    (compiled, *_) = (e for e in whole_session() if isinstance(e, CompileFinished))
    (written, *_) = (e for e in whole_session() if isinstance(e, CodeWritten))
    replace = msgspec.structs.replace
    return [
        RoundOpened(1, 0, BASELINE),
        replace(proposed, proposal=0),
        replace(proposed, proposal=1),
        replace(written, proposal=0, candidate=one),
        replace(written, proposal=1, candidate=other),
        StageBegan("time", 1, 1),
        replace(compiled, candidate=other),
        replace(compiled, candidate=one),
        RoundOpened(2, 1, BASELINE),
        replace(proposed, round=2, proposal=0),
        replace(compiled, candidate=one),
    ]
