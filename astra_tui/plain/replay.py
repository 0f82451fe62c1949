"""A saved session as the lines that its run wrote, at a speed of one's own."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial

from astra_tui.plain.output import note
from astra_tui.plain.run import RunLines
from astra_tui.present.numbers import seconds
from astra_tui.sessions.timeline import IDLE_SECONDS, LONGEST_WAIT, Timeline, paced


class ReplayLines:
    """Shows a timeline event by event; `write` gets the lines, `sleep` waits between them."""

    def __init__(
        self,
        timeline: Timeline,
        speed: float = math.inf,
        write: Callable[[str], None] = note,
        sleep: Callable[[float], None] = time.sleep,
    ):
        self._timeline = timeline
        self._speed = speed
        self._write = write
        self._sleep = sleep
        self._lines = RunLines(write, progress=False)

    def show(self, end: int) -> None:
        """Everything up to a position."""
        for position in range(1, end + 1):
            self._wait(self._timeline.seconds_before(position))
            state = partial(self._timeline.state, position)
            self._lines.show(self._timeline.event(position), state)

    def _wait(self, pause: float) -> None:
        wait = paced(pause, self._speed, LONGEST_WAIT)
        if pause >= IDLE_SECONDS:
            self._write(f"  ({seconds(pause)} without an event, shortened)")
        if wait.seconds > 0:
            self._sleep(wait.seconds)
