"""Where a session screen gets its events from: an engine that works, or a journal on the disk."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Protocol

from astra_tui.model.events import Event
from astra_tui.sessions.client import EngineClient
from astra_tui.sessions.engines import RunRequest, start_engine
from astra_tui.sessions.integrity import Trust, no_search_for_garbage, read_session
from astra_tui.sessions.journal_lines import Record
from astra_tui.sessions.timeline import Timeline, position_after
from astra_tui.tui.player import Player, ReplayState

Item = Record | Event | ReplayState
"""What comes next, or, of a saved session, all that is to be shown in the place of what was."""


class Source(Protocol):
    """Events of one session. `engine` steers it where one works, `player` where it is replayed."""

    @property
    def folder(self) -> Path:
        """The session's folder, in which sources and replies lie."""

    @property
    def engine(self) -> EngineClient | None:
        """The engine that works on the session."""

    @property
    def player(self) -> Player | None:
        """What plays a saved session."""

    def items(self) -> AsyncIterator[Item]:
        """What happens, from the first event on; of a saved session, scenes without end."""

    async def close(self) -> None:
        """Disconnects. An engine keeps running."""


class LiveSource:
    """A session that an engine works on."""

    player = None

    def __init__(self, client: EngineClient):
        self.engine = client
        self.folder = Path(client.welcome.folder)

    def items(self) -> AsyncIterator[Item]:
        """The journal so far, then what happens. Raises EngineGone when the engine dies."""
        return self.engine.events()

    async def close(self) -> None:
        """Detaches."""
        await self.engine.close()


class SavedSource:
    """A session on the disk, read once. It shows its end until it is played."""

    engine = None

    def __init__(self, folder: Path, timeline: Timeline, judge: Callable[[], Trust] | None = None):
        self.folder = folder
        self.player = Player(timeline, judge=judge)

    @classmethod
    def read(cls, folder: Path) -> SavedSource:
        """Raises UserError when there is no journal that can be read."""
        with no_search_for_garbage():
            session = read_session(folder)
            # A long session is 10^6 objects that stay: a search among them holds up a key.
            gc.freeze()
        return cls(folder, session.timeline, lambda: session.trust)

    def items(self) -> AsyncIterator[Item]:
        """The session where the player is, wherever it goes; never ends."""
        return self.player.items()

    async def close(self) -> None:
        """Lets its objects be found as garbage again: see `read`."""
        gc.unfreeze()


async def start(request: RunRequest) -> LiveSource:
    """Starts an engine and attaches to it. Raises UserError when it cannot do what was asked."""
    ready = await start_engine(request)
    return await attach(Path(ready.socket))


async def attach(socket: Path) -> LiveSource:
    """Attaches to a running engine. Raises EngineGone when there is none."""
    return LiveSource(await EngineClient.connect(socket))


async def open_saved(
    folder: Path, *, speed: float | None = None, to: int | None = None
) -> SavedSource:
    """Opens a session from the disk after the event `to`, or at its end.

    With a speed it plays from the beginning until there. Raises UserError when the session cannot
    be read, or has no such event.
    """
    source = await asyncio.to_thread(SavedSource.read, folder)
    player = source.player
    end = position_after(player.timeline, to, folder)
    player.seek(end)
    if speed is not None:
        player.play(speed, end)
    return source


OpenSource = Callable[[], Awaitable[Source]]
"""Opens a source; raises UserError where it cannot."""
