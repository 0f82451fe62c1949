"""Bars of one line or a few: what they say, the panes, the keys, and how a run ended."""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget

from astra_tui.model.state import SessionState
from astra_tui.present.layout import Line, Span, line_cells
from astra_tui.present.sessions import ending_facts
from astra_tui.present.tones import Tone
from astra_tui.tui.colours import tone_rules
from astra_tui.tui.text_layout import cut, toned

ALWAYS = ("resume", "help", "leave")
"""Actions whose keys are shown however narrow the terminal is."""


class BarLine(Widget):
    """One line of spans, drawn by the line API. A span may carry an action for the mouse."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"bar--{tone.value}" for tone in Tone}

    DEFAULT_CSS = """
    BarLine {
        height: 1;
        width: 1fr;
        background: $panel;
        color: $foreground;
    }
    """ + tone_rules("BarLine", "bar", bold=(Tone.CAUTION, Tone.ACCENT))
    # Keys and questions stand out in a line that is of another colour as a whole.

    def __init__(self, *, id: str | None = None):  # noqa: A002
        super().__init__(id=id)
        self._line: Line = ()
        self._actions: dict[int, str] = {}

    @property
    def text(self) -> str:
        """What the line says."""
        return "".join(piece.text for piece in self._line)

    def set_line(self, line: Line, actions: dict[int, str] | None = None) -> None:
        """Shows other spans; `actions` gives what a click on a span, by its index, does."""
        if line == self._line:
            return
        self._line, self._actions = line, actions or {}
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """The line, cut at the right edge."""
        base = self.rich_style
        segments = []
        for index, piece in enumerate(self._line if y == 0 else ()):
            style = self.get_component_rich_style(f"bar--{piece.tone.value}")
            action = self._actions.get(index)
            if action:
                style += Style.from_meta({"@click": action})
            segments.append(Segment(piece.text, style))
        return Strip(segments).adjust_cell_length(self.size.width, base)


class KeyLine(BarLine):
    """The keys that can be used now, the most urgent first, as many as fit."""

    def on_mount(self) -> None:
        """Follows the bindings of its screen."""
        self.screen.bindings_updated_signal.subscribe(self, self._changed)
        self.call_after_refresh(self.show_keys)

    def on_resize(self, _event: events.Resize) -> None:
        """More or fewer fit."""
        self.show_keys()

    def _changed(self, screen: Screen[object]) -> None:
        if screen is self.screen:
            self.show_keys()

    def show_keys(self) -> None:
        """Draws the keys again."""
        if not self.is_attached or not self.size.width:
            return
        spans: list[Span] = []
        actions: dict[int, str] = {}
        for binding in self._fitting():
            actions[len(spans)] = actions[len(spans) + 1] = f"app.simulate_key('{binding.key}')"
            spans += self._key_spans(binding)
        self.set_line(tuple(spans), actions)

    def _fitting(self) -> list[Binding]:
        """The bindings for which there is room, each action once, with the last ones kept."""
        shown: dict[str, Binding] = {}
        for active in self.screen.active_bindings.values():
            if active.binding.show:
                shown.setdefault(active.binding.action, active.binding)
        last = [shown.pop(action) for action in ALWAYS if action in shown]
        room = self.size.width - sum(line_cells(self._key_spans(b)) for b in last)
        kept: list[Binding] = []
        for binding in shown.values():
            room -= line_cells(self._key_spans(binding))
            if room < 0:
                break
            kept.append(binding)
        return kept + last

    def _key_spans(self, binding: Binding) -> tuple[Span, Span]:
        key = self.app.get_key_display(binding)
        return Span(f" {key} ", Tone.ACCENT), Span(f"{binding.description} ")


class TabLine(BarLine):
    """The panes by number; those on the screen stand out. The one in front always fits."""

    _tabs: tuple[dict[str, str], set[str], str] | None = None

    def on_resize(self, _event: events.Resize) -> None:
        """More or fewer fit."""
        if self._tabs is not None:
            self.show_tabs(*self._tabs)

    def show_tabs(self, titles: dict[str, str], shown: set[str], focused: str) -> None:
        """Draws the tabs: `titles` by pane, in the order of their numbers."""
        self._tabs = titles, shown, focused
        spans: list[Span] = []
        actions: dict[int, str] = {}
        front = 0
        for number, (pane, title) in enumerate(titles.items(), 1):
            tone = Tone.ACCENT if pane == focused else Tone.TITLE if pane in shown else Tone.DIM
            text = f"[{number} {title}]" if pane == focused else f" {number} {title} "
            actions[len(spans)] = f"screen.pane('{pane}')"
            front = len(spans) if pane == focused else front
            spans.append(Span(cut(text, 16), tone))
        first = self._first(spans, front)
        kept = {index - first: action for index, action in actions.items() if index >= first}
        self.set_line(tuple(spans[first:]), kept)

    def _first(self, spans: list[Span], front: int) -> int:
        """How many tabs are left out at the left, so that the one in front is seen whole."""
        room = self.size.width
        first = 0
        while room and first < front and line_cells(tuple(spans[first : front + 1])) > room:
            first += 1
        return first


FACTS = 4
"""Most lines of an ending."""


class EndingBar(Vertical):
    """A line for each fact, and one of keys. It never takes the focus."""

    DEFAULT_CSS = """
    EndingBar {
        height: auto;
        display: none;
    }
    """

    def compose(self) -> ComposeResult:
        """The lines, of which those are shown that say something."""
        for number in range(FACTS):
            yield BarLine(id=f"fact-{number}")
        yield BarLine(id="next")

    @property
    def text(self) -> str:
        """What the bar says; empty while it is hidden."""
        lines = [line for line in self.query(BarLine) if line.display]
        return "\n".join(line.text for line in lines) if self.display else ""

    def show_ending(self, state: SessionState, keys: Line) -> None:
        """Shows the ending of a run that is over."""
        self.display = state.closed is not None
        facts = list(ending_facts(state).items()) if self.display else []
        for number in range(FACTS):
            line = self.query_one(f"#fact-{number}", BarLine)
            line.display = number < len(facts)
            if line.display:
                name, told = facts[number]
                line.set_line((Span(f" {name}: ", Tone.DIM), *toned(told)))
        self.query_one("#next", BarLine).set_line(keys)
