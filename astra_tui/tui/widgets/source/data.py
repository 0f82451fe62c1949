"""What the source pane shows, as plain data."""

from __future__ import annotations

from dataclasses import dataclass

from astra_tui.tui.widgets.code.annotations import LineColumn, LineMark


@dataclass(frozen=True, slots=True)
class SourceView:
    """A source with messages about its lines and columns of values beside them, from line 1."""

    text: str
    name: str = ""
    marks: tuple[LineMark, ...] = ()
    columns: tuple[LineColumn, ...] = ()
