"""Home: what it lists, and how a session begins, is replayed, continues, and is come back to."""

from __future__ import annotations

import contextlib
import gc
import shutil
import weakref
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace
from textual.drivers.headless_driver import HeadlessDriver
from textual.widgets import Input

from astra_tui.model.environment import Difference
from astra_tui.model.settings import RunSettings, TeamKind
from astra_tui.model.state import SessionStatus
from astra_tui.model.task import KernelTask, bundled
from astra_tui.present.numbers import age
from astra_tui.present.sessions import ending_facts, session_entry
from astra_tui.present.tones import Phrase, Tone
from astra_tui.sessions.comparison import read_side
from astra_tui.sessions.engines import RunRequest
from astra_tui.sessions.store import list_sessions
from astra_tui.tui.app import AstraApp
from astra_tui.tui.app_io import HomeContext
from astra_tui.tui.home_data import best_of, engines_by_folder, list_session
from astra_tui.tui.screens.home import NARROW_COLUMNS, WHOLE_BEST, WIDE_COLUMNS, HomeScreen
from astra_tui.tui.screens.session import SessionScreen
from astra_tui.tui.source import open_saved
from astra_tui.tui.widgets.line_view import LinesView
from tests.engine.scripted import ASK, ScriptedTeam, settings_of
from tests.quick import SMALL_WORKLOAD, write_quick_task
from tests.tui.harness import NARROW, Clock, Desk, on_a_loop, working


@contextlib.asynccontextmanager
async def at_home(root: Path, size: tuple[int, int] = (140, 40)) -> AsyncIterator[Desk]:
    def request_for(task: str) -> RunRequest:
        settings = RunSettings(task, TeamKind.PLAYBOOK, rounds=1)
        return RunRequest(task, settings, sessions=str(root))

    clock = Clock()
    app = AstraApp(HomeContext(root, request_for), clock=clock, tick=0.0)
    async with app.run_test(size=size) as pilot:
        desk = Desk(app, pilot, clock)
        await desk.until(lambda: isinstance(app.screen, HomeScreen), "home")
        await desk.until(lambda: "reading" not in home_text(desk, "#sessions"), "the sessions")
        yield desk


def home_text(desk: Desk, selector: str) -> str:
    return str(desk.app.screen.query_one(selector).text)  # type: ignore[attr-defined]


@on_a_loop
async def test_a_first_run_lists_the_kernels_and_says_what_to_do(tmp_path: Path) -> None:
    async with at_home(tmp_path / "none", NARROW) as desk:
        await desk.until(lambda: "no sessions yet" in home_text(desk, "#first-run"), "the help")
        for name in ("silu_and_mul", "fused_add_rmsnorm", "merge_attn_states_lse"):
            assert name in home_text(desk, "#kernels")
        told = home_text(desk, "#first-run")
        assert "your own config.toml" in " ".join(told.split()), "others may not name a server"


@on_a_loop
async def test_sessions_are_listed_with_what_came_of_them_and_replayed(
    tmp_path: Path, saved: Path
) -> None:
    shutil.copytree(saved, tmp_path / saved.name)
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "journal.jsonl").write_text("no journal\n")
    async with at_home(tmp_path) as desk:
        listed = home_text(desk, "#sessions")
        assert listed.index(saved.name) < listed.index("unreadable"), "by time of the session"
        row = next(line for line in listed.splitlines() if saved.name in line)
        assert "87.5 % fewer requests" in row
        assert "closed" in row
        best = next(k for k in home_text(desk, "#kernels").splitlines() if "silu" in k)
        assert "87.5 % fewer requests" in best
        await desk.press("tab")
        await desk.until(lambda: desk.app.focused and desk.app.focused.id == "sessions")
        index = listed.splitlines().index(row)
        await desk.press(*["down"] * (index - 1), "enter")
        await desk.until(lambda: isinstance(desk.app.screen, SessionScreen), "the replay")
        await desk.until(lambda: desk.session.view, "the session")
        assert desk.session.player is not None
        replayed = weakref.ref(desk.session.player)
        await desk.press("q")
        await desk.until(lambda: isinstance(desk.app.screen, HomeScreen), "home again")

        def is_gone() -> bool:
            gc.collect()
            return replayed() is None

        await desk.until(is_gone, "memory for another session")


