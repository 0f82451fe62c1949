"""What plays a saved session: its place in the timeline, and how that place moves."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Collection, Sequence

import msgspec

from astra_tui.model.state import SessionState
from astra_tui.sessions.integrity import Trust
from astra_tui.sessions.records import Record
from astra_tui.sessions.timeline import LONGEST_WAIT, MomentKind, Timeline, Wait, paced
from astra_tui.tui.timeline_bar import TimelineBar

SPEEDS = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, math.inf)
"""So many seconds of the session pass in one of the replay; infinity is at once."""

MIN_SHOWN_IDLE = 1.0
"""Seconds left out of a wait from which on they are shown."""


class ReplayState(msgspec.Struct, frozen=True):
    """A saved session at one place: what the first `position` of its records make."""

    state: SessionState
    records: Sequence[Record]
    position: int


class Player:
    """Plays a timeline at its own pace, faster, slower, or step by step; begins at its end.

    `clock` gives seconds; `judge` takes a second where a session is long.
    """

    def __init__(
        self,
        timeline: Timeline,
        clock: Callable[[], float] = time.monotonic,
        judge: Callable[[], Trust] | None = None,
    ):
        self.timeline = timeline
        self.trust: Trust | None = None
        """The verdict on the session, once it was judged."""
        self._judge = judge
        self.track = TimelineBar(timeline)
        self.position = len(timeline)
        """How many records are shown."""
        self.playing = False
        self.speed = 1.0
        self._last = self.position
        self._clock = clock
        self._due: float | None = None
        self._wait = Wait(0.0, 0.0)
        self._moved = asyncio.Event()

    @property
    def length(self) -> int:
        """How many records there are."""
        return len(self.timeline)

    @property
    def idle(self) -> float:
        """Seconds of the idle stretch that is being shortened; 0 where none is."""
        if not self.playing or self._due is None or self._wait.left_out < MIN_SHOWN_IDLE:
            return 0.0
        return self.timeline.seconds_before(self.position + 1)

    async def judge(self) -> None:
        """Finds how far the session may be believed."""
        if self._judge is not None:
            self.trust = await asyncio.to_thread(self._judge)
            self._judge = None  # It holds all of the journal.

    def play(self, speed: float, last: int) -> None:
        """Plays from the beginning until a position."""
        self.position, self._last = 0, last
        self.speed, self.playing = speed, last > 0
        self._wake()

    def seek(self, position: int) -> None:
        """Goes to a record, or to the nearest end; what played continues from there."""
        self.position, self._last = max(0, min(position, self.length)), self.length
        self.playing = self.playing and self.position < self.length
        self._wake()

    def step(self, count: int) -> None:
        """Stops, and goes forward or back by some records."""
        self.playing = False
        self.seek(self.position + count)

    def toggle(self) -> None:
        """Plays or stops; at the end it plays from the beginning."""
        self.playing = not self.playing
        self.seek(0 if self.playing and self.position == self.length else self.position)

    def change_speed(self, steps: int) -> None:
        """Plays faster (1) or slower (-1)."""
        others = [s for s in SPEEDS if (s > self.speed if steps > 0 else s < self.speed)]
        if others:
            self.speed = min(others) if steps > 0 else max(others)
        self._wake()

    def jump(self, kinds: Collection[MomentKind], count: int) -> bool:
        """Stops, and goes to the next (1) or the last (-1) turning point of some kinds.

        Where there is none nothing moves, and it says so.
        """
        self.playing = False
        find = self.timeline.following if count > 0 else self.timeline.preceding
        found = find(self.position, kinds)
        self.seek(self.position if found is None else found.position)
        return found is not None

    def step_round(self, count: int) -> None:
        """Stops, and goes to where the next round (1) or this or the last one (-1) begins."""
        if not self.jump({MomentKind.ROUND}, count):
            self.seek(self.length if count > 0 else 0)

    async def items(self) -> AsyncIterator[ReplayState]:
        """The session where the position is, and wherever it goes; never ends."""
        while True:
            shown = self.position
            yield ReplayState(self.timeline.state(shown), self.timeline.records, shown)
            await self._leave(shown)

    async def _leave(self, shown: int) -> None:
        """Waits until another position is to be shown."""
        while self.position == shown:
            self._moved.clear()
            try:
                async with asyncio.timeout(self._until_due()):
                    await self._moved.wait()
            except TimeoutError:
                self._advance()

    def _wake(self) -> None:
        self._due = None
        self._moved.set()

    def _until_due(self) -> float | None:
        """Seconds until the next event is to be shown; None where none is."""
        if not self.playing or self.position >= self._last:
            return None
        now = self._clock()
        if self._due is None:
            self._due = now + self._begin_wait()
        return max(0.0, self._due - now)

    def _advance(self) -> None:
        """Shows every event that is due: at a high speed, several are at once."""
        now = self._clock()
        # A machine that slept does not play in one go what it slept through.
        due = max(self._due or now, now - LONGEST_WAIT)
        while due <= now and self.position < self._last:
            self.position += 1
            due += self._begin_wait() if self.position < self._last else 0.0
        self._due = due
        self.playing = self.position < self._last

    def _begin_wait(self) -> float:
        seconds = self.timeline.seconds_before(self.position + 1)
        self._wait = paced(seconds, self.speed, LONGEST_WAIT)
        return self._wait.seconds
