"""The keys and actions of a session that is replayed."""

from __future__ import annotations

from dataclasses import replace

from textual.binding import ActiveBinding, Binding

from astra_tui.model.errors import UserError
from astra_tui.sessions.timeline import MomentKind
from astra_tui.tui.player import Player
from astra_tui.tui.screens.session_panes import SessionPanes
from astra_tui.tui.widgets.replay_line import LEGEND, ReplayLine

PLAYING = (
    Binding("p", "play", "Play", id="play"),
    Binding("full_stop", "step(1)", "Step", key_display=", .", id="step"),
    Binding("comma", "step(-1)", "Step back", show=False, id="step_back"),
    Binding("right_square_bracket", "step_round(1)", "Round", key_display="[ ]", id="round_on"),
    Binding("left_square_bracket", "step_round(-1)", "Round back", show=False, id="round_back"),
    Binding("d", "jump('decision', 1)", "Decision", id="decision_on"),
    Binding("D", "jump('decision', -1)", "Decision back", show=False, id="decision_back"),
    Binding("v", "jump('verdict', 1)", "Verdict", id="verdict_on"),
    Binding("V", "jump('verdict', -1)", "Verdict back", show=False, id="verdict_back"),
    Binding("e", "jump('error', 1)", "Error", id="error_on"),
    Binding("E", "jump('error', -1)", "Error back", show=False, id="error_back"),
    Binding("less_than_sign", "speed(-1)", "Slower", show=False, id="slower"),
    Binding("greater_than_sign", "speed(1)", "Faster", show=False, id="faster"),
    Binding("left_curly_bracket", "seek_end(False)", "Beginning", show=False, id="beginning"),
    Binding("right_curly_bracket", "seek_end(True)", "End", show=False, id="ending"),
)
"""They apply to a replay alone."""


class PlayingActions(SessionPanes):
    """Part of the session screen; they do nothing where nothing is replayed."""

    @property
    def more_help(self) -> str:
        """What help says apart from what the focused pane is."""
        return LEGEND if self.player is not None else ""

    @property
    def active_bindings(self) -> dict[str, ActiveBinding]:
        """The keys that apply; while a replay plays, the one that plays it pauses it."""
        active = super().active_bindings
        if self.player is None or not self.player.playing:
            return active
        return {key: _pausing(found) for key, found in active.items()}

    def action_play(self) -> None:
        """Plays the saved session, or pauses."""
        if self.player is not None:
            self.player.toggle()
            self.show_status()

    def action_step(self, count: int) -> None:
        """Goes some events forward or back."""
        if self.player is not None:
            self.player.step(count)
            self.show_status()

    def action_step_round(self, count: int) -> None:
        """Goes to where the next or the last round begins."""
        if self.player is not None:
            self.player.step_round(count)
            self.show_status()

    def action_jump(self, kind: str, count: int) -> None:
        """Goes to the next or the last decision, verdict or error."""
        if self.player is None:
            return
        if not self.player.jump({MomentKind(kind)}, count):
            self.app.say(f"no {kind} {'after' if count > 0 else 'before'} this place")
        self.show_status()

    def action_seek_end(self, at_end: bool) -> None:
        """Goes to the beginning or the end of the session."""
        if self.player is not None:
            self.player.seek(self.player.length if at_end else 0)
            self.show_status()

    def action_speed(self, steps: int) -> None:
        """Plays faster or slower."""
        if self.player is not None:
            self.player.change_speed(steps)
            self.show_status()

    def on_replay_line_sought(self, event: ReplayLine.Sought) -> None:
        """Goes to where the mouse is on the timeline."""
        if self.player is not None:
            self.player.seek(event.position)
            self.show_status()


def _pausing(active: ActiveBinding) -> ActiveBinding:
    if active.binding.action != "play":
        return active
    return active._replace(binding=replace(active.binding, description="Pause"))


def problem_of(player: Player, journal: str) -> UserError | None:
    """What of a saved session cannot be replayed or believed, if anything.

    `journal` names its file.
    """
    timeline = player.timeline
    if timeline.broken is not None:
        seq, why = timeline.broken.seq, timeline.broken.message
        return UserError(
            f"the replay ends before event {seq}, which makes no sense: {why}", file=journal
        )
    if timeline.damage:
        first = timeline.damage[0]
        return UserError(
            f"{len(timeline.damage)} parts of the journal cannot be read, the first in line "
            f"{first.line}: {first.message}",
            file=journal,
            hint="astra-tui verify names all of them",
        )
    if player.trust is not None and not player.trust.whole:
        return UserError(f"this session is {player.trust.describe()}")
    return None
