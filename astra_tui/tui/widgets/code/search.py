"""Plain text search: lower case finds both cases, a capital letter only itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from astra_tui.model.visible import Range


class Match(NamedTuple):
    """A place where the words were found: which document of a pane, its line from 0, the range."""

    document: int
    line: int
    range: Range


def occurrences(query: str, text: str) -> Iterator[Range]:
    """Where a text holds the query, from left to right, without overlap."""
    if not query:
        return
    if query.islower() or not any(c.isalpha() for c in query):
        lowered = text.lower()
        # Lowering may change the length of a text (İ); then only the exact case is found.
        text = lowered if len(lowered) == len(text) else text
    begin = text.find(query)
    while begin >= 0:
        yield begin, begin + len(query)
        begin = text.find(query, begin + len(query))
