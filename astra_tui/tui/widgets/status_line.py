"""The top line of a session: task, team, device, what runs, how good it is, what it costs."""

from __future__ import annotations

from textual import events

from astra_tui.model.events import StopReason
from astra_tui.model.state import SessionState, SessionStatus
from astra_tui.model.visible import visible_inline
from astra_tui.present.layout import Line, Span, line_cells
from astra_tui.present.numbers import clock, count, dollars
from astra_tui.present.tones import Tone
from astra_tui.present.words import STAGES, best_of, closed_words, team_words
from astra_tui.tui.player import Player
from astra_tui.tui.text_layout import span
from astra_tui.tui.view import View
from astra_tui.tui.widgets.bars import BarLine
from astra_tui.tui.widgets.pane_layout import TWO_COLUMNS

_GAP = Span("  ")


class StatusLine(BarLine):
    """Says where the session stands, in one line; what matters least is left out first."""

    def __init__(self, *, id: str | None = None):  # noqa: A002
        super().__init__(id=id)
        self._parts: list[list[Span]] = []
        self._last_to_go: list[Span] = []

    def show_status(
        self, view: View, now: float, *, player: Player | None, gone: bool = False
    ) -> None:
        """Draws the line.

        `now` is the screen's clock; `gone` says that the engine went without a word.
        """
        opened = view.state.opened
        if opened is None:
            nothing = " nothing has happened yet" if player else " connecting"
            self.set_line((Span(nothing, Tone.DIM),))
            return
        settings = opened.settings
        parts = [
            [span(f" {settings.task}", Tone.TITLE)],
            _doubt(player),
            [Span("the engine is gone", Tone.BAD)] if gone else _activity(view, now),
            _rounds(view.state),
            _best(view.state, is_brief=self.app.size.width < TWO_COLUMNS),
            *((_replay(player), _lost(player)) if player else ()),
            _auto(view.state),
            [span(team_words(settings), Tone.DIM)],
            [span(view.state.device_name, Tone.DIM)],
            _cost(view.state),
        ]
        self._parts, self._last_to_go = parts, _auto(view.state)
        self._fit()

    def on_resize(self, _event: events.Resize) -> None:
        """More or less fits."""
        if self._parts:
            self._fit()

    def _fit(self) -> None:
        self.set_line(_fitted(self._parts, self._last_to_go, self.size.width))


def _fitted(parts: list[list[Span]], last_to_go: list[Span], width: int) -> Line:
    """The parts for which there is room, in their order; those in front go before one of them."""
    room = width - line_cells((*last_to_go, _GAP) if last_to_go else ())
    line: list[Span] = []
    for part in filter(None, parts):
        is_kept = part == last_to_go
        piece = [_GAP, *part] if line else part
        if is_kept or line_cells((*line, *piece)) <= room:
            line += piece
        room += line_cells((*part, _GAP)) if is_kept else 0
    return tuple(line)


def _activity(view: View, now: float) -> list[Span]:
    state = view.state
    if state.closed is not None:
        why, _, _ = closed_words(state.closed).partition(" (")
        return [span(why, Tone.TITLE)]
    if state.status is SessionStatus.PAUSED:
        return [Span("paused", Tone.CAUTION)]
    asked = view.asked
    if asked is not None and (view.awaiting is not None or view.stage is None):
        return [Span(f"{asked.gate.value} to decide", Tone.CAUTION)]
    if view.stage is None:
        return []
    seconds = clock(now - view.since)
    text = STAGES.get(view.stage.stage, view.stage.stage)
    if view.stage.stage == "check":
        candidate = view.tested if view.following else None
        if view.waits_for_baseline:
            text += " the baseline"
        if candidate is not None and candidate.check is None and candidate.cases:
            text += f" {len(candidate.results)}/{candidate.cases}"
    if view.stage.stage == "sweep" and view.sweep:
        text += f", {visible_inline(view.sweep)}"
    return [Span(f"{text} {seconds}", Tone.ACCENT)]


def _rounds(state: SessionState) -> list[Span]:
    if state.closed is not None and state.closed.reason is StopReason.ROUNDS:
        return []  # Why it ended says it.
    number = max((r.number for r in state.rounds), default=0)
    limit = state.round_limit + state.rounds_free
    return [Span(f"round {number}/{limit}")] if state.round_limit else []


def _best(state: SessionState, *, is_brief: bool) -> list[Span]:
    best = best_of(state, is_brief=is_brief)
    return [Span(f"best {best.text}", best.tone)] if best.text else []


def _auto(state: SessionState) -> list[Span]:
    words = state.auto.describe()
    return [Span(words, Tone.CAUTION)] if words and state.closed is None else []


def _cost(state: SessionState) -> list[Span]:
    usage = state.usage
    if not usage.calls:
        gpu = f"{usage.gpu_seconds:.0f} GPU s" if usage.gpu_seconds else ""
        return [Span(gpu, Tone.DIM)] if gpu else []
    cost = f" {dollars(usage.dollars)}" if usage.dollars else ""
    more = "+" if usage.dollars and usage.unpriced_calls else ""
    return [Span(f"{count(usage.tokens)} tokens{cost}{more}", Tone.DIM)]


def _doubt(player: Player | None) -> list[Span]:
    """Why a saved session may not be all that happened, in a word or two."""
    trust = player.trust if player else None
    if trust is None or trust.whole:
        return []
    if trust.altered:
        return [Span("ALTERED", Tone.BAD)]
    return [Span("not closed yet" if trust.writer else "cut off", Tone.CAUTION)]


def _replay(player: Player) -> list[Span]:
    return [Span(f"replay, event {player.position} of {player.length}", Tone.CAUTION)]


def _lost(player: Player) -> list[Span]:
    trust = player.trust
    if trust is None or not player.timeline.broken:
        return []
    return [Span(f"{count(trust.lines - player.length)} more make no sense", Tone.CAUTION)]
