"""The actions of a session that is replayed."""

from __future__ import annotations

from astra_tui.tui.source import Player


class PlayingActions:
    """Mixed into the session screen; they do nothing where nothing is replayed."""

    @property
    def player(self) -> Player | None:
        """What plays a saved session."""
        raise NotImplementedError

    def show_status(self) -> None:
        """Draws the top line."""
        raise NotImplementedError

    def action_play(self) -> None:
        """Plays the saved session, or stops."""
        if self.player is not None:
            self.player.toggle()
            self.show_status()

    def action_step(self, count: int) -> None:
        """Goes some events on or back."""
        if self.player is not None:
            self.player.step(count)

    def action_step_round(self, count: int) -> None:
        """Goes to where the next or the last round begins."""
        if self.player is not None:
            self.player.step_round(count)

    def action_speed(self, steps: int) -> None:
        """Plays faster or slower."""
        if self.player is not None:
            self.player.change_speed(steps)
            self.show_status()
