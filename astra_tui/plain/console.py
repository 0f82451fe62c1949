"""Consoles, paragraphs and tables of rich, on which no text can act."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterator
from typing import NoReturn, TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from astra_tui.model.visible import can_act
from astra_tui.plain.output import visible
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
            yield segment if is_harmless else segment._replace(text=visible(segment.text))

    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError from None


def console(file: TextIO | None = None) -> Console:
    """A console that obeys NO_COLOR and reads no markup; a pipe gets lines of any length."""
    file = file or sys.stdout
    columns, lines = shutil.get_terminal_size()
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


def indented(out: Console, text: str, indent: int) -> None:
    """A paragraph with an indent, wrapped between words on a terminal and left whole in a pipe."""
    margin = " " * indent
    width = out.width if out.file.isatty() else 1 << 20
    words = textwrap.TextWrapper(
        max(width, indent + 20),
        initial_indent=margin,
        subsequent_indent=margin + "  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    out.print(words.fill(visible(text)))


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
    return Text(visible(words), style=_STYLES[tone])


def table(*columns: str) -> Table:
    """A table whose last column may wrap; the others keep their words whole."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns[:-1]:
        made.add_column(column, no_wrap=True)
    made.add_column(columns[-1], overflow="fold")
    return made


def print_table(out: Console, made: Table) -> None:
    """Prints a table within the width of the terminal, with nothing after the last column."""
    with out.capture() as captured:
        out.print(made, soft_wrap=False)
    for line in captured.get().splitlines():
        out.file.write(line.rstrip() + "\n")
