"""Documents as lines of toned text within a width, for terminals and for panes."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import ClassVar, NamedTuple

from rich.cells import cell_len, chop_cells

from astra_tui.model.hunks import HEADER, NO_LINE_FEED, diff_lines
from astra_tui.model.visible import harmless, visible_line
from astra_tui.present import document as doc
from astra_tui.present.tones import Phrase, Tone

UNBOUNDED = 1 << 20
"""The width of lines that may have any."""


class Span(NamedTuple):
    """A piece of a line. Its text is harmless."""

    text: str
    tone: Tone = Tone.PLAIN


Line = tuple[Span, ...]


def line_text(line: Line) -> str:
    """The text of a line."""
    return "".join(piece.text for piece in line)


def line_cells(line: Line) -> int:
    """Columns that a line takes."""
    return sum(cell_len(piece.text) for piece in line)


def wrapped_line(
    line: Line, width: int, hanging: int = 0, *, keeps_words: bool = False
) -> list[Line]:
    """A line, wrapped between words that keep their tones; one that fits stays as it is.

    Further lines begin `hanging` columns after the first. Words longer than a line are broken, or
    stick out where they are kept.
    """
    if line_cells(line) <= width:
        return [line]
    text = line_text(line)
    margin = len(text) - len(text.lstrip(" ")) + hanging
    margin = margin if 2 * margin < width else 0
    starts = [0, *_line_starts(text, width, width - margin, keeps_words), len(text)]
    pieces = [_part(line, *bounds) for bounds in pairwise(starts)]
    return [pieces[0], *((Span(" " * margin), *piece) if margin else piece for piece in pieces[1:])]


def _line_starts(text: str, room: int, further: int, keeps_words: bool) -> Iterator[int]:
    """Where the lines after the first begin; the first has another room than the further ones."""
    begin = 0
    for word in re.finditer(r"\S+", text):
        if cell_len(text[begin : word.end()]) > room and text[begin : word.start()].strip():
            begin, room = word.start(), further
            yield begin
        while not keeps_words and cell_len(text[begin : word.end()]) > room:
            begin += max(1, len(chop_cells(text[begin : word.end()], room)[0]))
            room = further
            yield begin


def _part(line: Line, start: int, end: int) -> Line:
    """The spans between two places of a line's text, without spaces at the end."""
    found: list[Span] = []
    for text, tone in line:
        if piece := text[max(start, 0) : max(end, 0)]:
            found.append(Span(piece, tone))
        start, end = start - len(text), end - len(text)
    while found and not found[-1].text.rstrip():
        found.pop()
    return (*found[:-1], found[-1]._replace(text=found[-1].text.rstrip())) if found else ()


def column_widths(
    rows: Sequence[Sequence[Line]], whole: Collection[int], room: int, *, named: bool
) -> list[int] | None:
    """Widths of columns, of which those with long cells share the room that the others leave; None
    where a word, or a cell of the `whole` columns, would be broken. The first row is that of their
    names, if they have any; else words in the last column that are too long do not count.
    """
    columns = list(zip(*rows, strict=True))
    widest = [max(map(line_cells, column)) for column in columns]
    widths = [max(map(_longest_word, column)) for column in columns]
    for i in whole:
        widths[i] = max([widths[i], *map(line_cells, columns[i][named:])])
    if not named:
        widths[-1] = min(widths[-1], _LEAST_BROKEN)
    spare = room - sum(widths) - 2 * (len(widths) - 1)
    if spare < 0:
        return None
    by_need = sorted(range(len(widths)), key=lambda i: widest[i] - widths[i])
    for place, i in enumerate(by_need):
        share = spare if widest[i] <= _LONGEST_WHOLE else spare // (len(widths) - place)
        more = min(widest[i] - widths[i], share)
        widths[i], spare = widths[i] + more, spare - more
    return widths


_LONGEST_WHOLE = 40
"""Cells that are longer may be wrapped for the sake of others."""

_LEAST_BROKEN = 20
"""A column in which words may be broken has so many cells at least."""


def _longest_word(line: Line) -> int:
    return max(map(cell_len, line_text(line).split()), default=0)


def _whole(rows: Sequence[Sequence[Line]], room: int, named: bool) -> list[int] | None:
    """Widths of columns of which none but those with long cells is wrapped."""
    columns = enumerate(zip(*rows, strict=True))
    short = [i for i, column in columns if max(map(line_cells, column)) <= _LONGEST_WHOLE]
    return column_widths(rows, short, room, named=named)


