"""The lines of a source on the screen, with columns of values, notes and a cursor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import ClassVar

import msgspec
from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip

from astra_tui.model.visible import visible_inline
from astra_tui.tui.text.document import PART, Document, document_of
from astra_tui.tui.widgets.code.annotations import (
    LineColumn,
    MarkKind,
    NoteRow,
    column_segments,
    column_titles,
    column_widths,
    most_severe,
    notes_of,
)
from astra_tui.tui.widgets.code.painting import code_strip, fit
from astra_tui.tui.widgets.code.view import CodeView, Match, occurrences
from astra_tui.tui.widgets.source.sass import Sass, SourceView


class LineRow(msgspec.Struct, frozen=True):
    """A line, counted from 0; `part` counts the rows of an overlong one."""

    line: int
    part: int = 0


class SassRow(msgspec.Struct, frozen=True):
    """An instruction of a line, which is counted from 0."""

    line: int
    text: str


Row = LineRow | NoteRow | SassRow


class ColumnsChoice(StrEnum):
    """What stands next to the lines."""

    COUNTERS = "counters"
    SASS = "sass"
    NOTHING = "nothing"


class SourceLines(CodeView):
    """Draws a `SourceView`; the source pane holds it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("m", "next_note(1)", "Next mark", id="source.next_note"),
        Binding("M", "next_note(-1)", "Previous mark", show=False, id="source.previous_note"),
        Binding("c", "columns", "Columns", id="source.columns"),
        Binding("i", "sass", "SASS", id="source.sass"),
        Binding("I", "listing", "All SASS", id="source.listing"),
        Binding("Y", "copy_line", "Copy the line", show=False, id="source.copy"),
    ]

    class ListingAsked(Message):
        """Someone wants to read all of the machine code."""

        def __init__(self, sass: Sass, line: int):
            super().__init__()
            self.sass, self.line = sass, line

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's word
        super().__init__(id=id)
        self.view = SourceView("")
        self.shown_columns = ColumnsChoice.COUNTERS
        self._sass: Sass | None = None
        self._unfolded: set[int] = set()
        self._document = document_of("")
        self._rows: list[Row] = []
        self._first_rows: list[int] = []
        self._column_widths: list[int] = []
        self._letters: dict[int, MarkKind] = {}

    def show(self, view: SourceView) -> None:
        """Shows a source; the cursor stays on its line where the text is the same."""
        same = view.text == self.view.text
        line = self.line if same else 1
        below = self.cursor - self._row_of(line) if same else 0
        if view.sass is not self.view.sass:
            self._sass = None
        self.view = view
        self._column_widths = column_widths(self.columns)
        if not same:
            self._unfolded.clear()
            self._document = document_of(view.text)
            self.forget_search()
            self.scroll_to(0, 0, animate=False, force=True)
        self._letters = most_severe(view.marks, len(self._document))
        self._build()
        self.set_reactive(CodeView.cursor, self._row_of(line) + max(0, below))
        self.rows_changed()

    @property
    def columns(self) -> tuple[LineColumn, ...]:
        """What stands next to the lines now."""
        if self.shown_columns is ColumnsChoice.COUNTERS:
            return self.view.columns
        return self.sass.columns if self.shown_columns is ColumnsChoice.SASS else ()

    @property
    def sass(self) -> Sass:
        """The machine code, which is read when it is first looked at."""
        if self._sass is None:
            self._sass = self.view.sass() if self.view.sass else Sass()
        return self._sass

    @property
    def line(self) -> int:
        """The line at the cursor, from 1."""
        row = self._rows[self.cursor] if self.cursor < len(self._rows) else None
        if isinstance(row, NoteRow):
            return self.view.marks[row.mark].line
        return row.line + 1 if row else 1

    def go_to_line(self, line: int) -> None:
        """Puts the cursor on a line, counted from 1; beyond the end, on the last one."""
        self.cursor = self._row_of(line)
        self.show_row(self.cursor, self.view_height // 3)

    @property
    def row_count(self) -> int:
        """Rows, with notes."""
        return len(self._rows)

    @property
    def documents(self) -> Sequence[Document]:
        """The source."""
        return (self._document,)

    def resized(self) -> None:
        """Notes are wrapped for the width."""
        super().resized()
        self.show(self.view)

    def _build(self) -> None:
        count = len(self._document)
        notes = notes_of(self.view.marks, count, self.view_width - self._gutter_width() - 3)
        self._rows, self._first_rows = [], []
        for line in range(count):
            self._first_rows.append(len(self._rows))
            self._rows += (LineRow(line, part) for part in range(self._document.parts(line)))
            self._rows += notes.get(line, ())
            if line in self._unfolded:
                self._rows += (SassRow(line, text) for text in self._sass_rows(line))

    def _sass_rows(self, line: int) -> tuple[str, ...]:
        problem = self.sass.problem
        said = f"no SASS: {problem}" if problem else "no instruction of its own"
        return self.sass.rows.get(line + 1, (said,))

    def _row_of(self, line: int, part: int = 0) -> int:
        if not self._first_rows:
            return 0
        return self._first_rows[min(max(line, 1), len(self._first_rows)) - 1] + part

    # Drawing

    def text_room(self) -> int:
        """Cells that a line of code has on the screen."""
        return max(0, self.view_width - 1 - self._gutter_width())

    def draw_row(self, index: int, at_cursor: bool) -> Strip:
        """One row."""
        row = self._rows[index]
        cursor = Strip([self.cursor_mark(at_cursor)])
        if isinstance(row, NoteRow):
            style = self.style_of(f"pane--{self.view.marks[row.mark].kind.value}")
            indent = " " * (self._gutter_width() - 2) + ("└ " if row.first else "  ")
            return Strip.join([cursor, Strip([Segment(indent + row.text, style)])])
        if isinstance(row, SassRow):
            return Strip.join([cursor, self._sass_strip(row)])
        self.await_colours(0, row.line)
        layers = self.match_layers(0, row.line)
        code = code_strip(self._document, row.line, row.part, self.style_of, Style.null(), layers)
        body = fit(code, self.scroll_offset.x, self.text_room(), Style.null())
        return Strip.join([cursor, Strip(self._gutter(row)), body])

    def _sass_strip(self, row: SassRow) -> Strip:
        text = " " * self._gutter_width() + "│ " + visible_inline(row.text, PART)
        strip = Strip([Segment(text, self.style_of("pane--column"))])
        return fit(strip, self.scroll_offset.x, max(0, self.view_width - 1), Style.null())

    def column_titles(self) -> str:
        """What stands above the columns, or nothing where none are shown."""
        if self.shown_columns is ColumnsChoice.SASS and self.sass.problem:
            return f"No SASS: {visible_inline(self.sass.problem)}"
        if not self._column_widths:
            return ""
        before = " " * (3 + self._number_width())
        return before + column_titles(self.columns, self._column_widths)

    def _gutter(self, row: LineRow) -> Iterator[Segment]:
        gutter = self.style_of("pane--gutter")
        kind = self._letters.get(row.line)
        style = self.style_of(f"pane--{kind.value}") if kind else gutter
        yield Segment(kind.letter if kind else " ", style)
        number = "↪" if row.part else f"{row.line + 1}"
        yield Segment(f"{number:>{self._number_width()}} ", gutter)
        line = 0 if row.part else row.line + 1
        style = self.style_of("pane--column")
        yield from column_segments(self.columns, self._column_widths, line, style)

    def _gutter_width(self) -> int:
        return 2 + self._number_width() + sum(w + 1 for w in self._column_widths)

    def _number_width(self) -> int:
        return max(3, len(str(len(self._document))))

    # Keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Which keys apply now; the footer shows these."""
        if action == "next_note":
            return bool(self.view.marks)
        if action == "columns":
            return len(self._choices()) > 1
        if action == "sass":
            return self.view.sass is not None
        if action == "listing":
            known_to_lack = self._sass is not None and bool(self._sass.problem)
            return self.view.sass is not None and not known_to_lack
        return super().check_action(action, parameters)

    def action_next_note(self, step: int) -> None:
        """Goes to the next or previous compiler error or finding, around the end."""
        notes = [i for i, r in enumerate(self._rows) if isinstance(r, NoteRow) and r.first]
        if notes and step > 0:
            self.cursor = next((i for i in notes if i > self.cursor), notes[0])
        elif notes:
            self.cursor = next((i for i in reversed(notes) if i < self.cursor), notes[-1])
        self.show_row(self.cursor, self.view_height // 3)

    def action_columns(self) -> None:
        """Shows the next columns: counters, machine code, none."""
        choices = self._choices()
        place = choices.index(self.shown_columns) if self.shown_columns in choices else -1
        self.shown_columns = choices[(place + 1) % len(choices)]
        self.show(self.view)
        self.post_message(self.Changed())

    def _choices(self) -> list[ColumnsChoice]:
        known = {
            ColumnsChoice.COUNTERS: bool(self.view.columns),
            ColumnsChoice.SASS: self.view.sass is not None,
        }
        return [choice for choice in ColumnsChoice if known.get(choice, True)]

    def action_sass(self) -> None:
        """Unfolds the instructions of the line at the cursor, or folds them."""
        line = self.line
        self._unfolded ^= {line - 1}
        self.show(self.view)
        self.go_to_line(line)

    def action_listing(self) -> None:
        """Asks for the whole listing, at the first instruction of the line at the cursor."""
        if self.sass.problem:
            self.action_sass()
        else:
            self.post_message(self.ListingAsked(self.sass, self.line))

    def text_at_cursor(self) -> str:
        """The line, or the message."""
        row = self._rows[self.cursor] if self._rows else None
        if isinstance(row, NoteRow):
            return self.view.marks[row.mark].text
        if isinstance(row, SassRow):
            return row.text
        return self._document.raw(row.line) if row else ""

    # Search

    def find(self, query: str) -> list[Match]:
        """All places, from top to bottom."""
        return [
            Match(0, line, place)
            for line in range(len(self._document))
            for place in occurrences(query, self._document.raw(line))
        ]

    def reveal(self, match: Match) -> int:
        """The row of a match."""
        shown = self._document.visible(match.line)
        return self._row_of(match.line + 1, shown.column(match.range[0]) // PART)

    def first_match(self) -> int:
        """The first match at or below the cursor."""
        line = self.line - 1
        return next((i for i, m in enumerate(self.matches) if m.line >= line), 0)
