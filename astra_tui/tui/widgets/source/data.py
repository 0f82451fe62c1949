"""What the source pane shows, as plain data."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from astra_tui.tui.widgets.code.annotations import LineColumn, LineMark


class Sass(msgspec.Struct, frozen=True):
    """The machine code of a source, ready to be drawn; or why there is none, in `problem`."""

    columns: tuple[LineColumn, ...] = ()
    rows: Mapping[int, tuple[str, ...]] = {}
    """The instructions of each line, counted from 1, as the rows that unfold below it."""
    listing: str = ""
    """All of it in the order of addresses, kernel after kernel."""
    first_rows: Mapping[int, int] = {}
    """The row of the listing, from 0, at which the code of a source line begins."""
    words: str = ""
    """How much there is, for a title."""
    problem: str = ""


class SourceView(msgspec.Struct, frozen=True):
    """A source with messages about its lines and columns of values next to them, from line 1.

    `sass` reads the machine code when someone asks for it; None where there is nothing to say.
    """

    text: str
    name: str = ""
    marks: tuple[LineMark, ...] = ()
    columns: tuple[LineColumn, ...] = ()
    sass: Callable[[], Sass] | None = None
