"""A draft of a kernel task: what it leaves open, each point with its line, and its answers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import Screen

from astra_tui.model.drafts import Guess, OpenPoint
from astra_tui.model.errors import UserError
from astra_tui.model.visible import visible_inline
from astra_tui.present.layout import Span
from astra_tui.present.tones import Tone
from astra_tui.tui.app_base import AppBase
from astra_tui.tui.app_io import Drafting
from astra_tui.tui.screens.form import Field, FormScreen
from astra_tui.tui.text_layout import Page, padded, span
from astra_tui.tui.widgets.bars import BarLine, KeyLine
from astra_tui.tui.widgets.line_view import LinesView, RowsView

_MARK = 11
"""Columns for what is said of a point before its text."""


class _Row(NamedTuple):
    """A row of the list: an open point, or an answer."""

    text: str
    mark: str
    tone: Tone
    point: OpenPoint


class PointList(RowsView):
    """What a draft leaves open, then what is answered."""

    TITLE = "Open points"
    HELP = (
        "What astra-tui new could not read for certain. Enter answers a point; a takes it as it "
        "is drafted. Every answer drafts the task again and is kept in its answers.toml at once, "
        "so that leaving loses nothing: astra-tui new FOLDER --ask continues. Answers stand below "
        "the points; Enter changes one, and an emptied field takes it back. w compiles the draft."
    )


class DraftScreen(Screen[None], inherit_bindings=False):
    """Asks for what a draft leaves open."""

    app: AppBase

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "accept", "As drafted", id="draft.accept"),
        Binding("w", "compile", "Compile", id="draft.compile"),
        Binding("escape", "back", "Back", show=False, id="draft.back"),
    ]

    DEFAULT_CSS = """
    DraftScreen PointList { height: 1fr; padding: 0 1; }
    DraftScreen #question { height: auto; max-height: 12; padding: 0 1; }
    DraftScreen #source { height: 2fr; padding: 0 1; border-top: solid $surface-lighten-2; }
    """

    def __init__(self, drafting: Drafting):
        super().__init__()
        self._drafting = drafting
        self._rows: list[_Row] = []
        self._said = ""
        """What a compiler said of the draft."""

    def compose(self) -> ComposeResult:
        """The points, the chosen one in full, and the source at its line."""
        yield BarLine(id="head")
        with Vertical():
            yield PointList(id="points")
            yield LinesView(id="question")
            yield LinesView(id="source")
        yield KeyLine(id="keys")

    def on_mount(self) -> None:
        """Begins at the first point."""
        self.query_one(PointList).focus()
        self.call_after_refresh(self._show)

    def on_resize(self, _event: events.Resize) -> None:
        """For another width."""
        self.call_after_refresh(self._show)

    # -- drawing ---------------------------------------------------------------------------------

    def _show(self) -> None:
        """Lists what is open and what is answered now."""
        open_points = self._drafting.points
        self._rows = [
            _Row(p.text, "open" if p.key else "note", Tone.CAUTION if p.key else Tone.DIM, p)
            for p in sorted(open_points, key=lambda p: not p.key)
        ]
        for key, value in self._drafting.answered.items():
            answer = OpenPoint(key, key, guesses=(Guess(key, value),))
            self._rows.append(_Row(f"{key} = {value}", "answered", Tone.GOOD, answer))
        rows = self.query_one(PointList)
        page = Page(rows.page_width)
        for row in self._rows:
            page.line(Span(padded(row.mark, _MARK), row.tone), span(row.text))
        rows.set_lines(page.lines)
        rows.set_cursor(min(rows.cursor, max(len(self._rows) - 1, 0)))
        waiting = sum(1 for p in open_points if p.key)
        answered = len(self._drafting.answered)
        head = f" {self._drafting.folder.name}: {waiting} open, {answered} answered"
        self.query_one("#head", BarLine).set_line(
            (Span(" draft ", Tone.TITLE), span(head), Span(f"  {self._said}", Tone.DIM))
        )
        self._show_point()

    def _show_point(self) -> None:
        """Shows the chosen point in full, and its line."""
        row = self._chosen
        if row is None:
            return
        view = self.query_one("#question", LinesView)
        page = Page(view.page_width)
        page.blank()
        page.paragraph(row.text)
        for guess in row.point.guesses:
            page.field(guess.key, guess.value or "-", column=min(len(guess.key) + 2, 30))
            if guess.choices:
                page.field("", f"one of {', '.join(guess.choices)}", Tone.DIM, column=4)
        view.set_lines(page.lines)
        view.styles.height = min(len(page.lines), 12)
        self._show_source(row.point.line)
        self.refresh_bindings()

    def _show_source(self, line: int) -> None:
        view = self.query_one("#source", LinesView)
        name, text = self._drafting.source
        view.border_title = visible_inline(f"{name}:{line}" if line else name)
        page = Page(view.page_width)
        for number, code in enumerate(text.split("\n"), 1):
            tone = Tone.ACCENT if number == line else Tone.PLAIN
            page.line(Span(f"{number:5}  ", Tone.DIM), span(code, tone))
        view.set_lines(page.lines)
        if line:
            view.call_after_refresh(
                view.scroll_to, y=max(0, line - 1 - view.size.height // 2), animate=False
            )

    # -- actions ---------------------------------------------------------------------------------

    @property
    def _chosen(self) -> _Row | None:
        cursor = self.query_one(PointList).cursor
        return self._rows[cursor] if cursor < len(self._rows) else None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only a guess that is there can be taken."""
        if action == "accept":
            row = self._chosen if self.is_mounted else None
            return row is not None and row.mark == "open" and any(_given(row.point))
        return super().check_action(action, parameters)

    @on(RowsView.Moved)
    def _moved(self) -> None:
        self._show_point()

    @on(RowsView.Opened)
    def _answer(self) -> None:
        """Asks for the values of the chosen point."""
        row = self._chosen
        if row is None or not row.point.key:
            return
        keys = {f"value_{number}": g for number, g in enumerate(row.point.guesses)}
        fields = tuple(
            Field(name, guess.key.rpartition(".")[2], guess.value, guess.choices)
            for name, guess in keys.items()
        )
        answered = self._drafting.answered

        def given(values: Mapping[str, str]) -> dict[str, str]:
            texts = {keys[name].key: value.strip() for name, value in values.items()}
            return {key: text for key, text in texts.items() if text or key in answered}

        async def send(values: Mapping[str, str]) -> None:
            await asyncio.to_thread(self._drafting.answer, given(values))

        note = f"{row.text}. Values are as in TOML, texts without quotes."
        form = FormScreen(row.point.key, fields, lambda _: None, send=send, note=note)
        self.app.push_screen(form, lambda values: None if values is None else self._taken())

    def action_accept(self) -> None:
        """Takes the chosen point as it is drafted."""
        row = self._chosen
        if row is not None and (given := _given(row.point)):
            self.run_worker(self._take(given), group="draft", exclusive=True)

    async def _take(self, given: Mapping[str, str]) -> None:
        try:
            await asyncio.to_thread(self._drafting.answer, given)
        except UserError as error:
            self.app.report(error)
        self._taken()

    def _taken(self) -> None:
        self._said = ""
        self._show()

    def action_compile(self) -> None:
        """Fits the draft to what a compiler accepts, and compiles it."""
        self._said = "compiling ..."
        self._show()
        self.run_worker(self._compile(), group="draft", exclusive=True)

    async def _compile(self) -> None:
        from astra_tui.tui.screens.dialogs import TextDialog

        try:
            problems = await asyncio.to_thread(self._drafting.finish)
        except UserError as error:
            self._said = ""
            self.app.report(error)
            return
        self._said = f"{len(problems)} problems" if problems else "it loads and compiles"
        self._show()
        if problems:
            self.app.push_screen(TextDialog("The draft does not work yet", "\n".join(problems)))

    def action_back(self) -> None:
        """Leaves the draft, with all answers, in its folder."""
        self.app.action_leave()


def _given(point: OpenPoint) -> dict[str, str]:
    """The guesses of a point that hold a value, as answers."""
    return {guess.key: guess.value for guess in point.guesses if guess.value}
