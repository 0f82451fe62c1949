"""Where a session screen gets its events from: an engine that works, or a journal on the disk."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Protocol

from astra_tui.model.events import Event, RoundOpened
from astra_tui.session.client import EngineClient
from astra_tui.session.reading import JournalContents, read_journal
from astra_tui.session.records import Record
from astra_tui.session.spawn import RunRequest, start_engine

LONGEST_GAP = 2.0
"""Seconds that a replay waits for the next event at most, before its speed is applied."""

SPEEDS = (0.5, 1.0, 2.0, 4.0, 16.0)


class Restart:
    """What was shown so far is void: a replay went back and begins anew."""


Item = Record | Event | Restart


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
        """Records from the first on, and what happens; ends with the session."""

    async def close(self) -> None:
        """Lets go. An engine goes on."""


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

    def __init__(self, folder: Path, contents: JournalContents):
        self.folder = folder
        self.damage = contents.damage
        self.player = Player(contents.records)

    @classmethod
    def read(cls, folder: Path) -> SavedSource:
        """Raises UserError when there is no journal that can be read."""
        return cls(folder, read_journal(folder))

    def items(self) -> AsyncIterator[Item]:
        """Records up to where the player is, wherever it goes; never ends."""
        return self.player.items()

    async def close(self) -> None:
        """There is nothing to let go of."""


class Player:
    """Plays records at their own pace, faster, slower, or one by one."""

    def __init__(self, records: tuple[Record, ...]):
        self.records = records
        self.position = len(records)
        """How many records are shown."""
        self.playing = False
        self.speed = 1.0
        self._moved = asyncio.Event()

    @property
    def length(self) -> int:
        """How many records there are."""
        return len(self.records)

    def seek(self, position: int) -> None:
        """Goes to a record, or to the nearest end."""
        self.position = max(0, min(position, self.length))
        self._moved.set()

    def step(self, count: int) -> None:
        """Stops, and goes on or back by some records."""
        self.playing = False
        self.seek(self.position + count)

    def toggle(self) -> None:
        """Plays or stops; at the end it plays from the beginning."""
        self.playing = not self.playing
        if self.playing and self.position == self.length:
            self.position = 0
        self._moved.set()

    def change_speed(self, steps: int) -> None:
        """Plays faster or slower."""
        index = SPEEDS.index(self.speed) + steps
        self.speed = SPEEDS[max(0, min(index, len(SPEEDS) - 1))]
        self._moved.set()

    def step_round(self, count: int) -> None:
        """Stops, and goes to where the next round (1) or this or the last one (-1) begins."""
        self.playing = False
        starts = [n + 1 for n, r in enumerate(self.records) if isinstance(r.event, RoundOpened)]
        if count > 0:
            self.seek(min((s for s in starts if s > self.position), default=self.length))
        else:
            self.seek(max((s for s in starts if s < self.position), default=0))

    async def items(self) -> AsyncIterator[Item]:
        """Everything up to the position; goes on when the position does."""
        shown = 0
        while True:
            if self.position < shown:
                yield Restart()
                shown = 0
            while shown < self.position:
                yield self.records[shown]
                shown += 1
            await self._next()

    async def _next(self) -> None:
        """Waits until the position has changed."""
        before = self.position
        while self.position == before:
            self._moved.clear()
            try:
                async with asyncio.timeout(self._seconds_to_next()):
                    await self._moved.wait()
            except TimeoutError:
                self.position += 1
                self.playing = self.position < self.length

    def _seconds_to_next(self) -> float | None:
        if not self.playing or self.position >= self.length:
            return None
        if self.position == 0:
            return 0.0
        gap = self.records[self.position].mono - self.records[self.position - 1].mono
        # The clock begins anew with every engine that took the session over.
        return max(0.0, min(gap, LONGEST_GAP)) / self.speed


async def start(request: RunRequest) -> LiveSource:
    """Starts an engine and attaches to it. Raises UserError when it cannot do what was asked."""
    ready = await start_engine(request)
    return await attach(Path(ready.socket))


async def attach(socket: Path) -> LiveSource:
    """Attaches to a running engine. Raises EngineGone when there is none."""
    return LiveSource(await EngineClient.connect(socket))


async def open_saved(folder: Path) -> SavedSource:
    """Opens a session from the disk. Raises UserError when it cannot be read."""
    return await asyncio.to_thread(SavedSource.read, folder)


OpenSource = Callable[[], Awaitable[Source]]
"""Opens a source; raises UserError where it cannot."""
