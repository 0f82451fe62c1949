"""Runs the real command in a process, a folder and a home of its own."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from tests.warm import WarmPopen

COMMAND = (sys.executable, "-m", "astra_tui")
INHERITED = ("PATH", "PYTHONPATH", "ASTRA_TUI_CACHE", "ASTRA_TUI_SEED")
SECONDS = 600
"""For a command that never ends; no load makes one so slow."""


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    code: int
    out: str
    err: str


@dataclass
class Shell:
    """A folder to run commands in, and their environment."""

    folder: Path
    variables: dict[str, str] = field(default_factory=dict)
    command: tuple[str, ...] = COMMAND
    """What is run in the place of `astra-tui`."""

    @property
    def runtime(self) -> Path:
        """Where the engines that are started here put their sockets."""
        return Path(self.variables["XDG_RUNTIME_DIR"]) / "astra-tui"

    def environment(self, **more: str) -> dict[str, str]:
        kept = {k: os.environ[k] for k in INHERITED if k in os.environ}
        home = {"HOME": str(self.folder / "home"), "LANG": "C.UTF-8", "COLUMNS": "80"}
        return {**kept, **home, **self.variables, **more}

    def run(self, *arguments: str, **variables: str) -> Outcome:
        """Runs `astra-tui ARGUMENTS` with its output in files."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            code = self._start(arguments, out, err, self.environment(**variables)).wait(SECONDS)
            out.seek(0)
            err.seek(0)
            outcome = Outcome(code, out.read().decode(), err.read().decode())
        assert "Traceback" not in outcome.out + outcome.err, outcome.err
        return outcome

    def on_terminal(self, *arguments: str, columns: int = 80, **variables: str) -> Outcome:
        """Runs it with stdout and stderr on one terminal; all of its output is in `out`."""
        ours, theirs = open_terminal(columns)
        environment = self.environment(**{"TERM": "xterm-256color", **variables})
        environment.pop("COLUMNS")
        process = self._start(arguments, theirs, theirs, environment)
        os.close(theirs)
        text = read_terminal(ours)
        return Outcome(process.wait(SECONDS), text.replace("\r\n", "\n"), "")

    def _start(
        self,
        arguments: tuple[str, ...],
        out: IO[bytes] | int,
        err: IO[bytes] | int,
        environment: Mapping[str, str],
    ) -> WarmPopen:
        return WarmPopen(
            [*self.command, *arguments],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
        )


def open_terminal(columns: int) -> tuple[int, int]:
    """Our end and the command's end of a new terminal with 24 lines."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    return ours, theirs


def read_terminal(fd: int, until: str | None = None) -> str:
    """What the command writes: up to a word, else until it has closed its end."""
    data = b""
    while until is None or until.encode() not in data:
        assert select.select([fd], [], [], SECONDS)[0], f"nothing more came after: {data!r}"
        try:
            part = os.read(fd, 65536)
        except OSError:  # Linux says EIO when the other end is closed.
            break
        if not part:
            break
        data += part
    return data.decode()