@on_a_loop
async def test_a_session_begins_here_and_is_left_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine is a process of its own."""
    write_quick_task(tmp_path / "kernels", SMALL_WORKLOAD)
    monkeypatch.chdir(tmp_path)
    async with at_home(tmp_path) as desk:
        await desk.press("home", "enter")
        await desk.until(lambda: desk.app.screen.query("#rounds"), "the form")
        form = desk.app.screen
        await desk.press("f3")
        await desk.until(lambda: desk.app.screen.query("#coding_temperature"), "its models")
        chosen = desk.app.screen.query_one("#coding_temperature", Input)
        chosen.value = "hot"
        await desk.press("ctrl+s")
        await desk.until(lambda: "'hot' is not a number" in home_text(desk, "#problem"))
        chosen.value = "0.5"
        await desk.press("ctrl+s")
        await desk.until(lambda: desk.app.screen is form, "the form again")
        await desk.press("ctrl+s")
        await desk.until(lambda: isinstance(desk.app.screen, SessionScreen), "the session")
        await desk.asked("plan")
        await desk.press("S")
        await desk.until(lambda: "temperature 0.5" in home_text(desk, "LinesView"), "the settings")
        await desk.press("escape")
        await desk.answer("plan", "x")
        await desk.until(lambda: desk.app.screen is not desk.session, "the dialog")
        desk.clock.advance(2)
        await desk.press("x")
        await desk.until(lambda: desk.session.status is SessionStatus.CLOSED, "the end")
    (session,) = list_sessions(tmp_path, session_entry)
    assert (session.task, session.status) == ("silu_and_mul", "closed")


@on_a_loop
async def test_a_running_engine_is_marked_and_attached_to(
    tmp_path: Path, task: KernelTask, team: ScriptedTeam
) -> None:
    async with (
        working(tmp_path / "s", task, team, settings_of(ASK, rounds=1)),
        at_home(tmp_path) as desk,
    ):
        await desk.until(lambda: ", running" in home_text(desk, "#sessions"), "the engine")
        await desk.press("tab", "enter")
        await desk.until(lambda: isinstance(desk.app.screen, SessionScreen), "the session")
        await desk.asked("plan")


@on_a_loop
async def test_a_session_goes_on_where_its_device_is(tmp_path: Path, saved: Path) -> None:
    shutil.copytree(saved, tmp_path / saved.name)
    async with at_home(tmp_path) as desk:
        home = desk.app.screen
        assert isinstance(home, HomeScreen)
        settings = RunSettings("silu_and_mul", TeamKind.PLAYBOOK, device="cuda:99")
        folder = str(tmp_path / saved.name)
        request = RunRequest("silu_and_mul", settings, folder)
        home.run_worker(desk.app.resume_session(request, None))
        told = desk.app._notifications
        await desk.until(lambda: any("cuda:99" in n.message for n in told), "a notice")
        assert isinstance(desk.app.screen, HomeScreen)
    assert [s.status for s in list_sessions(tmp_path, session_entry)] == ["closed"]


@on_a_loop
async def test_a_session_goes_on_by_its_form(
    tmp_path: Path, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Home reads its sessions again as the form closes; that stops nothing."""
    shutil.copytree(saved, tmp_path / saved.name)
    write_quick_task(tmp_path / "kernels")
    monkeypatch.chdir(tmp_path)
    async with at_home(tmp_path) as desk:
        await desk.press("tab")
        await desk.until(lambda: desk.app.focused and desk.app.focused.id == "sessions")
        await desk.press("c")
        await desk.until(lambda: desk.app.screen.query("#rounds"), "the form")
        await desk.press("right", "right", "ctrl+s")  # The playbook, which needs no model.
        await desk.until(lambda: isinstance(desk.app.screen, SessionScreen), "the session")
        await desk.until(lambda: desk.session.view, "its past")
        ended = SessionStatus.CLOSED
        await desk.until(lambda: desk.session.engine is None and desk.session.status is ended)


@on_a_loop
async def test_what_is_not_as_it_was_is_read_first(saved: Path) -> None:
    found = (Difference("numpy", "1.0 [red]", "2.0\x1b"), Difference("machine", "old", "new"))
    app = AstraApp(partial(open_saved, saved), found=found, tick=0.0)
    async with app.run_test(size=NARROW) as pilot:
        desk = Desk(app, pilot, Clock())
        await desk.until(lambda: app.screen.is_modal, "the dialog")
        text = app.screen.query_one(LinesView)
        await desk.until(lambda: "machine: was old, is new" in text.text, "the differences")
        assert "numpy: was 1.0 [red], is 2.0«ESC»" in text.text
        await desk.press("escape")
        await desk.until(lambda: isinstance(app.screen, SessionScreen), "the session")


@on_a_loop
async def test_a_folder_that_holds_nothing_is_named(tmp_path: Path) -> None:
    async with at_home(tmp_path) as desk:
        await desk.press("o", *str(tmp_path / "x"), "enter")
        await desk.until(lambda: desk.app._notifications, "a notice")
        told = next(iter(desk.app._notifications)).message
        assert "this folder holds no session" in told
        await desk.until(lambda: isinstance(desk.app.screen, HomeScreen), "home again")


