"""The panes of a session: their order, their columns, and which are shown at which width.

Their classes are put together in screens/session_panes.py, by these names.
"""

from __future__ import annotations

import msgspec

LEFT = ("rounds", "plan")
MAIN = ("diff", "source", "tests")
SIDE = ("profile", "gpu", "log")
COLUMNS = {"left": LEFT, "main": MAIN, "side": SIDE}
PANES = (*LEFT, *MAIN, *SIDE)
"""In the order of their number keys."""

TWO_COLUMNS = 110
"""From this width on, the rounds and the plan stay on the screen, next to code or tests."""

THREE_COLUMNS = 170
"""From this width on, profile, GPU and log do so too."""


class PaneLayout(msgspec.Struct, frozen=True):
    """What is shown: the panes of each column, top to bottom."""

    left: tuple[str, ...]
    main: tuple[str, ...]
    side: tuple[str, ...]

    @property
    def shown(self) -> frozenset[str]:
        """Every pane that is on the screen."""
        return frozenset(self.left + self.main + self.side)


def lay_out(width: int, front: str, *, main: str = "source", zoomed: bool = False) -> PaneLayout:
    """The panes for a width in columns.

    `front` is the pane that has to be seen. `main` is the one that the middle column shows where
    `front` has a column of its own; `zoomed` shows `front` alone.
    """
    if zoomed or width < TWO_COLUMNS:
        return _columns((front,))
    if width < THREE_COLUMNS:
        return _columns((*LEFT, main if front in LEFT else front))
    return _columns((*LEFT, front if front in MAIN else main if main in MAIN else "source", *SIDE))


def _columns(shown: tuple[str, ...]) -> PaneLayout:
    def of(column: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(pane for pane in column if pane in shown)

    return PaneLayout(of(LEFT), of(MAIN), of(SIDE))
