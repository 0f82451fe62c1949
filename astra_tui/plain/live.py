"""What is rewritten on a terminal: a bench's table, which fills, and what workers are at."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from msgspec.structs import replace
from rich.console import Group
from rich.live import Live
from rich.text import Text

from astra_tui.model.events import RoundsTimed
from astra_tui.model.timing import COLD, WorkloadTiming
from astra_tui.plain.console import lines_in_colour, live_console, toned
from astra_tui.plain.output import is_live, note
from astra_tui.present.document import first
from astra_tui.present.timing import times_blocks
from astra_tui.present.tones import Tone
from astra_tui.present.words import workload_words

_LINES_AROUND = 4
"""Heading, caveats and a line to spare, of a terminal's height."""


@contextmanager
def live_display(draw: Callable[[int], Sequence[Text]]) -> Iterator[None]:
    """Shows lines as they are now, below all else that is written to stderr; `draw` is told how
    many have room. Nothing where stderr is no terminal.
    """
    if not is_live():
        yield
        return
    out = live_console()
    with Live(console=out, transient=True, get_renderable=lambda: Group(*draw(out.height))):
        yield


class TimingProgress:
    """Measurements while they run, as `draw` of `live_display`; where nothing is live, a line for
    each that is done. Candidates are counted from 0; `candidates` are their names.
    """

    def __init__(self, candidates: Sequence[str]):
        self._candidates = candidates
        self._rows: dict[tuple[int, str], RoundsTimed | WorkloadTiming] = {}

    def rounds(self, candidate: int, event: RoundsTimed) -> None:
        """More rounds of one workload have come in."""
        self._rows[candidate, event.workload] = event

    def done(self, candidate: int, timing: WorkloadTiming) -> None:
        """A workload was measured."""
        self._rows[candidate, timing.workload] = timing
        if not is_live():
            name = f"{self._candidates[candidate]} " if len(self._candidates) > 1 else ""
            note(f"{name}{workload_words(timing)}")

    def __call__(self, height: int) -> list[Text]:
        """The latest rows that fit, and their caveats."""
        shown = list(self._rows.items())[-max(1, height - _LINES_AROUND) :]
        several = len(self._candidates) > 1
        rows = [
            replace(row, workload=f"{self._candidates[at]}, {row.workload}") if several else row
            for (at, _), row in shown
        ]
        return lines_in_colour(times_blocks(rows, protocols=[COLD]), live_console().width)


def drawn_lines(read: Callable[[], Sequence[str]]) -> Callable[[int], list[Text]]:
    """Lines as `draw` of `live_display`: half the height has room, and the others are counted."""

    def draw(height: int) -> list[Text]:
        shown, more = first(read(), max(1, height // 2))
        texts = (toned(line, Tone.DIM) for line in (*shown, *([more] if more else [])))
        return [Text.assemble(text, no_wrap=True, overflow="ellipsis") for text in texts]

    return draw
