"""Lines of text with tones: what a pane shows, laid out for a width and without a terminal.

Every text passes through `visible`, so that nothing that an agent, a kernel or a file says can
act on the terminal or be taken for markup.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from rich.cells import cell_len, chop_cells, set_cell_size

from astra_tui.model.visible import visible, visible_inline
from astra_tui.present import document as doc
from astra_tui.present.tones import Phrase, Tone

ELLIPSIS = "…"

LONGEST = 2000
"""Characters of a part of a document that are shown; a stranger's text may have any number."""


class Span(NamedTuple):
    """A piece of a line. Its text is harmless: see `span`."""

    text: str
    tone: Tone = Tone.PLAIN


Line = tuple[Span, ...]


def span(text: str, tone: Tone = Tone.PLAIN, limit: int = 200) -> Span:
    """A piece of a line whose text is made harmless; of a longer one, the end is only named."""
    inner = text.rstrip(" ")
    return Span(visible_inline(inner, limit) + text[len(inner) :], tone)


def _prose(text: str) -> str:
    """A harmless text of several lines; spaces at their ends, which say nothing, are dropped."""
    return visible("\n".join(line.rstrip() for line in text.split("\n")))


def line_of(*pieces: str | Span) -> Line:
    """A line of spans and plain texts."""
    return tuple(piece if isinstance(piece, Span) else span(piece) for piece in pieces)


def line_text(line: Line) -> str:
    """The text of a line."""
    return "".join(piece.text for piece in line)


def line_cells(line: Line) -> int:
    """Columns that a line takes."""
    return sum(cell_len(piece.text) for piece in line)


def padded(text: str, width: int) -> str:
    """A text cut or filled to a number of columns."""
    return cut(text, width) + " " * (width - min(cell_len(text), width))


