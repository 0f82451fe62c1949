"""The lines of a diff on the screen, with a cursor, hunks to choose, folds and notes."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message

from astra_tui.model.hunks import LineChange, hunk_needs, line_changes, with_needed
from astra_tui.tui.text.document import document_of
from astra_tui.tui.widgets.code.annotations import NoteRow, column_widths, most_severe, notes_of
from astra_tui.tui.widgets.code.view import CodeView, Match, occurrences
from astra_tui.tui.widgets.diff.alignment import Alignment, is_quick
from astra_tui.tui.widgets.diff.canvas import DiffCanvas
from astra_tui.tui.widgets.diff.rows import (
    EXPAND,
    NEW,
    OLD,
    CodeRow,
    DiffRows,
    DiffView,
    FoldRow,
    HeaderRow,
    NeedRow,
    Row,
)

_Choice = tuple[frozenset[int], frozenset[LineChange]]
"""Accepted hunks, and what is refused of these."""

_BOX = 5
"""Cells of a header, from the left, on which a click toggles the hunk."""


class DiffLines(DiffCanvas):
    """Draws a `DiffView` that has been aligned; the diff pane holds it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("J,ctrl+down", "next_hunk(1)", "Next hunk", id="diff.next_hunk"),
        Binding("K,ctrl+up", "next_hunk(-1)", "Previous hunk", id="diff.previous_hunk"),
        Binding("space", "toggle_hunk", "Take or not", id="diff.toggle_hunk"),
        Binding("asterisk", "toggle_all", "All hunks", show=False, id="diff.toggle_all"),
        Binding("enter", "open", "Open", id="diff.open"),
        Binding("plus", "expand", "More context", show=False, id="diff.expand"),
        Binding("minus", "fold", "Less context", show=False, id="diff.fold"),
        Binding("s", "side_by_side", "Side by side", id="diff.side_by_side"),
        Binding("m", "next_note(1)", "Next mark", id="diff.next_note"),
        Binding("M", "next_note(-1)", "Previous mark", show=False, id="diff.previous_note"),
        Binding("c", "columns", "Columns", id="diff.columns"),
        Binding("Y", "copy_line", "Copy the line", show=False, id="diff.copy"),
    ]

    class Toggled(Message):
        """The engineer accepted or refused hunks, counted from 0."""

        def __init__(self, hunks: tuple[int, ...], accepted: frozenset[int]) -> None:
            super().__init__()
            self.hunks = hunks
            self.accepted = accepted

    class LineOpened(Message):
        """Enter was pressed on a line: of the new text, counted from 1."""

        def __init__(self, line: int) -> None:
            super().__init__()
            self.line = line

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's word
        super().__init__(id=id)
        # A refused hunk stays refused while the engineer looks at something else.
        self._choices: dict[tuple[str, str], _Choice] = {}
        self._room = 0
        """Cells of a line for which the rows were built."""
        self._changes: tuple[LineChange, ...] | None = None
        """What can be chosen line by line, once someone does so."""

    def show(self, view: DiffView, alignment: Alignment) -> None:
        """Shows another diff, from its first hunk."""
        self._texts = (document_of(view.old), document_of(view.new))
        self._layout = DiffRows(alignment, *self._texts)
        self._changes = None
        self.needs = ()
        self._take(view)
        self._take_choice()
        self.forget_search()
        self._build()
        self.scroll_to(0, 0, animate=False, force=True)
        first = (i for i, row in enumerate(self._rows) if isinstance(row, HeaderRow))
        self.set_reactive(CodeView.cursor, next(first, 0))
        self.rows_changed()
        self.call_after_refresh(self.show_row, self.cursor)

    def update_view(self, view: DiffView) -> None:
        """The same diff with other marks, columns or choice: cursor, folds and scroll stay."""
        choice_given = view.accepted != self.view.accepted
        self._take(view)
        if choice_given:
            self._take_choice()
        self._rebuild()

    def _take(self, view: DiffView) -> None:
        self.view = view
        if view.choosable and not self.needs:
            self.needs = hunk_needs(view.old, view.new, self._layout.alignment.hunks)
        self._column_widths = column_widths(view.old_columns, view.new_columns)
        self._letters = most_severe(view.marks, len(self._texts[NEW]))

    def _take_choice(self) -> None:
        """The choice that was given, or the one that the engineer made when it was shown before."""
        everything = frozenset(range(self.hunk_count))
        chosen, self.left_out = self.view.accepted, frozenset()
        if chosen is None and self.view.choosable:
            before = self._choices.get((self.view.old, self.view.new))
            chosen, self.left_out = before or (None, frozenset())
        self.accepted = everything if chosen is None else chosen & everything

    # Rows

    def _build(self) -> None:
        self._room = self.wrap_room
        needs = self.needs if self.view.choosable else ()
        self._rows = self._layout.build(self.side_by_side, self._notes(), self._room, needs)

    def _rebuild(self) -> None:
        """Builds the rows again, with the cursor on what it was on."""
        row = self._rows[self.cursor] if self._rows else None
        above = self.cursor - self.scroll_offset.y
        self._build()
        if row is not None:
            self.set_reactive(CodeView.cursor, self._row_like(row))
        self.rows_changed()
        self.scroll_to(y=max(0, self.cursor - above), animate=False, force=True)
        self.show_row(self.cursor)
        self.post_message(self.Changed())

    def _row_like(self, row: Row) -> int:
        """Where a row is now, or the line that it stood for."""
        for index, other in enumerate(self._rows):
            if _stand_for_same(row, other):
                return index
        if isinstance(row, FoldRow):
            return self._row_like(CodeRow(-1, row.first))
        return max(0, min(self.cursor, len(self._rows) - 1))

    def _notes(self) -> dict[int, list[NoteRow]]:
        width = (self._halves()[1] if self.side_by_side else self.view_width - 1) - 1
        width -= self._gutter_width(NEW)
        return notes_of(self.view.marks, len(self._texts[NEW]), width)

    def resized(self) -> None:
        """Notes are wrapped, and halves divided, for the width."""
        super().resized()
        if self.view.marks or self.wrap_room != self._room:
            self._rebuild()

    # Keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Which keys apply now; the footer shows these."""
        match action:
            case "toggle_hunk":
                return self.view.choosable and self._hunk_at_cursor() >= 0
            case "toggle_all":
                return self.view.choosable and self.hunk_count > 0
            case "next_hunk":
                return self.hunk_count > 0
            case "next_note":
                return bool(self.view.marks)
            case "columns":
                return bool(self._column_widths)
            case "open":
                row = self._rows[self.cursor] if self._rows else None
                return row is not None and not isinstance(row, HeaderRow | NeedRow)
            case _:
                return super().check_action(action, parameters)

    def action_next_hunk(self, step: int) -> None:
        """Goes to the header of the next or previous hunk."""
        self._go_to_next(HeaderRow, step)

    def action_next_note(self, step: int) -> None:
        """Goes to the next or previous compiler error or finding; unfolds what hides it."""
        for line in self._letters:
            self._layout.unfold_line(line)
        self._rebuild()
        self._go_to_next(NoteRow, step)

    def action_toggle_hunk(self) -> None:
        """Accepts or refuses the line at the cursor, or on a header its hunk."""
        row = self._rows[self.cursor] if self.cursor < len(self._rows) else None
        changes = self._changes_on(row) if isinstance(row, CodeRow) else frozenset()
        hunk = self._hunk_at_cursor()
        if changes and self.view.choosable:
            self._choose_lines(hunk, changes)
        elif hunk >= 0 and self.view.choosable:
            self._choose_hunk(hunk)

    def _choose_hunk(self, hunk: int) -> None:
        """Accepts a hunk with those that it needs, or refuses it with those that need it."""
        rest = frozenset(c for c in self.left_out if c.hunk != hunk)
        if hunk in self.accepted and rest == self.left_out:
            left = self.accepted - {hunk}
            kept = frozenset(h for h in left if with_needed([h], self.needs) <= left)
            self._choose(kept, rest)
        else:
            self._choose(self.accepted | with_needed([hunk], self.needs), rest)

    def _choose_lines(self, hunk: int, changes: frozenset[LineChange]) -> None:
        """Accepts or refuses lines; a hunk of which nothing is left is refused."""
        own = frozenset(c for c in self._line_changes() if c.hunk == hunk)
        left_out = self.left_out if hunk in self.accepted else self.left_out | own
        left_out = left_out - changes if changes <= left_out else left_out | changes
        if own <= left_out:
            self._choose(self.accepted - {hunk}, left_out - own)
        else:
            self._choose(self.accepted | {hunk}, left_out)

    def _changes_on(self, row: CodeRow) -> frozenset[LineChange]:
        """What a row shows of the changes; nothing of a text that is too long to look for them."""
        if not row.changed or not is_quick(self.view.old, self.view.new):
            return frozenset()
        return frozenset(
            c
            for c in self._line_changes()
            if (c.old >= 0 and c.old == row.old) or (c.new >= 0 and c.new == row.new)
        )

    def _line_changes(self) -> tuple[LineChange, ...]:
        if self._changes is None:
            self._changes = line_changes(self.view.old, self.view.new)
        return self._changes

    @property
    def left_out_numbers(self) -> tuple[int, ...]:
        """The refused lines of accepted hunks, as an answer names them."""
        if not self.left_out:
            return ()
        return tuple(n for n, c in enumerate(self._line_changes()) if c in self.left_out)

    def action_toggle_all(self) -> None:
        """Accepts all hunks, or refuses all where all are accepted."""
        everything = frozenset(range(self.hunk_count))
        if everything and self.view.choosable:
            is_all = self.accepted == everything and not self.left_out
            self._choose(frozenset() if is_all else everything)

    def action_open(self) -> None:
        """Unfolds the fold at the cursor, or opens the line in the source."""
        row = self._rows[self.cursor] if self._rows else None
        if isinstance(row, FoldRow):
            self._layout.unfold(row.gap)
            self._rebuild()
        elif isinstance(row, CodeRow) and row.new >= 0:
            self.post_message(self.LineOpened(row.new + 1))
        elif isinstance(row, NoteRow):
            self.post_message(self.LineOpened(self.view.marks[row.mark].line))

    def action_expand(self) -> None:
        """Shows more lines around the hunk at the cursor."""
        for gap in self._gaps_near_cursor():
            self._layout.unfold(gap, EXPAND)
        self._rebuild()

    def action_fold(self) -> None:
        """Hides the unchanged lines around the hunk at the cursor again."""
        for gap in self._gaps_near_cursor():
            self._layout.fold(gap)
        self._rebuild()

    def action_side_by_side(self) -> None:
        """Changes between one column and two."""
        self.side_by_side = not self.side_by_side
        self.scroll_to(x=0, animate=False)
        self._rebuild()

    def action_columns(self) -> None:
        """Shows or hides the columns of values."""
        self.columns_wanted = not self.columns_shown
        self._rebuild()

    def row_clicked(self, row: int, x: int) -> None:
        """A click on the box of a hunk toggles it; one on a fold opens it."""
        at = self._rows[row]
        if isinstance(at, HeaderRow) and x < _BOX:
            if self.view.choosable:
                self._choose_hunk(at.hunk)
        elif isinstance(at, FoldRow):
            self.action_open()

    def text_at_cursor(self) -> str:
        """The new lines of a hunk, or the line."""
        row = self._rows[self.cursor] if self._rows else None
        if isinstance(row, HeaderRow):
            hunk = self._layout.alignment.hunks[row.hunk]
            lines = range(hunk.new_start, hunk.new_end)
            return "".join(self._texts[NEW].raw(line) + "\n" for line in lines)
        if isinstance(row, CodeRow):
            side = NEW if row.new >= 0 else OLD
            return self._texts[side].raw((row.old, row.new)[side])
        if isinstance(row, NoteRow):
            return self.view.marks[row.mark].text
        return ""

    def _choose(
        self, accepted: frozenset[int], left_out: frozenset[LineChange] = frozenset()
    ) -> None:
        changed = tuple(sorted(self.accepted ^ accepted))
        self.accepted = accepted
        self.left_out = frozenset(c for c in left_out if c.hunk in accepted)
        self._choices[self.view.old, self.view.new] = accepted, self.left_out
        self.repaint()
        self.post_message(self.Toggled(changed, accepted))
        self.post_message(self.Changed())

    def _go_to_next(self, kind: type[Row], step: int) -> None:
        """To the nearest row of a kind in a direction, around the end."""
        places = [i for i, row in enumerate(self._rows) if isinstance(row, kind)]
        if kind is NoteRow:
            places = [i for i in places if getattr(self._rows[i], "first", False)]
        if not places:
            return
        if step > 0:
            self.cursor = next((i for i in places if i > self.cursor), places[0])
        else:
            self.cursor = next((i for i in reversed(places) if i < self.cursor), places[-1])
        self.show_row(self.cursor, self.view_height // 3)

    def _hunk_at_cursor(self) -> int:
        row = self._rows[self.cursor] if self.cursor < len(self._rows) else None
        if isinstance(row, NoteRow):
            above = (r for r in reversed(self._rows[: self.cursor]) if isinstance(r, CodeRow))
            row = next(above, None)
        return row.hunk if isinstance(row, HeaderRow | NeedRow | CodeRow) else -1

    def _gaps_near_cursor(self) -> list[int]:
        if not self._rows:
            return []
        gap = self._layout.gap_of(self._rows[self.cursor])
        if gap is not None:
            return [gap]
        hunk = self._hunk_at_cursor()
        return [hunk, hunk + 1] if hunk >= 0 else []

    # Search

    def find(self, query: str) -> list[Match]:
        """All places in removed, added and unchanged lines, from top to bottom."""
        found = []
        for row in self._layout.whole():
            side = OLD if row.new < 0 else NEW
            line = (row.old, row.new)[side]
            for place in occurrences(query, self._texts[side].raw(line)):
                found.append(Match(side, line, place))
        return found

    def reveal(self, match: Match) -> int:
        """The row of a match; the fold over it is opened."""
        shown = self._texts[match.document].visible(match.line)
        document = self._texts[match.document]
        part = shown.column(match.range[0]) // document.part_of(match.line, self.wrap_room)
        old, new = (match.line, -1) if match.document == OLD else (-1, match.line)
        if match.document == NEW:
            self._layout.unfold_line(match.line)
            self._rebuild()
        return self._row_like(CodeRow(old, new, part=part))


def _stand_for_same(row: Row, other: Row) -> bool:
    match row, other:
        case CodeRow(), CodeRow():
            same_new = row.new == other.new and row.new >= 0
            return row.part == other.part and (same_new or (row.old == other.old and row.old >= 0))
        case NoteRow(), NoteRow():
            return (row.mark, row.first) == (other.mark, other.first)
        case FoldRow(), FoldRow():
            return row.gap == other.gap and row.first <= other.first < row.first + row.hidden
        case _:
            return row == other
