"""An editor for code inside the app, for where $EDITOR cannot run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen
from textual.widgets import TextArea

from astra_tui.present.tones import Tone
from astra_tui.tui.screens.form import NOT_TAKEN
from astra_tui.tui.text_layout import Line, Span, span
from astra_tui.tui.widgets.bars import BarLine, KeyLine
from astra_tui.tui.widgets.code.annotations import LineMark


class CodeArea(TextArea):
    """A text area; what is typed into it is no answer to a question."""

    takes_text = True


class CodeEditor(ModalScreen[str]):
    """Edits a source; `ctrl+s` or F2 takes it. Esc drops it, a second one where it was changed.

    It opens at the first of the `errors` that a compiler found in the text, and says it.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s,f2", "submit", "Take it", priority=True),
        Binding("escape", "cancel", "Back, drop it", priority=True),
    ]
    DEFAULT_CSS = """
    CodeEditor CodeArea { border: none; height: 1fr; }
    """

    def __init__(self, title: str, text: str, errors: Sequence[LineMark] = ()):
        super().__init__()
        self._error = errors[0] if errors else None
        said = f": line {self._error.line}: {self._error.text}" if self._error else ""
        self._heading, self._text = f"{title}{said}", text
        self._warned_of: str | None = None
        """The text for which the note says that another Esc drops it."""

    def compose(self) -> ComposeResult:
        """A title, the text, the keys."""
        head = BarLine(id="head")
        head.set_line(self._head())
        yield head
        yield CodeArea(self._text, show_line_numbers=True, tab_behavior="indent", soft_wrap=False)
        yield KeyLine()

    def on_mount(self) -> None:
        """Goes to the error."""
        if self._error is not None:
            self.query_one(CodeArea).move_cursor((self._error.line - 1, 0), center=True)

    def _head(self) -> Line:
        warning = Span(f"{NOT_TAKEN} ", Tone.BAD) if self._warned_of is not None else Span("")
        return Span(" edit ", Tone.ACCENT), warning, span(self._heading)

    @on(TextArea.Changed)
    def _changed(self) -> None:
        """The note about another text holds no longer."""
        if self.query_one(CodeArea).text != self._warned_of:
            self._warn_of(None)

    def _warn_of(self, text: str | None) -> None:
        self._warned_of = text
        self.query_one("#head", BarLine).set_line(self._head())

    def action_submit(self) -> None:
        """Takes the text, with the keys before this one, which are still on their way to it."""
        self.query_one(CodeArea).call_later(self._take)

    def _take(self) -> None:
        if self.is_current:
            self.dismiss(self.query_one(CodeArea).text)

    def action_cancel(self) -> None:
        """Drops it; where it was changed, another Esc does."""
        self.query_one(CodeArea).call_later(self._drop)

    def _drop(self) -> None:
        if not self.is_current:
            return
        text = self.query_one(CodeArea).text
        if text in (self._text, self._warned_of):
            self.dismiss(None)
        else:
            self._warn_of(text)
