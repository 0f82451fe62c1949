"""The diff pane: what a proposal changes, hunk by hunk.

    pane = DiffPane(id="diff")
    pane.show(DiffView(old, new, old_name="baseline", new_name="round 3", choosable=True))
    pane.accepted_hunks        # for Answer.hunks: None when all are accepted
    pane.show(None)            # nothing to show

Showing the same texts again, with other marks or columns, keeps the cursor, the folds and the
choice; a choice is also kept while another diff is shown. `choosable` is set while the diff is
being decided; then `DiffPane.HunkToggled` tells each choice. A long comparison takes a moment: no
answer is to be taken before `pane.is_ready`. `DiffPane.LineOpened` asks for a line of the new text
in the source pane.

Keys are bindings with ids (`diff.*`, `code.*`), so that the key map of the settings reaches them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import msgspec
from msgspec.structs import replace
from textual import on, work
from textual.message import Message

from astra_tui.model.compilation import Diagnostic
from astra_tui.model.hunks import shown_lines, unified_diff
from astra_tui.model.visible import visible_inline
from astra_tui.present.numbers import pluralised
from astra_tui.tui.widgets.code.annotations import count_marks
from astra_tui.tui.widgets.code.code_pane import CodePane
from astra_tui.tui.widgets.diff.alignment import (
    Alignment,
    align,
    is_quick,
)
from astra_tui.tui.widgets.diff.alignment_process import align_in_process
from astra_tui.tui.widgets.diff.lines import DiffLines
from astra_tui.tui.widgets.diff.rows import DiffView


class DiffPane(CodePane):
    """Shows a `DiffView`; long comparisons are made in another process."""

    TITLE: ClassVar[str] = "Diff"
    HELP: ClassVar[str] = """\
J and K go from hunk to hunk. space on a header accepts or refuses the hunk, on a changed line \
that line, * all of them. A hunk that needs another one, as a launch its kernel, says so, and is \
refused and accepted with it.
enter opens a fold, or shows the line in the source; + and - show more or less around a hunk.
s changes between one column and two. c shows or hides the counters next to the lines, which \
are shown at first where they leave enough room for the code.
m and M go to the next and the previous compiler error or finding.
/ searches, ; and ' go to the next and the previous match. y copies the
diff, Y the line, or the new lines of a hunk.
The arrow keys move the cursor and scroll sideways.
"""

    class HunkToggled(Message):
        """The engineer accepted or refused `hunks`; `accepted` holds all that are accepted now."""

        def __init__(self, pane: DiffPane, hunks: tuple[int, ...], accepted: frozenset[int]):
            super().__init__()
            self.pane = pane
            self.hunks = hunks
            self.accepted = accepted

        @property
        def control(self) -> DiffPane:
            """The pane."""
            return self.pane

    class LineOpened(Message):
        """A line of the new text, counted from 1, is to be shown in the source."""

        def __init__(self, pane: DiffPane, line: int):
            super().__init__()
            self.pane = pane
            self.line = line

        @property
        def control(self) -> DiffPane:
            """The pane."""
            return self.pane

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's word
        self.lines = DiffLines()
        super().__init__(self.lines, id=id)
        self._view: DiffView | None = None
        self._aligned: DiffView | None = None
        self._failure = ""

    def show(self, view: DiffView | None) -> None:
        """Shows a diff, or nothing."""
        if view is not None and view == self._view:
            return
        before, self._view = self._view, view
        if not self.is_mounted:
            return
        if view is None or not view.same_texts(before):
            self.draw_view()
        elif view.same_texts(self._aligned):
            self.lines.update_view(view)
        self.update_title()

    def draw_view(self) -> None:
        """Draws the diff from its first hunk; a long comparison is begun."""
        view, self._aligned, self._failure = self._view, None, ""
        self.workers.cancel_group(self, "compare")
        if view is not None and is_quick(view.old, view.new):
            self._draw(view, align(view.old, view.new))
            return
        self.lines.show(DiffView("", ""), Alignment((), ()))
        if view is not None:
            self._compare(view)

    @property
    def view(self) -> DiffView | None:
        """What is shown."""
        return self._view

    @property
    def text(self) -> str:
        """The diff as `diff -u` writes it."""
        view = self._view
        return unified_diff(view.old, view.new, view.old_name, view.new_name) if view else ""

    @property
    def is_ready(self) -> bool:
        """Whether the diff is on the screen: long comparisons take a moment."""
        return self._view is None or self._view.same_texts(self._aligned)

    @property
    def accepted_hunks(self) -> tuple[int, ...] | None:
        """The accepted hunks from 0, as an answer names them; None when all are accepted."""
        accepted = self.lines.accepted
        return None if len(accepted) == self.lines.hunk_count else tuple(sorted(accepted))

    @property
    def left_out(self) -> tuple[int, ...]:
        """The lines of accepted hunks that are refused, as an answer names them."""
        return self.lines.left_out_numbers

    def at_shown_lines(self, errors: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
        """Errors in what is chosen, at the lines of the diff where these stand."""
        view = self._view
        if view is None:
            return ()
        accepted = self.lines.accepted
        places = shown_lines(view.old, view.new, accepted, self.left_out)
        return tuple(
            replace(error, line=places[error.line - 1] + 1)
            for error in errors
            if 0 < error.line <= len(places)
        )

    def title(self) -> str:
        """Names, hunks, lines and marks."""
        view, lines = self._view, self.lines
        if view is None:
            return "No diff"
        names = f"{visible_inline(view.old_name, 40)} → {visible_inline(view.new_name, 40)}"
        if self._failure:
            return f"{names} · cannot be compared: {visible_inline(self._failure)}"
        if not self.is_ready:
            return f"{names} · comparing"
        if not lines.hunk_count:
            return f"{names} · no changes"
        added, removed = lines.line_counts
        hunks = pluralised(lines.hunk_count, "hunk")
        if len(lines.accepted) < lines.hunk_count:
            hunks = f"{len(lines.accepted)} of {hunks} accepted"
        if lines.left_out:
            hunks += f" without {pluralised(len(lines.left_out), 'line')}"
        parts = [names, hunks, f"+{added} −{removed}"]
        if view.marks:
            parts.append(count_marks(view.marks))
        return " · ".join(parts)

    def column_titles(self) -> str:
        """The titles of the counters."""
        return self.lines.column_titles()

    def _draw(self, view: DiffView, alignment: Alignment) -> None:
        self._aligned = view
        self.lines.show(view, alignment)

    @work(exclusive=True, exit_on_error=False, group="compare")
    async def _compare(self, view: DiffView) -> None:
        """Aligns elsewhere, then shows what is wanted by then."""
        try:
            alignment = await align_in_process(view.old, view.new)
        except (OSError, RuntimeError, msgspec.DecodeError) as error:
            self._failure = str(error)
            self.update_title()
            return
        if self._view is not None and view.same_texts(self._view):
            self._draw(self._view, alignment)
            self.update_title()

    @on(DiffLines.Toggled)
    def _toggled(self, event: DiffLines.Toggled) -> None:
        event.stop()
        self.post_message(self.HunkToggled(self, event.hunks, event.accepted))

    @on(DiffLines.LineOpened)
    def _line_opened(self, event: DiffLines.LineOpened) -> None:
        event.stop()
        self.post_message(self.LineOpened(self, event.line))
