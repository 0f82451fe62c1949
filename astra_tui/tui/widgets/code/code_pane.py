"""What the diff pane and the source pane have in common: a title, the lines, a field to type in."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar, Self

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, Static

from astra_tui.present.tones import Tone
from astra_tui.tui.colours import tone_rule
from astra_tui.tui.widgets.code.view import CodeView


class AskField(Input):
    """One line at the bottom in which words or a line number are typed; escape leaves it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Close", id="ask.leave"),
        Binding("enter", "submit", "Go", id="ask.submit"),
    ]

    def __init__(self) -> None:
        super().__init__(compact=True, classes="code-ask")
        self.cursor_blink = False
        self.display = False

    def action_leave(self) -> None:
        """Gives the keys back to the lines, with nothing asked."""
        self.value = ""
        self.post_message(self.Submitted(self, ""))


class CodePane(Vertical):
    """A title, column titles, lines and a field to type in. It holds no logic of the session."""

    DEFAULT_CSS = """
    CodePane { height: 1fr; }
    CodePane > .code-title { height: 1; text-wrap: nowrap; text-overflow: ellipsis; }
    CodePane > .code-columns { height: 1; text-wrap: nowrap; }
    CodePane > .code-ask { height: 1; dock: bottom; }
    """ + tone_rule("CodePane", "> .code-columns", Tone.DIM)

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "search", "Search", id="code.search"),
    ]

    def __init__(self, lines: CodeView, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._lines = lines
        self._title = Static(markup=False, classes="code-title")
        self._columns = Static(markup=False, classes="code-columns")
        self._sought = ""
        self._field = AskField()
        self._answer: Callable[[str], None] = self._search

    def compose(self) -> ComposeResult:
        """The parts from top to bottom."""
        yield self._title
        yield self._columns
        yield self._lines
        yield self._field

    def on_mount(self) -> None:
        """What was given before is drawn now."""
        self.draw_view()
        self.update_title()

    @abstractmethod
    def draw_view(self) -> None:
        """Draws what the pane was given."""

    @abstractmethod
    def title(self) -> str:
        """What stands above the lines."""

    @abstractmethod
    def column_titles(self) -> str:
        """What stands above the columns, or nothing."""

    def focus(self, scroll_visible: bool = True) -> Self:
        """Gives the keys to the lines."""
        self._lines.focus(scroll_visible)
        return self

    def action_search(self) -> None:
        """Opens the field for words to search for."""
        self.ask("Search", self._search)

    def ask(self, what: str, answer: Callable[[str], None]) -> None:
        """Opens the field; what is typed goes to `answer`, "" when it was left."""
        self._answer = answer
        self._field.placeholder = what
        self._field.value = ""
        self._field.display = True
        # Not `focus`, which takes effect later: what is typed at once is meant for the field.
        self.screen.set_focus(self._field)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._field.display = False
        self.screen.set_focus(self._lines)
        self._answer(event.value)

    def _search(self, words: str) -> None:
        self._sought = words
        if words:
            self._lines.search(words)
        else:
            self._lines.forget_search()

    @on(CodeView.Changed)
    def _lines_changed(self, event: CodeView.Changed) -> None:
        event.stop()
        self.update_title()

    def on_resize(self) -> None:
        """Column titles stand where the columns are."""
        self.update_title()

    def update_title(self) -> None:
        """Draws the title and the column titles again."""
        _say(self._title, self.title() + self._search_words())
        columns = self.column_titles()
        self._columns.display = bool(columns)
        _say(self._columns, columns)

    def _search_words(self) -> str:
        current, count = self._lines.search_state
        if count:
            return f" · match {current} of {count}"
        return " · not found" if self._sought else ""


def _say(line: Static, text: str) -> None:
    """Its height is fixed, so that nothing is laid out again for other words."""
    if line.content != (words := Content(text)):
        line.update(words, layout=False)
