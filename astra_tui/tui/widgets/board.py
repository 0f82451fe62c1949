"""The board: shows the panes of a session as they are laid out, one of them in front."""

from __future__ import annotations

from collections.abc import Mapping

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widgets import Input

from astra_tui.tui.view import View
from astra_tui.tui.widgets.code.code_pane import CodePane
from astra_tui.tui.widgets.pane import Pane, RowsPane
from astra_tui.tui.widgets.pane_layout import COLUMNS, LEFT, PANES, THREE_COLUMNS, lay_out
from astra_tui.tui.widgets.session_code import SessionDiff, SessionSource

AnyPane = Pane | RowsPane | SessionDiff | SessionSource


class Frame(Vertical):
    """A pane with its border: what says that it is in front changes nothing of the pane itself."""

    def __init__(self, pane: AnyPane):
        super().__init__(pane, id=f"{pane.id}-frame")
        self.border_title = pane.TITLE

    def mark_front(self, is_front: bool) -> None:
        """Its border says so; what is in it is not styled again."""
        if self.has_class("-front") != is_front:
            self.set_class(is_front, "-front", update=False)
            if self.is_attached:
                self.app.stylesheet.apply(self)


class Board(Horizontal):
    """Shows the panes that fit, and draws views on these and no others.

    A pane is mounted when it is shown for the first time: what no one looks at costs nothing.
    """

    class Arranged(Message):
        """Other panes are shown, or another one is in front."""

    def __init__(self, panes: Mapping[str, AnyPane], *, id: str | None = None):  # noqa: A002
        super().__init__(id=id)
        self._panes = panes
        self._main = "source"
        self._view: View | None = None
        self._arranged = lay_out(0, "plan")
        self.front = "plan"
        """The pane that zoom, copy and help are about."""
        self.zoomed = False
        self._frames = {name: Frame(pane) for name, pane in panes.items()}

    def compose(self) -> ComposeResult:
        """The columns; panes come as they are needed."""
        for column in COLUMNS:
            yield Vertical(id=column)

    def on_mount(self) -> None:
        """Shows the first panes."""
        self._arrange()

    @property
    def shown(self) -> frozenset[str]:
        """The panes on the screen."""
        return self._arranged.shown

    @property
    def front_pane(self) -> AnyPane:
        """The pane in front."""
        return self._panes[self.front]

    def show_view(self, view: View) -> None:
        """Draws what has changed on the panes that are on the screen."""
        self._view = view
        self._draw()

    def bring(self, name: str, *, focus: bool = True) -> None:
        """Puts a pane in front."""
        self.front = name
        if name not in LEFT:
            self._main = name
        pane = self._panes[name]
        is_new = not pane.is_attached
        self._arrange()
        if focus and is_new:
            # The parts of a pane that has just been mounted come after it.
            self.call_after_refresh(self._focus_front)
        elif focus:
            self._give_keys()

    def bring_beside(self, name: str) -> None:
        """Shows a pane next to the one in front, where there is room for both."""
        self._main = name
        self._arrange()

    def next_name(self) -> str:
        """The pane after the one in front."""
        return PANES[(PANES.index(self.front) + 1) % len(PANES)]

    def zoom(self) -> None:
        """Shows the pane in front alone, or all of them again."""
        self.zoomed = not self.zoomed
        self._arrange()

    def on_resize(self, _event: events.Resize) -> None:
        """More or fewer panes fit."""
        self._arrange()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """The pane with the keys is the one in front."""
        for node in event.widget.ancestors_with_self:
            name = node.id or ""
            if name in self._panes and name != self.front:
                self.front = name
                self._arrange()

    def _arrange(self) -> None:
        width = self.app.size.width
        arranged = lay_out(width, self.front, main=self._main, zoomed=self.zoomed)
        self._arranged = arranged
        for column in COLUMNS:
            self._fill(column, getattr(arranged, column))
        self.set_class(len(arranged.shown) > 1, "-columns")
        self.set_class(width >= THREE_COLUMNS, "-three")
        for name, frame in self._frames.items():
            frame.mark_front(name == self.front)
        self.post_message(self.Arranged())
        self._draw()  # So that a pane comes with its lines, and those that are new once they can.
        self.call_after_refresh(self._draw)

    def _fill(self, column: str, names: tuple[str, ...]) -> None:
        """Shows these panes in a column; those that are new are mounted in their places."""
        place = self.query_one(f"#{column}", Vertical)
        place.display = bool(names)
        for name in COLUMNS[column]:
            frame = self._frames[name]
            frame.display = name in names
            if name in names and not frame.is_attached:
                place.mount(frame, before=self._next_mounted(column, name))

    def _next_mounted(self, column: str, name: str) -> Frame | None:
        """The first pane below a new one."""
        below = COLUMNS[column][COLUMNS[column].index(name) + 1 :]
        return next((self._frames[n] for n in below if self._frames[n].is_attached), None)

    def _focus_front(self) -> None:
        if not isinstance(self.screen.focused, Input):  # Someone has begun to type meanwhile.
            self._give_keys()

    def _give_keys(self) -> None:
        pane = self.front_pane
        taker = pane.lines if isinstance(pane, CodePane) else pane
        # Not `focus`, which takes effect later: it would take the keys from who types by then.
        self.screen.set_focus(taker, scroll_visible=False)

    def _draw(self) -> None:
        if self._view is not None:
            for name in self.shown:
                self._panes[name].show_view(self._view)
