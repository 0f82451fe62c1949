"""Two candidates side by side: what is told of them, and the ways to ask for it."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from astra_tui.cli.timed_sources import time_sides
from astra_tui.model.errors import UserError
from astra_tui.model.settings import EMULATOR
from astra_tui.model.task import bundled
from astra_tui.present.comparison import NO_RATIO, cases_blocks, costs_blocks, plans_blocks
from astra_tui.present.layout import line_cells, line_text
from astra_tui.sessions.comparison import (
    Sides,
    case_differences,
    direct_timing,
    read_side,
)
from astra_tui.tui.app import AstraApp
from astra_tui.tui.app_io import ComparisonContext, Preferences
from astra_tui.tui.screens.compare import BOTH_FROM, CompareScreen
from astra_tui.tui.screens.dialogs import PickDialog
from astra_tui.tui.screens.home import HomeScreen
from astra_tui.tui.screens.session import SessionScreen
from astra_tui.tui.source import open_saved
from astra_tui.tui.text_layout import Page
from astra_tui.tui.widgets.diff.diff_pane import DiffPane
from tests.tui.harness import NARROW, WIDE, Clock, Desk, on_a_loop, seated
from tests.tui.test_home import at_home, home_text

RECORDED = bundled("sessions") / "h100-playbook-silu"


@contextlib.asynccontextmanager
async def comparing(sides: Sides, size: tuple[int, int]) -> AsyncIterator[Desk]:
    """The app on a comparison alone."""
    preferences = Preferences(time_pair=time_sides)
    app = AstraApp(ComparisonContext(sides), tick=0.0, preferences=preferences)
    async with app.run_test(size=size) as pilot:
        desk = Desk(app, pilot, Clock())
        await desk.until(lambda: isinstance(app.screen, CompareScreen), "the comparison")
        await desk.until(lambda: shown(desk), "its page")
        yield desk


def shown(desk: Desk, selector: str = "#page") -> str:
    """What a part of the comparison says, in one line; nothing before it is there."""
    parts = [str(part.text) for part in desk.app.screen.query(selector)]  # type: ignore[attr-defined]
    return " ".join(" ".join(parts).split())


def old_of(desk: Desk) -> str:
    """The text from which the diff goes."""
    view = desk.app.screen.query_one(DiffPane).view
    return view.old if view else ""


def said(page: Page) -> str:
    return " ".join(" ".join(map(line_text, page.lines)).split())


def test_a_side_has_the_plans_that_led_to_it() -> None:
    side = read_side(RECORDED)
    assert [s.round for s in side.steps] == sorted(s.round for s in side.steps)
    assert len(side.steps) > 1
    assert side.steps[-1].verdict is not None
    assert side.steps[-1].verdict.candidate == side.compared.candidate
    assert all(s.measured is not None for s in side.steps)
    assert side.other_plans == 6 - len(side.steps)
    assert read_side(RECORDED, "r0").steps == ()
    with pytest.raises(UserError, match="no round 9"):
        read_side(RECORDED, "r9")


def test_a_ratio_is_only_of_one_run_that_timed_both() -> None:
    baseline, first, best = (read_side(RECORDED, choice) for choice in ("r0", "r1", ""))
    assert direct_timing((first, best)) is None
    told = Page(100)
    told.blocks(costs_blocks((first, best)))
    assert NO_RATIO[:40] in said(told)
    assert "A against the baseline" in said(told)
    assert "B against tuned.cu" in said(told)
    known = direct_timing((baseline, best))
    assert known is not None
    assert (known.base, known.candidate) == (baseline.compared.candidate, best.compared.candidate)
    told = Page(100)
    told.blocks(costs_blocks((baseline, best)))
    assert "One run, in turns. A is the base, B the candidate." in said(told)
    assert NO_RATIO[:40] not in said(told)
    assert direct_timing((best, baseline)) == known
    told = Page(100)
    told.blocks(costs_blocks((best, baseline)))
    assert "B is the base, A the candidate." in said(told)


def test_cases_that_ended_in_two_ways_are_named(saved: Path) -> None:
    right, wrong = read_side(saved, "r1"), read_side(saved, "r2")
    found = case_differences((right, wrong))
    of_both = [d for d in found if d.first and d.second]  # A source adds cases of its own.
    assert of_both
    assert all(d.first.ok and not d.second.ok for d in of_both if d.first and d.second)
    assert len(found) >= len(wrong.compared.failed)
    assert case_differences((right, right)) == ()


@on_a_loop
async def test_what_cannot_be_timed_says_why(saved: Path) -> None:
    right, wrong, recorded = read_side(saved, "r1"), read_side(saved, "r2"), read_side(RECORDED)
    assert await time_sides((right, right)) == (None, "both are the same source")
    assert await time_sides((right, recorded)) == (None, "the sessions ran on different tasks")
    no_times = None, "there is no GPU, and the emulator gives no times"
    assert await time_sides((right, wrong), device=EMULATOR) == no_times


@pytest.mark.parametrize("width", [60, 80, 139])
def test_pages_fit_their_width(saved: Path, width: int) -> None:
    sides = read_side(saved, "r2"), read_side(RECORDED)
    page = Page(width)
    page.blocks([*plans_blocks(sides), *cases_blocks(sides), *costs_blocks(sides)])
    assert all(line_cells(line) <= width for line in page.lines)


@on_a_loop
async def test_a_low_terminal_shows_one_thing_at_a_time(saved: Path) -> None:
    sides = read_side(saved, "r1"), read_side(saved, "r2")
    async with comparing(sides, NARROW) as desk:
        assert "wide loads" in shown(desk)
        assert "another scale" in shown(desk)
        assert not desk.app.screen.query_one("#diff").display
        await desk.press("2")
        await desk.until(lambda: "hunk" in desk.app.screen.query_one(DiffPane).title(), "the diff")
        assert not desk.app.screen.query_one("#page").display
        await desk.press("tab")
        await desk.until(lambda: "Ended in two ways" in shown(desk), "the tests")
        await desk.press("4")
        await desk.until(lambda: "Counted by the emulator" in shown(desk), "the counters")
        await desk.pilot.click("#tabs", offset=(3, 0))
        await desk.until(lambda: "wide loads" in shown(desk), "the plans again")
        await desk.press("q")
    assert desk.app.return_value is not None


@on_a_loop
async def test_a_high_one_shows_plans_and_diff_and_times_on_demand(saved: Path) -> None:
    sides = read_side(saved, "r1"), read_side(saved, "r2")
    assert WIDE[1] >= BOTH_FROM
    async with comparing(sides, WIDE) as desk:
        assert desk.app.screen.query_one("#diff").display
        assert old_of(desk) == sides[0].source
        await desk.press("x")
        assert old_of(desk) == sides[1].source
        await desk.press("t")
        # Without a GPU for that reason; with one because a side does not pass its check.
        await desk.until(lambda: "Not timed here" in shown(desk), "why there is no timing")
        assert "emulator gives no times" in shown(desk) or "its check" in shown(desk)


@on_a_loop
async def test_a_session_compares_what_is_chosen_with_what_is_picked(saved: Path) -> None:
    async with seated(partial(open_saved, saved)) as desk:
        await desk.until(lambda: desk.session.view, "the session")
        await desk.press("w")
        await desk.until(lambda: isinstance(desk.app.screen, PickDialog), "the list")
        await desk.press("enter")
        await desk.until(lambda: isinstance(desk.app.screen, CompareScreen), "the comparison")
        await desk.until(lambda: "more instructions" in shown(desk), "the chosen candidate")
        assert ":r3 silu_and_mul-20260101-120000:r1" in shown(desk), "the best is picked at first"
        await desk.press("escape")
        await desk.until(lambda: isinstance(desk.app.screen, SessionScreen), "the session again")


@on_a_loop
async def test_home_compares_two_sessions(saved: Path, tmp_path: Path) -> None:
    for name in ("one", "other"):
        shutil.copytree(saved, tmp_path / name)
    async with at_home(tmp_path) as desk:
        await desk.until(lambda: "other" in home_text(desk, "#sessions"), "both")
        await desk.press("tab", "w", "down", "w")
        await desk.until(lambda: isinstance(desk.app.screen, CompareScreen), "the comparison")
        await desk.until(lambda: shown(desk), "its page")
        assert "A one:r1" in shown(desk, "#head") or "A other:r1" in shown(desk, "#head")
        await desk.press("q")
        await desk.until(lambda: isinstance(desk.app.screen, HomeScreen), "home again")
