"""The front end for a terminal, on Textual. Nothing is loaded before a screen is opened."""

from __future__ import annotations

import gc
import signal
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from astra_tui.model.environment import Difference
    from astra_tui.tui.app_io import (
        ComparisonContext,
        DraftContext,
        ExitState,
        HomeContext,
        Preferences,
    )
    from astra_tui.tui.source import OpenSource

__all__ = ["open_comparison", "open_draft", "open_home", "open_session"]


def open_session(
    open_source: OpenSource,
    preferences: Preferences | None = None,
    found: Sequence[Difference] = (),
) -> ExitState:
    """Shows one session until the engineer leaves; see source.py for what can be shown.

    `found` says how this machine differs from where the session ran; it is shown first. Raises
    UserError when there is no session to show, or when the screen breaks down.
    """
    return _run(open_source, preferences, found)


def open_home(home: HomeContext, preferences: Preferences | None = None) -> None:
    """Shows kernels and sessions until the engineer leaves. Raises UserError on a breakdown."""
    _run(home, preferences)


def open_comparison(context: ComparisonContext, preferences: Preferences | None = None) -> None:
    """Shows two candidates side by side. Raises UserError on a breakdown."""
    _run(context, preferences)


def open_draft(context: DraftContext, preferences: Preferences | None = None) -> None:
    """Asks for what a draft leaves open. Raises UserError on a breakdown."""
    _run(context, preferences)


def _run(
    begin: OpenSource | HomeContext | ComparisonContext | DraftContext,
    preferences: Preferences | None,
    found: Sequence[Difference] = (),
) -> ExitState:
    # What is loaded stays: to look for garbage among it took 0.1 s, at every eighth key or so.
    gc.set_threshold(20_000, 10, 10)
    from astra_tui.tui.app import AstraApp
    from astra_tui.tui.app_io import ExitState

    gc.freeze()
    # Under nohup too: a screen whose terminal is gone would read its end for ever.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    app = AstraApp(begin, preferences=preferences, found=found)
    left = app.run()
    error = app.breakdown or app.failed
    if error is not None:
        raise error
    return left or ExitState()
