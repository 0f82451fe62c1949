"""Fixtures of the screen's tests: sockets of their own, and a session that was run once."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partialmethod
from pathlib import Path

import pytest
import textual.app
import textual.pilot
from textual.pilot import Pilot

from astra_tui.model.task import KernelTask
from tests.engine.scripted import ScriptedTeam, three_steps
from tests.tui.harness import SECONDS, settle


@pytest.fixture(autouse=True, scope="package")
def settled() -> Iterator[None]:
    """After each key Textual waits twice until this process hardly computes, by its clock: a second
    where an engine works in it. Here it waits until all that came of the key is done.
    """
    with pytest.MonkeyPatch.context() as patch:
        for module in (textual.app, textual.pilot):
            patch.setattr(module, "wait_for_idle", settle)
        patient = partialmethod(Pilot._wait_for_screen, timeout=SECONDS)
        patch.setattr(Pilot, "_wait_for_screen", patient)
        yield


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
