"""Consoles, paragraphs and tables of rich, on which no text can act."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NoReturn, TextIO

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table as RichTable
from rich.text import Text

from astra_tui.model.hunks import unified_diff
from astra_tui.model.visible import can_act
from astra_tui.plain.output import visible
from astra_tui.present.document import (
    Badge,
    Block,
    Code,
    Details,
    Diff,
    Inline,
    Items,
    Line,
    Link,
    Number,
    Paragraph,
    Quote,
    Section,
    Source,
    Strong,
    Table,
)
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


def table(*columns: str) -> RichTable:
    """A table whose last column may wrap; the others keep their words whole."""
    made = RichTable(box=None, pad_edge=False, header_style="bold")
    for column in columns[:-1]:
        made.add_column(column, no_wrap=True)
    made.add_column(columns[-1], overflow="fold")
    return made


def print_table(out: Console, made: RichTable) -> None:
    """Prints a table within the width of the terminal, with nothing after the last column."""
    with out.capture() as captured:
        out.print(made, soft_wrap=False)
    for line in captured.get().splitlines():
        out.file.write(line.rstrip() + "\n")


# -- documents -------------------------------------------------------------------------------------


def print_blocks(blocks: Sequence[Block], out: Console | None = None, indent: int = 0) -> None:
    """A document in lines: drawings are left out, their numbers are in tables."""
    out = out or console()
    for block in blocks:
        match block:
            case Paragraph(line):
                _print_line(out, line, indent)
            case Items(lines):
                for line in lines:
                    _print_line(out, line, indent + 2)
            case Table():
                if block.caption:
                    out.print(toned(block.caption, Tone.TITLE))
                print_table(out, rich_table(block, out.width))
            case Details(summary, inner):
                indented(out, summary, indent)
                print_blocks(inner, out, indent + 2)
            case Section(title, _, inner):
                out.print("")
                out.print(toned(title, Tone.TITLE))
                print_blocks(inner, out, indent)
            case Quote(text) | Source(text):
                indented(out, text, indent)
            case Diff():
                diff = unified_diff(block.old, block.new, block.old_name, block.new_name)
                out.print("\n" + (visible(diff) or "the sources are the same"))


def rich_table(block: Table, width: int) -> RichTable:
    """A table of a document, without the optional columns for which there is no room."""
    while block.optional and _width_of(block) > width:
        columns, last = block.columns[:-1], len(block.columns) - 1
        rows = tuple(row[:-1] for row in block.rows)
        numeric = block.numeric - {last}
        block = replace(
            block, columns=columns, rows=rows, numeric=numeric, optional=block.optional - 1
        )
    made = table(*map(visible, block.columns))
    for index in block.numeric:
        made.columns[index].justify = "right"
    shown = [[text_of(cell) for cell in row] for row in block.rows]
    for index, column in enumerate(made.columns):
        if any(cell_len(row[index].plain) > _LONGEST_WHOLE for row in shown):
            column.no_wrap, column.overflow = False, "fold"
    for cells in shown:
        made.add_row(*cells)
    return made


_LONGEST_WHOLE = 40
"""Columns of a table with longer cells may wrap."""


def text_of(line: Line) -> Text:
    """A line of a document in colour."""
    return Text.assemble(*map(_text, line))


def _text(part: Inline) -> Text:
    match part:
        case str():
            return Text(visible(part))
        case Badge(words, tone):
            return toned(words, tone)
        case Strong(words):
            return toned(words, Tone.TITLE)
        case Code(words) | Number(_, words) | Link(words):
            return Text(visible(words))


def _print_line(out: Console, line: Line, indent: int) -> None:
    """A line wrapped between words on a terminal, and left whole in a pipe."""
    text = text_of(line)
    margin = Text(" " * indent)
    width = max(out.width - indent - 2, 20) if out.file.isatty() else 1 << 20
    for number, piece in enumerate(text.wrap(out, width, overflow="ignore")):
        out.print(margin if not number else margin + "  ", piece, sep="")


def _width_of(block: Table) -> int:
    rows = [[cell_len(text_of(cell).plain) for cell in row] for row in block.rows]
    widths = [max(column) for column in zip(map(cell_len, block.columns), *rows, strict=True)]
    return int(sum(widths)) + 2 * (len(widths) - 1)
