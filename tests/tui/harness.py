"""The real app under Pilot on a real engine behind a real socket. Only the clock is ours."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ParamSpec

import pytest
from textual import events
from textual._context import active_app
from textual.css.stylesheet import Stylesheet
from textual.dom import DOMNode
from textual.geometry import Region
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widget import Widget

from astra_tui.engine.host import build_engine, open_session, resume_session
from astra_tui.engine.server import Server
from astra_tui.model.author import Author, AuthorKind
from astra_tui.model.settings import RunSettings
from astra_tui.model.task import KernelTask
from astra_tui.model.team_protocol import Team
from astra_tui.sessions.client import NoListener, ask_welcome
from astra_tui.sessions.journal_reader import has_session
from astra_tui.sessions.journal_writer import Redactor
from astra_tui.tui.app import AstraApp
from astra_tui.tui.app_io import ExitState, Preferences
from astra_tui.tui.approval import CONFIRM, FASTEST_TYPING
from astra_tui.tui.screens.session import SessionScreen
from astra_tui.tui.source import OpenSource, attach

_P = ParamSpec("_P")

SECONDS = 600
NARROW = (80, 24)
WIDE = (140, 40)
TESTER = Author(AuthorKind.ENGINEER, "tester")


def on_a_loop(test: Callable[_P, Coroutine[Any, Any, None]]) -> Callable[_P, None]:
    """An async test as a plain one."""

    @functools.wraps(test)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


@dataclass
class Touched:
    """What a key costs: who is styled and marked as changed, and how often all is laid out."""

    styled: set[DOMNode] = field(default_factory=set)
    changed: set[Widget] = field(default_factory=set)
    layouts: int = 0

    def watch(self, monkeypatch: pytest.MonkeyPatch) -> Touched:
        """Counts from now on."""
        apply, refresh, lay_out_all = Stylesheet.apply, Widget.refresh, Screen._refresh_layout

        def styles(sheet: Stylesheet, node: DOMNode, **more: Any) -> None:
            self.styled.add(node)
            apply(sheet, node, **more)

        def refreshes(widget: Widget, *regions: Region, **more: Any) -> Widget:
            self.changed.add(widget)
            return refresh(widget, *regions, **more)

        def lays_out(screen: Screen[None], *how: Any, **more: Any) -> None:
            self.layouts += 1
            lay_out_all(screen, *how, **more)

        monkeypatch.setattr(Stylesheet, "apply", styles)
        monkeypatch.setattr(Widget, "refresh", refreshes)
        monkeypatch.setattr(Screen, "_refresh_layout", lays_out)
        return self

    async def by(self, desk: Desk, key: str) -> Touched:
        """What one key touches.

        The screen is drawn once nothing is left to do. By its clock it may be in between, where
        the machine is busy, and once more for what would have been drawn together.
        """
        self.styled.clear()
        self.changed.clear()
        self.layouts = 0
        with pytest.MonkeyPatch.context() as held:
            held.setattr(desk.app.screen._update_timer, "_callback", lambda: None)
            await desk.press(key)
            await settle()
        return self


async def settle(*_: float) -> None:
    """Waits until nothing is left that could run at once, and what changed is drawn.

    What a test expects of a timer, a thread or another process, it waits for itself.
    """
    ready = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]
    drawn = False
    while not drawn:
        for _ in range(2):  # A call from another thread is ready one turn later.
            await asyncio.sleep(0)
            while ready:
                await asyncio.sleep(0)
        screen = active_app.get().screen
        drawn = not screen._update_timer._active.is_set()
        if not drawn:
            screen._on_timer_update()


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


@dataclass
class Desk:
    """The app as someone who sits before it: looks, waits until something is there, types."""

    app: AstraApp
    pilot: Pilot[ExitState]
    clock: Clock

    @property
    def session(self) -> SessionScreen:
        screens = [s for s in self.app.screen_stack if isinstance(s, SessionScreen)]
        assert screens, "there is no session screen"
        return screens[-1]

    def text(self, selector: str) -> str:
        """What a pane or a bar says."""
        return str(self.session.query_one(selector).text)  # type: ignore[attr-defined]

    async def until(self, condition: Callable[[], object], what: str = "") -> None:
        """Waits until something holds."""
        try:
            async with asyncio.timeout(SECONDS):
                while not condition():
                    await asyncio.sleep(0.005)
        except TimeoutError:
            raise AssertionError(f"it did not come about: {what or condition}") from None

    async def told(self, words: str) -> None:
        """Waits until a notice says something."""
        await self.until(
            lambda: any(words in notice.message for notice in self.app._notifications), words
        )

    async def press(self, *keys: str) -> None:
        """Types, one key after the other, at a person's pace."""
        for key in keys:
            self.clock.advance(2 * FASTEST_TYPING)
            await self.pilot.press(key)
        self.clock.advance(2 * CONFIRM)
        screens = [s for s in self.app.screen_stack if isinstance(s, SessionScreen)]
        if screens and screens[-1].is_mounted:
            await self.until(lambda: screens[-1]._answering._accepting is None, "the answer")

    async def type(self, key: str) -> None:
        """One key, as quickly as the app takes it."""
        character = {"space": " ", "slash": "/", "enter": "\r"}.get(key, key)
        known = self.app.guard.presses
        self.app.post_message(events.Key(key, character if len(character) == 1 else None))
        await self.until(lambda: self.app.guard.presses > known, "the key")
        await self.settle()

    async def settle(self) -> None:
        """Waits until the app has done what was posted to it before."""
        for node in (self.app, self.app.focused or self.app.screen, self.app.screen, self.app):
            done = asyncio.Event()
            node.call_later(done.set)
            while not done.is_set() and node.is_running:  # What was closed meanwhile does no more.
                assert self.app.is_running, f"the app broke down: {self.app._exception!r}"
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(done.wait(), 0.1)

    async def asked(self, gate: str) -> None:
        """Waits until a question of a gate is on the screen and a key may answer it."""
        deciding = self.session._answering.deciding

        def is_asked() -> bool:
            self.clock.advance(0.5)  # No one types meanwhile.
            question, view = deciding.question, self.session.view
            if deciding.is_shown and view is not None:
                assert self.session.is_readable(view), "the bar is there before what it asks about"
            return question is not None and question.gate.value == gate and deciding.may_answer

        await self.until(is_asked, f"a question about the {gate}")
        # What is drawn again, as after a refusal, is deaf from then on: after what is to be drawn.
        await self.pilot.pause()
        await self.until(is_asked, f"a question about the {gate}")

    async def answer(self, gate: str, *keys: str) -> None:
        """Answers the next question of a gate."""
        await self.asked(gate)
        await self.press(*keys)


