"""What all panes of a session have in common: they draw a part of the view, and only when seen."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from astra_tui.present.layout import Line
from astra_tui.tui.text_layout import Page
from astra_tui.tui.view import View
from astra_tui.tui.widgets.line_view import LinesView, RowsView

_PLAIN = (str, int, float, bool, type(None))

if TYPE_CHECKING:
    _Base = LinesView
else:
    _Base = object


class PaneDrawing(_Base):
    """Draws a page of a view when something on it has changed. Mixed into a LinesView.

    `HELP` says what the pane shows and which keys it has.
    """

    TITLE: ClassVar[str]

    _view: View | None = None
    _drawn: tuple[object, ...] = ()

    @abstractmethod
    def part(self, view: View) -> tuple[object, ...]:
        """What of a view is drawn. Parts whose members are the same objects look the same."""

    def draw(self, view: View, page: Page) -> None:
        """Writes the page."""
        raise NotImplementedError

    def lines_of(self, view: View, width: int) -> Sequence[Line]:
        """What the pane shows: a page, unless there is so much that lines are drawn when seen."""
        page = Page(width)
        self.draw(view, page)
        return page.lines

    @property
    def keeps_end(self) -> bool:
        """Whether the pane stays at its end while it grows."""
        return False

    def show_view(self, view: View) -> None:
        """Draws what has changed; called for panes that are on the screen."""
        self._view = view
        width = self.page_width
        part = (width, *self.part(view))
        if not width or same_part(part, self._drawn):
            return
        self._drawn = part
        self.set_lines(self.lines_of(view, width), to_end=self.keeps_end)

    def redraw(self) -> None:
        """Draws again what is shown."""
        self._drawn = ()
        if self._view is not None:
            self.show_view(self._view)

    def resized(self) -> None:
        """Lines are wrapped again for another width."""
        if self._view is not None:
            self.show_view(self._view)


class Pane(PaneDrawing, LinesView):
    """A pane of text."""


class RowsPane(PaneDrawing, RowsView):
    """A pane in which rows are chosen."""


def same_part(one: tuple[object, ...], other: tuple[object, ...]) -> bool:
    """Whether two parts look the same: large values are compared by identity, which is quick."""
    return len(one) == len(other) and all(
        a is b or (isinstance(a, _PLAIN) and isinstance(b, _PLAIN) and a == b)
        for a, b in zip(one, other, strict=True)
    )
