"""Columns of values next to the lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style

from astra_tui.model.visible import visible_inline
from astra_tui.tui.widgets.code.annotations import LineColumn

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
