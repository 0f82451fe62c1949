"""Plan: what is proposed, why, what it should bring, and what it brought."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region
from textual.message import Message

from astra_tui.model.plan import Citation
from astra_tui.model.state import RoundState, SessionState
from astra_tui.model.verdict import REJECTED_BEFORE
from astra_tui.present.layout import Span
from astra_tui.present.plans import (
    CITED,
    analyses_blocks,
    plan_entry,
    reading_blocks,
    shown_citations,
)
from astra_tui.present.tones import Tone
from astra_tui.present.words import stands_on
from astra_tui.tui.text_layout import Page, span
from astra_tui.tui.view import View
from astra_tui.tui.widgets.pane import Pane

_STREAM_LINES = 200


class PlanPane(Pane):
    """The chosen plan, its prediction with the measurement, and what is being written.

    The numbers that its evidence cites can be chosen one by one and looked up where they are from.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "cite(1)", "Cited number", id="plan.next_number"),
        Binding("C", "cite(-1)", "Cited number back", show=False, id="plan.previous_number"),
        Binding("o", "unfold", "Other moves", show=False, id="plan.unfold"),
        Binding("enter", "look_up", "Look it up", id="plan.look_up"),
    ]

    TITLE = "Plan"
    HELP = (
        "The plan of the chosen proposal: the bottleneck it sees, the numbers that speak for it, "
        "the change, and what it expects. Once the candidate was profiled, the measured ratio "
        "stands next to the predicted one. Below it, what a model is writing right now.\n\n"
        "Under each piece of evidence stand the numbers that it cites, each compared with what was "
        "measured of the version that the plan starts from. c and C go from one to the next, "
        "enter or a click looks the number up on the Profile or Source pane, and backspace comes "
        "back. o lists the moves that do not apply, and folds them again.\n\n"
        "While a plan waits for you: a accepts, e edits its fields, r rejects it with a reason."
    )

    class LookedUp(Message):
        """A number that a plan cites is to be shown where it was measured."""

        def __init__(self, citation: Citation):
            super().__init__()
            self.citation = citation

    def __init__(self, *, id: str | None = None):  # noqa: A002
        super().__init__(id=id)
        self._cited: list[CitedRows] = []
        self._cursor: int | None = None
        """Which of the cited numbers is chosen, if one is."""
        self._unfolded = False
        """Whether the moves that do not apply are listed."""

    def part(self, view: View) -> tuple[object, ...]:
        """The proposal and what it starts from, its decisions, and the text that streams in."""
        streams = tuple(view.streams.values()) if self._streams_here(view) else ()
        base = view.base
        changing = (view.round, view.proposal, base, view.state.decisions)
        return (*changing, *view.sweeps, *view.choice, *streams)

    @property
    def keeps_end(self) -> bool:
        """Follows what is being written, unless someone has scrolled up."""
        return bool(self._view and self._streams_here(self._view) and self._view.streams) and (
            self.at_end
        )

    def draw(self, view: View, page: Page) -> None:
        """The plan first, then its story, then the stream."""
        round_, proposal = view.round, view.proposal
        cited: list[Citation] = []
        if proposal is not None and round_ is not None:
            plan = view.state.plan_of(round_.number, proposal.index)
            cited += shown_citations(plan.observations)
            page.paragraph(f"From {stands_on(round_)}.", Tone.DIM)
            page.blocks([plan_entry(view.state, round_, proposal)])
            if view.candidate is not None:
                page.blocks(analyses_blocks(view.candidate))
        elif round_ is not None and round_.number == 0:
            page.paragraph("The baseline is where optimisation starts; it has no plan.", Tone.DIM)
        elif round_ is not None and round_.planned:
            page.paragraph(f"No plan: {round_.no_plan}")
        elif not view.streams:
            page.paragraph("No plan yet.", Tone.DIM)
        if round_ is not None and round_.number:
            cited += _draw_reading(page, view.state, round_)
        if round_ is not None and round_.recalled is not None:
            page.heading("Earlier sessions on this machine")
            if round_.recalled.predictions:
                page.paragraph(f"Predictions so far: {round_.recalled.predictions}", indent=2)
            for one in round_.recalled.known:
                page.paragraph(one.describe(), Tone.DIM, indent=2)
        if round_ is not None and round_.refused:
            _draw_refused(page, round_.refused, self._unfolded)
        if self._streams_here(view):
            _draw_streams(page, view)
        before = [one.citation for one in self._cited]
        rows = (rows for name, rows in page.places if name == CITED)
        self._cited = [CitedRows(*found) for found in zip(cited, rows, strict=True)]
        if before != cited:
            self._cursor = None
            self.refresh_bindings()

    def row_style(self, row: int) -> str:
        """The chosen number stands out."""
        return "lines--cursor" if row in self._chosen_rows() else ""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """Numbers can be looked up where there are some."""
        if action == "look_up":
            return self._cursor is not None
        return bool(self._cited) if action == "cite" else True

    def action_cite(self, steps: int) -> None:
        """Chooses the next or the previous number that the evidence cites."""
        if self._cited:
            first = 0 if steps > 0 else len(self._cited) - 1
            chosen = first if self._cursor is None else self._cursor + steps
            self._choose(chosen % len(self._cited))

    def action_look_up(self) -> None:
        """Shows the chosen number where it was measured."""
        if self._cursor is not None:
            self.post_message(self.LookedUp(self._cited[self._cursor].citation))

    def action_unfold(self) -> None:
        """Lists the moves that do not apply, or only counts them."""
        self._unfolded = not self._unfolded
        self.redraw()

    def on_click(self, event: events.Click) -> None:
        """A click on a cited number looks it up."""
        row = event.y + self.scroll_offset.y - self.gutter.top
        for index, cited in enumerate(self._cited):
            if row in cited.rows:
                self._choose(index)
                self.action_look_up()

    def _choose(self, index: int) -> None:
        before, self._cursor = self._chosen_rows(), index
        for row in (*before, *self._chosen_rows()):
            self.redraw_row(row)
        first = self._chosen_rows().start
        self.scroll_to_region(Region(0, first, 1, 1), animate=False, immediate=True)
        self.refresh_bindings()

    def _chosen_rows(self) -> range:
        return range(0) if self._cursor is None else self._cited[self._cursor].rows

    def _streams_here(self, view: View) -> bool:
        """Whether what is being written belongs to the choice."""
        stage = view.stage
        if stage is None:
            return view.following
        return stage.round == view.choice.round


