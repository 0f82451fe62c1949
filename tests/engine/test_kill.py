"""Runs that are killed and resumed end like one that was not. `kill_runs.py` does more of them."""

from __future__ import annotations

import os
import random
import select
import signal
import subprocess
import time
from pathlib import Path

import pytest

from astra_tui.engine.gpu_watch import process_tree
from tests.engine.kill_runs import (
    Result,
    command,
    differences,
    killed_run,
    result_of,
    run_for,
)
from tests.quick import write_quick_task

ROUNDS = 1
SECONDS = 600.0
"""For a process that never ends; no load makes one so slow."""


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_quick_task(tmp_path_factory.mktemp("kernels"))


@pytest.fixture(scope="module")
def whole(task: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, float]:
    """What an unkilled run comes to, and how long it takes."""
    session = tmp_path_factory.mktemp("whole") / "session"
    began = time.monotonic()
    assert run_for(command(task, session, ROUNDS), None)
    length = time.monotonic() - began
    return result_of(session), length


@pytest.mark.parametrize(
    ("first_line", "kills"), [(b"", 3), (b'{"seq":0,"ti', 1)], ids=["new", "torn first event"]
)
def test_a_killed_run_resumes_to_the_same_end(
    tmp_path: Path, task: Path, whole: tuple[Result, float], first_line: bytes, kills: int
) -> None:
    result, length = whole
    assert result.verdicts
    assert result.folds_to_its_digest
    session = tmp_path / "session"
    if first_line:
        session.mkdir()
        (session / "journal.jsonl").write_bytes(first_line)
    chance = random.Random(len(first_line))
    moments = [chance.uniform(0, length / 2) for _ in range(kills)]
    killed_run(task, session, ROUNDS, moments)
    assert differences(result, result_of(session)) == []


def test_no_process_outlives_a_killed_engine(tmp_path: Path, task: Path) -> None:
    engine = subprocess.Popen(
        command(task, tmp_path / "session", ROUNDS),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert engine.stderr is not None
    while b"checking" not in (line := engine.stderr.readline()):
        assert line, "the run ended before its first check"
    helpers = process_tree(engine.pid)
    assert helpers, "the lab works in processes of its own"
    handles = [os.pidfd_open(pid) for pid in helpers]
    os.killpg(engine.pid, signal.SIGKILL)
    engine.communicate()
    try:
        for handle in handles:
            assert select.select([handle], [], [], SECONDS)[0], "a process is left"
    finally:
        for handle in handles:
            os.close(handle)
