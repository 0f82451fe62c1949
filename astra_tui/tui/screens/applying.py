"""When the keys of a session screen apply: a key is offered where it would do something."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from astra_tui.model.state import SessionStatus

if TYPE_CHECKING:
    from astra_tui.tui.screens.session import SessionScreen


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
