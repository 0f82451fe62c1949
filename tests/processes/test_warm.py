"""Processes that the tests have forked: dropped ones do not hinder the next."""

import gc
import subprocess
import sys

from tests.warm import WarmPopen


def test_a_process_that_is_dropped_while_it_runs_does_not_hinder_the_next() -> None:
    dropped = _forked("--help", stdin=subprocess.PIPE)
    dropped.itself = dropped  # type: ignore[attr-defined]
    del dropped
    gc.collect()
    after = _forked("--version")
    assert b"astra-tui" in after.communicate()[0]
    assert after.wait() == 0


def _forked(*arguments: str, **how: int) -> WarmPopen:
    command = [sys.executable, "-m", "astra_tui", *arguments]
    return WarmPopen(command, stdout=subprocess.PIPE, **how)
