"""Dialogs over a screen: a choice by one key, a text or a listing to read, a row to pick."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, NamedTuple, TypeVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen, Screen

from astra_tui.model.visible import visible_inline
from astra_tui.present import document as doc
from astra_tui.present.tones import Tone
from astra_tui.tui.app_base import AppBase
from astra_tui.tui.approval import ANSWER_DELAY
from astra_tui.tui.text_layout import Page, span
from astra_tui.tui.widgets.line_view import LinesView, RowsView

Result = TypeVar("Result")


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
    DEFAULT_CSS = """
    ChoiceDialog { align: center middle; }
    ChoiceDialog > Vertical {
        width: 76; max-width: 96%; height: auto; max-height: 94%;
        border: round $primary; background: $surface; padding: 0 1;
    }
    ChoiceDialog LinesView { height: auto; max-height: 100%; background: $surface; }
    """

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


class PageDialog(ModalScreen[Result]):
    """A framed page that is laid out for its width; subclasses write it."""

    VIEW: ClassVar[type[LinesView]] = LinesView
    FOOT: ClassVar[str] = "esc back"
    DEFAULT_CSS = """
    PageDialog { align: center middle; }
    PageDialog > Vertical {
        max-width: 96%; border: round $primary; background: $surface; padding: 0 1;
    }
    PageDialog LinesView { height: 1fr; background: $surface; }
    """

    def __init__(self, title: str):
        super().__init__()
        self._heading = title

    @abstractmethod
    def write(self, page: Page) -> None:
        """Writes the page."""

    def compose(self) -> ComposeResult:
        """The frame and what scrolls in it."""
        with Vertical() as frame:
            frame.border_title = Content(visible_inline(self._heading, 80))
            frame.border_subtitle = self.FOOT
            yield self.VIEW()

    def on_mount(self) -> None:
        """Lays the page out."""
        self.query_one(LinesView).focus()
        self.call_after_refresh(self.draw_page)

    def on_resize(self, _event: events.Resize) -> None:
        """For another width."""
        self.call_after_refresh(self.draw_page)

    def draw_page(self) -> LinesView:
        """Shows the page, and returns what shows it."""
        view = self.query_one(LinesView)
        page = Page(view.page_width)
        self.write(page)
        view.set_lines(page.lines)
        return view

    def action_close(self) -> None:
        """Back to the screen below."""
        self.dismiss()


class TextDialog(PageDialog[None]):
    """A text to read and to copy."""

    FOOT = "esc back   y copy"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "close", "Back"),
        Binding("y", "copy", "Copy"),
    ]
    DEFAULT_CSS = "TextDialog > Vertical { width: 96%; height: 94%; }"

    def __init__(self, title: str, text: str):
        super().__init__(title)
        self._text = text

    def write(self, page: Page) -> None:
        """The text."""
        page.paragraph(self._text)

    def action_copy(self) -> None:
        """All of it, through the terminal."""
        self.app.copy_to_clipboard(self._text)
        self.app.notify("copied", markup=False)


class BlocksDialog(PageDialog[None]):
    """Parts of a document to read."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "close", "Back")]
    DEFAULT_CSS = "BlocksDialog > Vertical { width: 90; height: 90%; }"

    def __init__(self, title: str, blocks: Sequence[doc.Block]):
        super().__init__(title)
        self._blocks = blocks

    def write(self, page: Page) -> None:
        """The parts."""
        page.blocks(self._blocks)


class ListingDialog(TextDialog):
    """Lines of code to read, each on one row; it opens at one of them."""

    def __init__(self, title: str, text: str, row: int = 0):
        super().__init__(title, text)
        self._row = row

    def write(self, page: Page) -> None:
        """A line of the text on each row."""
        for number, line in enumerate(self._text.split("\n")):
            page.line(span(line, Tone.ACCENT if number == self._row else Tone.PLAIN))

    def draw_page(self) -> LinesView:
        """Shows the page at its row."""
        view = super().draw_page()
        # The view knows how far it can scroll once it has been laid out.
        self.call_after_refresh(view.scroll_to, y=max(0, self._row - 3), animate=False, force=True)
        return view


class PickDialog(PageDialog[int]):
    """Gives the index of the chosen row; None where none is chosen."""

    VIEW = RowsView
    FOOT = "enter chooses   esc back"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "close", "Back", show=False)]
    DEFAULT_CSS = """
    PickDialog > Vertical { width: 90; height: auto; max-height: 90%; }
    PickDialog RowsView { height: auto; max-height: 100%; }
    """

    def __init__(self, title: str, rows: Sequence[str], chosen: int = 0):
        super().__init__(title)
        self._rows, self._chosen = rows, chosen

    def write(self, page: Page) -> None:
        """The rows."""
        for row in self._rows:
            page.line(span(row))

    def draw_page(self) -> LinesView:
        """Shows the rows, with the cursor on the chosen one."""
        view = super().draw_page()
        view.styles.height = len(self._rows)
        self.call_after_refresh(self.query_one(RowsView).set_cursor, self._chosen)
        return view

    @on(RowsView.Moved)
    def _moved(self, event: RowsView.Moved) -> None:
        event.stop()
        self._chosen = event.row

    @on(RowsView.Opened)
    def _opened(self, event: RowsView.Opened) -> None:
        event.stop()
        self.dismiss(event.row)


class HelpScreen(PageDialog[None]):
    """Explains what is in front of the engineer."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark", "close", "Back", show=False)
    ]
    DEFAULT_CSS = "HelpScreen > Vertical { width: 80; height: 90%; }"

    def __init__(self, title: str, about: str, keys: list[tuple[str, str]]):
        super().__init__(title)
        self._about, self._keys = about, keys

    @classmethod
    def about(cls, screen: Screen[object]) -> HelpScreen:
        """Help on the focused pane of a screen."""
        node = screen.focused or screen
        helped = next((n for n in node.ancestors_with_self if getattr(n, "HELP", None)), screen)
        title = str(getattr(helped, "TITLE", None) or screen.title or "astra-tui")
        keys: dict[str, list[str]] = {}
        for active in screen.active_bindings.values():
            binding = active.binding
            words = binding.description or (binding.id or "").rpartition(".")[2].replace("_", " ")
            if words and (binding.show or not screen.is_modal):  # Not all keys of a text field.
                same = keys.setdefault(_as_sentence(words), [])
                same.append(screen.app.get_key_display(binding))
        about = [helped.HELP or "", getattr(screen, "more_help", "")]
        rows = [(", ".join(dict.fromkeys(shown)), words) for words, shown in keys.items()]
        return cls(title, "\n\n".join(filter(None, about)), rows)

    def write(self, page: Page) -> None:
        """What the pane shows, then the keys."""
        page.paragraph(self._about)
        page.heading("Keys that apply now")
        for key, words in self._keys:
            page.field(key, words, Tone.PLAIN, column=14)
        page.blank()
        page.paragraph("ctrl+p lists every action by name.", Tone.DIM)


def _as_sentence(words: str) -> str:
    """As in "Scroll left", which Textual calls "Scroll Left"; abbreviations stay."""
    first, *others = words.split(" ")
    return " ".join(
        [first[:1].upper() + first[1:], *(w.lower() if w.istitle() else w for w in others)]
    )
