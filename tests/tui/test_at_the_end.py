"""What the panes say of work that came to nothing, and where there is little room."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from astra_tui.model.approval import ApprovalGate, AutoMode, Question
from astra_tui.model.check import (
    CaseOutcome,
    CaseResult,
    CheckVerdict,
    ConditionResult,
    FullSizeResult,
)
from astra_tui.model.compilation import Diagnostic, Severity
from astra_tui.model.events import (
    ApprovalAsked,
    AutoApprovalSet,
    CaseChecked,
    CheckFinished,
    CheckStarted,
    CodeWritten,
    CompileFinished,
    Event,
    PlanProposed,
    RoundOpened,
    SessionClosed,
    StageBegan,
    StopReason,
)
from astra_tui.model.fold import fold
from astra_tui.model.task import Acceptance, bundled
from astra_tui.present.layout import line_text
from astra_tui.present.tones import Tone
from astra_tui.sessions.comparison import read_side
from astra_tui.tui.app import AstraApp
from astra_tui.tui.source import open_saved
from astra_tui.tui.text_layout import Page
from astra_tui.tui.view import Choice, View
from astra_tui.tui.widgets.bars import TabLine
from astra_tui.tui.widgets.pane_layout import PANES
from astra_tui.tui.widgets.rounds import RoundsPane
from astra_tui.tui.widgets.tests import TestsPane as PaneOfTests
from tests.sessions.samples import CASE, PLAN, whole_session
from tests.tui.harness import NARROW, TESTER, Clock, Desk, on_a_loop, seated
from tests.tui.test_compare import comparing
from tests.tui.test_typing import AUTHOR, Asker

SHORT_NAME = "silu_and_mul-20261121-230117"


def opened_session() -> list[Event]:
    """A session up to its first plan."""
    events = whole_session()
    return events[: next(n for n, e in enumerate(events) if isinstance(e, PlanProposed)) + 1]


def said(pane: RoundsPane | PaneOfTests, view: View) -> str:
    return "\n".join(map(line_text, pane.lines_of(view, 80)))


@pytest.mark.parametrize("reason", [StopReason.TROUBLE, StopReason.CANCELLED])
def test_nothing_is_at_work_once_a_run_has_ended(reason: StopReason) -> None:
    question = Question("1.0.plan", ApprovalGate.PLAN, 1, 0, PLAN.hash)
    events = [*opened_session(), ApprovalAsked(question)]
    asks = View(fold(events), Choice(1), following=True, stage=StageBegan("plan", 1))
    assert "! " in said(RoundsPane(), asks)
    ended = fold([*events, SessionClosed(reason, "", "digest")])
    view = View(ended, Choice(1), following=True)
    rounds = RoundsPane()
    assert "not finished" in said(rounds, view)
    assert not {"!", ">"} & set(said(rounds, view))
    assert rounds.part(view) != rounds.part(asks)
    planning = [*events, RoundOpened(2, 0, "b" * 64), SessionClosed(reason, "", "digest")]
    last = said(rounds, View(fold(planning), Choice(2), following=True))
    assert "planning" not in last
    assert not {"!", ">"} & set(last)


def test_a_candidate_that_did_not_compile_says_so_in_the_tests() -> None:
    code = "c" * 64
    errors = tuple(Diagnostic(Severity.ERROR, f"fault {n}", n) for n in range(1, 7))
    warning = Diagnostic(Severity.WARNING, "unused", 9)
    events = [
        *opened_session(),
        CodeWritten(1, 0, 0, code, "b" * 64, AUTHOR),
        CompileFinished(code, False, (warning, *errors), "NVRTC", 0.1),
    ]
    told = said(PaneOfTests(), View(fold(events), Choice(1), following=True))
    assert "DID NOT COMPILE" in told
    assert "not checked yet" not in told
    assert "line 1: error: fault 1" in told
    assert "and 2 more errors" in told
    assert "unused" not in told


def test_an_inconclusive_check_says_what_is_open_where_and_what_is_next() -> None:
    code = "c" * 64
    condition = ConditionResult("k<__half>", 39, 9, "up == 6.0f", True, "key", why="200 cases")
    at_size = FullSizeResult("decode", CaseOutcome.INCONCLUSIVE, "too many steps", blocks=7)
    ruling = Acceptance("never used", condition="up == 2.5f")
    ended = CheckFinished(
        code, CheckVerdict.INCONCLUSIVE, "m", (), (), 1.0, (ruling,), (at_size,), (condition,)
    )
    events = [
        *opened_session(),
        CodeWritten(1, 0, 0, code, "b" * 64, AUTHOR),
        CompileFinished(code, True, (), "NVRTC", 0.1),
        CheckStarted(code, 1),
        CaseChecked(code, CaseResult(CASE, CaseOutcome.PASSED)),
        ended,
    ]
    pane, view = PaneOfTests(), View(fold(events), Choice(1), following=True)
    told = said(pane, view)
    assert "line 39: 'up == 6.0f' was never true in k<__half> (200 cases)" in told
    assert "[[accept]]" in told
    assert "accepted in task.toml: condition up == 2.5f: never used" in told
    assert "inconclusive  workload decode at its own size\n  too many steps\n  0 of 7" in told
    page = Page(80)
    pane.draw(view, page)
    tones = {s.tone for line in page.lines for s in line if "INCONCLUSIVE" in s.text}
    assert tones == {Tone.CAUTION}


def test_the_command_for_one_case_draws_by_the_seed_of_the_session() -> None:
    code = "c" * 64
    first, *others = opened_session()
    events = [
        replace(first, seed=7),
        *others,
        CodeWritten(1, 0, 0, code, "b" * 64, AUTHOR),
        CheckStarted(code, 1),
        CaseChecked(code, CaseResult(CASE, CaseOutcome.WRONG)),
    ]
    told = " ".join(said(PaneOfTests(), View(fold(events), Choice(1), following=True)).split())
    assert f"--seed 7 --case {CASE.id}" in told


@on_a_loop
async def test_the_mode_is_the_last_that_leaves_the_top_line(tmp_path: Path) -> None:
    asker = Asker(tmp_path)

    async def opened() -> Asker:
        return asker

    async with seated(opened, NARROW) as desk:  # type: ignore[arg-type]
        asker.ask()
        asker.tell(AutoApprovalSet(AutoMode.ALL, TESTER))
        mode = AutoMode.ALL.words
        for width in (80, 40, 24):
            await desk.pilot.resize_terminal(width, 24)
            await desk.until(lambda: mode in desk.text("#status")[: desk.app.size.width])
        await desk.until(lambda: "silu_and_mul" not in desk.text("#status"), "room for the mode")


@on_a_loop
async def test_the_tab_in_front_is_seen_and_clicked_where_there_is_little_room(
    saved: Path,
) -> None:
    async with seated(partial(open_saved, saved), (40, 10)) as desk:
        await desk.until(lambda: desk.session.view, "the session")
        tabs = desk.session.query_one(TabLine)
        for number, name in enumerate(PANES, 1):
            await desk.press(str(number))
            await desk.until(lambda name=name: desk.session.shown == {name})  # type: ignore[misc]
            await desk.until(lambda n=number: f"[{n} " in tabs.text[:40])  # type: ignore[misc]
            assert tabs.text.index("]") < 40
        await desk.pilot.click("#tabs", offset=(tabs.text.index("7 GPU") + 1, 0))
        await desk.until(lambda: desk.session.shown == {"gpu"}, "the tab that was clicked")


@pytest.mark.parametrize(("pane", "selector"), [("3", "#diff"), ("4", "#source")])
def test_code_is_copied_whole_or_by_line(pane: str, selector: str, saved: Path) -> None:
    @on_a_loop
    async def test() -> None:
        async with seated(partial(open_saved, saved)) as desk:
            await desk.until(lambda: desk.session.view, "the session")
            await desk.press(pane)
            await desk.until(lambda: desk.text(selector).count("\n") > 1, "the code")
            await desk.until(lambda: desk.session.diff.is_ready, "the diff")
            await desk.press("y")
            assert desk.app.clipboard == desk.text(selector)
            await desk.press("Y")
            assert desk.app.clipboard
            assert len(desk.app.clipboard) < len(desk.text(selector)) / 2

    test()


@on_a_loop
async def test_a_comparison_names_its_candidates_shortly(saved: Path, tmp_path: Path) -> None:
    folder = tmp_path / SHORT_NAME
    folder.symlink_to(saved)
    sides = read_side(folder, "r1"), read_side(folder, "r2")
    async with comparing(sides, (140, 40)) as desk:
        title = desk.app.screen.query_one("#diff").title()  # type: ignore[attr-defined]
        first, second = (side.compared.candidate[:12] for side in sides)
        assert title.startswith(f"A {first} → B {second} · ")


@on_a_loop
async def test_the_result_of_the_chosen_round_stays_in_sight() -> None:
    async with seated(
        partial(open_saved, bundled("sessions") / "h100-pair-silu"), (120, 50)
    ) as desk:
        rounds = desk.session.query_one(RoundsPane)
        await desk.until(lambda: rounds.cursor > 0, "the last round is chosen")
        await desk.pilot.resize_terminal(120, 24)
        await desk.until(lambda: rounds.inner_size.height < len(rounds._lines), "too little room")
        result = rounds.cursor + 1
        await desk.until(
            lambda: result < rounds.scroll_offset.y + rounds.inner_size.height, "the result"
        )


@on_a_loop
async def test_a_notice_stands_at_the_bottom_above_the_question(tmp_path: Path) -> None:
    asker = Asker(tmp_path)

    async def opened() -> Asker:
        return asker

    clock = Clock()
    app = AstraApp(opened, clock=clock, tick=0.0)  # type: ignore[arg-type]
    async with app.run_test(size=NARROW, notifications=True) as pilot:
        desk = Desk(app, pilot, clock)
        asker.ask()
        await desk.asked("plan")
        desk.app.say("something")
        await desk.until(lambda: desk.app.screen.query("Toast"), "the notice")
        toast = desk.app.screen.query_one("Toast")
        await desk.until(lambda: toast.region.height, "its place")
        bar = desk.session.query_one("#approval").region
        assert toast.region.y > NARROW[1] // 2
        assert toast.region.bottom <= bar.y
