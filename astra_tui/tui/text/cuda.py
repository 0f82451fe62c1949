"""What a piece of a kernel source can be, for colouring; and which pieces are prose."""

from __future__ import annotations

import re
from bisect import bisect_right
from enum import StrEnum

from astra_tui.model.visible import Range


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
