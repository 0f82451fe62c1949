"""The session screen on a real engine: what an engineer sees and does, in order."""

from __future__ import annotations

import os
import signal
from functools import partial
from pathlib import Path

import pytest
from textual import events

from astra_tui.cli.commands.export import export_best
from astra_tui.model.approval import ApprovalStatus
from astra_tui.model.plan import Counter, Risk
from astra_tui.model.settings import RunSettings, TeamKind
from astra_tui.model.state import SessionState, SessionStatus
from astra_tui.model.task import KernelTask
from astra_tui.model.verdict import Outcome
from astra_tui.playbook.playbook_team import PlaybookTeam
from astra_tui.sessions.engines import RunRequest
from astra_tui.sessions.journal_reader import read_journal
from astra_tui.tui.app_io import Preferences
from astra_tui.tui.source import start
from tests.engine.scripted import ASK, AUTO, ScriptedTeam, settings_of
from tests.quick import SMALL_WORKLOAD, write_quick_task
from tests.tui.harness import NARROW, WIDE, Desk, Touched, on_a_loop, seated, working


def state_of(folder: Path) -> SessionState:
    return read_journal(folder).state()


def problem_of(desk: Desk) -> str:
    return str(desk.app.screen.query_one("#problem").text)  # type: ignore[attr-defined]


def outcomes(state: SessionState) -> list[Outcome]:
    verdicts = [p.verdict for r in state.rounds for p in r.proposals]
    return [v.outcome for v in verdicts if v is not None]


def asks_in_round(desk: Desk, number: int) -> bool:
    awaiting = desk.session.view.awaiting if desk.session.view else None
    return awaiting is not None and awaiting.round == number


