"""Edits of what is asked about: the engine is heard meanwhile, and nothing written is lost."""

from __future__ import annotations

import os
import signal
from functools import partial
from pathlib import Path

import pytest
from textual.drivers.headless_driver import HeadlessDriver

from astra_tui.model.approval import ApprovalStatus
from astra_tui.model.settings import RunSettings, TeamKind
from astra_tui.model.state import SessionState, SessionStatus
from astra_tui.model.task import KernelTask
from astra_tui.playbook.playbook_team import PlaybookTeam
from astra_tui.sessions.client import Edit, EngineClient
from astra_tui.sessions.engines import RunRequest
from astra_tui.sessions.journal_reader import read_journal
from astra_tui.tui.source import OpenSource, start
from tests.engine.scripted import ASK, ScriptedTeam, settings_of
from tests.tui.harness import SECONDS, Desk, on_a_loop, seated, working

NOTE = "x" * 20_000
NOTES = 40
"""Together more than the socket of a front end that does not read would hold."""


class Editor:
    """An editor that puts a line before the text, once it is let go."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, then: str = "exit 0"):
        self._opened, self._go_on = folder / "opened", folder / "go-on"
        for mark in (self._opened, self._go_on):
            mark.unlink(missing_ok=True)
        script = folder / "editor.sh"
        script.write_text(
            f"#!/bin/sh\necho \"$1\" > '{self._opened}.part'\n"
            f"mv '{self._opened}.part' '{self._opened}'\n"
            f"for _ in $(seq {SECONDS * 20})\n"
            f"do [ -e '{self._go_on}' ] && break; sleep 0.05; done\n"
            f"sed -i '1i // mine' \"$1\"\n{then}\n"
        )
        script.chmod(0o755)
        monkeypatch.setenv("EDITOR", str(script))
        # There is no terminal to take back; all else is as on one.
        monkeypatch.setattr(HeadlessDriver, "can_suspend", property(lambda _driver: True))

    async def opens(self, desk: Desk) -> None:
        await desk.until(self._opened.exists, "the editor")

    @property
    def file(self) -> Path:
        return Path(self._opened.read_text().strip())

    def ends(self) -> None:
        self._go_on.touch()


def state_of(folder: Path) -> SessionState:
    return read_journal(folder).state()


def kept_edits() -> list[Path]:
    return list(Path(os.environ["XDG_STATE_HOME"]).glob("astra-tui/edits/*/edit.*"))


def notice(desk: Desk) -> str:
    return list(desk.app._notifications)[-1].message


async def other(source: OpenSource) -> EngineClient:
    client = (await source()).engine
    assert client is not None
    return client


@on_a_loop
async def test_the_engine_is_heard_while_the_editor_is_open(
    tmp_path: Path, task: KernelTask, team: ScriptedTeam, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "s"
    editor = Editor(tmp_path, monkeypatch)
    async with (
        working(folder, task, team, settings_of(ASK, rounds=1)) as source,
        seated(source) as desk,
    ):
        await desk.answer("plan", "a")
        await desk.answer("diff", "e")
        await editor.opens(desk)
        client = desk.session.engine
        assert client is not None
        async with await other(source) as bob:
            for _ in range(NOTES):
                await bob.note(NOTE)
        bridge = desk.session._presenter
        await desk.until(lambda: len(bridge.view().state.notes) == NOTES, "the notes")  # type: ignore[union-attr]
        assert not desk.session.view.state.notes, "nothing may be drawn"  # type: ignore[union-attr]
        assert editor.file.parent.parent.name == "edits"
        await desk.press("q", "p")  # Keys that are meant for the editor.
        assert desk.app.screen is desk.session
        editor.ends()
        await desk.until(lambda: desk.session.status is SessionStatus.CLOSED, "the end")
        assert len(desk.session.view.state.notes) == NOTES  # type: ignore[union-attr]
    state = state_of(folder)
    assert state.decisions["1.0.diff.0"].status is ApprovalStatus.EDITED
    result = state.decisions["1.0.diff.0"].result
    assert (folder / "sources" / f"{result[:12]}.cu").read_text().startswith("// mine\n")
    assert not kept_edits(), "the engine has it"


@on_a_loop
async def test_an_edit_of_what_was_decided_meanwhile_is_kept(
    tmp_path: Path, task: KernelTask, team: ScriptedTeam, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor = Editor(tmp_path, monkeypatch)
    async with (
        working(tmp_path / "s", task, team, settings_of(ASK, rounds=1)) as source,
        seated(source) as ann,
    ):
        await ann.answer("plan", "a")
        await ann.answer("diff", "ctrl+g")
        await editor.opens(ann)
        async with seated(source, clock=ann.clock) as bob:
            await bob.answer("diff", "a")
            await bob.until(lambda: bob.session.status is SessionStatus.CLOSED, "the end")
        editor.ends()
        await ann.told("the question was decided meanwhile; nothing was sent")
        (kept,) = kept_edits()
        assert kept.read_text().startswith("// mine\n")
        assert f"what you wrote is in {kept}" in notice(ann)
        assert "continues with it" not in notice(ann)
        await ann.until(lambda: ann.session.status is SessionStatus.CLOSED, "the end")


@on_a_loop
async def test_a_plan_that_cannot_be_read_is_opened_again_as_it_was_left(
    tmp_path: Path, task: KernelTask, team: ScriptedTeam, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "s"
    editor = Editor(tmp_path, monkeypatch)
    async with (
        working(folder, task, team, settings_of(ASK, rounds=1)) as source,
        seated(source) as desk,
    ):
        await desk.answer("plan", "ctrl+g")
        await editor.opens(desk)
        editor.ends()
        await desk.told("the edited plan cannot be read")
        (kept,) = kept_edits()
        assert kept.read_text().startswith("// mine\n{")
        assert f"what you wrote is in {kept}; ctrl+g continues with it" in notice(desk)
        script = tmp_path / "repair.sh"
        script.write_text("#!/bin/sh\nsed -i -e 1d -e 's/fewer/far fewer/' \"$1\"\n")
        script.chmod(0o755)
        monkeypatch.setenv("EDITOR", str(script))
        await desk.answer("plan", "ctrl+g")
        await desk.asked("diff")
        assert desk.session.view.state.plan_of(1, 0).change == "far fewer"  # type: ignore[union-attr]
        assert not kept_edits()


@on_a_loop
async def test_what_an_editor_wrote_before_it_failed_is_kept(
    tmp_path: Path, task: KernelTask, team: ScriptedTeam, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor = Editor(tmp_path, monkeypatch, then="exit 3")
    async with (
        working(tmp_path / "s", task, team, settings_of(ASK, rounds=1)) as source,
        seated(source) as desk,
    ):
        monkeypatch.setenv("VISUAL", str(tmp_path / "none"))
        await desk.answer("plan", "ctrl+g")
        await desk.told("No such file or directory")
        assert not kept_edits(), "nothing was written"
        monkeypatch.delenv("VISUAL")
        await desk.answer("plan", "ctrl+g")
        await editor.opens(desk)
        editor.ends()
        await desk.told("ended with 3; nothing was changed")
        assert str(kept_edits()[0]) in notice(desk)
        await desk.asked("plan")


@on_a_loop
async def test_an_edit_that_is_too_long_is_kept_and_the_engine_stays(
    tmp_path: Path, task: KernelTask, team: ScriptedTeam, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("astra_tui.sessions.client.LONGEST_MESSAGE", 1 << 20)
    longer = "yes '// a long comment' | head -c 1200000 >> \"$1\""
    editor = Editor(tmp_path, monkeypatch, then=longer)
    async with (
        working(tmp_path / "s", task, team, settings_of(ASK, rounds=1)) as source,
        seated(source) as desk,
    ):
        await desk.answer("plan", "a")
        await desk.answer("diff", "e")
        await editor.opens(desk)
        editor.ends()
        await desk.told("this is too long: at most 1 MiB are sent")
        assert f"{kept_edits()[0]}; e continues with it" in notice(desk)
        await desk.asked("diff")
        assert desk.session.engine is not None


@on_a_loop
async def test_an_edit_is_kept_where_the_engine_dies_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: KernelTask
) -> None:
    readable = """sed -i -e 1d -e 's/"change": "/&really: /' "$1\""""
    editor = Editor(tmp_path, monkeypatch, then=readable)
    settings = RunSettings("silu_and_mul", TeamKind.PLAYBOOK, rounds=1)
    request = RunRequest(str(task.folder), settings, folder=str(tmp_path / "s"))
    async with seated(partial(start, request)) as desk:
        await desk.answer("plan", "ctrl+g")
        await editor.opens(desk)
        engine = desk.session.engine
        assert engine is not None
        os.kill(engine.welcome.pid, signal.SIGKILL)
        await desk.until(lambda: desk.session.engine is None, "the end")
        editor.ends()
        await desk.told("the engine is gone; nothing was sent")
        (kept,) = kept_edits()
        assert '"change": "really: ' in kept.read_text()
        assert notice(desk).endswith(f"what you wrote is in {kept}")
        await desk.until(lambda: "the engine is gone" in desk.text("#status"), "the status")


