"""Plan: what is proposed, why, what it should bring, and what it brought."""

from __future__ import annotations

from astra_tui.model.ledger import score
from astra_tui.model.plan import Plan
from astra_tui.model.state import ProposalState
from astra_tui.tui.page import Page, Span, Tone, span
from astra_tui.tui.view import View
from astra_tui.tui.widgets.pane import Pane
from astra_tui.tui.words import OUTCOME_TONES, outcome_words, percent

_STREAM_LINES = 200


class PlanPane(Pane):
    """The chosen plan, its prediction beside the measurement, and what is being written."""

    TITLE = "Plan"
    HELP = (
        "The plan of the chosen proposal: the bottleneck it sees, the numbers that speak for it, "
        "the change, and what it expects. Once the candidate was profiled, the measured ratio "
        "stands beside the predicted one. Below it, what a model is writing right now.\n\n"
        "While a plan waits for you: a accepts, e edits its fields, r rejects it with a reason."
    )

    def part(self, view: View) -> tuple[object, ...]:
        """The proposal, its decisions, and the text that streams in."""
        streams = tuple(view.streams.values()) if self._streams_here(view) else ()
        return (view.round, view.proposal, view.state.decisions, *view.choice, *streams)

    @property
    def keeps_end(self) -> bool:
        """Follows what is being written, unless somebody has scrolled up."""
        return bool(self._view and self._streams_here(self._view) and self._view.streams) and (
            self.at_end
        )

    def draw(self, view: View, page: Page) -> None:
        """The plan first, then its story, then the stream."""
        round_, proposal = view.round, view.proposal
        if proposal is not None and round_ is not None:
            plan = view.state.plan_of(round_.number, proposal.index)
            _draw_plan(page, plan, proposal)
            _draw_prediction(page, plan, proposal)
            _draw_story(page, view, proposal)
        elif round_ is not None and round_.number == 0:
            page.paragraph("The baseline is where optimisation starts; it has no plan.", Tone.DIM)
        elif round_ is not None and round_.planned:
            page.paragraph(f"No plan: {round_.no_plan}")
        elif not view.streams:
            page.paragraph("No plan yet.", Tone.DIM)
        if round_ is not None and round_.refused:
            page.heading("Not applicable here")
            for line in round_.refused:
                page.paragraph(line, Tone.DIM, indent=2)
        if self._streams_here(view):
            _draw_streams(page, view)

    def _streams_here(self, view: View) -> bool:
        """Whether what is being written belongs to the choice."""
        stage = view.stage
        if stage is None:
            return view.following
        return stage.round == view.choice.round


def _draw_plan(page: Page, plan: Plan, proposal: ProposalState) -> None:
    page.paragraph(plan.title, Tone.TITLE)
    move = f", move {plan.move}" if plan.move else ""
    page.paragraph(f"by {proposal.author.describe()}{move}, {plan.risk.value} risk", Tone.DIM)
    page.blank()
    page.field("bottleneck", plan.bottleneck)
    for index, observation in enumerate(plan.observations):
        page.field("evidence" if index == 0 else "", observation.sentence)
    page.field("change", plan.change)
    if plan.places:
        places = ", ".join(
            f"{p.first}" if p.first == p.last else f"{p.first} to {p.last}" for p in plan.places
        )
        page.field("lines", places)


def _draw_prediction(page: Page, plan: Plan, proposal: ProposalState) -> None:
    expected = plan.prediction
    page.heading("Prediction and measurement")
    name = expected.counter.value.replace("_", " ")
    page.field("expected", f"{name} {percent(expected.counter_ratio)}")
    verdict = proposal.verdict
    comparison = verdict.comparison if verdict else None
    measured = score(expected, comparison) if comparison else None
    if measured is not None:
        right = "right direction" if measured.right_direction else "wrong direction"
        tone = Tone.GOOD if measured.right_direction else Tone.CAUTION
        page.field("measured", f"{name} {percent(measured.measured_ratio)}, {right}", tone)
    else:
        page.field("measured", "not yet" if verdict is None else "no", Tone.DIM)
    page.field(
        "speedup",
        f"{expected.speedup_low:.2f}x to {expected.speedup_high:.2f}x expected",
        Tone.DIM,
    )


def _draw_story(page: Page, view: View, proposal: ProposalState) -> None:
    place = (view.choice.round, view.choice.proposal)
    asked = [q for q in view.state.questions.values() if (q.round, q.proposal) == place]
    taken = [view.state.decisions[q.id] for q in asked if q.id in view.state.decisions]
    if taken:
        page.heading("Decisions")
    for decision in taken:
        text = f"{decision.gate.value} {decision.status.value} by {decision.by.describe()}"
        if decision.partial is not None:
            text += f", only hunks {', '.join(str(h + 1) for h in decision.partial)}"
        page.paragraph(text + (f": {decision.reason}" if decision.reason else ""))
    if proposal.verdict is not None:
        outcome = proposal.verdict.outcome
        page.heading("Verdict")
        page.line(Span(outcome_words(outcome), OUTCOME_TONES[outcome]))
        for reason in proposal.verdict.reasons:
            page.paragraph(reason, indent=2)
    for analysis in view.candidate.analyses if view.candidate else ():
        page.blank()
        page.line(span(analysis.author.describe(), Tone.DIM), Span(" says:", Tone.DIM))
        page.paragraph(analysis.text, indent=2)


def _draw_streams(page: Page, view: View) -> None:
    for role, text in view.streams.items():
        page.blank()
        page.line(Span("writing: ", Tone.ACCENT), span(role, Tone.ACCENT))
        part = Page(page.width)
        part.paragraph(text)
        page.lines += part.lines[-_STREAM_LINES:]
