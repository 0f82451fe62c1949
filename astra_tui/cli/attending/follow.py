"""The linear front end of a running engine: shows what happens, asks, and may leave at any time."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from astra_tui.cli.attending.ask import Asking
from astra_tui.model.errors import UserError
from astra_tui.model.events import Event, Transient
from astra_tui.model.fold import apply
from astra_tui.model.state import SessionState
from astra_tui.plain.output import note
from astra_tui.plain.run import RunLines
from astra_tui.sessions.client import EngineClient
from astra_tui.sessions.journal_lines import Record


class LeaveReason(Enum):
    """Why a front end has left."""

    ENDED = "ended"
    """The session was closed."""
    DETACHED = "detached"
    """The engineer goes, the engine continues."""
    FORCED = "forced"
    """The engineer did not wait until the run was cancelled."""


@dataclass(frozen=True)
class Followed:
    """How far the session was when the front end left, and why it left."""

    state: SessionState
    reason: LeaveReason


async def follow(client: EngineClient, *, first: int = 0, asks: bool = True) -> Followed:
    """Follows an engine until its session is closed or the engineer goes.

    Records before number `first` are taken in but not shown. Where `asks`, questions are asked at
    the terminal and Ctrl-C cancels the run, a second one leaves at once; else Ctrl-C only leaves.
    Raises EngineGone when the engine goes without a word.
    """
    return await _FrontEnd(client, first, asks).run()


class _FrontEnd:
    def __init__(self, client: EngineClient, first: int, asks: bool):
        self._client = client
        self._first = first
        self._lines = RunLines()
        self._asking = Asking(client, self._lines.hold, self._lines.release) if asks else None
        self._state = SessionState()
        self._leave: asyncio.Future[LeaveReason] = asyncio.Future()
        self._cancelling: asyncio.Task[None] | None = None

    async def run(self) -> Followed:
        following = asyncio.ensure_future(self._follow())
        asking = asyncio.ensure_future(self._ask())
        with _handlers({signal.SIGINT: self._on_interrupt, signal.SIGTERM: self._detach}):
            try:
                ways = (following, asking, self._leave)
                done, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                following.cancel()
                asking.cancel()
                await asyncio.gather(following, asking, return_exceptions=True)
        # The engine's last message counts more than what the terminal did at the same time.
        way = next(way for way in ways if way in done)
        return Followed(self._state, way.result())

    async def _follow(self) -> LeaveReason:
        async for told in self._client.events():
            event: Event = told.event if isinstance(told, Record) else told
            if not isinstance(event, Transient):
                self._state = apply(self._state, event)
            if not isinstance(told, Record) or told.seq >= self._first:
                self._lines.show(event, lambda: self._state)
            if self._asking is not None:
                self._asking.notice(event, self._state)
        return LeaveReason.ENDED

    async def _ask(self) -> LeaveReason:
        if self._asking is None:
            await asyncio.Event().wait()
        else:
            await self._asking.run()
        return LeaveReason.DETACHED

    def _on_interrupt(self) -> None:
        if self._asking is not None and self._asking.is_reading:
            return  # It was meant for the editor.
        if self._asking is None:
            self._detach()
        elif self._cancelling is None:
            note("\ncancelling; Ctrl-C again leaves at once")
            self._cancelling = asyncio.ensure_future(self._cancel())
        elif not self._leave.done():
            self._leave.set_result(LeaveReason.FORCED)

    async def _cancel(self) -> None:
        with contextlib.suppress(UserError):  # It has ended, of which all will be told.
            await self._client.cancel()

    def _detach(self) -> None:
        if not self._leave.done():
            self._leave.set_result(LeaveReason.DETACHED)


@contextlib.contextmanager
def _handlers(handlers: Mapping[signal.Signals, Callable[[], None]]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    for number, handler in handlers.items():
        loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number in handlers:
            loop.remove_signal_handler(number)
