"""What is rewritten on a terminal: a bench's table, which fills, and what workers are at."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Self

from msgspec.structs import replace
from rich.console import Group
from rich.live import Live
from rich.text import Text

from astra_tui.model.events import RoundsTimed
from astra_tui.model.timing import WorkloadTiming
from astra_tui.plain.console import lines_in_colour, live_console, toned
from astra_tui.plain.output import is_live, note
from astra_tui.present.timing import times_blocks
from astra_tui.present.tones import Tone
from astra_tui.present.words import workload_words

_Key = tuple[int, str]
_LINES_AROUND = 4
"""Heading, caveats and a line to spare, of a terminal's height."""


class TimingProgress:
    """Shows measurements on stderr while they run; on leaving, a live table goes away.

    Candidates are counted from 0; `candidates` are their names.
    """

    def __init__(self, candidates: Sequence[str]):
        self._candidates = candidates
        self._rows: dict[_Key, RoundsTimed | WorkloadTiming] = {}
        self._live: Live | None = None
        if is_live():
            self._live = Live(console=live_console(), transient=True, auto_refresh=False)

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def rounds(self, candidate: int, event: RoundsTimed) -> None:
        """More rounds of one workload have come in."""
        self._rows[candidate, event.workload] = event
        self._refresh()

    def done(self, candidate: int, timing: WorkloadTiming) -> None:
        """A workload was measured."""
        self._rows[candidate, timing.workload] = timing
        self._refresh()
        if self._live is None:
            name = f"{self._candidates[candidate]} " if len(self._candidates) > 1 else ""
            note(f"{name}{workload_words(timing)}")

    def _refresh(self) -> None:
        if self._live is not None:
            height = self._live.console.height - _LINES_AROUND
            self._live.update(self.lines(max(1, height)), refresh=True)

    def lines(self, height: int) -> Group:
        """The latest rows that fit, and their caveats."""
        shown = list(self._rows.items())[-height:]
        several = len(self._candidates) > 1
        rows = [
            replace(row, workload=f"{self._candidates[at]}, {row.workload}") if several else row
            for (at, _), row in shown
        ]
        found = times_blocks(rows, protocols=["cold"])
        return Group(*lines_in_colour(found, live_console().width))


@contextmanager
def live_lines(read: Callable[[], Sequence[str]]) -> Iterator[None]:
    """Shows lines as they are now, below all else that is written to stderr; those for which a
    terminal has no room are counted. Nothing where stderr is none.
    """
    if not is_live():
        yield
        return
    out = live_console()

    def drawn() -> Group:
        lines, room = read(), max(1, out.height // 2)
        more = [f"and {len(lines) - room} more"] if len(lines) > room else []
        texts = (toned(line, Tone.DIM) for line in (*lines[:room], *more))
        return Group(*(Text.assemble(text, no_wrap=True, overflow="ellipsis") for text in texts))

    with Live(console=out, transient=True, get_renderable=drawn):
        yield
