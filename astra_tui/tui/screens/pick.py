"""A dialog in which one row of a list is chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen

from astra_tui.model.visible import visible_inline
from astra_tui.tui.text_layout import Page, span
from astra_tui.tui.widgets.line_view import RowsView


class PickDialog(ModalScreen[int]):
    """Gives the index of the chosen row; None where none is chosen."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "close", "Back", show=False)]
    DEFAULT_CSS = """
    PickDialog { align: center middle; }
    PickDialog > Vertical {
        width: 90; max-width: 96%; height: auto; max-height: 90%;
        border: round $primary; background: $surface; padding: 0 1;
    }
    PickDialog RowsView { height: auto; max-height: 100%; background: $surface; }
    """

    def __init__(self, title: str, rows: Sequence[str], chosen: int = 0):
        super().__init__()
        self._heading, self._rows, self._chosen = title, rows, chosen

    def compose(self) -> ComposeResult:
        """The list."""
        with Vertical() as frame:
            frame.border_title = Content(visible_inline(self._heading, 80))
            frame.border_subtitle = "enter chooses   esc back"
            yield RowsView()

    def on_mount(self) -> None:
        """Shows the rows."""
        self.query_one(RowsView).focus()
        self.call_after_refresh(self._draw)

    def on_resize(self, _event: events.Resize) -> None:
        """For another width."""
        self.call_after_refresh(self._draw)

    def _draw(self) -> None:
        view = self.query_one(RowsView)
        page = Page(view.page_width)
        for row in self._rows:
            page.line(span(row))
        view.set_lines(page.lines)
        view.styles.height = len(page.lines)
        self.call_after_refresh(view.set_cursor, self._chosen)

    @on(RowsView.Moved)
    def _moved(self, event: RowsView.Moved) -> None:
        event.stop()
        self._chosen = event.row

    @on(RowsView.Opened)
    def _opened(self, event: RowsView.Opened) -> None:
        event.stop()
        self.dismiss(event.row)

    def action_close(self) -> None:
        """Chooses nothing."""
        self.dismiss()
