"""What a line at the terminal says, and what a plan looks like there."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from astra_tui.cli.attending.ask import (
    Auto,
    Edited,
    NotTaken,
    NotUnderstood,
    TerminalCommand,
    read_answer,
)
from astra_tui.model.approval import Answer, ApprovalStatus, AutoMode
from astra_tui.model.events import PlanProposed
from astra_tui.model.fold import fold
from astra_tui.model.plan import Citation, Observation
from astra_tui.plain.console import text_lines
from astra_tui.plain.run import RunLines
from astra_tui.present.plans import plan_entry
from tests.sessions.samples import (
    ENGINEER,
    PLAN,
    PLAN_QUESTION,
    PLAYBOOK,
    whole_session,
)

CITED = replace(
    PLAN,
    evidence=(
        Observation("64 requests", (Citation("requests", 64.0), Citation("sectors", 5200.0))),
        "so it is",
    ),
)


def read(line: str) -> Answer | Edited | Auto | TerminalCommand:
    return read_answer(line, PLAN_QUESTION, ENGINEER, PLAN)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("auto low", Auto(AutoMode.LOW)),
        ("AUTO All", Auto(AutoMode.ALL)),
        ("auto off", Auto(AutoMode.ASK)),
        ("auto 4", Auto(left=4)),
        ("d", TerminalCommand.DETACH),
    ],
)
def test_a_line_may_say_how_the_next_questions_are_decided(
    line: str, said: Auto | TerminalCommand
) -> None:
    assert read(line) == said


@pytest.mark.parametrize("line", ["auto", "auto 0", "auto 99999999", "auto -1", "auto high"])
def test_a_mode_that_there_is_not_decides_nothing(line: str) -> None:
    with pytest.raises(NotUnderstood, match="no mode"):
        read(line)


def test_a_accepts_only_the_question_that_is_asked() -> None:
    answer = read("a")
    assert isinstance(answer, Answer)
    assert (answer.question, answer.status) == (PLAN_QUESTION.id, ApprovalStatus.ACCEPTED)


def test_a_plan_that_cannot_be_read_is_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", "sed -i '1i // mine'")
    with pytest.raises(NotTaken, match="the edited plan cannot be read: ") as told:
        read("e")
    assert str(told.value.edit.file) in told.value.hint
    monkeypatch.setenv("EDITOR", 'sed -i -e 1d -e \'s/"title": "/&my own: /\'')
    edited = read_answer("e", PLAN_QUESTION, ENGINEER, PLAN, told.value.edit)
    assert isinstance(edited, Edited)
    assert edited.answer.plan == replace(PLAN, title=f"my own: {PLAN.title}")
    assert edited.edit == told.value.edit


def test_nothing_is_kept_of_an_editor_that_wrote_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("VISUAL", raising=False)
    for editor, message in (("false", "ended with 1"), ("vi '", "No such file or directory")):
        monkeypatch.setenv("EDITOR", editor)
        with pytest.raises(NotUnderstood, match=message) as told:
            read("e")
        assert not isinstance(told.value, NotTaken)
    monkeypatch.setenv("EDITOR", "true")
    assert isinstance(read("e"), Answer)
    assert not list(tmp_path.rglob("edit.json"))


def test_cited_numbers_stand_beside_what_was_measured() -> None:
    state = fold(whole_session())
    round_ = state.rounds[-1]
    proposal = replace(round_.proposals[0], plan=CITED)
    state = replace(state, rounds=(*state.rounds[:-1], replace(round_, proposals=(proposal,))))
    shown = text_lines([plan_entry(state, round_, proposal)])
    at = shown.index("  evidence    64 requests")
    assert shown[at + 1 : at + 4] == [
        "  cites       requests: 64, as in the profile",
        "  cites       sectors: says 5,200; the profile has 64",
        "  evidence    so it is",
    ]


def test_the_lines_of_a_run_tell_of_numbers_that_disagree() -> None:
    state = fold(whole_session())
    written: list[str] = []
    lines = RunLines(written.append)
    lines.show(PlanProposed(1, 0, CITED, PLAYBOOK), lambda: state)
    (told,) = written
    assert told.endswith("    evidence cites sectors: says 5,200; the profile has 64")
