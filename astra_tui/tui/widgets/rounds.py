"""Rounds: every candidate of the session with its verdict. What is chosen here, all panes show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from textual.geometry import Region
from textual.message import Message

from astra_tui.model.digest import short
from astra_tui.model.events import ParentChoice
from astra_tui.model.state import ProposalState, RoundState
from astra_tui.present.layout import Line, Span, line_cells
from astra_tui.present.tones import Tone, sign_of
from astra_tui.present.words import (
    STAGES,
    WHY,
    comparison_words,
    round_verdict,
    where_measured,
)
from astra_tui.tui.text_layout import Page, padded, span
from astra_tui.tui.view import Choice, View
from astra_tui.tui.widgets.pane import RowsPane

ROWS = 2
"""Rows that a proposal takes."""

NOT_FINISHED = "not finished"
"""The words for a plan without a verdict once its engine has ended."""


class RoundsPane(RowsPane):
    """A list of rounds and their proposals, newest last."""

    TITLE = "Rounds"
    HELP = (
        "Every plan of every round with its result. The mark in front repeats the verdict: "
        "+ better, = same, - worse, ? inconclusive or unsupported, x wrong or not compiled, "
        "/ rejected, > at work; none where the run ended first. A star is the best so far, on "
        "which later rounds build.\n\n"
        "Up and down choose what all other panes show. Choosing stops following the work; "
        "f follows it again."
    )

    class Chosen(Message):
        """The engineer chose a proposal."""

        def __init__(self, choice: Choice):
            super().__init__()
            self.choice = choice

    def __init__(self, *, id: str | None = None):  # noqa: A002
        super().__init__(id=id)
        self._choices: dict[int, Choice] = {}
        self._drawn_rounds: dict[int, _DrawnRound] = {}
        self._in_sight = (0, 0)
        """The cursor and the height for which it was scrolled."""

    def set_lines(self, lines: Sequence[Line], *, to_end: bool = False) -> None:
        """Shows other lines; a round that has come to be chosen is scrolled to."""
        super().set_lines(lines, to_end=to_end)
        self._bring_in_sight()

    def resized(self) -> None:
        """What is chosen stays in sight, with its result."""
        super().resized()
        self._bring_in_sight()

    def _bring_in_sight(self) -> None:
        place = self.cursor, self.inner_size.height
        if place != self._in_sight:
            self._in_sight = place
            chosen = Region(0, self.cursor, 1, ROWS)
            self.call_after_refresh(self.scroll_to_region, chosen, animate=False, immediate=True)

    def part(self, view: View) -> tuple[object, ...]:
        """Rounds, what runs, and what is chosen."""
        stage = view.stage.stage if view.stage else ""
        asked = view.asked.id if view.asked else ""
        state = view.state
        return (state.rounds, state.best, stage, asked, state.paused, state.closed, *view.choice)

    def lines_of(self, view: View, width: int) -> Sequence[Line]:
        """Two lines a proposal: what was tried, and its result. Those in sight are drawn."""
        if not view.state.rounds:
            return [(Span("Nothing has happened yet.", Tone.DIM),)]
        self._choices = {}
        chosen = before = 0
        lines = _RoundLines(lambda round_: self._round_lines(view, round_, width))
        for round_ in view.state.rounds:
            is_only_one = round_.why is ParentChoice.DRAWN and round_.among == 1
            why = "" if is_only_one else WHY[round_.why]
            if round_.number and (why or round_.parent != before):
                lines.add_line((Span(f"    from round {round_.parent}{why}:", Tone.DIM),))
            before = round_.number
            for choice in _choices_of(round_):
                self._choices[len(lines)] = choice
                chosen = len(lines) if choice == view.choice else chosen
                lines.add_rows(round_, choice.proposal)
        self.cursor = chosen
        return lines

    def may_choose(self, row: int) -> bool:
        """The first line of each entry."""
        return row in self._choices

    def on_rows_view_moved(self, event: RowsPane.Moved) -> None:
        """Tells the screen."""
        event.stop()
        choice = self._choices.get(event.row)
        if choice is not None:  # A replay may have gone back meanwhile.
            self.post_message(self.Chosen(choice))

    def _round_lines(self, view: View, round_: RoundState, width: int) -> list[Line]:
        """The lines of a round; those of a closed one, which stays as it is, are kept."""
        is_best = view.state.best == (round_.best if round_.number else round_.base)
        drawn = self._drawn_rounds.get(round_.number)
        if drawn is not None and drawn.round is round_ and drawn[:2] == (width, is_best):
            return drawn.lines
        page = Page(width)
        for choice in _choices_of(round_):
            _draw_choice(view, page, round_, choice)
        if round_.closed:
            self._drawn_rounds[round_.number] = _DrawnRound(width, is_best, round_, page.lines)
        return page.lines


class _RoundLines(Sequence[Line]):
    """The lines of all rounds, each of which `draw` draws when it is asked for."""

    def __init__(self, draw: Callable[[RoundState], list[Line]]):
        self._draw = draw
        self._rows: list[tuple[RoundState, int] | Line] = []

    def add_line(self, line: Line) -> None:
        """A line as it is."""
        self._rows.append(line)

    def add_rows(self, round_: RoundState, proposal: int) -> None:
        """The lines of a proposal of a round."""
        first = proposal * ROWS
        self._rows += ((round_, row) for row in range(first, first + ROWS))

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        match self._rows[index]:
            case RoundState() as round_, int(row):
                return self._draw(round_)[row]
            case line:
                return line


class _DrawnRound(NamedTuple):
    """The lines of a closed round, and what they were drawn for."""

    width: int
    is_best: bool
    round: RoundState
    lines: list[Line]


def _draw_choice(view: View, page: Page, round_: RoundState, choice: Choice) -> None:
    """The lines of a proposal, `ROWS` of them."""
    if choice.round == 0:
        star = "*" if view.state.best == round_.base else " "
        page.line(Span(f"{star}   0 baseline"))
        page.line(Span("      " + short(round_.base), Tone.DIM))
        return
    if not round_.proposals:
        mark, said = (" ", "no plan") if round_.planned else (">", "planning")
        if view.state.closed is not None and not round_.planned:
            mark, said = " ", NOT_FINISHED
        page.line(Span(f" {mark}{round_.number:3} "), Span(said, Tone.DIM))
        page.line(span("      " + round_.no_plan, Tone.DIM))
        return
    proposal = round_.proposals[choice.proposal]
    _draw_proposal(view, page, round_, proposal)


def _choices_of(round_: RoundState) -> list[Choice]:
    return [Choice(round_.number, index) for index in range(max(len(round_.proposals), 1))]


def _draw_proposal(view: View, page: Page, round_: RoundState, proposal: ProposalState) -> None:
    plan = view.state.plan_of(round_.number, proposal.index)
    code = proposal.code
    star = "*" if code and code.candidate == view.state.best == round_.best else " "
    number = str(round_.number)
    if len(round_.proposals) > 1:
        number += "abcdefghijklmnopqrstuvwxyz"[proposal.index % 26]
    mark, said = _result(view, round_, proposal)
    head = Span(f"{star}{mark.text}", mark.tone)
    page.line(head, Span(f"{padded(number.rjust(3), 4)}"), span(plan.title))
    result = (Span("      "), *said, Span("  "))
    who = view.state.written_by(round_.number, proposal.index)
    if line_cells(result) + len(who) > page.width:
        who = who.partition(" ")[0]  # Without the name of the move, which the plan says.
    page.line(*result, span(who, Tone.DIM))


def _result(view: View, round_: RoundState, proposal: ProposalState) -> tuple[Span, list[Span]]:
    verdict = proposal.verdict
    if verdict is None and view.state.closed is not None:
        return Span(" "), [Span(NOT_FINISHED, Tone.DIM)]
    if verdict is None:
        asked = view.asked
        if asked and (asked.round, asked.proposal) == (round_.number, proposal.index):
            return Span("!", Tone.CAUTION), [Span(f"{asked.gate.value} to decide", Tone.CAUTION)]
        stage = STAGES.get(view.stage.stage, "") if view.stage else ""
        if view.waits_for_baseline:
            stage = "after the baseline's check"
        return Span(">", Tone.ACCENT), [Span(stage or "at work", Tone.ACCENT)]
    told = round_verdict(view.state, verdict)
    said = [Span(told.text, told.tone)]
    if verdict.comparison is not None:
        said.append(Span("  " + comparison_words(verdict.comparison)))
    if where := where_measured(round_, verdict):
        said.append(Span(where, Tone.CAUTION))
    return Span(sign_of(told.tone), told.tone), said
