"""What stands next to the lines of a source: messages under them and columns of values."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec


class MarkKind(StrEnum):
    """The kinds of marks; the first letter, in upper case, stands in the gutter."""

    ERROR = "error"
    WARNING = "warning"
    FINDING = "finding"

    @property
    def letter(self) -> str:
        """What stands in the gutter."""
        return self.value[0].upper()


class LineMark(msgspec.Struct, frozen=True):
    """A message about one line, counted from 1: of the compiler, or of a device (a finding)."""

    line: int
    kind: MarkKind
    text: str


class LineColumn(msgspec.Struct, frozen=True):
    """Values next to the lines, by line number from 1: counters, or instructions.

    `title` stands above the column. The column is as wide as its widest value, at most
    `max_width` cells; numbers are aligned to the right.
    """

    title: str
    values: Mapping[int, str]
    max_width: int = 12
    align_right: bool = True
