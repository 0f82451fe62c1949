"""Which panes are shown at which width."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from astra_tui.tui.pane_layout import MAIN, PANES, THREE_COLUMNS, TWO_COLUMNS, lay_out

FRONTS = st.sampled_from(PANES)


@given(st.integers(1, 400), FRONTS, FRONTS, st.booleans())
def test_the_pane_in_front_is_always_shown(width: int, front: str, main: str, zoom: bool) -> None:
    arranged = lay_out(width, front, main=main, zoomed=zoom)
    assert front in arranged.shown
    assert len(arranged.main) <= 1
    if zoom or width < TWO_COLUMNS:
        assert arranged.shown == {front}


@given(st.integers(TWO_COLUMNS, 400), FRONTS, FRONTS)
def test_with_room_rounds_and_tests_stay(width: int, front: str, main: str) -> None:
    arranged = lay_out(width, front, main=main)
    assert arranged.left == ("rounds", "tests")
    if width >= THREE_COLUMNS:
        assert arranged.side == ("profile", "gpu", "log")
        assert arranged.main[0] in MAIN
    else:
        assert len(arranged.main + arranged.side) == 1 or main in arranged.left
