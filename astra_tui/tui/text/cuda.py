"""What each piece of a kernel source is, line by line, for colouring; and which pieces are prose.

A source is read in slices of time: the lexer takes about 50 microseconds a line, too long for a
thread that also answers keys.
"""

from __future__ import annotations

import re
import time
from bisect import bisect_right
from collections.abc import Iterator
from enum import StrEnum

from astra_tui.model.visible import Range

LONGEST_LINE = 2000
"""Longer lines stay plain: Pygments' patterns take quadratic time on some texts."""


class TokenKind(StrEnum):
    """What a piece of source is; a pane has one style for each."""

    KEYWORD = "keyword"
    TYPE = "type"
    BUILTIN = "builtin"
    NAME = "name"
    NUMBER = "number"
    STRING = "string"
    COMMENT = "comment"
    DIRECTIVE = "directive"
    LAUNCH = "launch"


Span = tuple[int, int, TokenKind]
"""Begin and end in the characters of one line, and the role of what stands there."""

_PROSE = re.compile(
    r"""\b(?:u8|[uUL])?R"(?P<fence>[^()\\\s]{0,16})\(.*?\)(?P=fence)"
      | "(?:\\\r?\n|\\.|[^"\\\n])*"
      | \b[0-9](?:'?\w)*
      | '(?:\\.|[^'\\\n])*'
      | //(?:\\\r?\n|[^\n])*
      | /\*.*?\*/
    """,
    re.VERBOSE | re.DOTALL,
)


class Highlighter:
    """The spans of one source, computed a slice at a time.

    Lines before `ready` have their spans; the others have none yet.
    """

    def __init__(self, text: str) -> None:
        lines = text.split("\n")
        self._lines: list[tuple[Span, ...]] = [()] * (len(lines) + 1)
        self._tokens = self._read(lines)
        self.ready = 0
        self.done = not text

    def advance(self, seconds: float) -> bool:
        """Goes on for about some seconds; whether all lines are done."""
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


def prose_of(text: str) -> list[list[Range]]:
    """For each line, the ranges that are comments or strings: where any script may be written."""
    begins = [0]
    for content in text.split("\n"):
        begins.append(begins[-1] + len(content) + 1)
    found: list[list[Range]] = [[] for _ in begins[1:]]
    for match in _PROSE.finditer(text):
        if match.group()[0].isdigit():
            continue
        begin, end = match.span()
        line = bisect_right(begins, begin) - 1
        while line < len(found) and begins[line] < end:
            first, last = begins[line], begins[line + 1]
            found[line].append((max(begin, first) - first, min(end, last) - first))
            line += 1
    return found
