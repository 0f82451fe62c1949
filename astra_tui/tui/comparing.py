"""How a comparison is asked for: with another candidate of a session, or with another session."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from astra_tui.model.digest import short
from astra_tui.model.errors import UserError
from astra_tui.model.state import SessionState
from astra_tui.present.words import comparison_words, words_of
from astra_tui.sessions.comparison import Sides, read_side
from astra_tui.tui.app_base import AppBase

if TYPE_CHECKING:
    from astra_tui.tui.screens.session_panes import SessionPanes


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
    from astra_tui.tui.screens.compare import CompareScreen

    try:
        sides = await asyncio.to_thread(_read, first, second)
    except UserError as error:
        app.report(error)
        return
    app.push_screen(CompareScreen(sides))


def _read(first: CandidateRef, second: CandidateRef) -> Sides:
    return read_side(*first), read_side(*second)


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
