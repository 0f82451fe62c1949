"""The engine process as its starter sees it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from astra_tui.model.errors import UserError
from astra_tui.model.settings import Approval, RunSettings, TeamKind
from astra_tui.sessions.engines import (
    LOG_NAME,
    EngineNotStarted,
    Ready,
    RunRequest,
    end_engine,
    start_engine,
)
from astra_tui.sessions.journal_reader import read_journal
from tests.conftest import ROOT

SILU = str(ROOT / "kernels" / "silu_and_mul")
SECRET = "planted-0123456789abcdef"


@pytest.fixture(autouse=True)
def runtime(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("run")))


def request(folder: Path, task: str = SILU, **changes: object) -> RunRequest:
    settings = RunSettings(task, TeamKind.PLAYBOOK, **changes)  # type: ignore[arg-type]
    return RunRequest(task=task, settings=settings, folder=str(folder))


async def end(ready: Ready) -> None:
    await end_engine(Path(ready.socket), "s", Path(ready.folder))


def test_it_has_nothing_of_the_starter_but_its_folder_and_environment(tmp_path: Path) -> None:
    async def test() -> None:
        ready = await start_engine(request(tmp_path / "s"))
        process = Path(f"/proc/{ready.pid}")
        try:
            assert os.getsid(ready.pid) == ready.pid != os.getsid(0)
            assert process.joinpath("cwd").readlink() == Path.cwd()
            opened = [process.joinpath("fd", str(fd)).readlink() for fd in range(3)]
            log = tmp_path / "s" / LOG_NAME
            assert opened == [Path(os.devnull), log, log]
            command = process.joinpath("cmdline").read_bytes().split(b"\0")[1:-1]
            assert command == [b"-P", b"-m", b"astra_tui.engine"]
            assert (ready.folder, ready.first) == (str(tmp_path / "s"), 0)
        finally:
            await end(ready)
        before = len(read_journal(tmp_path / "s").records)
        again = await start_engine(request(tmp_path / "s"))
        await end(again)
        assert again.first == before

    asyncio.run(test())


def test_a_session_has_one_engine(tmp_path: Path) -> None:
    async def test() -> None:
        ready = await start_engine(request(tmp_path / "s"))
        try:
            told = f"process {ready.pid} on .* writes this session"
            with pytest.raises(UserError, match=told):
                await start_engine(request(tmp_path / "s"))
        finally:
            await end(ready)

    asyncio.run(test())


def test_an_error_keeps_its_file_its_place_and_its_hint(tmp_path: Path) -> None:
    decisions = tmp_path / "mine.toml"
    decisions.write_text('[[decision]]\nstaus = "accepted"\n', encoding="utf-8")
    task = tmp_path / "task"
    task.mkdir()
    (task / "task.toml").write_text("name = ", encoding="utf-8")
    with pytest.raises(UserError) as broken:
        asyncio.run(start_engine(request(tmp_path / "s", str(task))))
    assert broken.value.file == str(task / "task.toml")
    assert broken.value.place.line == 1
    approval = Approval(decisions=str(decisions))
    with pytest.raises(UserError) as unknown:
        asyncio.run(start_engine(request(tmp_path / "s", approval=approval)))
    assert unknown.value.message == "unknown key 'staus' in decision 1"
    assert (unknown.value.file, unknown.value.hint) == (str(decisions), "did you mean 'status'?")
    assert not (tmp_path / "s").exists()


def test_a_breakdown_is_told_with_its_last_words(tmp_path: Path) -> None:
    nonsense = RunRequest(task=3, settings=request(tmp_path).settings)  # type: ignore[arg-type]
    with pytest.raises(
        EngineNotStarted, match="ended with exit code 1 before it was ready"
    ) as broken:
        asyncio.run(start_engine(nonsense))
    assert "Expected `str`, got `int` - at `$.task`" in broken.value.hint


LOGGING = """
import os, sys
from astra_tui.engine.process import _Log
from astra_tui.sessions.journal_writer import Redactor

log = _Log(os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT), Redactor())
half = len(os.environ["MY_TOKEN"]) // 2
print("it is", os.environ["MY_TOKEN"][:half], end="", flush=True)
print(os.environ["MY_TOKEN"][half:], "ü\\udc80", flush=True)
print("no end", end="", file=sys.stderr)
log.end()
"""


def test_no_secret_reaches_the_log(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-c", LOGGING, str(tmp_path / "log")],
        check=True,
        env={**os.environ, "MY_TOKEN": SECRET},
    )
    text = (tmp_path / "log").read_text(encoding="utf-8")
    assert text == "it is [redacted] ü?\nno end"
