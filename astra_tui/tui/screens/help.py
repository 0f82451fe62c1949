"""Help: what the focused pane shows, and every key that applies now."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.screen import Screen

from astra_tui.present.tones import Tone
from astra_tui.tui.screens.dialogs import PageDialog
from astra_tui.tui.text_layout import Page


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
        keys: list[tuple[str, str]] = []
        for active in screen.active_bindings.values():
            binding = active.binding
            words = binding.description or (binding.id or "").replace(".", " ").replace("_", " ")
            if words and (binding.show or not screen.is_modal):  # Not all keys of a text field.
                keys.append((screen.app.get_key_display(binding), words))
        about = [helped.HELP or "", getattr(screen, "more_help", "")]
        return cls(title, "\n\n".join(filter(None, about)), keys)

    def write(self, page: Page) -> None:
        """What the pane shows, then the keys."""
        page.paragraph(self._about)
        page.heading("Keys that apply now")
        for key, words in self._keys:
            page.field(key, words, Tone.PLAIN, column=14)
        page.blank()
        page.paragraph("ctrl+p lists every action by name.", Tone.DIM)
