"""The screen holds the cases of a few candidates; those of the others come from the journal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tui.model.check import CaseOutcome, CaseResult
from astra_tui.model.events import CaseChecked, CheckStarted, Event
from astra_tui.model.fold import apply
from astra_tui.model.state import SessionState
from astra_tui.sessions.journal_lines import Record
from astra_tui.sessions.journal_reader import journal_path, read_journal, recorded_cases
from astra_tui.tui.presenter import MAX_HELD, CaseCache, Presenter
from astra_tui.tui.view import Choice, View
from tests.sessions.samples import CASE
from tests.sessions.synthetic import hash_of, write_session

from .harness import on_a_loop

ROUNDS, CASES = MAX_HELD + 3, 4


class LiveJournal:
    """A session that an engine has written so far, as its front end reads it."""

    engine = None
    player = None

    def __init__(self, folder: Path):
        self.folder = folder

    async def items(self) -> AsyncIterator[Record]:
        for record in read_journal(self.folder).records:
            yield record

    async def close(self) -> None:
        """There is nothing to close."""


class Looker:
    """Someone before the screen, who sees the latest picture."""

    def __init__(self, folder: Path):
        self.view: View | None = None
        self._shown = asyncio.Event()
        self.bridge = Presenter(LiveJournal(folder), self._show, tick=0.0)

    def _show(self, view: View) -> None:
        self.view = view
        self._shown.set()

    async def look_at(self, round_: int) -> View:
        """What is shown of a round once nothing is being read."""
        self.bridge.choose(Choice(round_))
        while self.view is None or self.view.without_cases.startswith("Reading"):
            self._shown.clear()
            await self._shown.wait()
        return self.view


@on_a_loop
async def test_the_cases_of_every_candidate_can_be_looked_at(tmp_path: Path) -> None:
    write_session(tmp_path / "s", ROUNDS, CASES)
    recorded = read_journal(tmp_path / "s").state()
    looker = Looker(tmp_path / "s")
    await looker.bridge.run()
    held = looker.bridge.view().state.candidates.values()
    assert sum(bool(c.results) for c in held) == MAX_HELD
    for round_ in (*range(ROUNDS + 1), 0):
        view = await looker.look_at(round_)
        assert view.candidate == recorded.candidate(hash_of(round_))
        assert len(view.candidate.results) == CASES
        assert sum(bool(c.results) for c in view.state.candidates.values()) == MAX_HELD


@on_a_loop
async def test_a_journal_that_is_gone_is_said_to_be(tmp_path: Path) -> None:
    write_session(tmp_path / "s", ROUNDS, CASES)
    looker = Looker(tmp_path / "s")
    await looker.bridge.run()
    journal_path(tmp_path / "s").unlink()
    view = await looker.look_at(0)
    assert "this file is missing" in view.without_cases
    assert view.candidate is not None
    assert view.candidate.check is not None


@given(st.data())
def test_results_are_those_of_the_fold_or_can_be_put_back(data: st.DataObject) -> None:
    """For any order in which checks start and cases end."""
    names = st.sampled_from([f"{n:064}" for n in range(MAX_HELD + 3)])
    started = st.builds(CheckStarted, names, st.just(9))
    ended = st.builds(CaseChecked, names, st.integers(0, 3).map(_result))
    whole = lean = SessionState()
    held = CaseCache()
    for event in data.draw(st.lists(started | ended, max_size=80)):
        shared = held.shared(event)
        assert shared == event
        whole = apply(whole, event)
        lean = held.after(apply(lean, shared), shared)
    for name in whole.candidates:
        gone = held.evicted(name)
        if gone is not None:
            lean = held.restored(lean, name, whole.candidate(name).results, gone)
        assert lean.candidate(name) == whole.candidate(name)
    assert sum(bool(c.results) for c in lean.candidates.values()) <= MAX_HELD


def test_results_that_came_too_late_are_dropped() -> None:
    held, state = CaseCache(), SessionState()
    names = [f"{n:064}" for n in range(MAX_HELD + 1)]
    for name in names:
        state = _took(held, state, CaseChecked(name, _result(0)))
    gone = held.evicted(names[0])
    assert gone is not None
    state = _took(held, state, CheckStarted(names[0], 1))
    assert held.restored(state, names[0], (_result(0),), gone) is state


@pytest.mark.parametrize("last", [0, 4, 7, 1000])
def test_a_journal_gives_the_cases_up_to_an_event(tmp_path: Path, last: int) -> None:
    write_session(tmp_path / "s", 2, CASES)
    state = SessionState()
    for record in read_journal(tmp_path / "s").records:
        state = apply(state, record.event) if record.seq <= last else state
    baseline = hash_of(0)
    assert recorded_cases(tmp_path / "s", baseline, last) == state.candidate(baseline).results


def test_lines_that_cannot_be_read_are_passed_over(tmp_path: Path) -> None:
    write_session(tmp_path / "s", 1, CASES)
    path = journal_path(tmp_path / "s")
    lines = path.read_bytes().splitlines(keepends=True)
    first = next(n for n, line in enumerate(lines) if b"case_checked" in line)
    lines[first] = b'{"case_checked": "' + hash_of(0).encode() + b'"}\n'
    path.write_bytes(b"".join(lines)[:-10])
    assert len(recorded_cases(tmp_path / "s", hash_of(0), 1000)) == CASES - 1


def _took(held: CaseCache, state: SessionState, event: Event) -> SessionState:
    return held.after(apply(state, event), event)


def _result(number: int) -> CaseResult:
    return CaseResult(CASE, CaseOutcome.PASSED, message=str(number))