@pytest.mark.parametrize(
    ("time", "told"),
    [
        ("2026-01-02T03:04:00.000Z", "30 s"),
        ("2026-01-02T02:04:30.000Z", "60 min"),
        ("2026-01-01T03:04:30.000Z", "24 h"),
        ("2025-12-01T03:04:30.000Z", "32 d"),
        ("", ""),
    ],
)
def test_ages_are_told_in_one_unit(time: str, told: str) -> None:
    assert age(time, datetime(2026, 1, 2, 3, 4, 30, tzinfo=UTC)) == told


@on_a_loop
async def test_engines_are_found_by_their_folder(
    tmp_path: Path, task: KernelTask, team: ScriptedTeam
) -> None:
    folder = tmp_path / "s"
    async with working(folder, task, team, settings_of(ASK, rounds=1)):
        engines = await engines_by_folder()
        assert list_session(folder, engines).socket == engines[str(folder.resolve())][0]
        assert not list_session(folder, engines).can_resume
    assert list_session(folder, {}).can_resume


def test_a_packed_session_is_shown_and_does_not_go_on() -> None:
    listed = list_session(bundled("sessions") / "h100-playbook-silu", {})
    assert listed.best
    assert not listed.can_resume


def test_a_result_in_doubt_is_not_the_best_known_where_another_is_clear() -> None:
    recorded = [list_session(f, {}) for f in bundled("sessions").glob("*-playbook-rmsnorm")]
    best = best_of("fused_add_rmsnorm", recorded)
    assert {session.best.tone for session in recorded} == {Tone.GOOD, Tone.CAUTION}
    assert best is not None
    assert best.best.tone is Tone.GOOD


def test_the_best_known_is_the_fastest_of_those_that_were_timed() -> None:
    """Counters rank only what was never timed against its baseline."""
    recorded = [list_session(f, {}) for f in sorted(bundled("sessions").glob("h100-*silu"))]
    speedups = [float(s.best.text.split("x")[0]) for s in recorded]
    fastest = recorded[speedups.index(max(speedups))]
    assert len(set(speedups)) > 1
    assert best_of("silu_and_mul", recorded) == fastest
    counted = replace(recorded[0], best=Phrase("fewer sectors"), rank=(1.0, 10, 10, 10))
    assert best_of("silu_and_mul", [counted, *recorded]) == fastest
    assert best_of("silu_and_mul", [counted]) == counted
    assert best_of("another", recorded) is None


def test_a_loser_is_told_of_wherever_a_recorded_session_is_named() -> None:
    """Its rejected round was not free, and it used up all of its rounds."""
    listed = list_session(bundled("sessions") / "h100-pair-silu", {})
    assert listed.best == Phrase("1.050x vs tuned.cu (inconclusive, 2 of 7 slower)", Tone.CAUTION)
    assert listed.brief == Phrase("1.050x, 2 of 7 slower", Tone.CAUTION)
    room = min(NARROW_COLUMNS[4], WIDE_COLUMNS[4]) - 1
    assert len(listed.brief.text) <= room
    assert len(listed.best.text) < WHOLE_BEST
    side = read_side(bundled("sessions") / "h100-pair-silu")
    ending = ending_facts(side.state)
    assert ending["finished"] == ("3 of 3 rounds are done",)
    lost = Phrase("1024x13824 0.973x, 4096x14336 0.961x", Tone.CAUTION)
    assert ending["slower on"] == (lost,)


@on_a_loop
async def test_an_engine_that_waits_in_any_folder_is_shown_rings_once_and_is_attended(
    tmp_path: Path, task: KernelTask, team: ScriptedTeam, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    written: list[str] = []
    monkeypatch.setattr(HeadlessDriver, "write", lambda _, text: written.append(text))

    def told() -> int:
        return sum("\x1b]9;astra-tui:" in text for text in written)

    async with at_home(tmp_path / "mine") as desk:
        assert not desk.app.screen.query_one("#inbox").display
        folder = tmp_path / "other" / "s"
        async with working(folder, task, team, settings_of(ASK, rounds=1)):
            await desk.until(lambda: "wide loads" in home_text(desk, "#inbox"), "the question")
            row = home_text(desk, "#inbox").splitlines()[1]
            assert "plan of round 1: wide loads" in row
            assert row.endswith("/other")
            await desk.until(lambda: told() == 1, "the ring")
            await desk.press("shift+tab")
            await desk.until(lambda: desk.app.focused and desk.app.focused.id == "inbox")
            await desk.press("enter")
            await desk.until(lambda: isinstance(desk.app.screen, SessionScreen), "the session")
            await desk.asked("plan")
            assert told() == 1, "in the session it is the same question"
            await desk.press("q")
            desk.clock.advance(1)
            await desk.press("d")
            await desk.until(lambda: isinstance(desk.app.screen, HomeScreen), "home again")
            assert told() == 1, "nor is it another one at home"
        await desk.until(lambda: not desk.app.screen.query_one("#inbox").display, "no one")
