"""What stands next to the lines of a source: messages under them and columns of values."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import zip_longest

import msgspec
from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style

from astra_tui.model.visible import visible_inline
from astra_tui.present.numbers import pluralised


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


Columns = Sequence[LineColumn]


def column_widths(*sides: Columns) -> list[int]:
    """The width of each column, the same on all sides."""
    return [
        max(_width(column) for column in columns if column is not None)
        for columns in zip_longest(*sides)
    ]


def column_segments(
    columns: Columns, widths: Sequence[int], line: int, style: Style
) -> Iterator[Segment]:
    """The values of a line, counted from 1, each with a space after it."""
    for column, width in zip_longest(columns, widths):
        value = visible_inline(column.values.get(line, "")) if column else ""
        right = column is not None and column.align_right
        yield Segment(_fit(value, width, right) + " ", style)


def column_titles(columns: Columns, widths: Sequence[int]) -> str:
    """The titles, above the values."""
    pairs = zip_longest(columns, widths)
    return "".join(
        _fit(visible_inline(c.title) if c else "", w, c is not None and c.align_right) + " "
        for c, w in pairs
    )


def _fit(text: str, width: int, right: bool) -> str:
    cells = cell_len(text)
    if cells > width:
        return set_cell_size(text, max(0, width - 1)) + "…"
    return " " * (width - cells) + text if right else text + " " * (width - cells)


def _width(column: LineColumn) -> int:
    texts = (column.title, *column.values.values())
    return min(column.max_width, max(cell_len(visible_inline(t)) for t in texts))


_LONGEST = 1000
_NARROWEST = 20
_GRAVITY = list(MarkKind)


class NoteRow(msgspec.Struct, frozen=True):
    """One row of the text of a mark, under its line; `mark` counts from 0."""

    mark: int
    text: str
    first: bool


def notes_of(marks: Sequence[LineMark], lines: int, width: int) -> dict[int, list[NoteRow]]:
    """The notes of each line, counted from 0; those of no line stand under the nearest one."""
    notes: dict[int, list[NoteRow]] = {}
    for index, mark in enumerate(marks):
        line = _place(mark, lines)
        text = f"{mark.kind.value}: {visible_inline(mark.text, _LONGEST)}"
        pieces = textwrap.wrap(text, max(_NARROWEST, width), break_on_hyphens=False) or [text]
        rows = (NoteRow(index, piece, n == 0) for n, piece in enumerate(pieces))
        notes.setdefault(line, []).extend(rows)
    return notes


def count_marks(marks: Sequence[LineMark]) -> str:
    """How many marks of each kind there are, in words."""
    numbers = Counter(mark.kind for mark in marks)
    return ", ".join(pluralised(numbers[kind], kind.value) for kind in MarkKind if numbers[kind])


def most_severe(marks: Sequence[LineMark], lines: int) -> dict[int, MarkKind]:
    """The most severe kind of each marked line, counted from 0."""
    ordered = sorted(marks, key=lambda mark: _GRAVITY.index(mark.kind), reverse=True)
    return {_place(mark, lines): mark.kind for mark in ordered}


def _place(mark: LineMark, lines: int) -> int:
    return min(max(mark.line, 1), max(1, lines)) - 1