@pytest.mark.parametrize("size", [NARROW, WIDE], ids=["80x24", "140x40"])
@on_a_loop
async def test_from_the_first_plan_to_the_end(
    size: tuple[int, int],
    tmp_path: Path,
    task: KernelTask,
    team: ScriptedTeam,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "s"
    async with (
        working(folder, task, team, settings_of(ASK, rounds=2, repairs=0)) as source,
        seated(source, size, preferences=Preferences(export_best=export_best)) as desk,
    ):
        await desk.asked("plan")
        assert "wide loads" in desk.text("#plan")
        assert "Accept this plan?" in desk.text("#approval")
        await desk.press("a")
        await desk.asked("diff")
        assert "Run this code?" in desk.text("#approval")
        with monkeypatch.context() as watching:
            touched = Touched().watch(watching)
            for key in ("r", "escape"):  # The field for a reason comes and goes.
                await touched.by(desk, key)
                assert len(touched.changed) <= 13, touched.changed
                assert touched.layouts <= 2
        await desk.answer("diff", "a")
        await desk.asked("plan")
        assert "another scale" in desk.text("#plan")
        await desk.press("r", "enter")
        await desk.told("a rejection needs a reason")
        await desk.press(*"no", "enter")
        await desk.asked("plan")
        assert "more instructions" in desk.text("#plan"), "a rejected plan costs no round"
        assert "undo the rejection" in desk.text("#approval") or size == NARROW
        await desk.press("u")
        await desk.until(lambda: asks_in_round(desk, 2), "the plan again")
        await desk.answer("plan", "r", *"no", "enter")
        await desk.until(lambda: asks_in_round(desk, 3), "the next plan")
        await desk.answer("plan", "r", "-", "enter")
        await desk.until(lambda: desk.session.status is SessionStatus.CLOSED, "the end")
        assert desk.text("#approval") == ""
        ending = desk.text("#ending")
        assert "finished: nothing left to try" in ending
        assert ", 87.5 % fewer requests than the baseline" in ending
        assert "x export   r report   b branch   w compare" in ending
        monkeypatch.chdir(tmp_path)
        desk.clock.advance(2)
        await desk.press("r", "enter")
        await desk.told("written: s.html and s.md")
        assert "87.5" in (tmp_path / "s.md").read_text()
        desk.clock.advance(2)
        await desk.press("x", *"zip", "enter")
        await desk.told("there is no form 'zip': say cu, patch, cpp, torch, tvm-ffi")
        desk.clock.advance(2)
        await desk.press("x", *"patch", "enter")
        await desk.told("the task silu_and_mul here is not the one of this session")
        desk.clock.advance(2)
        await desk.press("1")
        assert "better" in desk.text("#rounds")
        assert "rejected" in desk.text("#rounds")
    state = state_of(folder)
    assert outcomes(state) == [Outcome.BETTER, Outcome.REJECTED, Outcome.REJECTED]
    rejected = list(state.decisions.values())[-2:]
    assert [d.status for d in rejected] == 2 * [ApprovalStatus.REJECTED]
    assert [d.reason for d in rejected] == ["no", ""]


@pytest.mark.parametrize("size", [NARROW, (120, 36)], ids=["80x24", "120x36"])
@on_a_loop
async def test_what_is_decided_is_seen_together(
    size: tuple[int, int], tmp_path: Path, task: KernelTask
) -> None:
    settings = settings_of(ASK, team=TeamKind.PLAYBOOK, rounds=1)
    async with (
        working(tmp_path / "s", task, PlaybookTeam(), settings) as source,
        seated(source, size) as desk,
    ):
        await desk.asked("plan")
        screen, plan = desk.session, desk.text("#plan")
        assert plan.index("expects") < plan.index("bottleneck") < plan.index("change")
        assert "moves do not apply: o shows why" in plan
        assert "row_grid: " not in plan
        await desk.press("o")
        assert "row_grid: " in desk.text("#plan")
        if size == NARROW:
            assert screen.shown == {"plan"}
            await desk.press("tab")
            assert screen.shown == {"source"}
            await desk.press("tab")
            await desk.answer("plan", "a")
        else:
            assert screen.shown == {"rounds", "plan", "source"}
            assert "there is no code yet" in desk.text("#tests-line")
            assert "gives no times" in desk.text("#gpu-line")
            await desk.press("a")
        await desk.asked("diff")
        assert screen.shown == ({"diff"} if size == NARROW else {"rounds", "plan", "diff"})
        assert not screen.diff.lines.max_scroll_x, "nothing is out of sight"
        await desk.press("tab")
        assert screen.board.front == "plan"
        if size == NARROW:
            await desk.answer("diff", "a")
            assert screen.board.front == "diff", "nothing is accepted that is not on the screen"
            assert "1.0.diff.0" not in state_of(tmp_path / "s").decisions


@on_a_loop
async def test_a_plan_is_edited_as_fields(
    tmp_path: Path, task: KernelTask, team: ScriptedTeam
) -> None:
    folder = tmp_path / "s"
    async with (
        working(folder, task, team, settings_of(ASK, rounds=1)) as source,
        seated(source) as desk,
    ):
        await desk.answer("plan", "e")
        await desk.until(lambda: desk.app.screen.query("#counter_ratio"), "the form")
        await desk.press("tab", "end", *" of one word", *["tab"] * 3, "right", "right")
        await desk.press(*["tab"] * 2, "left", "ctrl+s")
        await desk.asked("diff")
        state = desk.session.view.state  # type: ignore[union-attr]
        plan = state.plan_of(1, 0)
        assert plan.bottleneck == "requests of one word"
        assert plan.prediction.counter is Counter.SHARED_REQUESTS
        assert plan.risk is Risk.HIGH
        assert plan.evidence == team.steps[0].plan.evidence
        assert state.decisions["1.0.plan"].status is ApprovalStatus.EDITED


@on_a_loop
async def test_what_is_set_of_a_playbook_plan_is_coded_and_the_form_tells_what_is_not(
    tmp_path: Path, task: KernelTask
) -> None:
    folder = tmp_path / "s"
    settings = settings_of(ASK, team=TeamKind.PLAYBOOK, rounds=1)
    async with (
        working(folder, task, PlaybookTeam(), settings) as source,
        seated(source) as desk,
    ):
        await desk.answer("plan", "e")
        await desk.until(lambda: desk.app.screen.query("#set_pack_bytes"), "the form")
        assert not desk.app.screen.query("#change"), "no words that would bind nothing"
        await desk.press("ctrl+s")
        told = desk.app.screen.query_one("#problem")
        await desk.until(lambda: "nothing is changed" in told.text, "the remark")  # type: ignore[attr-defined]
        await desk.press("right", "tab", "end", *", 7", "ctrl+s")
        await desk.until(lambda: "lines: 7 is not one of 20, 21, 23" in told.text, "the remark")  # type: ignore[attr-defined]
        await desk.press(*["backspace"] * 7, "ctrl+s")
        await desk.asked("diff")
    state = read_journal(folder).state()
    code = state.round(1).proposals[0].code
    assert code is not None
    source_text = (folder / "sources" / f"{code.candidate[:12]}.cu").read_text()
    assert "let width = 8 // sizeof(T)" in source_text
    assert "out_pack" not in source_text


@on_a_loop
async def test_a_form_says_what_is_wrong_and_esc_decides_nothing(
    tmp_path: Path, task: KernelTask, team: ScriptedTeam
) -> None:
    async with (
        working(tmp_path / "s", task, team, settings_of(ASK, rounds=1)) as source,
        seated(source) as desk,
    ):
        await desk.answer("plan", "e")
        await desk.until(lambda: desk.app.screen.query("#counter_ratio"), "the form")
        field = desk.app.screen.query_one("#counter_ratio")
        field.focus()
        await desk.press(*["backspace"] * 5, *"many", "ctrl+s")
        told = desk.app.screen.query_one("#problem").text  # type: ignore[attr-defined]
        assert told == "counter ratio: 'many' is no number"
        await desk.press("escape", "escape")
        assert desk.session.view is not None
        assert not desk.session.view.state.decisions
        await desk.asked("plan")


@on_a_loop
async def test_code_is_edited_in_the_app(
    tmp_path: Path, task: KernelTask, team: ScriptedTeam
) -> None:
    folder = tmp_path / "s"
    async with (
        working(folder, task, team, settings_of(ASK, rounds=1)) as source,
        seated(source) as desk,
    ):
        await desk.answer("plan", "a")
        await desk.answer("diff", "e")
        await desk.until(lambda: desk.app.screen.query("CodeArea"), "the editor")
        await desk.press(*"// ")
        for key in ("m", "i", "n", "e", "enter", "ctrl+s"):  # Without a pause between them.
            character = {"enter": "\r", "ctrl+s": None}.get(key, key)
            desk.app.post_message(events.Key(key, character))
        await desk.until(lambda: desk.session.status is SessionStatus.CLOSED, "the end")
    state = state_of(folder)
    edited = [a for p in state.round(1).proposals for a in p.attempts][-1]
    text = (folder / "sources" / f"{edited.candidate[:12]}.cu").read_text()  # type: ignore[union-attr]
    assert text.startswith("// mine\n")
    assert outcomes(state) == [Outcome.BETTER]


@on_a_loop
async def test_code_is_edited_in_the_editor_of_the_environment(
    tmp_path: Path, task: KernelTask, team: ScriptedTeam, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The app cannot be suspended under test: it says so and decides nothing."""
    monkeypatch.setenv("EDITOR", "true")
    async with (
        working(tmp_path / "s", task, team, settings_of(ASK, rounds=1)) as source,
        seated(source) as desk,
    ):
        await desk.answer("plan", "ctrl+g")
        await desk.until(lambda: desk.app._notifications, "a notice")
        assert desk.session.view is not None
        assert not desk.session.view.state.decisions


@on_a_loop
async def test_auto_mode_spares_the_open_question_and_takes_the_next(
    tmp_path: Path, task: KernelTask, team: ScriptedTeam
) -> None:
    folder = tmp_path / "s"
    async with (
        working(folder, task, team, settings_of(ASK, rounds=2, repairs=0)) as source,
        seated(source) as desk,
    ):
        await desk.asked("plan")
        await desk.press(*["shift+tab"] * 5)  # Past all of them, and to the first again.
        await desk.until(lambda: "auto: low risk" in desk.text("#status"), "the mode")
        assert "Accept this plan?" in desk.text("#approval")
        await desk.press("a")
        await desk.until(lambda: desk.session.status is SessionStatus.CLOSED, "the end")
    deciders = [d.by.kind.value for d in state_of(folder).decisions.values()]
    assert deciders == ["engineer", "policy", "policy", "policy"]


@on_a_loop
async def test_a_mode_is_kept_where_nobody_attends_any_more(
    tmp_path: Path, task: KernelTask, team: ScriptedTeam
) -> None:
    folder = tmp_path / "s"
    async with working(folder, task, team, settings_of(ASK, rounds=1)) as source:
        async with seated(source) as desk:
            await desk.asked("plan")
            await desk.press("shift+tab")
            await desk.until(lambda: "auto: low risk" in desk.text("#status"), "the mode")
            await desk.press("8")
            said = "auto: low risk, set by engineer"
            await desk.until(lambda: said in desk.text("#log"), "the log")
            await desk.press("2")
            await desk.answer("plan", "a")
            await desk.press("q")
            desk.clock.advance(1)
            await desk.press("d")
            await desk.until(lambda: desk.app.return_value, "leaving")
        await desk.until(lambda: state_of(folder).closed, "the end")
    assert outcomes(state_of(folder)) == [Outcome.BETTER]


@on_a_loop
async def test_accept_the_next_ones(tmp_path: Path, task: KernelTask, team: ScriptedTeam) -> None:
    folder = tmp_path / "s"
    async with (
        working(folder, task, team, settings_of(ASK, rounds=2, repairs=0)) as source,
        seated(source) as desk,
    ):
        await desk.answer("plan", "ctrl+n", "1", "enter")
        await desk.answer("plan", "a")
        await desk.asked("plan")
    deciders = [d.by.kind.value for d in state_of(folder).decisions.values()]
    assert deciders[:2] == ["engineer", "policy"]


@on_a_loop
@pytest.mark.usefixtures("lab_at_work")
async def test_notes_pause_interrupt_and_end(
    tmp_path: Path, task: KernelTask, team: ScriptedTeam
) -> None:
    folder = tmp_path / "s"
    async with (
        working(folder, task, team, settings_of(AUTO, rounds=3, repairs=0)) as source,
        seated(source) as desk,
    ):
        await desk.until(lambda: desk.session.status is SessionStatus.RUNNING, "work")
        await desk.press("escape")
        await desk.until(lambda: desk.session.status is SessionStatus.PAUSED, "the interrupt")
        # A quick engine would be done before so much is typed.
        await desk.press("n", *"mind the tail", "enter")
        await desk.until(lambda: desk.session.view.state.notes, "the note")  # type: ignore[union-attr]
        desk.clock.advance(2)
        await desk.press("p")
        await desk.until(lambda: desk.session.status is SessionStatus.RUNNING, "going on")
        await desk.press("p")
        await desk.until(lambda: desk.session.status is SessionStatus.PAUSED, "the pause")
        await desk.press("q")
        desk.clock.advance(1)
        await desk.press("x")
        await desk.until(lambda: desk.session.status is SessionStatus.CLOSED, "the end")
    state = state_of(folder)
    assert [n.text for n in state.notes] == ["mind the tail"]
    assert state.closed is not None
    assert state.closed.reason.value == "cancelled"


@on_a_loop
async def test_detach_leaves_the_engine_at_work_and_attach_comes_back(
    tmp_path: Path, task: KernelTask, team: ScriptedTeam
) -> None:
    folder = tmp_path / "s"
    async with working(folder, task, team, settings_of(ASK, rounds=1)) as source:
        async with seated(source) as desk:
            await desk.asked("plan")
            await desk.press("q")
            desk.clock.advance(1)
            await desk.press("d")
            await desk.until(lambda: desk.app.return_value, "leaving")
            assert desk.app.return_value.detached  # type: ignore[union-attr]
        async with seated(source) as desk:
            await desk.answer("plan", "a")
            await desk.answer("diff", "a")
            await desk.until(lambda: desk.session.status is SessionStatus.CLOSED, "the end")
    assert outcomes(state_of(folder)) == [Outcome.BETTER]


@on_a_loop
async def test_what_another_front_end_decides_closes_the_question(
    tmp_path: Path, task: KernelTask, team: ScriptedTeam
) -> None:
    folder = tmp_path / "s"
    async with (
        working(folder, task, team, settings_of(ASK, rounds=1)) as source,
        seated(source) as ann,
        seated(source, clock=ann.clock) as bob,
    ):
        await ann.asked("plan")
        await bob.asked("plan")
        await ann.press("a")
        await bob.asked("diff")
        await bob.press("a")
        await ann.until(lambda: ann.session.status is SessionStatus.CLOSED, "the end")
        await bob.until(lambda: bob.session.status is SessionStatus.CLOSED, "the end")
    assert len(state_of(folder).decisions) == 2


@on_a_loop
async def test_a_case_is_added_by_hand_and_a_wrong_one_is_refused(
    tmp_path: Path, task: KernelTask, team: ScriptedTeam
) -> None:
    async with (
        working(tmp_path / "s", task, team, settings_of(ASK, rounds=1)) as source,
        seated(source) as desk,
    ):
        await desk.asked("plan")
        for dims in ("tokens = 3, d = 77", "tokens = 3, e = 77"):
            desk.clock.advance(2)
            await desk.press("t")
            await desk.until(lambda: desk.app.screen.query("#case_name"), "the form")
            name = dims.replace(" ", "").replace(",", "-")
            for field, text in (("case_name", name), ("dims", dims)):
                widget = desk.app.screen.query_one(f"#{field}")
                widget.value = text  # type: ignore[attr-defined]
            await desk.press("ctrl+s")
            await desk.until(lambda: not desk.app.screen.query("#dims") or problem_of(desk))
        assert "it needs a size for each of tokens, d" in problem_of(desk)
        cases = desk.session.view.state.cases  # type: ignore[union-attr]
        assert [(c.name, c.dims) for c in cases] == [("tokens=3-d=77", {"tokens": 3, "d": 77})]


@on_a_loop
async def test_an_engine_that_dies_loses_nothing_and_a_run_that_ended_gets_more_rounds(
    tmp_path: Path,
) -> None:
    task = write_quick_task(tmp_path / "kernels", SMALL_WORKLOAD)
    settings = RunSettings("silu_and_mul", TeamKind.PLAYBOOK, rounds=1)
    request = RunRequest(str(task), settings, folder=str(tmp_path / "s"))
    preferences = Preferences(request_for=lambda _task: request)
    async with seated(partial(start, request), preferences=preferences) as desk:
        await desk.asked("plan")
        died = desk.session
        assert died.engine is not None
        assert died.view is not None
        asked = died.view.awaiting
        os.kill(died.engine.welcome.pid, signal.SIGKILL)
        await desk.until(lambda: "the engine is gone" in desk.text("#status"), "the end")
        await desk.told("can be resumed")
        assert desk.text("#approval") == ""
        assert not desk.session.works
        assert "p Resume the session" in desk.text("#keys")
        await desk.press("p")
        await desk.until(lambda: desk.session is not died and desk.session.view, "it again")
        await desk.asked("plan")
        assert desk.session.view is not None
        assert desk.session.view.awaiting == asked
        await desk.press("a")
        await desk.answer("diff", "a")
        await desk.until(lambda: desk.session.status is SessionStatus.CLOSED, "the end")
        ended = desk.session
        await desk.until(lambda: "R more rounds" in desk.text("#ending"), "what is next")
        desk.clock.advance(2)
        await desk.press("R", "x", "enter")
        await desk.told("how many? For example 2")
        desk.clock.advance(2)
        await desk.press("R", "1", "enter")
        await desk.until(lambda: desk.session is not ended and desk.session.view, "one more")
        await desk.asked("plan")
        assert asks_in_round(desk, 2)
        assert "round 2/2" in desk.text("#status")
        assert desk.session.engine is not None
        await desk.session.engine.cancel()
        await desk.until(lambda: desk.session.status is SessionStatus.CLOSED, "the end")
    state = state_of(tmp_path / "s")
    assert outcomes(state) == [Outcome.BETTER]
    assert state.round_limit == 2


@on_a_loop
async def test_a_rejection_that_ended_the_run_can_be_taken_back(tmp_path: Path) -> None:
    task = write_quick_task(tmp_path / "kernels", SMALL_WORKLOAD)
    settings = RunSettings("silu_and_mul", TeamKind.PLAYBOOK, rounds=1)
    request = RunRequest(str(task), settings, folder=str(tmp_path / "s"))
    preferences = Preferences(request_for=lambda _task: request)
    async with seated(partial(start, request), preferences=preferences) as desk:
        await desk.answer("plan", "a")
        await desk.answer("diff", "r", *"a slip", "enter")
        await desk.until(lambda: desk.session.status is SessionStatus.CLOSED, "the end")
        await desk.until(lambda: "u undo rejection" in desk.text("#ending"), "what is next")
        assert "finished: 1 of 1 rounds" in desk.text("#ending")
        ended = desk.session
        desk.clock.advance(2)
        await desk.press("u")
        await desk.until(lambda: desk.session is not ended and desk.session.view, "it again")
        await desk.asked("diff")
        assert asks_in_round(desk, 1)
        assert "round 1/1" in desk.text("#status")
        await desk.press("a")
        await desk.until(lambda: desk.session.status is SessionStatus.CLOSED, "the end")
        await desk.until(lambda: "R more rounds" in desk.text("#ending"), "what is next")
        assert "undo rejection" not in desk.text("#ending")
    state = state_of(tmp_path / "s")
    assert outcomes(state) == [Outcome.BETTER]
    assert (state.round_limit, state.rounds_done) == (1, 1)
