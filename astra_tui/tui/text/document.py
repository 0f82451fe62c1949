"""A text as a pane needs it: its lines made visible, coloured and measured, each once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import lru_cache

from rich.cells import cell_len

from astra_tui.model.hunks import split_lines
from astra_tui.model.visible import Range, VisibleLine, visible_line
from astra_tui.tui.text.cuda import Span, prose_of

LONGEST_LINE = 2000
"""Longer lines stay plain: Pygments' patterns take quadratic time on some texts."""

PART = 1000
"""Longer lines are drawn in parts below each other, so that none of a line is out of reach."""

SHORTEST_PART = 20
"""Characters: in less room lines are cut, and can be scrolled to the side."""

NO_LINE_FEED = "«no line feed at the end»"


class Highlighter:
    """The spans of one source, computed a slice at a time.

    The lexer takes about 50 microseconds a line, too long for a thread that also answers keys.
    Lines before `ready` have their spans; the others have none yet.
    """

    def __init__(self, text: str) -> None:
        lines = text.split("\n")
        self._lines: list[tuple[Span, ...]] = [()] * (len(lines) + 1)
        self._tokens = self._read(lines)
        self.ready = 0
        self.done = not text

    def advance(self, seconds: float) -> bool:
        """Continues for about some seconds; whether all lines are done."""
        end = time.perf_counter() + seconds
        while not self.done:
            if next(self._tokens, None) is None:
                self.ready = len(self._lines)
                self.done = True
            elif time.perf_counter() >= end:
                break
        return self.done

    def spans(self, line: int) -> tuple[Span, ...]:
        """The spans of a line counted from 0, in order; nothing for plain text."""
        return self._lines[line] if line < len(self._lines) else ()

    def _read(self, lines: list[str]) -> Iterator[int]:
        """Fills the spans line by line, giving way after each token."""
        # The lexer knows a line comment only by the line feed at its end.
        source = "".join((line if len(line) <= LONGEST_LINE else "") + "\n" for line in lines)
        # Pygments is loaded when the first source is read, not when the screen starts.
        from astra_tui.tui.text.lexer import tokens_of

        spans: list[Span] = []
        line = column = 0
        for role, text in tokens_of(source):
            for index, piece in enumerate(text.split("\n")):
                if index:
                    self._lines[line] = tuple(spans)
                    spans = []
                    line, column = line + 1, 0
                    self.ready = line
                if piece and role is not None:
                    spans.append((column, column + len(piece), role))
                column += len(piece)
            yield line
        self._lines[line] = tuple(spans)


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

    def part_of(self, line: int, room: int) -> int:
        """How many characters of a line stand on one row of so many cells; 0 stands for `PART`."""
        if not room:
            return PART
        room = min(max(room, SHORTEST_PART), PART)
        return room if self.visible(line).text.isascii() else room // 2

    def parts(self, line: int, room: int = 0) -> int:
        """How many rows of so many cells a line takes."""
        if self._longest <= (room // 2 or PART):
            return 1
        return max(1, -(-len(self.visible(line).text) // self.part_of(line, room)))

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