class CitedRows(NamedTuple):
    """A cited number, and the rows of the pane that it is on."""

    citation: Citation
    rows: range


def _draw_refused(page: Page, refused: Sequence[str], unfolded: bool) -> None:
    """The moves that do not apply, in one line unless they are asked for; what the engineer has
    turned down is always there.
    """
    count = len(refused)
    says = "1 move does not apply" if count == 1 else f"{count} moves do not apply"
    page.heading(f"{says}: o {'folds them' if unfolded else 'shows why'}")
    for line in refused:
        if unfolded or REJECTED_BEFORE in line:
            page.paragraph(line, Tone.DIM, indent=2)


def _draw_reading(page: Page, state: SessionState, round_: RoundState) -> list[Citation]:
    """What the profiling agent chose to measure of the version that a round stands on."""
    found = state.reading(round_.base, round_.number)
    if found is None:
        return []
    page.heading("What the profiling agent chose")
    page.blocks(reading_blocks(state, round_))
    return shown_citations(found.selection.evidence) if found.selection is not None else []


def _draw_streams(page: Page, view: View) -> None:
    for role, text in view.streams.items():
        page.blank()
        page.line(Span("writing: ", Tone.ACCENT), span(role, Tone.ACCENT))
        part = Page(page.width)
        part.paragraph(text)
        page.lines += part.lines[-_STREAM_LINES:]
