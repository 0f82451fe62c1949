"""A screen with one pane on it, and ways to look at it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from textual.app import App, ComposeResult
from textual.message import Message
from textual.pilot import Pilot
from textual.widgets import Footer

from astra_tui.tui.widgets.diff.diff_pane import DiffPane
from astra_tui.tui.widgets.source.source_pane import SourcePane

NARROW, WIDE = (80, 24), (140, 40)
_MAX_PAUSES = 500


class PaneApp(App[None]):
    """Shows one pane and keeps the messages that it posts."""

    def __init__(self, pane: DiffPane | SourcePane) -> None:
        super().__init__()
        self.pane = pane
        self.told: list[Message] = []

    def compose(self) -> ComposeResult:
        yield self.pane
        yield Footer()

    def on_mount(self) -> None:
        self.pane.focus()

    def on_diff_pane_hunk_toggled(self, message: DiffPane.HunkToggled) -> None:
        self.told.append(message)

    def on_diff_pane_line_opened(self, message: DiffPane.LineOpened) -> None:
        self.told.append(message)


@asynccontextmanager
async def opened(pane: Any, size: tuple[int, int] = NARROW) -> Any:
    """The app with a pane, running without a terminal."""
    app = PaneApp(pane)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        yield pilot


async def until(pilot: Pilot[None], condition: Callable[[], bool]) -> None:
    """Waits for a condition."""
    for _ in range(_MAX_PAUSES):
        if condition():
            return
        await pilot.pause(0.01)
    raise AssertionError("it never came to be so")


def screen_lines(pilot: Pilot[None]) -> list[str]:
    """The characters on the screen."""
    width, height = pilot.app.size
    strips = pilot.app.screen._compositor.render_strips()
    assert len(strips) == height
    return ["".join(segment.text for segment in strip)[:width] for strip in strips]


def run(test: Awaitable[None]) -> None:
    """Runs a test that is a coroutine."""

    async def main() -> None:
        await test

    asyncio.run(main())
