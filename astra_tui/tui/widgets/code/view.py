"""The base of the diff and source panes: rows of code drawn by the line API, with a cursor.

Only visible rows are drawn, each once; what was drawn is kept until something about it changes.
Colours arrive in slices of time, so that a long file neither delays its first painting nor a key.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import ClassVar, NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.cache import LRUCache
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from textual.timer import Timer

from astra_tui.model.visible import Range
from astra_tui.tui.app_base import SteadyScrollView
from astra_tui.tui.text.document import Document
from astra_tui.tui.widgets.code import syntax_colours
from astra_tui.tui.widgets.code.painting import Layer


class Match(NamedTuple):
    """A place where the words were found: which document of a pane, its line from 0, the range."""

    document: int
    line: int
    range: Range


def occurrences(query: str, text: str) -> Iterator[Range]:
    """Where a text holds the query, from left to right, without overlap."""
    if not query:
        return
    if query.islower() or not any(c.isalpha() for c in query):
        lowered = text.lower()
        # Lowering may change the length of a text (İ); then only the exact case is found.
        text = lowered if len(lowered) == len(text) else text
    begin = text.find(query)
    while begin >= 0:
        yield begin, begin + len(query)
        begin = text.find(query, begin + len(query))


_FIRST_SLICE = 0.02
_SLICE = 0.008
_TICK = 0.012
_MARGIN = 2
_STEP = 8


class CodeView(SteadyScrollView, can_focus=True):
    """Rows with a cursor, horizontal scrolling next to a fixed gutter, and search.

    Subclasses say how many rows there are and draw one of them.
    """

    ALLOW_SELECT = False
    WRAPS: ClassVar[bool] = False
    """Whether lines continue on the next row, and none scrolls sideways."""
    COMPONENT_CLASSES: ClassVar[set[str]] = syntax_colours.CLASSES
    DEFAULT_CSS = syntax_colours.CSS

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False, id="code.up"),
        Binding("down,j", "move(1)", "Down", show=False, id="code.down"),
        Binding("pageup", "page(-1)", "Page up", show=False, id="code.page_up"),
        Binding("pagedown", "page(1)", "Page down", show=False, id="code.page_down"),
        Binding("home,g", "go_to(0)", "Top", show=False, id="code.top"),
        Binding("end,G", "go_to(-1)", "Bottom", show=False, id="code.bottom"),
        Binding("left", "sideways(-1)", "Left", show=False, id="code.left"),
        Binding("right", "sideways(1)", "Right", show=False, id="code.right"),
        Binding("semicolon,f3", "next_match(1)", "Next match", id="code.next_match"),
        Binding(
            "apostrophe,shift+f3",
            "next_match(-1)",
            "Previous match",
            show=False,
            id="code.previous_match",
        ),
    ]

    cursor: reactive[int] = reactive(0, repaint=False)

    class Changed(Message):
        """What a title above the rows tells has changed: the search, the choice, the layout."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's word
        super().__init__(id=id)
        self._strips: LRUCache[tuple[int, int, bool], Strip] = LRUCache(2048)
        self._styles: dict[str, Style] = {}
        self._awaited: dict[int, int] = {}
        self._timer: Timer | None = None
        self._matches: list[Match] = []
        self._matched: dict[tuple[int, int], list[int]] = {}
        self._match = -1

    @property
    @abstractmethod
    def row_count(self) -> int:
        """How many rows there are."""

    @property
    @abstractmethod
    def documents(self) -> Sequence[Document]:
        """The texts that are shown."""

    @abstractmethod
    def draw_row(self, index: int, at_cursor: bool) -> Strip:
        """One row over the whole width, scrolled sideways by `scroll_offset.x`."""

    @abstractmethod
    def text_room(self) -> int:
        """Cells that a line of code has on the screen, apart from its gutter."""

    @abstractmethod
    def find(self, query: str) -> list[Match]:
        """All places that hold a query, from top to bottom, in folded lines as well."""

    @abstractmethod
    def reveal(self, match: Match) -> int:
        """The row of a match; unfolds what hides it."""

    @property
    def wrap_room(self) -> int:
        """Cells after which a line continues on the next row; 0 where it scrolls sideways."""
        return 0

    @property
    def view_width(self) -> int:
        """Cells of a line, without the scrollbar."""
        return self.inner_size.width

    @property
    def view_height(self) -> int:
        """Rows on the screen, without the scrollbar."""
        return self.inner_size.height

    # What is drawn

    def rows_changed(self) -> None:
        """Call it when the rows are others than before."""
        self._strips.clear()
        self._resize_content()
        self.cursor = max(0, min(self.cursor, self.row_count - 1))
        self._start_colouring()
        self.refresh()
        self.refresh_bindings()

    def repaint(self) -> None:
        """Draws all visible rows again."""
        self._strips.clear()
        self.refresh()

    def style_of(self, name: str) -> Style:
        """The style of a component class: the colours that it sets, blended with what is below."""
        found = self._styles.get(name)
        if found is None:
            own = self.get_component_rich_style(name, partial=True)
            blended = self.get_component_rich_style(name)
            found = own + Style(
                color=blended.color if own.color else None,
                bgcolor=blended.bgcolor if own.bgcolor else None,
            )
            self._styles[name] = found
        return found

    def render_line(self, y: int) -> Strip:
        """One line of the screen."""
        index, width = self.scroll_offset.y + y, self.view_width
        if not 0 <= index < self.row_count:
            return Strip.blank(width, self.rich_style)
        at_cursor = index == self.cursor
        key = (index, self.scroll_offset.x, at_cursor)
        strip = self._strips.get(key)
        if strip is None:
            drawn = self.draw_row(index, at_cursor).adjust_cell_length(width)
            strip = self._strips[key] = drawn.apply_style(self.rich_style)
        return strip

    def match_layers(self, document: int, line: int) -> list[Layer]:
        """What the search lays over a line."""
        layers: list[Layer] = []
        for index in self._matched.get((document, line), ()):
            name = "pane--match-current" if index == self._match else "pane--match"
            layers.append(([self._matches[index].range], self.style_of(name)))
        return layers

    def await_colours(self, document: int, line: int) -> None:
        """Call it when a line is drawn; it is drawn again when its colours are known."""
        if self.documents[document].highlighter.ready <= line:
            self._awaited[document] = max(line, self._awaited.get(document, 0))

    def cursor_mark(self, at_cursor: bool) -> Segment:
        """The first cell of each row."""
        name = "pane--cursor" if at_cursor else "pane--gutter"
        return Segment(">" if at_cursor else " ", self.style_of(name))

    def watch_has_focus(self, _has_focus: bool) -> None:
        """It looks the same with the keys as without them: no style is looked up again."""

    def notify_style_update(self) -> None:
        """The theme or the state of the widget changed: colours are resolved again."""
        super().notify_style_update()
        self._styles.clear()
        self._strips.clear()

    def resized(self) -> None:
        """The width decides how rows are drawn."""
        self._strips.clear()
        self._resize_content()
        self.show_row(self.cursor)

    def _resize_content(self) -> None:
        text = max((document.width for document in self.documents), default=0)
        hidden = 0 if self.WRAPS else max(0, text - self.text_room())
        self.virtual_size = Size(self.view_width + hidden, self.row_count)

    def _start_colouring(self) -> None:
        self._awaited.clear()
        if not self._advance_colouring(_FIRST_SLICE) and self._timer is None:
            self._timer = self.set_interval(_TICK, self._continue_colouring)

    def _continue_colouring(self) -> None:
        done = self._advance_colouring(_SLICE)
        arrived = all(
            self.documents[document].highlighter.ready > line
            for document, line in self._awaited.items()
        )
        if self._awaited and arrived:
            self._awaited.clear()
            self.repaint()
        if done and self._timer is not None:
            self._timer.stop()
            self._timer = None

    def _advance_colouring(self, seconds: float) -> bool:
        pending = [d.highlighter for d in self.documents if not d.highlighter.done]
        for highlighter in pending:
            highlighter.advance(seconds / len(pending))
        return all(highlighter.done for highlighter in pending)

    # The cursor

    def watch_cursor(self, old: int, new: int) -> None:
        """The cursor's row is always on the screen."""
        self.refresh_line(old)
        self.refresh_line(new)
        self.show_row(new)
        self.refresh_bindings()

    def show_row(self, row: int, margin: int = _MARGIN) -> None:
        """Scrolls as little as it takes to have a row, and some around it, on the screen."""
        height, top = self.view_height, self.scroll_offset.y
        if not height:
            return
        margin = min(margin, max(0, (height - 1) // 2))
        lowest, highest = row + margin - height + 1, row - margin
        target = min(max(top, lowest), highest)
        if target != top:
            self.scroll_to(y=max(0, target), animate=False)

    def action_move(self, rows: int) -> None:
        """Moves the cursor."""
        self.cursor = max(0, min(self.cursor + rows, self.row_count - 1))

    def action_page(self, pages: int) -> None:
        """Moves the cursor by screens."""
        self.action_move(pages * max(1, self.view_height - 1))

    def action_go_to(self, row: int) -> None:
        """Moves the cursor to the first row, or to the last with -1."""
        self.cursor = row if row >= 0 else max(0, self.row_count - 1)

    def action_sideways(self, steps: int) -> None:
        """Scrolls to the left or right."""
        self.scroll_to(x=max(0, self.scroll_offset.x + steps * _STEP), animate=False)

    def on_click(self, event: events.Click) -> None:
        """Puts the cursor where the mouse is."""
        row = self.scroll_offset.y + event.y
        if 0 <= row < self.row_count:
            self.cursor = row
            self.row_clicked(row, event.x)

    def row_clicked(self, row: int, x: int) -> None:
        """A subclass may do more."""

    # Search

    @property
    def search_state(self) -> tuple[int, int]:
        """Which match is the current one, from 1, and how many there are."""
        return self._match + 1, len(self._matches)

    def search(self, query: str) -> int:
        """Marks all places that hold a query and goes to the first below the cursor; how many."""
        self._matches = self.find(query)
        self._matched = {}
        for index, match in enumerate(self._matches):
            self._matched.setdefault((match.document, match.line), []).append(index)
        self._match = self.first_match() - 1
        self.repaint()
        if self._matches:
            self.action_next_match(1)
        self.refresh_bindings()
        self.post_message(self.Changed())
        return len(self._matches)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Which keys apply now; the footer shows these."""
        if action == "next_match":
            return bool(self._matches)
        return super().check_action(action, parameters)

    def forget_search(self) -> None:
        """Removes the marks of a search."""
        self._matches, self._matched, self._match = [], {}, -1
        self.repaint()
        self.post_message(self.Changed())

    @property
    def matches(self) -> Sequence[Match]:
        """What the search found, from top to bottom."""
        return self._matches

    def first_match(self) -> int:
        """The match to go to first: at the cursor or below it."""
        return 0

    def action_next_match(self, step: int) -> None:
        """Goes to the next or the previous match, around the end."""
        if self._matches:
            self._match = (self._match + step) % len(self._matches)
            match = self._matches[self._match]
            self.cursor = self.reveal(match)
            self._show_columns(match)
            self.repaint()
            self.post_message(self.Changed())

    def _show_columns(self, match: Match) -> None:
        document = self.documents[match.document]
        text, part = document.visible(match.line), document.part_of(match.line, self.wrap_room)
        begin, end = (text.column(c) % part for c in match.range)
        if not self.scroll_offset.x <= begin <= end <= self.scroll_offset.x + self.text_room():
            self.scroll_to(x=max(0, begin - _STEP), animate=False)

    def action_copy_line(self) -> None:
        """Copies what the cursor stands on, as it is in the source."""
        text = self.text_at_cursor()
        if text:
            self.app.copy_to_clipboard(text)
            self.notify(f"Copied {len(text)} characters", markup=False)

    def text_at_cursor(self) -> str:
        """What is copied."""
        return ""
