"""Log: the events in words, and the prompts and replies of models on demand."""

from __future__ import annotations

from textual.message import Message

from astra_tui.model.events import ExchangeMade, ToolUsed
from astra_tui.model.visible import visible
from astra_tui.present.layout import Line, Span
from astra_tui.present.numbers import count, dollars
from astra_tui.present.tones import Tone
from astra_tui.tui.text_layout import Page, wrapped
from astra_tui.tui.view import LogEntry, View
from astra_tui.tui.widgets.pane import RowsPane

_TIME = 9


class LogPane(RowsPane):
    """The latest events; enter on a call of a model opens its prompt and reply."""

    TITLE = "Log"
    HELP = (
        "What happened, newest last; the journal holds all of it. Enter on a call of a model "
        "opens the prompt and the reply, on a tool of an agent its answer and draft. The pane "
        "follows the newest line while its cursor is there."
    )

    class ExchangeOpened(Message):
        """A prompt and its reply, or a tool's draft and answer, are to be shown."""

        def __init__(self, exchange: ExchangeMade | ToolUsed):
            super().__init__()
            self.exchange = exchange

    def __init__(self, *, id: str | None = None):  # noqa: A002
        super().__init__(id=id)
        self._wrapped: dict[tuple[int, int], list[Line]] = {}
        self._entries: dict[int, LogEntry] = {}
        self._following = True

    def part(self, view: View) -> tuple[object, ...]:
        """The last entry tells whether there are new ones."""
        last = view.log[-1].number if view.log else 0
        return (last, len(view.log), view.state.usage)

    @property
    def keeps_end(self) -> bool:
        """Whether the cursor is on the newest entry."""
        return self._following

    def draw(self, view: View, page: Page) -> None:
        """Usage, then one or more lines an entry."""
        chosen = self._entries.get(self.cursor)
        self._entries = {}
        usage = view.state.usage
        if usage.calls:
            cost = f", {dollars(usage.dollars)}" if usage.dollars else ""
            unpriced = f", {usage.unpriced_calls} calls unpriced" if usage.unpriced_calls else ""
            text = f"{usage.calls} calls, {count(usage.tokens)} tokens{cost}{unpriced}"
            page.line(Span(text, Tone.DIM))
        kept: dict[tuple[int, int], list[Line]] = {}
        for entry in view.log:
            key = (entry.number, page.width)
            kept[key] = lines = self._wrapped.get(key) or _entry_lines(entry, page.width)
            self._entries[len(page.lines)] = entry
            page.lines += lines
        self._wrapped = kept
        self._place_cursor(chosen)

    def may_choose(self, row: int) -> bool:
        """The first line of each entry."""
        return row in self._entries

    def on_rows_view_moved(self, event: RowsPane.Moved) -> None:
        """Follows the end as long as the cursor is there."""
        event.stop()
        self._following = event.row == max(self._entries, default=0)

    def on_rows_view_opened(self, event: RowsPane.Opened) -> None:
        """Opens a model's call."""
        event.stop()
        entry = self._entries.get(event.row)  # It may have moved on since the key was pressed.
        if entry is not None and entry.exchange is not None:
            self.post_message(self.ExchangeOpened(entry.exchange))

    def _place_cursor(self, chosen: LogEntry | None) -> None:
        last = max(self._entries, default=0)
        if self._following or chosen is None:
            self.cursor = last
            return
        rows = (row for row, entry in self._entries.items() if entry.number == chosen.number)
        self.cursor = next(rows, last)


_KEYS = {
    ExchangeMade: "  (enter: prompt and reply)",
    ToolUsed: "  (enter: what it told)",
    type(None): "",
}


def _entry_lines(entry: LogEntry, width: int) -> list[Line]:
    lines: list[Line] = []
    time = entry.time[11:19].ljust(_TIME)
    text = entry.text + _KEYS[type(entry.exchange)]
    for line in wrapped(visible(text.strip()), width - _TIME):
        lines.append((Span(time, Tone.DIM), Span(line, entry.tone)))
        time = " " * _TIME
    return lines
