"""Text from a journal made harmless: what could act on a page or a terminal is written out.

Escaping for HTML or Markdown is the writers' work and comes after this.
"""

from __future__ import annotations

import re

from astra_tui.model.visible import harmless

visible = harmless

LONGEST_TEXT = 4000
"""Longer texts are cut; a hostile journal must not make a page that no browser opens."""

_SPACE = re.compile(r"[\n\t ]+")


def bounded(text: str, limit: int = LONGEST_TEXT) -> str:
    """A text of several lines, visible and at most `limit` characters of the original long."""
    cut = f" ... ({len(text) - limit} more characters)" if len(text) > limit else ""
    return visible(text[:limit]) + cut


def inline(text: str, limit: int = LONGEST_TEXT) -> str:
    """The same on one line."""
    return spaced(text, limit).strip(" ")


def spaced(text: str, limit: int = LONGEST_TEXT) -> str:
    """On one line, with a space at an end where it has one: a piece between other pieces."""
    return _SPACE.sub(" ", bounded(text, limit))