def cut(text: str, width: int) -> str:
    """A text of at most `width` columns; an ellipsis says that something is missing."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, max(width - 1, 0)).rstrip() + ELLIPSIS if width > 0 else ""


def cut_inside(text: str, width: int, end: int) -> str:
    """A text of at most `width` columns that keeps its last `end` characters, if they fit."""
    last = text[-end:]
    room = width - cell_len(last)
    return cut(text, width) if cell_len(text) <= width or room < 2 else cut(text, room) + last


def wrapped(text: str, width: int) -> Iterator[str]:
    """The lines of a text, broken between words; words that are too long are broken inside."""
    width = max(width, 8)
    for paragraph in text.split("\n"):
        yield from _wrapped_paragraph(paragraph.rstrip(), width)


def _wrapped_paragraph(text: str, width: int) -> Iterator[str]:
    margin = text[: len(text) - len(text.lstrip())]
    if cell_len(margin) >= width // 2:
        margin = ""
    line, room = margin, width - cell_len(margin)
    empty = True
    for word in text.split():
        for piece in [word] if cell_len(word) <= room else chop_cells(word, room):
            needed = cell_len(piece) + (not empty)
            if not empty and cell_len(line) + needed > width:
                yield line
                line, empty = margin, True
            line += piece if empty else f" {piece}"
            empty = False
    yield line if not empty else ""


def toned(line: doc.Line) -> Line:
    """A line of a document, each part in its tone."""
    return tuple(span(p.words, p.tone, LONGEST) for p in doc.phrases(line))


def wrapped_line(line: Line, width: int) -> list[Line]:
    """A line, wrapped between words that keep their tones; one that fits stays as it is."""
    if line_cells(line) <= width:
        return [line]
    lines: list[Line] = []
    left = 0
    for text, tone in line:
        for word in re.findall(r"\s+|\S+", text):
            size = cell_len(word)
            left = 0 if size > left else left
            if not left and word.isspace():
                continue
            for piece in chop_cells(word, width):
                if cell_len(piece) > left:
                    lines.append(())
                    left = width
                lines[-1] = (*lines[-1], Span(piece, tone))
                left -= cell_len(piece)
    return lines or [()]


def column_widths(rows: Sequence[Sequence[Line]], room: int) -> list[int]:
    """Widths of columns, of which the widest share what the others leave of the room.

    No column is cut that takes less than its share.
    """
    widths = [max(map(line_cells, column)) for column in zip(*rows, strict=True)]
    left = room - 2 * (len(widths) - 1)
    for place, i in enumerate(sorted(range(len(widths)), key=widths.__getitem__)):
        widths[i] = max(1, min(widths[i], left // (len(widths) - place)))
        left -= widths[i]
    return widths


class Page:
    """Collects lines for a width. Paragraphs are wrapped, single lines are cut."""

    def __init__(self, width: int):
        self.width = max(width, 8)
        self.lines: list[Line] = []
        self.places: dict[str, int] = {}
        """The last line of each row of a table that has a name."""

    def blank(self) -> None:
        """An empty line, but no two in a row and none at the top."""
        if self.lines and self.lines[-1]:
            self.lines.append(())

    def line(self, *pieces: str | Span) -> None:
        """One line, cut at the right edge."""
        self.lines.append(self._fitted(line_of(*pieces)))

    def add(self, *pieces: str | Span, row: int = -1) -> None:
        """More at the end of a line, by default the last one, cut at the right edge."""
        self.lines[row] = self._fitted(line_of(*self.lines[row], *pieces))

    def heading(self, text: str) -> None:
        """The title of a part, if it has one, after an empty line."""
        self.blank()
        if text:
            self.line(span(text, Tone.TITLE))

    def paragraph(self, text: str, tone: Tone = Tone.PLAIN, indent: int = 0) -> None:
        """Wrapped text; its own line breaks are kept."""
        for line in wrapped(_prose(text), self.width - indent):
            self.lines.append((Span(" " * indent + line, tone),))

    def field(self, name: str, text: str, tone: Tone = Tone.PLAIN, column: int = 12) -> None:
        """A name, and next to it wrapped text."""
        label = padded(span(name).text, column)
        for line in wrapped(_prose(text), self.width - column):
            self.lines.append((Span(label, Tone.DIM), Span(line, tone)))
            label = " " * column

    def blocks(self, blocks: Iterable[doc.Block], indent: int = 0) -> None:
        """A document: its lines are wrapped, and what belongs to a line is set in below it."""
        for block in blocks:
            match block:
                case doc.Paragraph(line):
                    self._wrap(line, indent)
                case doc.Items(lines):
                    for line in lines:
                        self._wrap(line, indent + 2)
                case doc.Entry(line, inner):
                    self._wrap(line, indent)
                    self.blocks(inner, indent + 2)
                case doc.Section(title, _, inner):
                    self.heading(title)
                    self.blocks(inner, indent)
                case doc.Listing(heading, lines):
                    for words, tone in [Phrase(heading, Tone.DIM)] * bool(heading) + [*lines]:
                        self.paragraph(words, tone, indent)
                case doc.Table():
                    self._table(block, indent)
                case _:
                    raise TypeError(f"no pane shows a {type(block).__name__}")

    def _wrap(self, line: doc.Line, indent: int) -> None:
        margin = Span(" " * indent)
        room = self.width - indent
        self.lines += [(margin, *piece) for piece in wrapped_line(toned(line), room)]

    def _table(self, block: doc.Table, indent: int) -> None:
        """Columns as wide as their cells; those that have no room for that wrap theirs, and where
        that would be in the middle of numbers, the row's cells follow each other by name.
        """
        if block.caption:
            self.blank()
            self.line(Span(" " * indent), span(block.caption, Tone.TITLE))
        names = [(doc.Badge(name, Tone.DIM),) for name in block.columns]
        named = any(block.columns)
        rows = [list(map(toned, row)) for row in ([names] * named + [*block.rows])]
        widths = column_widths(rows, self.width - indent) if rows else []
        numeric = block.numeric
        has_room = all(max(line_cells(row[i]) for row in rows) <= widths[i] for i in numeric)
        is_in_columns = not named or has_room
        for at, row in enumerate(rows):
            first = tuple(Span(t, Tone.DIM if tone is Tone.PLAIN else tone) for t, tone in row[0])
            if is_in_columns:
                self._row([first, *row[1:]], widths, numeric, indent)
            elif at:
                self._cells_by_name(rows[0], [first, *row[1:]], indent)
            if block.places and at >= named:
                self.places.setdefault(block.places[at - named], len(self.lines) - 1)

    def _row(
        self, row: Sequence[Line], widths: Sequence[int], numeric: frozenset[int], indent: int
    ) -> None:
        columns = [wrapped_line(cell, width) for cell, width in zip(row, widths, strict=True)]
        for at in range(max(map(len, columns))):
            line, margin = [], indent
            for column, (lines, width) in enumerate(zip(columns, widths, strict=True)):
                piece = lines[at] if at < len(lines) else ()
                filler = width - line_cells(piece)
                begin, end = (filler, 0) if column in numeric else (0, filler)
                line += [Span(" " * (margin + begin)), *piece]
                margin = end + 2
            self.lines.append(self._fitted(tuple(line)))

    def _cells_by_name(self, names: Sequence[Line], row: Sequence[Line], indent: int) -> None:
        line = row[0]
        for name, cell in zip(names[1:], row[1:], strict=True):
            line += (Span("  "), *name, Span(" "), *cell) if cell else ()
        first, *rest = wrapped_line(line, self.width - indent - 2)
        self.lines.append((Span(" " * indent), *first))
        self.lines += [(Span(" " * (indent + 2)), *piece) for piece in rest]

    def _fitted(self, line: Line) -> Line:
        left = self.width
        kept: list[Span] = []
        for piece in line:
            size = cell_len(piece.text)
            if size > left:
                kept.append(Span(cut(piece.text, left), piece.tone))
                break
            kept.append(piece)
            left -= size
        return tuple(kept)
