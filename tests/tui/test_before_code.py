"""A plan that has no code yet: the panes show the version that it starts from."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from astra_tui.model.approval import ApprovalGate, Question
from astra_tui.model.events import CodeFailed, CodeWritten, PlanProposed
from astra_tui.model.fold import fold
from astra_tui.present.layout import line_cells
from astra_tui.present.tones import Phrase
from astra_tui.sessions.journal_reader import read_journal
from astra_tui.tui.source import open_saved
from astra_tui.tui.view import Choice, View, place_of, start_of
from astra_tui.tui.widgets.approval_bar import _question_line
from tests.sessions.samples import PLAN, whole_session
from tests.tui.harness import on_a_loop, seated


def test_a_plan_starts_from_a_version_until_it_has_code() -> None:
    events = whole_session()
    written = next(n for n, e in enumerate(events) if isinstance(e, CodeWritten))
    before, after = fold(events[:written]), fold(events[: written + 1])
    start = start_of(View(before, Choice(1), following=True))
    assert start is not None
    assert start.choice == Choice(0)
    assert start_of(View(after, Choice(1), following=True)) is None
    assert place_of(after, events[written].candidate) == Choice(1)  # type: ignore[attr-defined]
    assert place_of(after, "0" * 64) is None


def test_code_that_failed_is_still_what_there_is_to_look_at() -> None:
    events = whole_session()
    written = next(n for n, e in enumerate(events) if isinstance(e, CodeWritten))
    code = events[written]
    assert isinstance(code, CodeWritten)
    given_up = CodeFailed(code.round, code.proposal, code.attempt + 1, "it does not compile")
    view = View(fold([*events[: written + 1], given_up]), Choice(code.round), following=True)
    assert view.candidate is not None
    assert view.candidate.hash == code.candidate
    assert start_of(view) is None


@on_a_loop
async def test_source_and_profile_of_a_plan_are_those_of_its_base(saved: Path) -> None:
    records = read_journal(saved).records
    seq = next(r.seq for r in records if isinstance(r.event, PlanProposed))
    async with seated(partial(open_saved, saved, to=seq)) as desk:
        await desk.until(lambda: desk.session.view, "the session")
        await desk.press("4")
        await desk.until(lambda: "which the plan starts from" in desk.session.source_pane.title())
        assert "__global__" in desk.text("#source")
        await desk.press("6")
        await desk.until(lambda: "It starts from this version" in desk.text("#profile"))
        assert "warp instructions" in desk.text("#profile")
        await desk.press("3")
        await desk.until(lambda: "the plan has no code" in desk.session.diff.title())


def test_the_question_keeps_risk_and_prediction_where_there_is_little_room() -> None:
    question = Question("1.0.plan", ApprovalGate.PLAN, 1, 0, PLAN.hash)
    wide, narrow = (
        _question_line(question, PLAN, PLAN.title, "", Phrase(""), width) for width in (200, 80)
    )
    assert PLAN.title in "".join(s.text for s in wide)
    text = "".join(s.text for s in narrow)
    assert line_cells(narrow) <= 80
    assert f"{PLAN.risk.value} risk, expects" in text
