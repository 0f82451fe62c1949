"""Streams that cannot be written, and a Ctrl-C before a command has begun."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from astra_tui import cli
from astra_tui.cli.exit_codes import ExitCode
from tests.cli.command import COMMAND, SECONDS, Outcome, Shell

FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
CLOSED = "import os, sys; os.close(int(sys.argv[1])); os.execv(sys.argv[2], sys.argv[2:])"


def without(shell: Shell, number: int, *arguments: str) -> Outcome:
    """Runs a command to which one of its streams is closed."""
    ended = subprocess.run(
        [sys.executable, "-c", CLOSED, str(number), *COMMAND, *arguments],
        cwd=shell.folder,
        env=shell.environment(),
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    return Outcome(ended.returncode, ended.stdout.decode(), ended.stderr.decode())


@needs_full
@pytest.mark.parametrize(
    "arguments",
    [["kernels"], ["check", "silu_and_mul", "--list", "--json"], ["--help"]],
)
def test_a_full_disk_is_said(shell: Shell, arguments: list[str]) -> None:
    with FULL.open("wb") as full:
        ended = subprocess.run(
            [*COMMAND, *arguments],
            cwd=shell.folder,
            env=shell.environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=SECONDS,
            check=False,
        )
    assert ended.stderr == b"astra-tui: cannot write the output: No space left on device\n"
    assert ended.returncode == ExitCode.BAD_INPUT


@pytest.mark.parametrize("arguments", [["kernels"], ["check", "silu_and_mul", "--list", "--json"]])
def test_a_closed_stdout_is_said(shell: Shell, arguments: list[str]) -> None:
    outcome = without(shell, 1, *arguments)
    assert outcome.err == "astra-tui: cannot write the output: Bad file descriptor\n"
    assert outcome.code == ExitCode.BAD_INPUT


@pytest.mark.parametrize("number", [0, 2])
def test_a_command_needs_neither_stdin_nor_stderr(shell: Shell, number: int) -> None:
    outcome = without(shell, number, "check", "no_such_task", "--json")
    assert outcome.code == ExitCode.BAD_INPUT
    assert outcome.out.startswith("{\n"), "remarks do not get into the answer"
    assert "Traceback" not in outcome.err


@needs_full
def test_remarks_that_find_no_room_are_dropped(shell: Shell) -> None:
    with FULL.open("wb") as full:
        ended = subprocess.run(
            [*COMMAND, "check", "no_such_task", "--json"],
            cwd=shell.folder,
            env=shell.environment(),
            stdout=subprocess.PIPE,
            stderr=full,
            timeout=SECONDS,
            check=False,
        )
    assert (ended.returncode, ended.stdout[:2]) == (ExitCode.BAD_INPUT, b"{\n")


INTERRUPTED_IMPORT = """
import sys

class Interrupted:
    def find_spec(name, path=None, target=None):
        if name == sys.argv[1]:
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupted)
sys.argv[1:], begin = sys.argv[1:2], sys.argv[2]
exec(begin)
"""
AS_MODULE = "import runpy; runpy.run_module('astra_tui', run_name='__main__')"
AS_SCRIPT = "from astra_tui.cli import main; sys.exit(main())"


@pytest.mark.parametrize(
    ("module", "begin"),
    [
        ("astra_tui.cli", AS_MODULE),
        ("astra_tui.cli.streams", AS_MODULE),
        ("astra_tui.cli.streams", AS_SCRIPT),
        ("click", AS_SCRIPT),
        ("astra_tui.cli.commands", AS_SCRIPT),
        ("astra_tui.model.errors", AS_SCRIPT),
    ],
)
def test_ctrl_c_while_modules_are_loaded(module: str, begin: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_IMPORT, module, begin],
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    assert ended.stderr == b"astra-tui: interrupted\n"
    assert ended.returncode == ExitCode.INTERRUPTED


def test_little_is_loaded_before_ctrl_c_is_taken() -> None:
    loaded = (
        "import sys; before = set(sys.modules); import astra_tui.cli; "
        "print(*sorted(set(sys.modules) - before))"
    )
    ended = subprocess.run([sys.executable, "-c", loaded], capture_output=True, check=True)
    assert ended.stdout.split() == [b"__future__", b"astra_tui", b"astra_tui.cli"]


def test_the_exit_codes_are_those_of_the_table() -> None:
    named = (cli.INTERRUPTED, cli.PIPE_CLOSED, cli.NOT_WRITTEN)
    assert named == (ExitCode.INTERRUPTED, ExitCode.PIPE_CLOSED, ExitCode.BAD_INPUT)