@on_a_loop
async def test_code_typed_in_the_app_is_kept_where_it_was_decided_meanwhile(
    tmp_path: Path, task: KernelTask, team: ScriptedTeam
) -> None:
    async with (
        working(tmp_path / "s", task, team, settings_of(ASK, rounds=1)) as source,
        seated(source) as ann,
    ):
        await ann.answer("plan", "a")
        await ann.answer("diff", "e")
        await ann.until(lambda: ann.app.screen.query("CodeArea"), "the editor")
        await ann.press(*"// mine", "enter")
        async with seated(source, clock=ann.clock) as bob:
            await bob.answer("diff", "a")
        await ann.until(lambda: ann.session.status is SessionStatus.CLOSED, "the end")
        await ann.press("ctrl+s")
        await ann.told("nothing was sent")
        (kept,) = kept_edits()
        assert kept.read_text().startswith("// mine\n")
        assert str(kept) in notice(ann)


def test_an_edit_is_its_users_alone_and_keeps_every_byte(tmp_path: Path) -> None:
    text = "a\r\nb\u2028c\n"
    edit = Edit.begin(text, "s-1.0.plan", ".json")
    assert edit.read() == text
    assert edit.is_still(text)
    assert edit.file.parent.stat().st_mode & 0o777 == 0o700
    edit.file.write_bytes(b"\xff")
    assert not edit.is_still(text)
    edit.drop()
    assert not edit.file.parent.exists()


