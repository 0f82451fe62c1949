"""Diff: what the chosen candidate changes, and which hunks of it are accepted."""

from __future__ import annotations

from collections.abc import Callable

from astra_tui.model.approval import Gate
from astra_tui.model.errors import UserError
from astra_tui.model.hunks import unified_diff
from astra_tui.tui.page import Page, Span, Tone, span
from astra_tui.tui.view import View
from astra_tui.tui.widgets.pane import Pane
from astra_tui.tui.words import short


class DiffPane(Pane):
    """The diff from the base of the round to the candidate."""

    TITLE = "Diff"
    HELP = "What the chosen candidate changes in the source that its round began with."

    def __init__(self, read: Callable[[str], str], *, id: str | None = None):  # noqa: A002
        super().__init__(id=id)
        self._read = read

    @property
    def hunks(self) -> tuple[int, ...] | None:
        """The accepted hunks, from 0; None where none is refused."""
        return None

    def part(self, view: View) -> tuple[object, ...]:
        """The two sources."""
        return _sources(view)

    def draw(self, view: View, page: Page) -> None:
        """A unified diff."""
        old, new = _sources(view)
        if not new:
            page.paragraph("There is no code yet.", Tone.DIM)
            return
        try:
            text = unified_diff(self._read(old) if old else "", self._read(new), old, new)
        except UserError as error:
            page.paragraph(error.describe(), Tone.BAD)
            return
        page.line(Span(short(old)), Span(" -> "), Span(short(new)))
        for line in text.splitlines()[2:]:
            tone = {"+": Tone.GOOD, "-": Tone.CAUTION, "@": Tone.ACCENT}.get(line[:1], Tone.PLAIN)
            page.lines.append((span(line, tone),))


def _sources(view: View) -> tuple[str, str]:
    """The hashes of the old and the new source; a question is about exactly these."""
    asked = view.awaiting
    if asked and asked.gate is Gate.DIFF and view.choice == (asked.round, asked.proposal):
        return asked.base, asked.subject
    candidate = view.candidate
    base = view.base
    return (base.hash if base else "", candidate.hash if candidate else "")
