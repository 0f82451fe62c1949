"""What the diff pane shows, as plain data."""

from __future__ import annotations

import msgspec

from astra_tui.tui.widgets.code.annotations import LineColumn, LineMark


class DiffView(msgspec.Struct, frozen=True):
    """Two texts, what is known about their lines, and which hunks are accepted.

    `marks` and `new_columns` are about lines of the new text, `old_columns` of the old one, both
    from 1. `accepted` holds the accepted hunks from 0; None means all. `choosable` lets the
    engineer accept and refuse hunks: set it while the diff is being decided.
    """

    old: str
    new: str
    old_name: str = ""
    new_name: str = ""
    marks: tuple[LineMark, ...] = ()
    old_columns: tuple[LineColumn, ...] = ()
    new_columns: tuple[LineColumn, ...] = ()
    accepted: frozenset[int] | None = None
    choosable: bool = False

    def same_texts(self, other: DiffView | None) -> bool:
        """Whether another view is about the same diff, so that place and choice are kept."""
        return other is not None and (self.old, self.new) == (other.old, other.new)
