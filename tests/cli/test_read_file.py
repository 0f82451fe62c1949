"""Files that a command is given are read only where they are plain and not endless."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from astra_tui.cli import main, read_file
from astra_tui.cli.read_file import read_user_file
from astra_tui.model.errors import UserError


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    """A named pipe that no one writes."""
    os.mkfifo(tmp_path / "pipe.cu")
    return tmp_path / "pipe.cu"


def refusal(file: Path) -> str:
    with pytest.raises(UserError) as caught:
        read_user_file(file, ".cu file")
    assert caught.value.file == str(file)
    return caught.value.message


def test_only_plain_files_are_read(
    pipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert refusal(pipe) == "this is not a plain file"
    assert refusal(Path("/dev/zero")) == "this is not a plain file"
    assert refusal(tmp_path) == "this is a folder; name a .cu file"
    assert refusal(tmp_path / "none.cu") == "there is no such file"
    assert refusal(tmp_path / "a\0b") == "cannot be read: embedded null byte"
    monkeypatch.setattr(read_file, "MAX_BYTES", 3 << 20)
    (tmp_path / "long.cu").write_bytes(b" " * (3 << 20) + b"x")
    assert refusal(tmp_path / "long.cu") == "larger than 3 MiB"
    (tmp_path / "long.cu").write_bytes(b" " * (3 << 20))
    assert len(read_user_file(tmp_path / "long.cu")) == 3 << 20


@pytest.mark.parametrize(
    "arguments",
    [
        ["new", "made", "--from", "pipe.cu"],
        ["new", "made", "--from", "/dev/zero"],
        ["new", "made", "--from", "."],
        ["check", "silu_and_mul", "pipe.cu"],
        ["sass", "silu_and_mul", "pipe.cu"],
        ["run", "silu_and_mul", "--config", "pipe.cu", "--headless"],
    ],
)
def test_commands_do_not_wait_for_what_is_no_file(
    pipe: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    arguments: list[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(pipe.parent)
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert "this is not a plain file" in said or ".: no __global__ function" in said
    assert [p.name for p in pipe.parent.iterdir()] == ["pipe.cu"]
