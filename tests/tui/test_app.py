"""What concerns the whole app: key maps, themes, help, palette, copies, pictures, breakdowns."""

from __future__ import annotations

import os
import re
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from astra_tui.model.errors import UserError
from astra_tui.tui.app import AstraApp
from astra_tui.tui.app_io import Preferences
from astra_tui.tui.command_palette import MOVES, check_keys
from astra_tui.tui.source import open_saved
from astra_tui.tui.widgets.rounds import ROWS, RoundsPane
from tests.conftest import ROOT
from tests.tui.harness import NARROW, Clock, Desk, on_a_loop, seated
from tests.tui.test_typing import Asker


@on_a_loop
async def test_keys_and_theme_of_the_settings_hold(tmp_path: Path) -> None:
    asker = Asker(tmp_path)

    async def opened() -> Asker:
        return asker

    preferences = Preferences({"accept": "y", "pane.log": "l"}, "nord")
    clock = Clock()
    app = AstraApp(opened, preferences=preferences, clock=clock, tick=0.0)  # type: ignore[arg-type]
    async with app.run_test(size=NARROW) as pilot:
        desk = Desk(app, pilot, clock)
        assert app.theme == "nord"
        asker.ask()
        await desk.asked("plan")
        assert " y accept" in desk.text("#approval")
        await desk.press("a")
        assert not asker.answers
        clock.advance(1.0)
        await desk.press("y")
        await desk.until(lambda: asker.answers, "the answer")
        await desk.press("l")
        await desk.until(lambda: desk.session.shown == {"log"}, "the log")


@on_a_loop
async def test_an_unknown_theme_is_named(saved: Path) -> None:
    app = AstraApp(partial(open_saved, saved), preferences=Preferences(theme="nrod"))
    async with app.run_test() as pilot:
        desk = Desk(app, pilot, Clock())
        await desk.told("did you mean 'nord'?")


@on_a_loop
async def test_help_is_about_the_pane_in_front(saved: Path) -> None:
    async with seated(partial(open_saved, saved)) as desk:
        for key, words in (("6", "old time over new"), ("3", "from hunk to hunk"), ("1", "star")):
            await desk.press(key)
            await desk.until(lambda k=key: desk.session.board.front_pane.query("*") or k != "3")
            await desk.pilot.pause()
            await desk.press("question_mark")
            await desk.until(lambda: desk.app.screen.query("HelpScreen LinesView"), "help")
            await desk.until(lambda w=words: w in help_text(desk), f"help about {words}")
            assert "Zoom" in help_text(desk)
            assert "Scroll Left" not in help_text(desk)
            assert key != "1" or "↑, k Up ↓, j Down" in help_text(desk), "the same action once"
            await desk.press("escape")


def help_text(desk: Desk) -> str:
    view = desk.app.screen.query("LinesView").first()
    return " ".join(str(view.text).split())  # type: ignore[attr-defined]


@on_a_loop
async def test_every_action_that_applies_is_in_the_palette(saved: Path) -> None:
    async with seated(partial(open_saved, saved)) as desk:
        await desk.until(lambda: desk.session.view, "the session")
        named = {command.title for command in desk.app.get_system_commands(desk.app.screen)}
        assert {"Play", "Zoom", "Copy", "Help", "Leave", "Theme", "Screenshot"} <= named
        assert "Accept" not in named
        assert not {"Up", "Down", "Bottom", "List up", "Scroll down"} & named
        bindings = desk.app.screen.active_bindings.values()
        actions = {b.binding.action for b in bindings if b.binding.id}
        assert len(named) >= len([a for a in actions if a.partition("(")[0] not in MOVES])


@on_a_loop
async def test_a_pane_is_copied_and_a_picture_saved(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with seated(partial(open_saved, saved)) as desk:
        await desk.until(lambda: desk.session.view, "the session")
        await desk.press("1", "y")
        assert desk.app.clipboard == desk.text("#rounds")
        desk.app.action_screenshot()
        assert [p.suffix for p in tmp_path.iterdir()] == [".svg"]


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TEXTUAL_THEME": "ansi-dark"}])
def test_no_meaning_is_told_by_colour_alone(
    saved: Path, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    @on_a_loop
    async def test() -> None:
        async with seated(partial(open_saved, saved)) as desk:
            await desk.until(lambda: desk.session.view, "the session")
            await desk.press("1")
            told = desk.text("#rounds")
            marked = list(pairwise(told.splitlines()))
            for sign, word in (("▲", "better"), ("▼", "wrong"), ("▼", "worse")):
                assert any(sign in head for head, said in marked if word in said)
            assert "[1 Rounds]" in desk.text("#tabs")

    test()


def test_an_unknown_action_is_named_and_the_documented_ones_are_known() -> None:
    with pytest.raises(UserError) as raised:
        check_keys({"acept": "y"}, AstraApp)
    assert raised.value.hint == "did you mean 'accept'?"
    page = (ROOT / "docs" / "screen.md").read_text(encoding="utf-8")
    listed = page.split("`keys` gives keys")[1].split("Several keys")[0]
    check_keys(dict.fromkeys(re.findall(r"`([a-z_.]+)`", listed), "x"), AstraApp)


@on_a_loop
async def test_the_mouse_works(saved: Path) -> None:
    async with seated(partial(open_saved, saved)) as desk:
        await desk.until(lambda: desk.session.view and desk.text("#rounds"), "the session")
        rows = desk.text("#rounds").splitlines()
        index = next(i for i, row in enumerate(rows) if "another scale" in row)
        pane = desk.session.query_one("#rounds", RoundsPane)
        await desk.until(
            lambda: pane.cursor + ROWS <= pane.scroll_y + pane.inner_size.height, "the last round"
        )
        await desk.pilot.click("#rounds", offset=(8, index - int(pane.scroll_y)))
        await desk.until(lambda: "another scale" in desk.text("#plan"), "the chosen plan")
        tabs = desk.text("#tabs")
        await desk.pilot.click("#tabs", offset=(tabs.index("8 Log") + 2, 0))
        await desk.until(lambda: "log" in desk.session.shown, "the log")
        keys = desk.text("#keys")
        await desk.pilot.click("#keys", offset=(keys.index("Zoom") + 1, 0))
        await desk.until(lambda: desk.session.shown == {"log"}, "the log alone")


def test_a_breakdown_is_one_sentence_and_keeps_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-abcdefghijklmnopqrstuvwxyz0123456789")

    async def broken() -> None:
        secret = os.environ["OPENAI_API_KEY"]
        raise RuntimeError(f"no luck with {secret}")

    app = AstraApp(broken)  # type: ignore[arg-type]
    app.run(headless=True)
    assert app.breakdown is not None
    told = app.breakdown.describe()
    assert "the screen broke down" in told
    file = tmp_path / "astra-tui" / "screen-crash.txt"
    assert str(file) in told
    kept = file.read_text()
    assert "no luck with" in kept
    assert "sk-abc" not in kept + told
    assert file.stat().st_mode & 0o777 == 0o600
