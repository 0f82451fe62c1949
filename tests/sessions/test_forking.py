"""What a branch takes over from its session, and what it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_tui.model.approval import ApprovalGate, AutoMode, Question
from astra_tui.model.errors import UserError
from astra_tui.model.events import (
    ApprovalAsked,
    AutoApprovalSet,
    NoteAdded,
    PlanningFinished,
    PlanProposed,
    RoundClosed,
    RoundOpened,
)
from astra_tui.sessions.branches import find_intact_place, find_place, fork_session
from astra_tui.sessions.journal_reader import journal_path, read_journal
from astra_tui.sessions.journal_writer import Journal, Redactor
from astra_tui.sessions.timeline import Timeline
from tests.sessions.samples import BASELINE, BASELINE_SOURCE, ENGINEER, PLAN, PLAYBOOK, opened


def test_a_branch_asks_again(tmp_path: Path) -> None:
    parent, branch = tmp_path / "parent", tmp_path / "branch"
    with Journal.create(parent, Redactor()) as journal:
        journal.put_source(BASELINE_SOURCE)
        for event in (
            opened(),
            RoundOpened(0, 0, BASELINE),
            AutoApprovalSet(AutoMode.ALL, ENGINEER),
            RoundClosed(0),
        ):
            journal.append(event)
    timeline = Timeline(read_journal(parent).records)
    assert timeline.final_state().auto.is_on
    fork_session(parent, timeline, find_place(timeline, "r0"), branch, Redactor(), ENGINEER)
    assert not read_journal(branch).state().auto.is_on


@pytest.mark.parametrize("new", ["mi\0d", "mine"])
def test_a_branch_leaves_before_what_was_altered(tmp_path: Path, new: str) -> None:
    parent, branch = tmp_path / "parent", tmp_path / "branch"
    with Journal.create(parent, Redactor()) as journal:
        journal.put_source(BASELINE_SOURCE)
        for event in (
            opened(),
            RoundOpened(0, 0, BASELINE),
            RoundClosed(0),
            RoundOpened(1, 0, BASELINE),
            NoteAdded("mind", ENGINEER),
            RoundClosed(1),
        ):
            journal.append(event)
    path = journal_path(parent)
    path.write_text(path.read_text().replace('"mind"', f'"{new}"'))
    with pytest.raises(UserError, match=f"{path}:5: ") as caught:
        find_intact_place(parent, "r1")
    assert caught.value.hint.endswith(f"astra-tui fork {parent} --at r0")
    timeline, place = find_intact_place(parent, "r0")
    fork_session(parent, timeline, place, branch, Redactor(), ENGINEER)
    Journal.reopen(branch, Redactor()).close()
    assert read_journal(branch).events[1:] == read_journal(parent).events[1:3]


def test_a_branch_at_an_open_question_asks_it_too(tmp_path: Path) -> None:
    parent, branch = tmp_path / "parent", tmp_path / "branch"
    asked = Question("1.0.plan", ApprovalGate.PLAN, 1, 0, PLAN.hash)
    planned = [PlanProposed(1, 0, PLAN, PLAYBOOK), PlanningFinished(1), ApprovalAsked(asked)]
    with Journal.create(parent, Redactor()) as journal:
        journal.put_source(BASELINE_SOURCE)
        for event in (opened(), RoundOpened(0, 0, BASELINE), RoundClosed(0)):
            journal.append(event)
        for event in (RoundOpened(1, 0, BASELINE), *planned, NoteAdded("later", ENGINEER)):
            journal.append(event)
    timeline, place = find_intact_place(parent, asked.id)
    fork_session(parent, timeline, place, branch, Redactor(), ENGINEER, note="another way")
    state = read_journal(branch).state()
    assert state.pending == (asked,)
    assert [note.text for note in state.notes] == ["another way"]
