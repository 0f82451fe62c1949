"""Fixtures of the screen's tests: sockets of their own, and a session that was run once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from astra_tui.model.task import KernelTask
from tests.engine.scripted import AUTO, ScriptedTeam, Step, settings_of, sources_of, start


@pytest.fixture(autouse=True)
def runtime(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, kept_labs: None
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
    sources = sources_of(task)
    return ScriptedTeam(
        [
            Step("wide loads", (sources.better,)),
            Step("another scale", (sources.wrong,)),
            Step("more instructions", (sources.slow,)),
        ]
    )


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory, quick_task: KernelTask) -> Path:
    """A session with a better, a wrong and a worse candidate."""
    folder = tmp_path_factory.mktemp("sessions") / "silu_and_mul-20260101-120000"
    task = quick_task
    sources = sources_of(task)
    steps = [
        Step("wide loads", (sources.better,)),
        Step("another scale", (sources.wrong,)),
        Step("more instructions", (sources.slow,)),
    ]
    session = start(folder, task, ScriptedTeam(steps), settings_of(AUTO, rounds=3, repairs=0))
    asyncio.run(session.run())
    return folder
