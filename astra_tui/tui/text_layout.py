"""Lines of text with tones: what a pane shows, laid out for a width and without a terminal.

Every text passes through `visible`, so that nothing that an agent, a kernel or a file says can
act on the terminal or be taken for markup.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from rich.cells import cell_len, chop_cells, set_cell_size

from astra_tui.model.visible import visible, visible_inline
from astra_tui.present import document
from astra_tui.present.document import Badge, Block, Entry, Items, Listing, Paragraph, Strong
from astra_tui.present.tones import Phrase, Tone

ELLIPSIS = "…"


class Span(NamedTuple):
    """A piece of a line. Its text is harmless: see `span`."""

    text: str
    tone: Tone = Tone.PLAIN


Line = tuple[Span, ...]


def span(text: str, tone: Tone = Tone.PLAIN) -> Span:
    """A piece of a line whose text is made harmless."""
    inner = text.rstrip(" ")
    return Span(visible_inline(inner) + text[len(inner) :], tone)


def _tone(part: document.Inline) -> Tone:
    if isinstance(part, Badge):
        return part.tone
    return Tone.TITLE if isinstance(part, Strong) else Tone.PLAIN


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


class Page:
    """Collects lines for a width. Paragraphs are wrapped, single lines are cut."""

    def __init__(self, width: int):
        self.width = max(width, 8)
        self.lines: list[Line] = []

    def blank(self) -> None:
        """An empty line, but no two in a row and none at the top."""
        if self.lines and self.lines[-1]:
            self.lines.append(())

    def line(self, *pieces: str | Span) -> None:
        """One line, cut at the right edge."""
        self.lines.append(self._fitted(line_of(*pieces)))

    def add(self, *pieces: str | Span) -> None:
        """More at the end of the last line, cut at the right edge."""
        self.line(*self.lines.pop(), *pieces)

    def heading(self, text: str) -> None:
        """The title of a part, after an empty line."""
        self.blank()
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

    def blocks(self, blocks: Iterable[Block], indent: int = 0) -> None:
        """A document: its lines are wrapped, and what belongs to a line is set in below it."""
        for block in blocks:
            match block:
                case Paragraph(line):
                    self._document_line(line, indent)
                case Items(lines):
                    for line in lines:
                        self._document_line(line, indent + 2)
                case Entry(line, inner):
                    self._document_line(line, indent)
                    self.blocks(inner, indent + 2)
                case Listing(heading, lines):
                    for words, tone in [Phrase(heading, Tone.DIM)] * bool(heading) + [*lines]:
                        self.paragraph(words, tone, indent)
                case _:
                    raise TypeError(f"no pane shows a {type(block).__name__}")

    def _document_line(self, line: document.Line, indent: int) -> None:
        """Wrapped between words, each in the tone of its part."""
        room, left = self.width - indent, 0
        for part in line:
            text, tone = (part, Tone.PLAIN) if isinstance(part, str) else (part.text, _tone(part))
            for word in re.findall(r"\s+|\S+", span(text).text):
                size = cell_len(word)
                left = 0 if size > left else left
                if not left and word.isspace():
                    continue
                for piece in chop_cells(word, room):
                    if cell_len(piece) > left:
                        self.lines.append((Span(" " * indent),))
                        left = room
                    self.lines[-1] = (*self.lines[-1], Span(piece, tone))
                    left -= cell_len(piece)

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
