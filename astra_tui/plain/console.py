"""Consoles, paragraphs and tables of rich, on which no text can act."""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NoReturn, TextIO

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table as RichTable
from rich.text import Text

from astra_tui.model.hunks import HEADER, NO_LINE_FEED, diff_lines
from astra_tui.model.visible import can_act, harmless, visible_line
from astra_tui.present import document as doc
from astra_tui.present.tones import Phrase, Tone

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
    columns, lines = _terminal_size(file)
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


def _terminal_size(file: TextIO) -> os.terminal_size:
    """That of the terminal that a file is, unless COLUMNS says otherwise."""
    with suppress(OSError):
        found = os.get_terminal_size(file.fileno())
        if found.columns and not os.environ.get("COLUMNS"):
            return found
    return shutil.get_terminal_size()


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


def print_blocks(blocks: Sequence[doc.Block], out: Console | None = None, indent: int = 0) -> None:
    """A document in lines: drawings are left out, their numbers are in tables."""
    out = out or console()
    for block in blocks:
        match block:
            case doc.Paragraph(line):
                _print_line(out, line, indent)
            case doc.Items(lines):
                for line in lines:
                    _print_line(out, line, indent + 2)
            case doc.Table():
                if block.caption:
                    out.print(toned(block.caption, Tone.TITLE))
                _print_table(out, block, indent)
            case doc.Listing():
                _print_listing(out, block, indent)
            case doc.Entry(line, inner):
                _print_line(out, line, indent)
                print_blocks(inner, out, indent + 2)
            case doc.Details(summary, inner):
                _print_line(out, (summary,), indent)
                print_blocks(inner, out, indent + 2)
            case doc.Section(title, _, inner):
                out.print("")
                out.print(toned(title, Tone.TITLE))
                print_blocks(inner, out, indent)
            case doc.Quote(text) | doc.Source(text):
                for row in text.split("\n"):
                    _print_line(out, (row,), indent)
            case doc.Diff():
                columns = out.width if out.file.isatty() else 0
                out.print("\n" + (diff_text(block, columns) or "the sources are the same"))


def text_lines(blocks: Sequence[doc.Block], indent: int = 0) -> list[str]:
    """A document in plain lines of any length."""
    text = io.StringIO()
    print_blocks(blocks, console(text), indent)
    return text.getvalue().splitlines()


def diff_text(block: doc.Diff, columns: int = 0) -> str:
    """A diff with its hunks numbered from 1, every line made visible as the screen does.

    Nothing in the texts can look like a line of the diff's own: only a line feed ends a line, all
    of a line stands right of its mark, and so does the rest of one that is wider than `columns`,
    which a terminal would begin at the left edge. Outside of ASCII all characters are written out.
    """
    number = 0
    lines = [f"--- {harmless(block.old_name)}", f"+++ {harmless(block.new_name)}"]
    for mark, text in diff_lines(block.old, block.new):
        if mark == HEADER:
            number += 1
            lines.append(f"@@{text.rstrip()}  (hunk {number})")
            continue
        shown = visible_line(text.removesuffix("\n"), ()).text
        lines += (sign + part for sign, part in _parts(mark, shown, columns))
        if not text.endswith("\n"):
            lines.append(NO_LINE_FEED)
    return "\n".join(lines) if number else ""


def _parts(mark: str, text: str, columns: int) -> Iterator[tuple[str, str]]:
    """A line in pieces that fit, each after the line's mark, the further ones after `>` as well."""
    most = max(columns - 4, 20)
    if not text.isascii():
        most //= 2  # Some terminals give quotation marks two cells.
    if not columns:
        most = max(len(text), 1)
    yield mark, text[:most]
    for begin in range(most, len(text), most):
        yield mark + "> ", text[begin : begin + most]


def rich_table(block: doc.Table, width: int) -> RichTable:
    """A table of a document, without the optional columns for which there is no room.

    The last column may wrap, and others that are long; the rest keep their words whole.
    """
    while block.optional and _width_of(block) > width:
        block = block.with_columns(range(len(block.columns) - 1))
    numeric = block.numeric
    named = any(block.columns)
    made = RichTable(box=None, pad_edge=False, header_style="bold", show_header=named)
    shown = [[text_of(cell) for cell in row] for row in block.rows]
    for index, column in enumerate(block.columns):
        longest = max((cell_len(row[index].plain) for row in shown), default=0)
        wraps = index == len(block.columns) - 1 or longest > _LONGEST_WHOLE
        made.add_column(
            harmless(column),
            justify="right" if index in numeric else "left",
            no_wrap=not wraps,
            overflow="fold" if wraps else "ellipsis",
        )
    for cells in shown:
        made.add_row(*cells)
    return made


_LONGEST_WHOLE = 40
"""Columns of a table with longer cells may wrap."""


def _print_table(out: Console, block: doc.Table, indent: int) -> None:
    """A table within the width of the terminal, with nothing after the last column.

    Where its columns have no names, a pipe gets every row on one line.
    """
    whole = not any(block.columns) and not out.file.isatty()
    width = _LONGEST_LINE if whole else max(out.width - indent, _LEAST_ROOM)
    with out.capture() as captured:
        out.print(rich_table(block, width), soft_wrap=False, width=width)
    for line in captured.get().splitlines():
        out.file.write((" " * indent + line).rstrip() + "\n")


def _print_listing(out: Console, block: doc.Listing, indent: int) -> None:
    """Lines in columns are cut at the edge of a terminal, so that they stay columns."""
    width = out.width - indent if out.file.isatty() and block.heading else None
    heading = [Phrase(block.heading, Tone.TITLE)] if block.heading else []
    for words, tone in (*heading, *block.lines):
        text = harmless(words).expandtabs(8).rstrip()[:width]
        out.print(Text(" " * indent + text if text else "", style=_STYLES[tone]))


def text_of(line: doc.Line) -> Text:
    """A line of a document in colour."""
    return Text.assemble(*(toned(*phrase) for phrase in doc.phrases(line)))


def _print_line(out: Console, line: doc.Line, indent: int) -> None:
    """A line wrapped between words on a terminal, and left whole in a pipe."""
    text = text_of(line)
    margin = Text(" " * indent)
    width = max(out.width - indent - 2, _LEAST_ROOM) if out.file.isatty() else _LONGEST_LINE
    for number, piece in enumerate(text.divide(_line_starts(text.plain, width))):
        piece.rstrip()
        out.print(margin if not number else margin + "  ", piece, sep="")


def _line_starts(text: str, width: int) -> Iterator[int]:
    """Where the second and further lines of a text begin; a longer word has a line of its own."""
    column = 0
    for word in re.finditer(r"\S+\s*", text):
        if column and column + cell_len(word.group().rstrip()) > width:
            yield word.start()
            column = 0
        column += cell_len(word.group())


_LEAST_ROOM, _LONGEST_LINE = 20, 1 << 20
"""Columns that a text has at the least, and in a pipe."""


def _width_of(block: doc.Table) -> int:
    rows = [[cell_len(text_of(cell).plain) for cell in row] for row in block.rows]
    widths = [max(column) for column in zip(map(cell_len, block.columns), *rows, strict=True)]
    return int(sum(widths)) + 2 * (len(widths) - 1)
