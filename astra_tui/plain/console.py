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


# -- documents -------------------------------------------------------------------------------------


def print_blocks(blocks: Sequence[doc.Block], out: Console | None = None) -> None:
    """A document in lines."""
    out = out or console()
    for line in lines_in_colour(blocks, out.width if out.file.isatty() else UNBOUNDED):
        out.print(line)


def lines_in_colour(blocks: Sequence[doc.Block], width: int) -> list[Text]:
    """The lines of a document within a width."""
    laid_out = Layout(width)
    laid_out.blocks(blocks)
    return [_text_of(line) for line in laid_out.lines]


def _text_of(line: Line) -> Text:
    text = Text.assemble(*(toned(*piece) for piece in line))
    text.rstrip()
    return text


def text_lines(blocks: Sequence[doc.Block], indent: int = 0) -> list[str]:
    """A document in plain lines of any length."""
    laid_out = Layout(UNBOUNDED)
    laid_out.blocks(blocks, indent)
    return [line_text(line).rstrip() for line in laid_out.lines]
