"""Lines of text that scroll, drawn by the line API: only what is on the screen is rendered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.selection import Selection
from textual.strip import Strip

from astra_tui.present.layout import Line, line_cells, line_text
from astra_tui.present.tones import Tone
from astra_tui.tui.app_base import SteadyScrollView
from astra_tui.tui.colours import tone_rules


class LinesView(SteadyScrollView, can_focus=True):
    """Draws lines with tones. Text can be selected with the mouse and copied."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        *(f"lines--{tone.value}" for tone in Tone),
        "lines--cursor",
        "lines--cursor-keys",
    }

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "scroll_down", show=False, id="scroll.down"),
        Binding("k", "scroll_up", show=False, id="scroll.up"),
    ]

    DEFAULT_CSS = (
        tone_rules("LinesView", "lines")
        + """
    LinesView {
        scrollbar-size-vertical: 1;
        scrollbar-size-horizontal: 1;
        scrollbar-gutter: stable;
        overflow-x: hidden;
        & > .lines--cursor { background: $surface-lighten-1; text-style: bold; }
        & > .lines--cursor-keys {
            background: $block-cursor-background;
            color: $block-cursor-foreground;
            text-style: bold;
        }
        &:ansi > .lines--cursor { text-style: reverse; }
        &:ansi > .lines--cursor-keys { text-style: reverse; }
    }
    """
    )

    def __init__(self, *, id: str | None = None, classes: str | None = None):  # noqa: A002
        super().__init__(id=id, classes=classes)
        self._lines: Sequence[Line] = ()
        self._strips: dict[int, Strip] = {}
        self._base: Style | None = None

    @property
    def text(self) -> str:
        """All lines, as they are shown."""
        return "\n".join(line_text(line).rstrip() for line in self._lines)

    @property
    def page_width(self) -> int:
        """Columns that a page for this view may have; while it is hidden, those that it had."""
        return self.inner_size.width

    def set_lines(self, lines: Sequence[Line], *, to_end: bool = False) -> None:
        """Shows other lines; stays where it is scrolled to, or goes to the end."""
        self._lines = lines
        self._strips.clear()
        self._resize(len(lines))
        if to_end:
            # The first lines may come before the layout knows how many of them fit.
            self.call_after_refresh(self.scroll_end, animate=False)
        self.refresh()

    def _resize(self, height: int) -> None:
        """Tells the scrollbar of the new height; the screen is laid out again only if one appears.

        Laying out the whole screen for every line that comes in took most of a tick.
        """
        room, before = self.inner_size, self.virtual_size
        size, overflows = Size(room.width, height), height > room.height
        if not room.height or overflows != (before.height > room.height):
            self.virtual_size = size
        elif size != before:
            self.set_reactive(LinesView.virtual_size, size)
            if overflows:
                self.vertical_scrollbar.window_virtual_size = height
                self.scroll_y = min(self.scroll_y, self.max_scroll_y)

    @property
    def at_end(self) -> bool:
        """Whether the last line is in view."""
        return self.scroll_offset.y >= self.max_scroll_y

    def row_style(self, row: int) -> str:  # noqa: ARG002 - lists look at it
        """The component class that a whole row has on top of its tones, or ""."""
        return ""

    def redraw_row(self, row: int) -> None:
        """Draws one row again."""
        self._strips.pop(row, None)
        self.refresh_lines(row)

    def watch_has_focus(self, _has_focus: bool) -> None:
        """Nothing but the row of a cursor shows who has the keys: no style is looked up again."""

    def notify_style_update(self) -> None:
        """Colours have changed."""
        super().notify_style_update()
        self._strips.clear()
        self._base = None

    def render_line(self, y: int) -> Strip:
        """One row of the screen."""
        scroll_x, scroll_y = self.scroll_offset
        row, width = scroll_y + y, self.size.width
        if row >= len(self._lines):
            return Strip.blank(width, self._fill(row))
        strip = self._strip(row)
        return strip.crop_extend(scroll_x, scroll_x + width, self._fill(row)).apply_offsets(
            scroll_x, row
        )

    def _fill(self, row: int) -> Style:
        extra = self.row_style(row)
        if self._base is None:
            self._base = self.rich_style
        return self._base + self._over(extra) if extra else self._base

    def _over(self, name: str) -> Style:
        return self.get_component_rich_style(name, partial=True)

    def _strip(self, row: int) -> Strip:
        selection = self.text_selection
        if selection is None and row in self._strips:
            return self._strips[row]
        extra = self.row_style(row)
        over = self._over(extra) if extra else Style.null()
        line = self._lines[row]
        tones = (self.get_component_rich_style(f"lines--{piece.tone.value}") for piece in line)
        strip = Strip(
            [Segment(piece.text, tone + over) for piece, tone in zip(line, tones, strict=True)],
            line_cells(line),
        )
        if selection is None:
            self._strips[row] = strip
            return strip
        return self._selected(strip, selection, row)

    def _selected(self, strip: Strip, selection: Selection, row: int) -> Strip:
        found = selection.get_span(row)
        if found is None:
            return strip
        start, end = found
        end = strip.cell_length if end == -1 else min(end, strip.cell_length)
        before, chosen, after = strip.divide([start, max(start, end), strip.cell_length])
        style = self.screen.get_component_rich_style("screen--selection")
        marked = Strip(Segment(s.text, (s.style or Style.null()) + style) for s in chosen)
        return Strip.join([before, marked, after])

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The selected text."""
        return selection.extract(self.text), "\n"

    def selection_updated(self, _selection: Selection | None) -> None:
        """Another part of the text is selected."""
        self._strips.clear()
        self.refresh()


class RowsView(LinesView):
    """Lines of which one is chosen: a list. Up and down move, enter opens."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", show=False, id="list.up"),
        Binding("down,j", "move(1)", show=False, id="list.down"),
        Binding("pageup", "move_page(-1)", show=False),
        Binding("pagedown", "move_page(1)", show=False),
        Binding("home,g", "move_to(0)", show=False, id="list.first"),
        Binding("end,G", "move_to(-1)", show=False, id="list.last"),
        Binding("enter", "open", "Open", id="list.open"),
    ]

    class Moved(Message):
        """Another row is chosen by hand."""

        def __init__(self, view: RowsView, row: int):
            super().__init__()
            self.view = view
            self.row = row

        @property
        def control(self) -> RowsView:
            """The list."""
            return self.view

    class Opened(Moved):
        """The chosen row is to be opened."""

    def __init__(self, *, id: str | None = None, classes: str | None = None):  # noqa: A002
        super().__init__(id=id, classes=classes)
        self.cursor = 0

    def row_style(self, row: int) -> str:
        """The chosen row stands out."""
        if row != self.cursor or row >= len(self._lines):
            return ""
        return "lines--cursor-keys" if self.has_focus else "lines--cursor"

    def watch_has_focus(self, _has_focus: bool) -> None:
        """The cursor says who has the keys."""
        self.redraw_row(self.cursor)

    def may_choose(self, row: int) -> bool:
        """Whether the cursor can stand on a row."""
        return 0 <= row < len(self._lines)

    def set_cursor(self, row: int) -> None:
        """Chooses a row, and brings it into view; no message is sent."""
        if row == self.cursor:
            return
        before, self.cursor = self.cursor, row
        self.redraw_row(before)
        self.redraw_row(row)
        self.scroll_to_region(Region(0, row, 1, 1), animate=False, immediate=True)

    def action_move(self, steps: int) -> None:
        """To the next row on which the cursor can stand."""
        row = self.cursor + steps
        while 0 <= row < len(self._lines) and not self.may_choose(row):
            row += 1 if steps > 0 else -1
        if self.may_choose(row):
            self._move(row)

    def action_move_page(self, pages: int) -> None:
        """A screenful up or down."""
        self._move_near(self.cursor + pages * max(self.size.height - 1, 1))

    def action_move_to(self, row: int) -> None:
        """To a row; -1 is the last."""
        self._move_near(row if row >= 0 else len(self._lines) - 1)

    def action_open(self) -> None:
        """Opens the chosen row."""
        if self.may_choose(self.cursor):
            self.post_message(self.Opened(self, self.cursor))

    def on_click(self, event: events.Click) -> None:
        """A click chooses; on what is chosen already, it opens."""
        row = event.y + self.scroll_offset.y - self.gutter.top
        if not self.may_choose(row):
            return
        if row == self.cursor and event.chain > 1:
            self.action_open()
        else:
            self._move(row)

    def _move_near(self, row: int) -> None:
        rows = [r for r in range(len(self._lines)) if self.may_choose(r)]
        if rows:
            self._move(min(rows, key=lambda r: abs(r - row)))

    def _move(self, row: int) -> None:
        if row != self.cursor:
            self.set_cursor(row)
            self.post_message(self.Moved(self, row))
