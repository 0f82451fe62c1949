"""Pages: what a pane shows, laid out for a width and without a terminal.

Every text passes through `visible`, so that nothing that an agent, a kernel or a file says can
act on the terminal or be taken for markup.
"""

from __future__ import annotations

from collections.abc import Iterator

from rich.cells import cell_len, set_cell_size

from astra_tui.model.visible import visible, visible_inline
from astra_tui.present import document as doc
from astra_tui.present.layout import Layout, Line, Span, line_text, wrapped_line
from astra_tui.present.tones import Phrase, Tone

ELLIPSIS = "…"

LONGEST = 2000
"""Characters of a part of a document that are shown; a stranger's text may have any number."""


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
    for paragraph in text.split("\n"):
        line = (Span(paragraph.rstrip()),)
        yield from (line_text(piece) for piece in wrapped_line(line, max(width, 8)))


def toned(line: doc.Line) -> Line:
    """A line of a document, each part in its tone."""
    return tuple(span(p.text, p.tone, LONGEST) for p in doc.phrases(line))


class Page(Layout):
    """Collects lines for a pane. Paragraphs are wrapped, single lines are cut."""

    HANGING = 0
    KEEPS_WORDS = False
    NAMES = LABELS = Tone.DIM

    def __init__(self, width: int):
        super().__init__(max(width, 8))

    def piece(self, phrase: Phrase) -> Span:
        """A piece of a document; of a longer one, the end is only named."""
        return span(phrase.text, phrase.tone, LONGEST)

    def line(self, *pieces: str | Span) -> None:
        """One line, cut at the right edge."""
        self.lines.append(self._fitted(line_of(*pieces)))

    def add(self, *pieces: str | Span, row: int = -1) -> None:
        """More at the end of a line, by default the last one, cut at the right edge."""
        self.lines[row] = self._fitted(line_of(*self.lines[row], *pieces))

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