class Layout:
    """Collects the lines of a document; what a pane does in another way is named here."""

    WIDEST_TABLE = 240
    """Columns of a table with names, however wide the lines may be."""
    HANGING = 2
    """Columns by which the further lines of a text are set in."""
    KEEPS_WORDS = True
    """Whether words longer than a line stay whole, as for a terminal that breaks them."""
    NAMES: ClassVar[Tone] = Tone.TITLE
    """Of the names of columns."""
    LABELS: ClassVar[Tone] = Tone.PLAIN
    """Of the first cell of a row."""

    def __init__(self, width: int):
        self.width = width
        self.lines: list[Line] = []
        self.places: list[tuple[str, range]] = []
        """Fields, rows of tables that have a name, and their lines."""

    def piece(self, phrase: Phrase) -> Span:
        """A piece of a document, made harmless."""
        return Span(harmless(phrase.text).expandtabs(8), phrase.tone)

    def blank(self) -> None:
        """An empty line, but no two in a row and none at the top."""
        if self.lines and self.lines[-1]:
            self.lines.append(())

    def heading(self, text: str, indent: int = 0) -> None:
        """The title of a part, if it has one, after an empty line."""
        self.blank()
        if text:
            self._wrap((Phrase(text, Tone.TITLE),), indent)

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
                case doc.Section(title, inner):
                    self.heading(title)
                    self.blocks(inner, indent)
                case doc.Quote(text) | doc.Source(text):
                    for row in text.split("\n"):
                        self._wrap((row,), indent)
                case doc.Listing(heading, lines):
                    titles = [Phrase(heading, self.NAMES)] * bool(heading)
                    for phrase in (*titles, *lines):
                        self._listed(phrase, indent, in_columns=bool(heading))
                case doc.Fields(rows):
                    names = tuple(name for name, _ in rows)
                    self._table(doc.table(("", ""), rows, places=names), indent)
                case doc.Table():
                    self._table(block, indent)
                case doc.Diff():
                    self.blank()
                    told = diff_text(block, self.width) or "the sources are the same"
                    self.lines += ((Span(row),) for row in told.split("\n"))
                case doc.Figure():
                    pass  # Its numbers are in a table nearby.

    def _listed(self, phrase: Phrase, indent: int, *, in_columns: bool) -> None:
        """A line as it is; one in columns ends at the edge, so that they stay columns."""
        text, tone = self.piece(phrase)
        if not self.KEEPS_WORDS:
            self._add((Span(text, tone),), indent, 0)
            return
        text = " " * indent + text.rstrip()
        self.lines.append((Span(text[: self.width] if in_columns else text, tone),))

    def _spans(self, line: doc.Line) -> Line:
        return tuple(map(self.piece, doc.phrases(line)))

    def _wrap(self, line: doc.Line, indent: int) -> None:
        self._add(self._spans(line), indent, self.HANGING)

    def _add(self, line: Line, indent: int, hanging: int) -> None:
        room = self.width - indent
        pieces = wrapped_line(line, room, hanging, keeps_words=self.KEEPS_WORDS)
        self.lines += [(Span(" " * indent), *piece) if indent else piece for piece in pieces]

    def _table(self, block: doc.Table, indent: int) -> None:
        """In columns, where no word has to be broken for that; else the cells of a row follow each
        other by name. Optional columns for which there is no room are a table of their own.
        """
        if block.caption:
            self.heading(block.caption, indent)
        named = any(block.columns)
        if not named and not block.rows:
            return
        room = min(self.width, self.WIDEST_TABLE if named else self.width) - indent
        shown, rows = block, self._rows(block)
        while (widths := _whole(rows, room, named)) is None and shown.optional:
            shown = shown.with_columns(range(len(shown.columns) - 1))
            rows = self._rows(shown)
        widths = widths or column_widths(rows, shown.numeric, room, named=named)
        if widths is None:
            shown, rows = block, self._rows(block)
        for at, row in enumerate(rows):
            first = len(self.lines)
            if widths is not None and (named or _longest_word(row[-1]) <= widths[-1]):
                self._row(row, widths, shown.numeric, indent)
            elif at or not named:
                names = rows[0] if named else [()] * len(row)
                self._add(_by_name(names, row), indent, 2)
            if block.places and at >= named:
                self.places.append((block.places[at - named], range(first, len(self.lines))))
        if shown is not block:
            self.blank()
            self._table(block.columns_from(len(shown.columns)), indent)

    def _rows(self, block: doc.Table) -> list[list[Line]]:
        """The cells of a table, with the names of its columns first where it has any."""
        named = any(block.columns)
        names: list[Line] = [(self.piece(Phrase(n, self.NAMES)),) for n in block.columns]
        rows = [[self._spans(cell) for cell in row] for row in block.rows]
        for row in rows:
            plain = {Tone.PLAIN: self.LABELS}
            row[0] = tuple(Span(text, plain.get(tone, tone)) for text, tone in row[0])
        return [names] * named + rows

    def _row(
        self, row: Sequence[Line], widths: Sequence[int], numeric: frozenset[int], indent: int
    ) -> None:
        columns = [
            wrapped_line(cell, width, keeps_words=self.KEEPS_WORDS)
            for cell, width in zip(row, widths, strict=True)
        ]
        for at in range(max(map(len, columns))):
            line, margin = [], indent
            for column, (lines, width) in enumerate(zip(columns, widths, strict=True)):
                piece = lines[at] if at < len(lines) else ()
                filler = width - line_cells(piece)
                begin, end = (filler, 0) if column in numeric else (0, filler)
                line += [Span(" " * (margin + begin)), *piece]
                margin = end + 2
            self.lines.append(tuple(line))


def _by_name(names: Sequence[Line], row: Sequence[Line]) -> Line:
    line = row[0]
    for name, cell in zip(names[1:], row[1:], strict=True):
        line += (Span("  "), *name, Span(" " * bool(name)), *cell) if cell else ()
    return line


def diff_text(block: doc.Diff, columns: int) -> str:
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
        lines += _parts(mark, shown, columns)
        if not text.endswith("\n"):
            lines.append(NO_LINE_FEED)
    return "\n".join(lines) if number else ""


def _parts(mark: str, text: str, columns: int) -> Iterator[str]:
    """A line in pieces that fit, each after the line's mark, the further ones after `>` as well."""
    # Some terminals give quotation marks two cells.
    most = max(columns - 4, 20) // (1 if text.isascii() else 2)
    yield mark + text[:most]
    yield from (f"{mark}> {text[at : at + most]}" for at in range(most, len(text), most))
