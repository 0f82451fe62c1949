"""Kernel sources in colour: HTML, line by line, with a class for each kind of token.

Without the style sheet it is the plain text.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

from pygments.lexers.c_like import CudaLexer
from pygments.token import Comment, Keyword, Name, Number, String

from astra_tui.present.report.visible import visible

LONGEST_LINE = 2000
"""A source with longer lines stays plain: Pygments' patterns take quadratic time on some texts."""

_CLASSES: tuple[tuple[Any, str], ...] = (
    (Comment.PreprocFile, "str"),
    (Comment.Preproc, "pre"),
    (Comment, "com"),
    (Keyword.Type, "typ"),
    (Keyword, "key"),
    (Name.Builtin, "bui"),
    (Name.Function, "nam"),
    (String, "str"),
    (Number, "num"),
)


def coloured_lines(source: str) -> list[str]:
    """One piece of HTML a line, without line feeds; as many as the text has line feeds, and one."""
    lines = [""]
    for class_, text in _tokens(source):
        for number, piece in enumerate(text.split("\n")):
            if number:
                lines.append("")
            if piece:
                shown = escape(visible(piece))
                lines[-1] += f'<span class="{class_}">{shown}</span>' if class_ else shown
    return lines


def _tokens(source: str) -> Iterator[tuple[str, str]]:
    if any(len(line) > LONGEST_LINE for line in source.split("\n")):
        yield "", source
        return
    for _, kind, text in CudaLexer().get_tokens_unprocessed(source):
        yield next((class_ for parent, class_ in _CLASSES if kind in parent), ""), text
