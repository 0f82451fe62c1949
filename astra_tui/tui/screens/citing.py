"""Looking up the numbers that a plan cites, where they were measured, and coming back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.binding import Binding

from astra_tui.model.citations import COUNTED, read
from astra_tui.model.plan import Citation
from astra_tui.tui.view import Choice, View, place_of
from astra_tui.tui.widgets.plan import PlanPane
from astra_tui.tui.widgets.profile import ProfilePane
from astra_tui.tui.widgets.session_code import SessionSource

if TYPE_CHECKING:
    from astra_tui.tui.app import AstraApp

CITING = (Binding("backspace", "back", "Back to plan", id="back"),)


class CitingActions:
    """Mixed into the session screen. A number belongs to the version that the plan starts from,
    so that all panes go there, and back again.
    """

    app: AstraApp
    view: View | None
    source_pane: SessionSource
    profile_pane: ProfilePane

    _left: tuple[Choice, bool] | None = None
    """The plan from which a number was looked up, and whether the work was followed then."""

    def choose(self, choice: Choice | None) -> None:
        """What all panes are about; None follows the work."""
        raise NotImplementedError

    def _bring(self, name: str) -> None:
        raise NotImplementedError

    @property
    def looks_up(self) -> bool:
        """Whether there is a plan to go back to."""
        return (
            self._left is not None and self.view is not None and self.view.choice != self._left[0]
        )

    def on_plan_pane_looked_up(self, event: PlanPane.LookedUp) -> None:
        """Shows the version that the plan starts from, with the cited number marked."""
        view = self.view
        if view is None or view.base is None:
            return
        reading = read(event.citation, view.base)
        place = place_of(view.state, view.base.hash)
        if place is None:
            self.app.say("the version that this plan starts from is not in this session")
            return
        self._left = view.choice, view.following
        self.profile_pane.point_at(reading, view.base.hash)
        self.choose(place)
        if _is_of_lines(event.citation):
            self.show_line(event.citation.lines[0].first)
            self.app.say(reading.describe())
        else:
            self._bring("profile")

    def action_back(self) -> None:
        """Shows the plan again whose number was looked up."""
        if self._left is None:
            return
        choice, was_following = self._left
        self._left = None
        self.profile_pane.point_at(None, "")
        self.choose(None if was_following else choice)
        self._bring("plan")

    def show_line(self, line: int) -> None:
        """Brings up the source with its cursor on a line, counted from 1."""
        if self.view is not None:
            self.source_pane.show_view(self.view)
        self._bring("source")
        # A pane that was never shown has its lines only once it is mounted.
        self.source_pane.call_after_refresh(self.source_pane.go_to_line, line)


def _is_of_lines(citation: Citation) -> bool:
    return bool(citation.lines) and citation.metric in COUNTED
