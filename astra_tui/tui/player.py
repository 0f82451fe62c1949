"""What plays a saved session: its place in the timeline, and how that place moves.

On a line of cells, half is time, with idle stretches shortened. The other half is given to the
turning points in equal parts, so that those that follow at once do not hide each other.
"""

from __future__ import annotations

import asyncio
import math
import time
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from itertools import accumulate
from types import MappingProxyType

import msgspec

from astra_tui.model.state import SessionState
from astra_tui.sessions.integrity import Trust
from astra_tui.sessions.journal_lines import Record
from astra_tui.sessions.timeline import (
    IDLE_SECONDS,
    LONGEST_WAIT,
    Moment,
    MomentKind,
    Timeline,
    Wait,
    paced,
)

EVENT_SECONDS = 0.01
"""What an event takes on the line at least, so that those of one moment lie next to each other."""

RANKS = (
    MomentKind.DECISION,
    MomentKind.ROUND,
    MomentKind.END,
    MomentKind.VERDICT,
    MomentKind.BEST,
    MomentKind.ERROR,
)
"""Of the turning points in one cell, that of the last of these kinds is shown."""


MARKS_OF_A_KIND = 1 / 8
"""Of a line that has more turning points than cells, the share that those of one kind may take."""


class TimelineBar:
    """A line of any width for one timeline. Cells count from 0; positions are the timeline's."""

    def __init__(self, timeline: Timeline):
        self._timeline = timeline
        self._offsets = _offsets(timeline)
        self._width = 0
        self._marks: Mapping[int, Moment] = {}
        self._idle: frozenset[int] = frozenset()

    def cell(self, position: int, width: int) -> int:
        """The cell in which a position lies."""
        whole = self._offsets[-1]
        return round((width - 1) * self._offsets[position] / whole) if whole else 0

    def position(self, cell: int, width: int) -> int:
        """The position that a cell stands for: its turning point, else its last event, else the
        last event before it. The first cell is the beginning, the last one the end.
        """
        if cell <= 0:
            return 0
        if cell >= width - 1:
            return len(self._timeline)
        mark = self.marks(width).get(cell)
        if mark is not None:
            return mark.position
        edge = (cell + 0.5) / (width - 1) * self._offsets[-1]
        return max(0, bisect_right(self._offsets, edge) - 1)

    def marks(self, width: int) -> Mapping[int, Moment]:
        """The turning points that are shown, by cell."""
        self._lay_out(width)
        return self._marks

    def idle(self, width: int) -> frozenset[int]:
        """The cells in which a stretch of `IDLE_SECONDS` or more is shortened."""
        self._lay_out(width)
        return self._idle

    def _lay_out(self, width: int) -> None:
        if width == self._width:
            return
        marks: dict[int, Moment] = {}
        for moment in _thinned(self._timeline.moments, width):
            cell = self.cell(moment.position, width)
            if cell not in marks or RANKS.index(moment.kind) >= RANKS.index(marks[cell].kind):
                marks[cell] = moment
        gaps = enumerate(self._timeline.gaps)
        idle = (position for position, seconds in gaps if seconds >= IDLE_SECONDS)
        self._idle = frozenset(self._middle(position, width) for position in idle)
        self._width, self._marks = width, MappingProxyType(marks)

    def _middle(self, position: int, width: int) -> int:
        """The cell half way between a position and the one before it."""
        return (self.cell(position - 1, width) + self.cell(position, width)) // 2


def _thinned(moments: Sequence[Moment], width: int) -> list[Moment]:
    """The turning points for which there is room: of many rounds every tenth, say, and of any other
    kind every n-th.
    """
    if len(moments) <= width:
        return list(moments)
    kept: list[Moment] = []
    for kind in RANKS:
        found = [moment for moment in moments if moment.kind is kind]
        step = _round_step(len(found) / max(1.0, width * MARKS_OF_A_KIND))
        if kind is MomentKind.ROUND:
            kept += (moment for moment in found if moment.round % step == 0)
        else:
            kept += found[step - 1 :: step]
    return sorted(kept, key=lambda moment: moment.position)


def _round_step(least: float) -> int:
    """The first of 1, 2, 5, 10, 20, 50 and so on that is no less."""
    size = 1
    while True:
        for digit in (1, 2, 5):
            if digit * size >= least:
                return digit * size
        size *= 10


def _offsets(timeline: Timeline) -> list[float]:
    """Places on the line, by position, in any unit."""
    longest, least = LONGEST_WAIT, EVENT_SECONDS
    steps = [g if least < g < longest else least if g <= least else longest for g in timeline.gaps]
    del steps[0]
    share = sum(steps) / max(len(timeline.moments), 1)
    for moment in timeline.moments:
        steps[moment.position - 1] += share
    return list(accumulate(steps, initial=0.0))


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
