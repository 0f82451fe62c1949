"""Someone at a terminal of their own, and what is left when they go."""

from __future__ import annotations

import os
import select
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from astra_tui.sessions.folder import writer_of
from tests.cli.command import COMMAND, SECONDS, Shell, open_terminal, read_terminal
from tests.warm import WarmPopen, take_terminal

PROMPT = "[q]uit"
COLUMNS = 240
"""So many that what a test waits for is not wrapped."""


class Engineer:
    """Runs a command at a terminal that is the command's own, so that Ctrl-C and hang-ups work."""

    def __init__(self, shell: Shell, *arguments: str, name: str = "ada", **variables: str):
        self._start(shell, [*COMMAND, *arguments], {"USER": name, **variables})

    @classmethod
    def running(cls, shell: Shell, command: Sequence[str]) -> Engineer:
        """Someone who runs a command that is not forked; what it starts are its children."""
        engineer = cls.__new__(cls)
        engineer._start(shell, command, {"USER": "ada"}, subprocess.Popen)
        return engineer

    def _start(
        self,
        shell: Shell,
        command: Sequence[str],
        variables: dict[str, str],
        popen: type[subprocess.Popen[Any]] = WarmPopen,
    ) -> None:
        self._terminal, theirs = open_terminal(COLUMNS)
        self._unread = ""
        environment = shell.environment(TERM="xterm", ASTRA_TUI_PLAIN="1", **variables)
        environment.pop("COLUMNS")
        self.process = popen(
            command,
            cwd=shell.folder,
            env=environment,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=take_terminal,
        )
        os.close(theirs)

    def sees(self, text: str) -> str:
        """Waits until something is shown; returns all that was shown up to there."""
        shown = self._read(until=text)
        assert text in shown, shown
        return shown

    def types(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def answers(self, line: str) -> str:
        """Waits for a question and answers it; returns what was shown before."""
        shown = self.sees(PROMPT)
        self.types(f"{line}\n")
        return shown

    def ends(self) -> tuple[int, str]:
        """Quits at the next question, if there is one."""
        shown = self._read(until=PROMPT)
        if PROMPT in shown:
            self.types("q\n")
        code, last_words = self.leaves()
        return code, shown + last_words

    def leaves(self) -> tuple[int, str]:
        """The exit code and the last words."""
        shown = self._unread + read_terminal(self._terminal)
        self.hangs_up()
        return self.process.wait(SECONDS), shown

    def hangs_up(self) -> None:
        """Closes the terminal."""
        os.close(self._terminal)

    def dies(self, number: int) -> int:
        """Ends the front end by a signal, and closes its terminal; the exit code."""
        self.process.send_signal(number)
        code = self.process.wait(SECONDS)
        self.hangs_up()
        return code

    def _read(self, until: str) -> str:
        """Up to the end of a text, or all there is; what comes after it is for the next reader."""
        shown = self._unread
        if until not in shown:
            shown += read_terminal(self._terminal, until=until)
        before, found, self._unread = shown.partition(until)
        return before + found


class EngineProcess:
    """A process that is not ours to wait for."""

    def __init__(self, pid: int):
        self.pid = pid
        self._handle = os.pidfd_open(pid)

    @classmethod
    def of(cls, session: Path) -> EngineProcess:
        """The one that writes a session."""
        holder = writer_of(session)
        assert holder is not None, "nobody writes this session"
        return cls(holder.pid)

    def ends(self) -> None:
        """Waits until it has."""
        ended = select.select([self._handle], [], [], SECONDS)[0]
        os.close(self._handle)
        assert ended, "the engine goes on"


def wait_for(condition: Callable[[], object], process: subprocess.Popen[bytes]) -> None:
    """Looks until something is so, as long as a process lives."""
    while not condition():
        assert process.poll() is None, "it ended before"
