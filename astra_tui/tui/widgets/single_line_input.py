"""A field of one line that keeps all of what is pasted."""

from __future__ import annotations

from textual import events
from textual.widgets import Input


class SingleLineInput(Input):
    """An input that takes several lines as one; Textual's own keeps the first, unsaid."""

    def on_paste(self, event: events.Paste) -> None:
        """Joins the lines with spaces."""
        event.prevent_default()
        event.stop()
        lines = (line.strip() for line in event.text.splitlines())
        self.replace(" ".join(filter(None, lines)), *self.selection)
