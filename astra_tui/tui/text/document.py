"""A text as a pane needs it: its lines made visible, coloured and measured, each once."""

from __future__ import annotations

from functools import lru_cache

from rich.cells import cell_len

from astra_tui.model.hunks import split_lines
from astra_tui.model.visible import Range, VisibleLine, visible_line
from astra_tui.tui.text.cuda import Highlighter, Span, prose_of

PART = 1000
"""Longer lines are drawn in parts below each other, so that none of a line is out of reach."""

NO_LINE_FEED = "«no line feed at the end»"


class Document:
    """A kernel source for drawing; lines are counted from 0.

    Get it from `document_of`, so that panes which show the same text share the work.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._raw = split_lines(text)
        self.highlighter = Highlighter(text)
        self._prose: list[list[Range]] | None = None if text.isascii() else prose_of(text)
        self._visible: dict[int, VisibleLine] = {}
        self.width = max((self._cells(i) for i in range(len(self._raw))), default=0)
        self._longest = max((len(v.text) for v in self._visible.values()), default=0)

    def __len__(self) -> int:
        return len(self._raw)

    def raw(self, line: int) -> str:
        """A line as it is, without its line feed."""
        return self._raw[line].removesuffix("\n")

    def visible(self, line: int) -> VisibleLine:
        """A line as it is drawn; the last one says so if no line feed ends it."""
        found = self._visible.get(line)
        if found is None:
            found = self._visible[line] = self._make_visible(line)
        return found

    def spans(self, line: int) -> tuple[Span, ...]:
        """What the characters of a line are, as far as the highlighter has come."""
        return self.highlighter.spans(line)

    def parts(self, line: int) -> int:
        """How many rows a line takes: one, but for lines of more than `PART` characters."""
        if self._longest <= PART:
            return 1
        return max(1, -(-len(self.visible(line).text) // PART))

    def _cells(self, line: int) -> int:
        text = self.visible(line).text
        return min(len(text) if text.isascii() else cell_len(text), 2 * PART)

    def _make_visible(self, line: int) -> VisibleLine:
        raw = self._raw[line]
        prose = self._prose[line] if self._prose is not None else None
        shown = visible_line(raw.removesuffix("\n"), prose)
        if raw.endswith("\n"):
            return shown
        begin, text = len(shown.text), shown.text + NO_LINE_FEED
        starts = shown.starts or tuple(range(begin + 1))
        return VisibleLine(text, (*shown.marks, (begin, len(text))), starts)


@lru_cache(maxsize=16)
def document_of(text: str) -> Document:
    """The document of a text; the last few are kept by their content."""
    return Document(text)
