"""One line of text from the engineer: a note, a reason. It has the focus only when asked for."""

from __future__ import annotations

from collections.abc import Callable

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widget import Widget
from textual.widgets import Input

from astra_tui.present.layout import Span, line_cells
from astra_tui.present.tones import Tone
from astra_tui.tui.app_base import AppBase
from astra_tui.tui.widgets.bars import BarLine


class SingleLineInput(Input):
    """An input that takes several lines as one; Textual's own keeps the first, unsaid."""

    def on_paste(self, event: events.Paste) -> None:
        """Joins the lines with spaces."""
        event.prevent_default()
        event.stop()
        lines = (line.strip() for line in event.text.splitlines())
        self.replace(" ".join(filter(None, lines)), *self.selection)


class PromptLine(Horizontal):
    """A label and a field. Enter gives the text to the caller; Esc closes and keeps it."""

    app: AppBase

    DEFAULT_CSS = """
    PromptLine {
        height: 1;
        display: none;
        background: $panel;
        & > BarLine { width: auto; }
        & > Input { height: 1; border: none; padding: 0; width: 1fr; background: $surface; }
        & > Input:focus { border: none; }
    }
    """

    def __init__(self, *, id: str | None = None):  # noqa: A002
        super().__init__(id=id)
        self._done: Callable[[str], None] | None = None
        self._before: Widget | None = None
        self._drafts: dict[str, str] = {}
        self._label = ""

    def compose(self) -> ComposeResult:
        """The label, then the field."""
        yield BarLine()
        yield SingleLineInput(compact=True)

    @property
    def is_open(self) -> bool:
        """Whether someone types here."""
        return bool(self.display)

    def ask(self, label: str, done: Callable[[str], None]) -> None:
        """Opens the field; what was typed under this label and not sent is still there."""
        self.close()
        # Letters that come in one burst with the key that opened the field are meant for it.
        self.app.guard.key_pressed(into_text=True)
        self._label, self._done, self._before = label, done, self.screen.focused
        bar, field = self.query_one(BarLine), self.query_one(Input)
        line = (Span(f" {label} ", Tone.ACCENT),)
        bar.styles.width = line_cells(line)
        bar.set_line(line)
        field.value = self._drafts.pop(label, "")
        field.cursor_position = len(field.value)
        self.display = True
        self.screen.set_focus(field)

    def close(self) -> None:
        """Closes the field and keeps what was typed."""
        if not self.is_open:
            return
        field = self.query_one(Input)
        if field.value:
            self._drafts[self._label] = field.value
        self.display = False
        self._done = None
        if self._before is not None:
            self.screen.set_focus(self._before, scroll_visible=False)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if self.app.guard.is_pasted:
            self.app.say("enter came with the text before it: press it again to send this")
            return
        done, text = self._done, event.value.strip()
        event.input.value = ""
        self.close()
        if done is not None:
            done(text)

    def on_key(self, event: events.Key) -> None:
        """Esc closes."""
        if event.key == "escape":
            event.stop()
            self.close()


MAX_DIGITS = 18
"""More are no size, line or count; Python refuses to read some thousands of them."""


def whole_number(text: str) -> int | None:
    """The number from 0 on that a text says in decimal digits; None where it says none."""
    digits = text.strip()
    return int(digits) if digits.isdecimal() and len(digits) <= MAX_DIGITS else None
