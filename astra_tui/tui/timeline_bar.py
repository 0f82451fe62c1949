"""Where the places of a saved session lie on a line of cells.

Half of the line is time, with idle stretches shortened. The other half is given to the turning
points in equal parts, so that those that follow at once do not hide each other.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from types import MappingProxyType

from astra_tui.sessions.timeline import (
    IDLE_SECONDS,
    LONGEST_WAIT,
    Moment,
    MomentKind,
    Timeline,
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
