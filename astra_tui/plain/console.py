"""Consoles, paragraphs and tables of rich, on which no text can act."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import NoReturn, TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from astra_tui.model.visible import can_act, harmless
from astra_tui.plain.output import terminal_size
from astra_tui.present import document as doc
from astra_tui.present.layout import UNBOUNDED, Layout, Line, line_text
from astra_tui.present.tones import Tone

_PIPE_WIDTH = 240


class _Console(Console):
    """A console on which no text can act, wherever it appears.

    It lets the caller know when the reader of its output is gone.
    """

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
