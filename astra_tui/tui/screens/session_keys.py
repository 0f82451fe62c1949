"""The keys of a session screen, and when they apply: one is offered where it does something."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from textual.binding import Binding

from astra_tui.model.state import SessionStatus
from astra_tui.tui.pane_layout import PANES

KEYS = (
    Binding("a", "accept", "Accept", show=False, id="accept"),
    Binding("e", "edit", "Edit", show=False, id="edit"),
    Binding("r", "reject", "Reject", show=False, id="reject"),
    Binding("u", "take_back", "Undo the rejection", id="take_back"),
    Binding("ctrl+g", "edit_outside", "Edit in $EDITOR", show=False, id="edit_outside"),
    Binding("ctrl+n", "accept_next", "Accept the next", show=False, id="accept_next"),
    Binding("escape", "interrupt", "Interrupt", id="interrupt"),
    Binding("p", "pause", "Pause", id="pause"),
    Binding("p", "resume", "Continue", id="go_on"),
    Binding("p", "start_engine", "Resume the session", id="start_engine"),
    Binding("n", "note", "Note", id="note"),
    Binding("N", "stand_on", "Next round from here", show=False, id="stand_on"),
    Binding("b", "branch", "Branch", show=False, id="branch"),
    Binding("w", "compare", "Compare", show=False, id="compare"),
    Binding("t", "add_case", "Add a case", show=False, id="add_case"),
    Binding("S", "settings", "Settings", show=False, id="settings"),
    Binding("f", "follow", "Follow", id="follow"),
    Binding("z", "zoom", "Zoom", id="zoom"),
    Binding("shift+tab", "mode", "Auto", show=False, id="mode"),
    Binding("y", "copy", "Copy", id="copy"),
    Binding("x", "end", "End run", id="end", show=False),
    Binding("x", "export", "Export", id="export", show=False),
    Binding("r", "report", "Report", id="report", show=False),
    Binding("R", "more_rounds", "More rounds", id="more_rounds", show=False),
    Binding("tab", "next_pane", show=False, id="next_pane"),
    *(
        Binding(str(number), f"pane('{pane}')", f"Show {pane}", show=False, id=f"pane.{pane}")
        for number, pane in enumerate(PANES, 1)
    ),
)
"""Those of replays and of cited numbers are in modules of their own."""


class KeyContext(NamedTuple):
    """What the keys depend on."""

    status: SessionStatus
    asks: bool
    """Whether a question is on the screen."""
    works: bool
    """Whether an engine works."""
    engine_died: bool
    """Whether the engine is gone and another one can continue its session."""
    has_player: bool
    looks_elsewhere: bool
    """Whether something else is shown than what is being worked on."""
    looks_up: bool
    """Whether a number was looked up, so that there is a plan to go back to."""
    has_better: bool
    """Whether something is better than the baseline."""
    can_continue: bool
    """Whether the run has ended, and another engine can continue it here."""
    can_take_back: bool
    """Whether the last decision was a rejection that can still be taken back."""


def _asks(now: KeyContext) -> bool:
    return now.asks


def _works(now: KeyContext) -> bool:
    return now.works


def _plays(now: KeyContext) -> bool:
    return now.has_player


APPLIES: dict[str, Callable[[KeyContext], bool]] = {
    "accept": _asks,
    "edit": _asks,
    "edit_outside": _asks,
    "reject": _asks,
    "accept_next": _asks,
    "take_back": lambda now: now.works and now.can_take_back,
    "interrupt": lambda now: now.works and now.status is SessionStatus.RUNNING,
    "pause": lambda now: now.works and now.status is not SessionStatus.PAUSED,
    "resume": lambda now: now.works and now.status is SessionStatus.PAUSED,
    "start_engine": lambda now: now.engine_died,
    "note": _works,
    "stand_on": _works,
    "add_case": _works,
    "mode": _works,
    "end": _works,
    "export": lambda now: not now.works and now.status is SessionStatus.CLOSED and now.has_better,
    "more_rounds": lambda now: not now.works and now.can_continue,
    "report": lambda now: not now.works and now.status is SessionStatus.CLOSED,
    "follow": lambda now: now.looks_elsewhere,
    "back": lambda now: now.looks_up,
    "play": _plays,
    "step": _plays,
    "step_round": _plays,
    "speed": _plays,
    "jump": _plays,
    "seek_end": _plays,
}
"""By action; those that are not listed always apply."""
