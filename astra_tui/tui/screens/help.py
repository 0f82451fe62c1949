"""Help: what the focused pane shows, and every key that applies now."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen, Screen

from astra_tui.model.visible import visible_inline
from astra_tui.tui.text_layout import Page, Tone
from astra_tui.tui.widgets.line_view import LinesView


class HelpScreen(ModalScreen[None]):
    """Explains what is in front of the engineer."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark", "dismiss", "Back", show=False)
    ]
    DEFAULT_CSS = """
    HelpScreen { align: center middle; }
    HelpScreen > Vertical {
        width: 80; max-width: 96%; height: 90%;
        border: round $primary; background: $surface; padding: 0 1;
    }
    HelpScreen LinesView { background: $surface; height: 1fr; }
    """

    def __init__(self, title: str, about: str, keys: list[tuple[str, str]]):
        super().__init__()
        self._heading, self._about, self._keys = title, about, keys

    @classmethod
    def about(cls, screen: Screen[object]) -> HelpScreen:
        """Help on the focused pane of a screen."""
        node = screen.focused or screen
        helped = next((n for n in node.ancestors_with_self if getattr(n, "HELP", None)), screen)
        title = str(getattr(helped, "TITLE", None) or screen.title or "astra-tui")
        keys: list[tuple[str, str]] = []
        for active in screen.active_bindings.values():
            binding = active.binding
            said = binding.description or (binding.id or "").replace(".", " ").replace("_", " ")
            if said:
                keys.append((screen.app.get_key_display(binding), said))
        about = [helped.HELP or "", getattr(screen, "more_help", "")]
        return cls(title, "\n\n".join(filter(None, about)), keys)

    def compose(self) -> ComposeResult:
        """A text that scrolls."""
        with Vertical() as frame:
            frame.border_title = Content(visible_inline(self._heading, 60))
            frame.border_subtitle = "esc back"
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
        page.paragraph(self._about)
        page.heading("Keys that apply now")
        for key, said in self._keys:
            page.field(key, said, Tone.PLAIN, column=14)
        page.blank()
        page.paragraph("ctrl+p lists every action by name.", Tone.DIM)
        view.set_lines(page.lines)
