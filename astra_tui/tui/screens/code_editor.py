"""An editor for code inside the app, for where $EDITOR cannot run."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen
from textual.widgets import TextArea

from astra_tui.tui.page import Span, Tone, span
from astra_tui.tui.widgets.bars import BarLine, KeyLine


class CodeArea(TextArea):
    """A text area; what is typed into it is no answer to a question."""

    takes_text = True


class CodeEditor(ModalScreen[str]):
    """Edits a source; `ctrl+s` or F2 takes it, Esc drops it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s,f2", "submit", "Take it", priority=True),
        Binding("escape", "cancel", "Back, nothing is changed", priority=True),
    ]
    DEFAULT_CSS = """
    CodeEditor CodeArea { border: none; height: 1fr; }
    """

    def __init__(self, title: str, text: str):
        super().__init__()
        self._heading, self._text = title, text

    def compose(self) -> ComposeResult:
        """A title, the text, the keys."""
        head = BarLine()
        head.set_line((Span(" edit ", Tone.ACCENT), span(self._heading)))
        yield head
        yield CodeArea(self._text, show_line_numbers=True, tab_behavior="indent", soft_wrap=False)
        yield KeyLine()

    def action_submit(self) -> None:
        """Takes the text, with the keys before this one, which are still on their way to it."""
        self.query_one(CodeArea).call_later(self._take)

    def _take(self) -> None:
        if self.is_current:
            self.dismiss(self.query_one(CodeArea).text)

    def action_cancel(self) -> None:
        """Drops it."""
        self.dismiss(None)
