"""The source pane: one source in full, with counters or instructions next to its lines.

    pane = SourcePane(id="source")
    sectors = LineColumn("sectors", {7: "32"})
    pane.show(SourceView(text, name="round 3", marks=marks, columns=(sectors,)))
    pane.go_to_line(7)
    pane.show(None)

Showing the same text again, with other marks or columns, keeps the place. Keys are bindings with
ids (`source.*`, `code.*`), so that the key map of the settings reaches them.
"""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType

from astra_tui.model.visible import visible_inline
from astra_tui.present.numbers import pluralised
from astra_tui.tui.widgets.code.annotations import count_marks
from astra_tui.tui.widgets.code.code_pane import CodePane
from astra_tui.tui.widgets.prompt_line import whole_number
from astra_tui.tui.widgets.source.lines import ColumnsChoice, SourceLines
from astra_tui.tui.widgets.source.sass import SourceView


class SourcePane(CodePane):
    """Shows a `SourceView`."""

    TITLE: ClassVar[str] = "Source"
    HELP: ClassVar[str] = """\
: goes to a line, m and M to the next and the previous compiler error or finding.
/ searches, ; and ' go to the next and the previous match. y copies the
source, Y the line.
c goes from the emulator's counters to the machine code (SASS) of each line, and to no columns.
Of those instructions "looped" are in a loop, "memory" access memory, and "float" are arithmetic.
i unfolds the instructions of a line below it, I opens all of them in the order of addresses.
The arrow keys move the cursor and scroll sideways.
"""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("colon", "ask_line", "Go to line", id="source.go_to_line"),
    ]

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's word
        self.lines = SourceLines()
        super().__init__(self.lines, id=id)
        self._view: SourceView | None = None

    def show(self, view: SourceView | None) -> None:
        """Shows a source, or nothing."""
        if view is not None and view == self._view:
            return
        self._view = view
        if self.is_mounted:
            self.draw_view()
            self.update_title()

    def draw_view(self) -> None:
        """Draws the source."""
        self.lines.show(self._view or SourceView(""))

    @property
    def text(self) -> str:
        """The source, as it is."""
        return self._view.text if self._view else ""

    @property
    def view(self) -> SourceView | None:
        """What is shown."""
        return self._view

    def go_to_line(self, line: int) -> None:
        """Puts the cursor on a line, counted from 1."""
        self.lines.go_to_line(line)

    def title(self) -> str:
        """Name, lines and marks."""
        if self._view is None:
            return "No source"
        parts = [
            visible_inline(self._view.name, 60),
            pluralised(len(self.lines.documents[0]), "line"),
        ]
        if self._view.marks:
            parts.append(count_marks(self._view.marks))
        if self.lines.shown_columns is ColumnsChoice.SASS:
            parts.append(self.lines.sass.words)
        return " · ".join(part for part in parts if part)

    def column_titles(self) -> str:
        """The titles of the columns."""
        return self.lines.column_titles()

    def action_ask_line(self) -> None:
        """Opens the field for a line number."""
        self.ask("Line", self._line_given)

    def _line_given(self, text: str) -> None:
        line = whole_number(text)
        if line is not None:
            self.go_to_line(line)
