"""Which panes are shown at which width, and what it takes to show another one."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tui.tui.source import open_saved
from astra_tui.tui.widgets.board import Frame
from astra_tui.tui.widgets.pane_layout import MAIN, PANES, THREE_COLUMNS, TWO_COLUMNS, lay_out
from tests.tui.harness import NARROW, WIDE, Touched, on_a_loop, seated

MOST_CHANGED = 13
"""Two panes of code with all their parts, columns, frames, tabs and keys."""

MOST_CHOSEN = 9
"""A round is chosen: the list, three panes with their scrollbars, a line, and the keys."""

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
async def test_a_key_touches_few_widgets(
    size: tuple[int, int], saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with seated(partial(open_saved, saved), size) as desk:
        await desk.until(lambda: "finished" in desk.text("#status"), "the end")
        for key in "1234567812345678":
            await desk.press(key)
            await desk.pilot.pause()
        touched = Touched().watch(monkeypatch)
        for key in "3614725836":
            await touched.by(desk, key)
            assert {type(node) for node in touched.styled} == {Frame}
            assert len(touched.styled) == 2, "the frame that was in front, and the one that is"
            assert len(touched.changed) <= MOST_CHANGED, key
            assert touched.layouts <= 1
        for pane in "2456":
            await desk.press(pane)
            await desk.pilot.pause()
            for key in "jjk":
                await touched.by(desk, key)
                assert not touched.styled
                assert not touched.layouts
                assert len(touched.changed) <= 2, "the pane, and its scrollbar"
        await desk.press("1")
        for key in "kkj":
            await touched.by(desk, key)
            assert not touched.styled
            assert len(touched.changed) <= MOST_CHOSEN
