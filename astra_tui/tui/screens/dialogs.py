"""Small dialogs over a screen: a choice by one key, and a text to read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen

from astra_tui.model.visible import visible_inline
from astra_tui.tui.app_base import AppBase
from astra_tui.tui.key_guard import ANSWER_DELAY
from astra_tui.tui.text_layout import Page, Tone, span
from astra_tui.tui.widgets.line_view import LinesView

_CSS = """
    {name} {{ align: center middle; }}
    {name} > Vertical {{
        width: 76; max-width: 96%; height: auto; max-height: 94%;
        border: round $primary; background: $surface; padding: 0 1;
    }}
    {name} LinesView {{ height: auto; max-height: 100%; background: $surface; }}
"""


class Option(NamedTuple):
    """One thing that can be chosen, by a key."""

    key: str
    label: str
    value: str


class ChoiceDialog(ModalScreen[str]):
    """Asks for one of a few things; Esc chooses none of them, the empty string.

    It is deaf at first, and for as long as someone types on who did not mean it.
    """

    app: AppBase

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "choose('')", "Back")]
    DEFAULT_CSS = _CSS.format(name="ChoiceDialog")

    def __init__(self, title: str, text: str, options: Sequence[Option]):
        super().__init__()
        self._heading, self._text, self._options = title, text, options

    def compose(self) -> ComposeResult:
        """The text and the options."""
        with Vertical():
            yield LinesView()

    def on_mount(self) -> None:
        """Lays the text out."""
        self._last_key = self.app.clock()
        self.call_after_refresh(self._draw)

    def on_resize(self, _event: events.Resize) -> None:
        """For another width."""
        self._draw()

    def _draw(self) -> None:
        view = self.query_one(LinesView)
        page = Page(min(72, self.app.size.width - 8))
        page.paragraph(self._heading, Tone.TITLE)
        page.blank()
        page.paragraph(self._text)
        page.blank()
        for option in self._options:
            page.field(f"  {option.key}", option.label, column=8)
        page.field("  esc", "back", Tone.DIM, column=8)
        view.set_lines(page.lines)
        view.styles.height = len(page.lines)

    def on_key(self, event: events.Key) -> None:
        """A key chooses its option."""
        before, self._last_key = self._last_key, self.app.clock()
        if self._last_key - before < ANSWER_DELAY:
            return
        for option in self._options:
            if event.character == option.key:
                event.stop()
                self.dismiss(option.value)

    def action_choose(self, value: str) -> None:
        """Closes."""
        self.dismiss(value)


class TextDialog(ModalScreen[None]):
    """A text to read and to copy."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "close", "Back"),
        Binding("y", "copy", "Copy"),
    ]
    DEFAULT_CSS = (
        _CSS.format(name="TextDialog")
        + """
    TextDialog > Vertical { width: 96%; height: 94%; }
    TextDialog LinesView { height: 1fr; }
    """
    )

    def __init__(self, title: str, text: str):
        super().__init__()
        self._heading, self._text = title, text

    def compose(self) -> ComposeResult:
        """The text."""
        with Vertical() as frame:
            frame.border_title = Content(visible_inline(self._heading, 60))
            frame.border_subtitle = "esc back   y copy"
            yield LinesView()

    def on_mount(self) -> None:
        """Lays the text out."""
        self.query_one(LinesView).focus()
        self.call_after_refresh(self._draw)

    def on_resize(self, _event: events.Resize) -> None:
        """For another width."""
        self.call_after_refresh(self._draw)

    def _draw(self) -> None:
        view = self.query_one(LinesView)
        page = Page(view.page_width)
        page.paragraph(self._text)
        view.set_lines(page.lines)

    def action_copy(self) -> None:
        """All of it, through the terminal."""
        self.app.copy_to_clipboard(self._text)
        self.app.notify("copied", markup=False)

    def action_close(self) -> None:
        """Back to the screen below."""
        self.dismiss()


class ListingDialog(TextDialog):
    """Lines of code to read, each on one row; it opens at one of them."""

    def __init__(self, title: str, text: str, row: int = 0):
        super().__init__(title, text)
        self._row = row

    def _draw(self) -> None:
        view = self.query_one(LinesView)
        page = Page(view.page_width)
        for number, line in enumerate(self._text.split("\n")):
            page.line(span(line, Tone.ACCENT if number == self._row else Tone.PLAIN))
        view.set_lines(page.lines)
        # The view knows how far it can scroll once it has been laid out.
        self.call_after_refresh(view.scroll_to, y=max(0, self._row - 3), animate=False, force=True)
