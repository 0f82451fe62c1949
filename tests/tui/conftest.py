"""Fixtures of the screen's tests: sockets of their own, and a session that was run once."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_tui.model.task import KernelTask
from tests.engine.scripted import ScriptedTeam, three_steps


@pytest.fixture(autouse=True)
def runtime(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, known_answers: None
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("run")))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
    for name in ("VISUAL", "EDITOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def task(quick_task: KernelTask) -> KernelTask:
    return quick_task


@pytest.fixture
def team(task: KernelTask) -> ScriptedTeam:
    return ScriptedTeam(three_steps(task))


@pytest.fixture(scope="session")
def saved(three_rounds: Path) -> Path:
    return three_rounds
