"""Which panes are shown at which width, and what it takes to show another one."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.css.stylesheet import Stylesheet
from textual.dom import DOMNode
from textual.geometry import Region
from textual.screen import Screen
from textual.widget import Widget

from astra_tui.tui.pane_layout import MAIN, PANES, THREE_COLUMNS, TWO_COLUMNS, lay_out
from astra_tui.tui.source import open_saved
from astra_tui.tui.widgets.board import Frame
from tests.tui.harness import NARROW, WIDE, on_a_loop, seated

MOST_CHANGED = 13
"""Two panes of code with all their parts, columns, frames, tabs and keys."""

FRONTS = st.sampled_from(PANES)


@given(st.integers(1, 400), FRONTS, FRONTS, st.booleans())
def test_the_pane_in_front_is_always_shown(width: int, front: str, main: str, zoom: bool) -> None:
    arranged = lay_out(width, front, main=main, zoomed=zoom)
    assert front in arranged.shown
    assert len(arranged.main) <= 1
    if zoom or width < TWO_COLUMNS:
        assert arranged.shown == {front}


@given(st.integers(TWO_COLUMNS, 400), FRONTS, FRONTS)
def test_with_room_rounds_and_plan_stay_next_to_code_or_tests(
    width: int, front: str, main: str
) -> None:
    arranged = lay_out(width, front, main=main)
    assert arranged.left == ("rounds", "plan")
    if width >= THREE_COLUMNS:
        assert arranged.side == ("profile", "gpu", "log")
        assert arranged.main[0] in MAIN
    else:
        assert len(arranged.main + arranged.side) == 1 or main in arranged.left


@pytest.mark.parametrize("size", [NARROW, WIDE], ids=["one pane", "three panes"])
@on_a_loop
async def test_a_pane_that_comes_back_touches_few_widgets(
    size: tuple[int, int], saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a key costs: who is styled and marked as changed, and how often all is laid out."""
    styled, changed, layouts = set[DOMNode](), set[Widget](), list[None]()

    def styles(sheet: Stylesheet, node: DOMNode, **more: Any) -> None:
        styled.add(node)
        apply(sheet, node, **more)

    def refreshes(widget: Widget, *regions: Region, **more: Any) -> Widget:
        changed.add(widget)
        return refresh(widget, *regions, **more)

    def lays_out(screen: Screen[None], *how: Any, **more: Any) -> None:
        layouts.append(None)
        lay_out_all(screen, *how, **more)

    async with seated(partial(open_saved, saved), size) as desk:
        await desk.until(lambda: "finished" in desk.text("#status"), "the end")
        for key in "1234567812345678":
            await desk.press(key)
            await desk.pilot.pause()
        apply, refresh, lay_out_all = Stylesheet.apply, Widget.refresh, Screen._refresh_layout
        monkeypatch.setattr(Stylesheet, "apply", styles)
        monkeypatch.setattr(Widget, "refresh", refreshes)
        monkeypatch.setattr(Screen, "_refresh_layout", lays_out)
        for key in "3614725836":
            for seen in (styled, changed, layouts):
                seen.clear()
            await desk.press(key)
            await desk.pilot.pause()
            assert {type(node) for node in styled} == {Frame}
            assert len(styled) == 2, "the frame that was in front, and the one that is"
            assert len(changed) <= MOST_CHANGED, key
            assert len(layouts) <= 1
