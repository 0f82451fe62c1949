"""The folder that `run --session` names: a session's, or one in which nothing else lies."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest

from astra_tui.cli.commands.run import run_request
from astra_tui.cli.settings import Choices
from astra_tui.model.errors import UserError


def folder_of_request(folder: Path) -> str:
    options = Namespace(task="t", session=str(folder), seed=None, workers=None, scheduler=None)
    return run_request(options, Choices()).folder


@pytest.mark.parametrize("found", ["task.toml", "notes", "sources"])
def test_a_folder_of_other_things_is_refused(tmp_path: Path, found: str) -> None:
    (tmp_path / found).touch()
    with pytest.raises(UserError, match="holds other things and no session") as caught:
        folder_of_request(tmp_path)
    assert (caught.value.file, "--session DIR" in caught.value.hint) == (str(tmp_path), True)
    assert [p.name for p in tmp_path.iterdir()] == [found]


@pytest.mark.parametrize("left", [[], ["lock"], ["lock", "engine.log"], ["journal.jsonl", "blobs"]])
def test_an_empty_one_and_one_that_a_killed_engine_left_are_taken(
    tmp_path: Path, left: list[str]
) -> None:
    for name in left:
        (tmp_path / name).touch()
    assert folder_of_request(tmp_path) == str(tmp_path)
    assert folder_of_request(tmp_path / "new") == str(tmp_path / "new")