def test_an_edit_finds_a_place_where_the_home_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    edit = Edit.begin("text", "s-1.0.plan", ".json")
    assert edit.file.parent.parent == tmp_path
    assert edit.read() == "text"


def write_script(file: Path, *commands: str) -> str:
    file.write_text("#!/bin/sh\n" + "".join(f"sed -i '{c}' \"$1\"\n" for c in commands))
    file.chmod(0o755)
    return str(file)


@on_a_loop
async def test_json_of_a_playbook_plan_is_coded_as_it_says_or_refused_and_continued(
    tmp_path: Path, task: KernelTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "s"
    monkeypatch.setattr(HeadlessDriver, "can_suspend", property(lambda _driver: True))
    words = write_script(tmp_path / "words.sh", "s/neighbouring elements/only loads/")
    value = write_script(
        tmp_path / "value.sh", "s/only loads/neighbouring elements/", 's/"value": 16/"value": 4/'
    )
    settings = settings_of(ASK, team=TeamKind.PLAYBOOK, rounds=1)
    async with (
        working(folder, task, PlaybookTeam(), settings) as source,
        seated(source) as desk,
    ):
        monkeypatch.setenv("EDITOR", words)
        await desk.answer("plan", "ctrl+g")
        await desk.told("would not follow an edit of change")
        assert "set its parameters (pack_bytes, lines, workloads)" in notice(desk)
        assert "ctrl+g continues with it" in notice(desk)
        assert not state_of(folder).decisions
        monkeypatch.setenv("EDITOR", value)
        await desk.answer("plan", "ctrl+g")
        await desk.asked("diff")
    state = state_of(folder)
    code = state.round(1).proposals[0].code
    assert code is not None
    assert state.plan_of(1, 0).settings["pack_bytes"] == 4
    text = (folder / "sources" / f"{code.candidate[:12]}.cu").read_text()
    assert "let width = 4 // sizeof(T)" in text


@on_a_loop
async def test_code_that_does_not_compile_stands_there_with_its_errors_and_is_mended(
    tmp_path: Path, task: KernelTask, team: ScriptedTeam, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "s"
    monkeypatch.setattr(HeadlessDriver, "can_suspend", property(lambda _driver: True))
    slip = write_script(tmp_path / "slip.sh", "1i // mine", "s/^}$/} slip/")
    mend = write_script(tmp_path / "mend.sh", "s/ slip$//")
    async with (
        working(folder, task, team, settings_of(ASK, rounds=1)) as source,
        seated(source) as desk,
    ):
        await desk.answer("plan", "a")
        monkeypatch.setenv("EDITOR", slip)
        await desk.answer("diff", "e")
        await desk.told("your code does not compile")
        await desk.asked("diff")
        diff = desk.session.diff
        assert "your edit, not taken" in diff.title()
        assert "error" in diff.title()
        assert diff.errors_of_edit
        await desk.press("a")
        assert not diff.shows_edit, "what is asked about comes back first"
        assert not [d for d in state_of(folder).decisions.values() if d.gate.value == "diff"]
        monkeypatch.setenv("EDITOR", mend)
        await desk.answer("diff", "e")
        await desk.until(lambda: desk.session.status is SessionStatus.CLOSED, "the end")
    state = state_of(folder)
    assert [d.status.value for d in state.decisions.values()] == ["accepted", "edited"]
    best = (folder / "sources" / f"{state.best[:12]}.cu").read_text()
    assert best.startswith("// mine\n")
    assert "slip" not in best
