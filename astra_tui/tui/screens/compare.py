"""Two candidates side by side: plans, diff, tests and costs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import Screen

from astra_tui.model.digest import short
from astra_tui.model.errors import UserError
from astra_tui.model.state import SessionState
from astra_tui.model.timing import Timing
from astra_tui.present.comparison import (
    LETTERS,
    cases_blocks,
    costs_blocks,
    plans_blocks,
)
from astra_tui.present.layout import Span
from astra_tui.present.tones import Tone, words_of
from astra_tui.present.words import comparison_words
from astra_tui.sessions.comparison import Side, Sides, read_side, same_task
from astra_tui.tui.app_base import AppBase
from astra_tui.tui.text_layout import Page, span
from astra_tui.tui.widgets.bars import BarLine, KeyLine, TabLine
from astra_tui.tui.widgets.diff.diff_pane import DiffPane
from astra_tui.tui.widgets.diff.rows import DiffView
from astra_tui.tui.widgets.line_view import LinesView
from astra_tui.tui.widgets.session_code import columns_of, marks_of

if TYPE_CHECKING:
    from astra_tui.tui.screens.session_panes import SessionPanes

_HOW_TO_TIME = "t times A against B, where there is a GPU."

BOTH_FROM = 34
"""From this height on the diff stands below the plans; under it, it takes their place."""

TABS = {"plans": "Plans", "diff": "Diff", "tests": "Tests", "costs": "Costs"}
"""In the order of their number keys."""


class SidesPage(LinesView):
    """What is told in words and numbers."""

    TITLE = "Comparison"
    HELP = (
        "Two candidates, A and B. Plans: the way from the baseline to each, every plan with what "
        "it predicted and what was measured. Diff: from the source of A to that of B. Tests: the "
        "cases that ended in two ways. Costs: counters, which compare exactly, and times.\n\n"
        "A ratio of times is only formed within one run that timed both in turns. t asks for such "
        "a run; it needs a GPU, and the task on this machine."
    )


class CompareScreen(Screen[None], inherit_bindings=False):
    """Both sides of a comparison; nothing here changes a session."""

    app: AppBase

    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(str(number), f"pane('{name}')", title, show=False, id=f"compare.{name}")
            for number, (name, title) in enumerate(TABS.items(), 1)
        ),
        Binding("tab", "next_tab", "Next", key_display="1-4 tab", id="compare.next"),
        Binding("x", "swap", "Swap", id="compare.swap"),
        Binding("t", "time", "Time both", id="compare.time"),
        Binding("y", "copy", "Copy", id="copy"),
        Binding("escape", "back", "Back", show=False, id="compare.back"),
    ]

    DEFAULT_CSS = """
    CompareScreen Vertical { height: 1fr; }
    CompareScreen SidesPage { height: 1fr; padding: 0 1; }
    CompareScreen DiffPane { height: 1fr; padding: 0 1; border-top: solid $surface-lighten-2; }
    """

    def __init__(self, sides: Sides):
        super().__init__()
        self._sides = sides
        self._tab = "plans"
        self._timed: Timing | None = None
        self._said = ""

    def compose(self) -> ComposeResult:
        """A head, the tabs, the page and the diff."""
        yield BarLine(id="head")
        yield TabLine(id="tabs")
        with Vertical():
            yield SidesPage(id="page")
            yield DiffPane(id="diff")
        yield KeyLine(id="keys")

    def on_mount(self) -> None:
        """Draws both sides."""
        self._show_sides()
        self.call_after_refresh(self.action_pane, self._tab)

    def on_resize(self, _event: events.Resize) -> None:
        """For another size."""
        self.call_after_refresh(self._draw)

    @property
    def _front(self) -> DiffPane | SidesPage:
        """What has the keys."""
        return self.query_one(DiffPane) if self._tab == "diff" else self.query_one(SidesPage)

    # -- drawing ---------------------------------------------------------------------------------

    def _show_sides(self) -> None:
        first, second = self._sides
        line = (
            Span(" "),
            *_head_of(first, LETTERS[0]),
            Span("   "),
            *_head_of(second, LETTERS[1]),
        )
        self.query_one("#head", BarLine).set_line(line)
        self.query_one(DiffPane).show(_diff_of(first, second))

    def _draw(self) -> None:
        shows_both = self.size.height >= BOTH_FROM and self._tab in ("plans", "diff")
        page_view, diff = self.query_one(SidesPage), self.query_one(DiffPane)
        page_view.display = shows_both or self._tab != "diff"
        diff.display = shows_both or self._tab == "diff"
        shown = {"plans", "diff"} if shows_both else {self._tab}
        self.query_one(TabLine).show_tabs(TABS, shown, self._tab)
        if self._tab != "diff" or shows_both:
            page_view.set_lines(self._page(page_view.page_width).lines)

    def _page(self, width: int) -> Page:
        page = Page(width)
        match self._tab:
            case "tests":
                page.blocks(cases_blocks(self._sides))
            case "costs":
                note = self._said or (_HOW_TO_TIME if same_task(self._sides) else "")
                page.blocks(costs_blocks(self._sides, self._timed, note))
            case _:
                page.blocks(plans_blocks(self._sides))
        return page

    # -- actions ---------------------------------------------------------------------------------

    def action_pane(self, name: str) -> None:
        """Shows the plans, the diff, the tests or the costs."""
        self._tab = name
        self._draw()
        self._front.focus()
        # A view that was hidden has its width only now.
        self.call_after_refresh(self._draw)

    def action_next_tab(self) -> None:
        """Goes to the next of them."""
        names = list(TABS)
        self.action_pane(names[(names.index(self._tab) + 1) % len(names)])

    def action_swap(self) -> None:
        """Makes B of A and A of B."""
        self._sides = self._sides[::-1]
        self._timed, self._said = None, ""
        self.workers.cancel_group(self, "time")
        self._show_sides()
        self._draw()

    def action_time(self) -> None:
        """Times both in turns, where there is a GPU."""
        self._timed, self._said = None, "Both are checked, then timed in turns; this takes a while."
        self.action_pane("costs")
        self.run_worker(self._time(self._sides), group="time", exclusive=True)

    async def _time(self, sides: Sides) -> None:
        try:
            if self.app.time_pair is None:
                raise UserError("nothing can be timed from here")
            self._timed, why_not = await self.app.time_pair(sides)
            self._said = f"Not timed here: {why_not}." if why_not else ""
        except UserError as error:
            self._said = f"Not timed here: {error.message}."
            self.app.report(error)
        self._draw()

    def action_copy(self) -> None:
        """Copies the selected text, or all of what is shown, through the terminal (OSC 52)."""
        chosen = self.get_selected_text()
        self.app.copy_to_clipboard(chosen or self._front.text)
        self.app.say("copied the selected text" if chosen else f"copied all of {TABS[self._tab]}")

    def action_back(self) -> None:
        """Back to the screen below."""
        self.app.action_leave()


def _diff_of(first: Side, second: Side) -> DiffView:
    before, now = (side.state.candidate(side.compared.candidate) for side in (first, second))
    return DiffView(
        old=first.source,
        new=second.source,
        old_name=f"{LETTERS[0]} {short(first.compared.candidate)}",
        new_name=f"{LETTERS[1]} {short(second.compared.candidate)}",
        marks=marks_of(now),
        old_columns=columns_of(before),
        new_columns=columns_of(now),
    )


def _head_of(side: Side, letter: str) -> tuple[Span, Span]:
    """A side in a few words, as `astra-tui compare` takes them."""
    return Span(f"{letter} ", Tone.ACCENT), span(f"{side.folder.name}:r{side.compared.round}")


class CandidateRef(NamedTuple):
    """A candidate of a session on the disk, by its hash; "" is the best one."""

    folder: Path
    candidate: str = ""


class Comparable(NamedTuple):
    """A candidate that can be chosen, in words."""

    candidate: str
    words: str


def ask_what_to_compare(screen: SessionPanes) -> None:
    """Asks for another candidate of the session, and compares the chosen one with it."""
    from astra_tui.tui.screens.dialogs import PickDialog

    view, folder = screen.view, screen.folder
    if view is None or folder is None or view.candidate is None:
        screen.app.say("there is no code yet to compare")
        return
    first = view.candidate.hash
    others = [c for c in comparables(view.state) if c.candidate != first]
    if not others:
        screen.app.say("there is no other candidate to compare it with")
        return

    def begin(index: int | None) -> None:
        if index is not None:
            second = CandidateRef(folder, others[index].candidate)
            screen.run_worker(
                compare(screen.app, CandidateRef(folder, first), second), name="compare"
            )

    at_best = (n for n, c in enumerate(others) if c.candidate == view.state.best)
    title = f"Compare {short(first)} with"
    screen.app.push_screen(PickDialog(title, [c.words for c in others], next(at_best, 0)), begin)


async def compare(app: AppBase, first: CandidateRef, second: CandidateRef) -> None:
    """Reads both sides and shows them; what cannot be read is shown as a notice."""
    try:
        sides = await asyncio.to_thread(lambda: (read_side(*first), read_side(*second)))
    except UserError as error:
        app.report(error)
        return
    app.push_screen(CompareScreen(sides))


def comparables(state: SessionState) -> Iterator[Comparable]:
    """The baseline, then the latest candidate of every proposal that has one."""
    if state.opened is None:
        return
    baseline = state.opened.baseline
    yield Comparable(baseline, f"  0  the baseline {short(baseline)}")
    for round_ in state.rounds:
        for proposal in round_.proposals:
            if proposal.code is None:
                continue
            verdict = proposal.verdict
            came = words_of(verdict.outcome) if verdict else "at work"
            if verdict is not None and verdict.comparison is not None:
                came += f", {comparison_words(verdict.comparison)}"
            plan = state.plan_of(round_.number, proposal.index)
            yield Comparable(proposal.code.candidate, f"{round_.number:3}  {plan.title}  ({came})")
