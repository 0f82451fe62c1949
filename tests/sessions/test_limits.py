"""Journals that no engine wrote, made to take long to fold: what copies ends at a bound."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count, islice

import pytest

from astra_tui.model.approval import ApprovalGate, AutoMode, Question
from astra_tui.model.events import (
    ApprovalAsked,
    AutoApprovalSet,
    CaseChecked,
    CheckStarted,
    CompileFinished,
    EngineStarted,
    Event,
    RoundClosed,
    RoundOpened,
)
from astra_tui.model.fold import ImpossibleEvent, fold
from astra_tui.sessions import journal_lines
from astra_tui.sessions.journal_lines import fold_within_bounds

from .samples import BASELINE, ENGINEER, opened, whole_session
from .synthetic import events_of

PARTS = 500
MAX_COPIED = 1_000_000


def begun() -> Iterator[Event]:
    yield opened()
    yield EngineStarted("host", 1, 5)


def many_candidates() -> Iterator[Event]:
    yield from begun()
    for number in count():
        yield CompileFinished(f"{number % PARTS:064}", True, (), "nvrtc", 0.1)


def many_rounds() -> Iterator[Event]:
    yield from begun()
    for number in range(PARTS):
        yield RoundOpened(number, 0, BASELINE)
    for number in count():
        yield RoundClosed(number % PARTS)


def many_questions() -> Iterator[Event]:
    yield from begun()
    for number in count():
        yield ApprovalAsked(Question(f"q{number % PARTS}", ApprovalGate.PLAN, 0, 0, "subject"))


def many_modes() -> Iterator[Event]:
    yield from begun()
    for number in range(PARTS):
        yield ApprovalAsked(Question(f"q{number}", ApprovalGate.PLAN, 0, 0, "subject"))
    while True:
        yield AutoApprovalSet(AutoMode.LOW, ENGINEER)


def many_results() -> Iterator[Event]:
    yield from begun()
    checked = next(e for e in whole_session() if isinstance(e, CaseChecked))
    while True:
        yield CheckStarted(BASELINE, PARTS)
        yield from [checked] * PARTS


@pytest.mark.parametrize("events", [many_modes, many_results])
def test_what_copies_too_much_ends_after_a_bounded_number_of_events(
    monkeypatch: pytest.MonkeyPatch, events: Callable[[], Iterator[Event]]
) -> None:
    monkeypatch.setattr(journal_lines, "MAX_COPIED", MAX_COPIED)
    numbered = enumerate(events())
    with pytest.raises(ImpossibleEvent, match="change too often"):
        fold_within_bounds(event for _, event in numbered)
    taken, _ = next(numbered)
    assert taken < 4 * MAX_COPIED / PARTS + PARTS


@pytest.mark.parametrize("events", [many_candidates, many_rounds, many_questions])
def test_rounds_candidates_and_questions_are_not_copied(
    monkeypatch: pytest.MonkeyPatch, events: Callable[[], Iterator[Event]]
) -> None:
    monkeypatch.setattr(journal_lines, "MAX_COPIED", 0)
    first = list(islice(events(), 2 * PARTS))
    assert fold_within_bounds(first) == fold(first)


def test_a_session_of_5000_rounds_stays_within_the_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts and copies grow with the rounds: 100 have a fiftieth of what 5,000 have."""
    monkeypatch.setattr(journal_lines, "MAX_COPIED", journal_lines.MAX_COPIED // 50)
    monkeypatch.setattr(journal_lines, "MAX_PARTS", journal_lines.MAX_PARTS // 50)
    events = list(events_of(100, 50))
    assert fold_within_bounds(events) == fold(events)
