from __future__ import annotations

import pytest

from astra_tui.model.events import NoteAdded
from astra_tui.plain.run import replay_lines
from astra_tui.sessions.journal_lines import Record
from astra_tui.sessions.store import SessionSummary, in_tree_order
from astra_tui.sessions.timeline import LONGEST_WAIT, Timeline
from tests.sessions.samples import ENGINEER, opened


@pytest.fixture
def timeline() -> Timeline:
    """Two notes: one after 4 s, the other after another 10 minutes and 1 s."""
    times = ("12:00:00", "12:00:04", "12:10:05")
    events = (opened(), NoteAdded("first", ENGINEER), NoteAdded("second", ENGINEER))
    return Timeline(
        [
            Record(n, f"2026-11-21T{time}.000Z", 0.0, event)
            for n, (time, event) in enumerate(zip(times, events, strict=True))
        ]
    )


@pytest.mark.parametrize(
    ("speed", "waits"), [(4.0, [1.0, LONGEST_WAIT]), (1e6, [4e-6, 6.01e-4]), (float("inf"), [])]
)
def test_idle_stretches_are_shortened_and_said_so(timeline, speed, waits):
    lines: list[str] = []
    slept: list[float] = []
    replay_lines(timeline, len(timeline), speed, lines.append, slept.append)
    assert slept == pytest.approx(waits)
    assert [line.strip() for line in lines] == [
        "note from engineer ada: first",
        "(10 min 1 s without an event, shortened)",
        "note from engineer ada: second",
    ]


def summary(name: str, parent: str = "") -> SessionSummary:
    return SessionSummary(
        name, "", "", "", "", "closed", 0, "", "", "", (), parent=parent, fork_seq=1
    )


def test_branches_are_listed_below_their_parents_and_nothing_is_lost():
    found = [
        summary("c", "b"), summary("a"), summary("b", "a"), summary("d"), summary("e", "gone"),
        summary("x", "y"), summary("y", "x"),
    ]  # fmt: skip
    shown = [(depth, s.name) for depth, s in in_tree_order(found)]
    assert shown == [(0, "a"), (1, "b"), (2, "c"), (0, "d"), (0, "e"), (0, "x"), (0, "y")]
