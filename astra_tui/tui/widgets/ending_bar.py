"""The ending bar: how a run ended, and what can be done next."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Vertical

from astra_tui.model.state import SessionState
from astra_tui.present.words import ending_of
from astra_tui.tui.text_layout import Line, span
from astra_tui.tui.widgets.bars import BarLine

FACTS = 4
"""Most phrases of an ending."""


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
        facts = ending_of(state)
        self.display = bool(facts)
        for number in range(FACTS):
            line = self.query_one(f"#fact-{number}", BarLine)
            line.display = number < len(facts)
            if line.display:
                line.set_line((span(f" {facts[number].words}", facts[number].tone),))
        self.query_one("#next", BarLine).set_line(keys)
