"""Text from a journal made harmless: what could act on a page or a terminal is written out.

Escaping for HTML or Markdown is the writers' work and comes after this.
"""

from __future__ import annotations

import re

from astra_tui.model.characters import can_act

LONGEST_TEXT = 4000
"""Longer texts are cut; a hostile journal must not make a page that no browser opens."""

_SUSPECT = re.compile(r"[^\n\t -~]")
_SPACE = re.compile(r"[\n\t ]+")


def visible(text: str) -> str:
    """The text with control, bidirectional, combining and invisible characters as «U+202E».

    Line feeds and tabs stay.
    """
    return _SUSPECT.sub(_written_out, text)


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


def _written_out(match: re.Match[str]) -> str:
    character = match.group()
    return f"«U+{ord(character):04X}»" if can_act(character) else character
