"""Finding a task: by path, in ./kernels, in $ASTRA_TUI_KERNELS, among the bundled ones."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from astra_tui.model.task import TaskError, bundled, find_task, list_tasks
from astra_tui.model.task_folders import KERNELS_VARIABLE, task_folders

ROOT = Path(__file__).parents[2]
OWN = {"fused_add_rmsnorm", "merge_attn_states_lse", "silu_and_mul"}
BUNDLED = {file.parent.name for file in ROOT.glob("kernels/*/task.toml")}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, and no configured folders."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(KERNELS_VARIABLE, raising=False)
    return tmp_path


def make_task(folder: Path, summary: str) -> Path:
    """A copy of a bundled task that can be told apart by its summary."""
    shutil.copytree(ROOT / "kernels" / "silu_and_mul", folder)
    file = folder / "task.toml"
    lines = file.read_text(encoding="utf-8").splitlines()
    lines[1] = f'summary = "{summary}"'
    file.write_text("\n".join(lines), encoding="utf-8")
    return folder


def test_bundled_tasks_are_found_by_name_from_anywhere(here: Path) -> None:
    assert {found.name for found in list_tasks()} == BUNDLED > OWN
    for name in BUNDLED:
        assert find_task(name).name == name


def test_each_place_is_searched_before_the_next(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "silu_and_mul"
    first, second = here / "first", here / "second"
    monkeypatch.setenv(KERNELS_VARIABLE, os.pathsep.join((str(first), "", str(second))))
    assert task_folders() == (Path("kernels"), first, second, bundled("kernels"))

    assert find_task(name).summary.startswith("out = silu")
    make_task(second / name, "in the second configured folder")
    assert find_task(name).summary == "in the second configured folder"
    make_task(first / name, "in the first configured folder")
    assert find_task(name).summary == "in the first configured folder"
    make_task(here / "kernels" / name, "in ./kernels")
    assert find_task(name).summary == "in ./kernels"
    make_task(here / name, "at the path")
    assert find_task(name).summary == "at the path"


def test_a_name_is_listed_once_with_the_place_that_wins(here: Path) -> None:
    make_task(here / "kernels" / "silu_and_mul", "mine")
    make_task(here / "kernels" / "another", "mine too")
    found = {f.name: f.folder for f in list_tasks()}
    assert set(found) == BUNDLED | {"another"}
    assert found["silu_and_mul"] == Path("kernels/silu_and_mul")


def test_folders_without_a_task_are_not_listed(here: Path) -> None:
    (here / "kernels" / "empty").mkdir(parents=True)
    (here / "kernels" / "file").write_text("", encoding="utf-8")
    assert {found.name for found in list_tasks()} == BUNDLED


def test_configured_folders_need_not_exist(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KERNELS_VARIABLE, str(here / "nowhere"))
    assert {found.name for found in list_tasks()} == BUNDLED


@pytest.mark.parametrize(
    "path", ["tasks/mine", "tasks/mine/", "tasks/mine/task.toml", "./tasks/mine"]
)
def test_a_path_is_the_folder_or_its_file(here: Path, path: str) -> None:
    make_task(here / "tasks" / "mine", "by path")
    assert find_task(path).summary == "by path"
    assert find_task(str(here / path)).summary == "by path"


@pytest.mark.parametrize("path", [".", "task.toml"])
def test_the_working_directory_may_be_the_task(
    here: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.chdir(make_task(here / "mine", "right here"))
    assert find_task(path).summary == "right here"


def test_a_name_wins_over_a_folder_that_holds_no_task(here: Path) -> None:
    (here / "silu_and_mul").mkdir()
    assert find_task("silu_and_mul").summary.startswith("out = silu")


def test_a_folder_that_holds_no_task_is_an_error(here: Path) -> None:
    (here / "mine").mkdir()
    with pytest.raises(TaskError) as caught:
        find_task("mine")
    assert caught.value.message == "not a kernel task: this folder has no task.toml"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("silu_and_mull", "did you mean 'silu_and_mul'?"),
        ("fused_rmsnorm", "did you mean 'fused_add_rmsnorm'?"),
        ("zzz", "valid names: " + ", ".join(sorted(BUNDLED))),
        ("kernels/silu_and_mul", "did you mean 'silu_and_mul'?"),
        ("n" * 1000, "valid names: "),
        ("a\0b", "valid names: "),
    ],
)
def test_an_unknown_name_is_an_error_with_the_nearest_one(here: Path, name: str, hint: str) -> None:
    with pytest.raises(TaskError) as caught:
        find_task(name)
    assert "there is no kernel task" in caught.value.message
    assert hint in caught.value.hint


def test_errors_of_a_found_task_name_its_file(here: Path) -> None:
    (make_task(here / "kernels" / "mine", "x") / "task.toml").write_text("a = ", encoding="utf-8")
    with pytest.raises(TaskError) as caught:
        find_task("mine")
    assert caught.value.file == str(Path("kernels/mine/task.toml"))


def test_bundled_data_lies_beside_the_package_in_a_source_tree() -> None:
    assert bundled("kernels") == ROOT / "kernels"