@contextlib.asynccontextmanager
async def seated(
    open_source: OpenSource,
    size: tuple[int, int] = WIDE,
    clock: Clock | None = None,
    preferences: Preferences | None = None,
) -> AsyncIterator[Desk]:
    """The app on a source, in a terminal of a size."""
    clock = clock or Clock()
    app = AstraApp(open_source, clock=clock, tick=0.0, preferences=preferences)
    async with app.run_test(size=size) as pilot:
        desk = Desk(app, pilot, clock)
        await desk.until(lambda: isinstance(app.screen, SessionScreen), "the session screen")
        yield desk


@contextlib.asynccontextmanager
async def working(
    folder: Path, task: KernelTask, team: Team, settings: RunSettings
) -> AsyncIterator[OpenSource]:
    """An engine that works on a session; how to attach to it."""
    opened = (
        resume_session(folder, task, Redactor())
        if has_session(folder)
        else open_session(folder, task, settings, Redactor())
    )
    with opened.journal:
        engine = build_engine(opened, task, settings, team, wait_for_engineer=True)
        server = Server(engine, folder)
        running = asyncio.create_task(server.serve())
        try:
            await _listens(server.path, running)
            yield partial(attach, server.path)
        finally:
            engine.control.cancel(TESTER)
            await running


async def _listens(path: Path, running: asyncio.Task[None]) -> None:
    while not running.done():
        try:
            await ask_welcome(path)
            return
        except NoListener:
            await asyncio.sleep(0)
    await running
