"""The task of a session is looked up where the user named it, and never taken from a session."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from astra_tui.cli.run_result import resume_command
from astra_tui.cli.session_lookup import local_task
from astra_tui.model.errors import UserError
from astra_tui.model.events import SessionOpened
from astra_tui.model.settings import RunSettings, TeamKind
from astra_tui.model.state import SessionState
from astra_tui.model.task import load_task
from tests.conftest import ROOT

SESSION = Path("s_mine")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder with a session's folder, and a task in the folder `mine`."""
    monkeypatch.chdir(tmp_path)
    SESSION.mkdir()
    copy_task(Path("mine"))
    return tmp_path


def copy_task(folder: Path) -> None:
    shutil.copytree(ROOT / "kernels" / "silu_and_mul", folder)
    with (folder / "reference.py").open("a", encoding="utf-8") as file:
        file.write("# a version that has no name on this machine\n")


def state_of(named: str, task_hash: str = "") -> SessionState:
    hash_ = task_hash or load_task(Path("mine")).hash
    settings = RunSettings(named, TeamKind.PLAYBOOK)
    return SessionState(opened=SessionOpened(1, "s", hash_, "b" * 64, settings, {}))


@pytest.mark.parametrize("named", ["mine", "./mine", "mine/"])
def test_a_folder_right_here_is_found_by_its_name(named: str) -> None:
    found, task = local_task(state_of(named), SESSION, None, trust=False)
    assert (found, task.folder) == (named, Path("mine"))


def test_another_version_of_it_is_not_taken() -> None:
    with pytest.raises(UserError, match="is not the one of this session") as caught:
        local_task(state_of("mine", "0" * 64), SESSION, None, trust=False)
    assert "--task FOLDER" in caught.value.hint


def test_where_it_is_not_here_the_hint_says_how_to_name_it() -> None:
    with pytest.raises(UserError, match="is not on this machine") as caught:
        local_task(state_of("elsewhere"), SESSION, None, trust=False)
    assert "--task FOLDER" in caught.value.hint


@pytest.mark.parametrize("named", ["../{}/mine", "{}/mine", "deep/mine", "s_mine/mine", "s_mine"])
def test_a_folder_elsewhere_or_in_a_session_needs_to_be_given(here: Path, named: str) -> None:
    named = named.format(here if named[0] == "{" else here.name)
    if not Path(named).is_dir():
        copy_task(Path(named))
    elif named == "s_mine":
        shutil.copytree("mine", named, dirs_exist_ok=True)
    with pytest.raises(UserError):
        local_task(state_of(named), SESSION, None, trust=False)
    assert local_task(state_of(named), SESSION, named, trust=False)[0] == named


def test_a_link_into_the_session_is_not_followed() -> None:
    copy_task(SESSION / "task")
    Path("link").symlink_to(SESSION / "task")
    with pytest.raises(UserError, match="is not on this machine"):
        local_task(state_of("link"), SESSION, None, trust=False)


def test_another_session_is_no_task() -> None:
    Path("mine", "journal.jsonl").touch()
    with pytest.raises(UserError, match="is not on this machine"):
        local_task(state_of("mine"), SESSION, None, trust=False)


def test_the_command_that_goes_on_says_what_the_session_may_not() -> None:
    plain = RunSettings("mine", TeamKind.LLM)
    assert resume_command(plain, SESSION) == "astra-tui resume s_mine"
    assert resume_command(plain, Path("sessions/a b")) == "astra-tui resume 'a b'"
    named = replace(plain, task="work/my task", base_url="http://h/v1")
    assert resume_command(named, SESSION) == (
        "astra-tui resume s_mine --task 'work/my task' --base-url http://h/v1"
    )
    assert "--base-url" not in resume_command(replace(named, team=TeamKind.PLAYBOOK), SESSION)
