"""The timeline of a replay: one line, shown while a saved session is on the screen."""

from __future__ import annotations

import math

from textual import events
from textual.message import Message

from astra_tui.present.events import describe
from astra_tui.present.layout import Line, Span
from astra_tui.present.numbers import clock, rough_duration
from astra_tui.present.tones import Tone
from astra_tui.sessions.timeline import MomentKind
from astra_tui.tui.player import Player
from astra_tui.tui.text_layout import cut, padded, span
from astra_tui.tui.widgets.bars import BarLine

HEAD = "█"
IDLE = "~"

MARKS = {
    MomentKind.ROUND: Span("|", Tone.TITLE),
    MomentKind.DECISION: Span("d", Tone.ACCENT),
    MomentKind.VERDICT: Span("v"),
    MomentKind.BEST: Span("*", Tone.GOOD),
    MomentKind.ERROR: Span("x", Tone.BAD),
    MomentKind.END: Span("]", Tone.TITLE),
}

LEGEND = (
    "The line below the panes is the session: | a round begins, d a decision, v a verdict, "
    "* a new best, x an error, ] an engine ended, ~ an idle stretch that is shortened. Half of it "
    "is time, the other half room for these marks. A click or a drag goes to another place; "
    "d, v, e and [ ] go from mark to mark, capitals back; { and } go to the ends; < and > change "
    "the speed."
)

STATUS_WIDTH = 22
MOMENT_FROM_WIDTH = 110
"""From this width on the line says what happened last."""

MOMENT_WIDTH = 32


class ReplayLine(BarLine):
    """Speed, the line of the session with its turning points, and the session's own time."""

    class Sought(Message):
        """The engineer wants another place to be shown."""

        def __init__(self, position: int):
            super().__init__()
            self.position = position

    def __init__(self, *, id: str | None = None):  # noqa: A002
        super().__init__(id=id)
        self._player: Player | None = None
        self._scrubbing = False
        self.display = False

    def show_player(self, player: Player | None) -> None:
        """Draws where a replay is, and on a very narrow terminal only whether it plays; without a
        replay the line is not there.
        """
        self._player, self.display = player, player is not None
        width = self.app.size.width
        if player is None:
            return
        status = span(padded(f" {status_words(player)}", STATUS_WIDTH), Tone.CAUTION)
        if width < STATUS_WIDTH * 2:
            self.set_line((status,))
            return
        time, told = self._time(player), self._told(player, width)
        track = self._track(player, self.track_width)
        self.set_line((status, *track, Span(time), *told))

    @property
    def track_width(self) -> int:
        """Cells of the line itself, which begins in column `STATUS_WIDTH`."""
        assert self._player is not None
        width = self.app.size.width
        told = MOMENT_WIDTH if width >= MOMENT_FROM_WIDTH else 0
        return max(1, width - STATUS_WIDTH - len(self._time(self._player)) - told)

    def on_resize(self, _event: events.Resize) -> None:
        """The line has other cells."""
        self.show_player(self._player)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Goes there, and follows the mouse from now on; off the line itself, nothing."""
        if self._player is None or event.button != 1:
            return
        if 0 <= event.x - STATUS_WIDTH < self.track_width:
            self._scrubbing = True
            self.capture_mouse()
            self._seek(event.x)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Follows the mouse while its button is down."""
        if self._scrubbing:
            self._seek(event.x)

    def on_mouse_up(self, _event: events.MouseUp) -> None:
        """Stops following the mouse."""
        self._scrubbing = False
        self.release_mouse()

    def _seek(self, column: int) -> None:
        assert self._player is not None
        width = self.track_width
        cell = max(0, min(column - STATUS_WIDTH, width - 1))
        self.post_message(self.Sought(self._player.track.position(cell, width)))

    def _time(self, player: Player) -> str:
        whole = clock(player.timeline.elapsed(player.length))
        return f" {clock(player.timeline.elapsed(player.position)).rjust(len(whole))}/{whole} "

    def _told(self, player: Player, width: int) -> Line:
        """What happened last."""
        if width < MOMENT_FROM_WIDTH:
            return ()
        moment = player.timeline.preceding(player.position + 1, set(MomentKind))
        told = describe(player.timeline.event(moment.position)) if moment else None
        text = f"r{moment.round} {told.text}" if moment and told else ""
        return (span(cut(span(text).text, MOMENT_WIDTH - 1), Tone.DIM),)

    def _track(self, player: Player, width: int) -> Line:
        marks, idle = player.track.marks(width), player.track.idle(width)
        head = player.track.cell(player.position, width)
        line: list[Span] = []
        for cell in range(width):
            if cell == head:
                line.append(Span(HEAD, Tone.ACCENT))
            elif cell in marks:
                line.append(MARKS[marks[cell].kind])
            else:
                line.append(Span(IDLE if cell in idle else "─", Tone.DIM))
        return tuple(line)


def speed_words(speed: float) -> str:
    """As in "4x"."""
    return "instant" if math.isinf(speed) else f"{speed:g}x"


def status_words(player: Player) -> str:
    """Whether it plays and how fast; in an idle stretch, how much of that is made short."""
    if player.idle:
        return f"idle {rough_duration(player.idle)} shortened"
    return f"{'playing' if player.playing else 'stopped'} {speed_words(player.speed)}"
