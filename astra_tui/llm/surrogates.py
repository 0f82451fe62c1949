"""Characters beyond U+FFFF, which JSON may escape as two halves, and a stream cut between them.

A half alone is no character: no file, no journal and no request takes it. Halves that meet are
joined, and U+FFFD takes the place of those that stay alone.
"""

from __future__ import annotations

import json
from typing import Any


class SurrogateJoiner:
    """Makes whole characters of the pieces of one text: keeps back a half until its other comes."""

    def __init__(self) -> None:
        self._half = ""

    def add(self, piece: str) -> str:
        """The characters that are whole with this piece; empty where it only begins one."""
        text = self._half + piece
        self._half = text[-1] if text and "\ud800" <= text[-1] <= "\udbff" else ""
        return joined(text[: len(text) - len(self._half)])

    def end(self) -> str:
        """What stands for a half whose other never came; else empty."""
        half, self._half = self._half, ""
        return joined(half)


def joined(text: str) -> str:
    """The text with halves joined, and with U+FFFD for those that are alone."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def joined_json(value: Any) -> Any:
    """A JSON value with all its texts `joined`, the names of its objects too."""
    return json.loads(joined(json.dumps(value, ensure_ascii=False)))
