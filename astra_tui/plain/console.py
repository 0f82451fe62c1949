"""Documents on consoles of rich, on which no text can act, and what is rewritten in place: the
table of a bench, which fills, and what workers are at.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn, TextIO

from msgspec.structs import replace
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.live import Live
from rich.segment import Segment
from rich.text import Text

from astra_tui.model.events import RoundsTimed
from astra_tui.model.timing import COLD, WorkloadTiming
from astra_tui.model.visible import can_act, harmless
from astra_tui.plain.output import is_live, note, terminal_size
from astra_tui.present import document as doc
from astra_tui.present.document import first
from astra_tui.present.layout import UNBOUNDED, Layout, Line, line_text
from astra_tui.present.timing import times_blocks
from astra_tui.present.tones import Tone
from astra_tui.present.words import workload_words

_PIPE_WIDTH = 240


class _Console(Console):
    """A console on which no text can act; it tells the caller when its reader is gone."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        """The parts of a line, of which the console's own control codes stay as they are."""
        for segment in super().render(renderable, options):
            is_harmless = segment.control or not any(map(can_act, segment.text))
            yield segment if is_harmless else segment._replace(text=harmless(segment.text))

    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError from None


def console(file: TextIO | None = None) -> Console:
    """A console that obeys NO_COLOR and reads no markup; a pipe gets lines of any length."""
    file = file or sys.stdout
    columns, lines = terminal_size(file)
    # Without a height, rich takes every dumb terminal to be 80 columns wide.
    return _Console(
        file=file,
        width=columns if file.isatty() else _PIPE_WIDTH,
        height=lines,
        soft_wrap=True,
        highlight=False,
        markup=False,
        emoji=False,
    )


def live_console() -> Console:
    """A console on stderr for what is rewritten in place."""
    return _Console(file=sys.stderr, highlight=False, markup=False, emoji=False)


_STYLES = {
    Tone.PLAIN: "",
    Tone.TITLE: "bold",
    Tone.DIM: "dim",
    Tone.GOOD: "green",
    Tone.BAD: "bold red",
    Tone.CAUTION: "yellow",
    Tone.ACCENT: "bold",
}


def toned(words: str, tone: Tone) -> Text:
    """Words in the colour of their tone."""
    return Text(harmless(words), style=_STYLES[tone])


def lines_in_colour(blocks: Sequence[doc.Block], width: int | None) -> list[Text]:
    """The lines of a document within a width, where there is one."""
    lines: list[Text] = []
    for line in _laid_out(blocks, width or UNBOUNDED):
        lines.append(Text.assemble(*(toned(*piece) for piece in line)))
        lines[-1].rstrip()
    return lines


def text_lines(blocks: Sequence[doc.Block], indent: int = 0) -> list[str]:
    """A document in plain lines of any length."""
    return [line_text(line).rstrip() for line in _laid_out(blocks, UNBOUNDED, indent)]


def _laid_out(blocks: Sequence[doc.Block], width: int, indent: int = 0) -> list[Line]:
    layout = Layout(width)
    layout.blocks(blocks, indent)
    return layout.lines


_LINES_AROUND = 4
"""Heading, caveats and a line to spare, of a terminal's height."""


@contextmanager
def live_display(draw: Callable[[int], Sequence[Text]]) -> Iterator[Callable[[], None]]:
    """Shows lines as they are now, below all else that is written to stderr; `draw` is told how
    many have room. Nothing where stderr is no terminal. What it gives draws at once.
    """
    if not is_live():
        yield lambda: None
        return
    out = live_console()
    drawn = Live(console=out, transient=True, get_renderable=lambda: Group(*draw(out.height)))
    with drawn:
        yield drawn.refresh


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
