"""The keys of a session screen, and when they apply: one is offered where it does something."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from textual.binding import Binding

from astra_tui.model.state import SessionStatus
from astra_tui.tui.arrangement import PANES

if TYPE_CHECKING:
    from astra_tui.tui.screens.session import SessionScreen


KEYS = (
    Binding("a", "accept", "Accept", show=False, id="accept"),
    Binding("e", "edit", "Edit", show=False, id="edit"),
    Binding("r", "reject", "Reject", show=False, id="reject"),
    Binding("ctrl+g", "edit_outside", "Edit in $EDITOR", show=False, id="edit_outside"),
    Binding("ctrl+n", "accept_next", "Accept the next", show=False, id="accept_next"),
    Binding("escape", "interrupt", "Interrupt", id="interrupt"),
    Binding("p", "pause", "Pause", id="pause"),
    Binding("p", "go_on", "Continue", id="go_on"),
    Binding("n", "note", "Note", id="note"),
    Binding("b", "branch", "Branch", show=False, id="branch"),
    Binding("w", "compare", "Compare", show=False, id="compare"),
    Binding("t", "add_case", "Add a case", show=False, id="add_case"),
    Binding("f", "follow", "Follow", id="follow"),
    Binding("z", "zoom", "Zoom", id="zoom"),
    Binding("shift+tab", "mode", "Auto", show=False, id="mode"),
    Binding("y", "copy", "Copy", id="copy"),
    Binding("x", "end", "End run", id="end", show=False),
    Binding("tab", "next_pane", show=False, id="next_pane"),
    *(
        Binding(str(number), f"pane('{pane}')", show=False, id=f"pane.{pane}")
        for number, pane in enumerate(PANES, 1)
    ),
)
"""Those of replays and of cited numbers are in modules of their own."""


def _asks(screen: SessionScreen) -> bool:
    return screen.asks


def _works(screen: SessionScreen) -> bool:
    return screen.works


def _plays(screen: SessionScreen) -> bool:
    return screen.player is not None


APPLIES: dict[str, Callable[[SessionScreen], bool]] = {
    "accept": _asks,
    "edit": _asks,
    "edit_outside": _asks,
    "reject": _asks,
    "accept_next": _asks,
    "interrupt": lambda s: s.engine is not None and s.status is SessionStatus.RUNNING,
    "pause": lambda s: s.works and s.status is not SessionStatus.PAUSED,
    "go_on": lambda s: s.works and s.status is SessionStatus.PAUSED,
    "note": _works,
    "add_case": _works,
    "mode": _works,
    "end": _works,
    "follow": lambda s: s.view is not None and not s.view.following,
    "back": lambda s: s.looks_up,
    "play": _plays,
    "step": _plays,
    "step_round": _plays,
    "speed": _plays,
    "jump": _plays,
    "seek_end": _plays,
}
"""By action; those that are not listed always apply."""
