"""What a branch takes over from its session, and what it does not."""

from __future__ import annotations

from pathlib import Path

from astra_tui.model.auto_approval import AutoMode
from astra_tui.model.events import AutoApprovalSet, RoundClosed, RoundOpened
from astra_tui.session.forking import find_place, fork_session
from astra_tui.session.journal import Journal
from astra_tui.session.reading import read_journal
from astra_tui.session.redaction import Redactor
from astra_tui.session.timeline import Timeline
from tests.session.samples import BASELINE, BASELINE_SOURCE, ENGINEER, opened


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
