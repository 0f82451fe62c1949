"""A process that waits for the launcher may be killed; the launcher and the tool go with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tests.conftest import ROOT

LAUNCHER = (
    "import sys, threading; from astra_tui.gpu.process.once import exit_with; "
    "exit_with(int(sys.argv[1])); print('ready', flush=True); threading.Event().wait()"
)


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="processes cannot be waited for here")
def test_the_launcher_ends_with_its_watcher() -> None:
    asleep = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    command = [sys.executable, "-c", LAUNCHER, str(asleep.pid)]
    piped = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, start_new_session=True)
    with asleep as watcher, piped as launcher:
        assert launcher.stdout is not None
        assert launcher.stdout.readline() == b"ready\n"
        assert launcher.poll() is None
        watcher.kill()
        assert launcher.wait(600) == -signal.SIGKILL


def test_a_watcher_that_is_gone_already_is_seen() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    ended = subprocess.run(
        [sys.executable, "-c", LAUNCHER, str(gone.pid)],
        cwd=ROOT,
        start_new_session=True,
        check=False,
        timeout=600,
    )
    assert ended.returncode == -signal.SIGKILL
