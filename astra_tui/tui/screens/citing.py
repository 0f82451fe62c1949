"""Looking up the numbers that a plan cites, where they were measured, and coming back."""

from __future__ import annotations

from textual.binding import Binding

from astra_tui.model.citations import COUNTED, check_citation
from astra_tui.model.plan import Citation
from astra_tui.tui.screens.session_panes import SessionPanes
from astra_tui.tui.view import Choice, place_of
from astra_tui.tui.widgets.plan import PlanPane

CITING = (Binding("backspace", "back", "Back to plan", id="back"),)


class CitingActions(SessionPanes):
    """Part of the session screen. A number belongs to the version that the plan starts from,
    so that all panes go there, and back again.
    """

    _left: tuple[Choice, bool] | None = None
    """The plan from which a number was looked up, and whether the work was followed then."""

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
        reading = check_citation(event.citation, view.base)
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
            self.bring("profile")

    def action_back(self) -> None:
        """Shows the plan again whose number was looked up."""
        if self._left is None:
            return
        choice, was_following = self._left
        self._left = None
        self.profile_pane.point_at(None, "")
        self.choose(None if was_following else choice)
        self.bring("plan")


def _is_of_lines(citation: Citation) -> bool:
    return bool(citation.lines) and citation.metric in COUNTED
