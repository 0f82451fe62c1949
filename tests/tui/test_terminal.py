"""The screen in a real terminal, from the command to the result: the whole way once."""

from __future__ import annotations

import asyncio
import os
import re
import select
import shlex
import signal
import subprocess
import time
from pathlib import Path

import pytest

from astra_tui.model.approval import Answer, ApprovalStatus
from astra_tui.model.events import AnswerAwaited
from astra_tui.model.verdict import Outcome
from astra_tui.sessions.client import EngineClient, user_at_terminal
from astra_tui.sessions.journal_reader import read_journal
from tests.cli.command import COMMAND, SECONDS, Shell, open_terminal, read_terminal
from tests.cli.conftest import shell  # noqa: F401 - a fixture
from tests.quick import SMALL_WORKLOAD, write_quick_task
from tests.warm import take_terminal

PATIENCE = 1.7
"""Seconds without output after which someone presses a key again.

More than the second without typing and the half second of deafness with which a question comes:
a user who presses keys all the time never sees one.
"""

_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07]*\x07|.)")


class Sitting:
    """Someone before a terminal with a screen."""

    def __init__(self, at: Shell, *arguments: str, columns: int = 100, **variables: str):
        self._ours, theirs = open_terminal(columns)
        self.written = ""
        environment = at.environment(TERM="xterm-256color", **variables)
        environment.pop("COLUMNS")
        self.process = subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=at.folder,
            env=environment,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=take_terminal,
        )
        os.close(theirs)

    def sees(self, words: str) -> None:
        """Waits until words are written."""
        while words not in self._since:
            assert self._read(SECONDS), self.plain
        self._seen = len(self.written)

    def presses_until(self, key: str, words: str) -> None:
        """Presses a key, again where nothing comes of it, until words are written."""
        self._seen = len(self.written)
        for _ in range(SECONDS):
            os.write(self._ours, key.encode())
            again = time.monotonic() + PATIENCE  # A clock on the screen may never be still.
            while self._read(PATIENCE):
                if words in self._since:
                    return
                if time.monotonic() > again:
                    break
        raise AssertionError(self.plain)

    def types(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def presses_until_it_ends(self, key: str) -> tuple[int, str]:
        """Presses a key, again where nothing comes of it; the exit code and what was printed."""
        while self.process.poll() is None:
            os.write(self._ours, key.encode())
            while self._read(PATIENCE):
                pass
        return self.leaves()

    def leaves(self) -> tuple[int, str]:
        """The exit code and what was printed at the end."""
        self.written += read_terminal(self._ours)
        os.close(self._ours)
        return self.process.wait(SECONDS), self.plain

    def hangs_up(self) -> None:
        """The terminal is gone, as after a lost connection."""
        os.close(self._ours)
        self.process.wait(SECONDS)

    @property
    def plain(self) -> str:
        """All that was written, without escape sequences."""
        return _SEQUENCE.sub("", self.written).replace("\r\n", "\n")

    _seen = 0

    @property
    def _since(self) -> str:
        return _SEQUENCE.sub("", self.written[self._seen :])

    def _read(self, seconds: float) -> bool:
        if not select.select([self._ours], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self._ours, 65536)
        except OSError:
            return False
        self.written += data.decode(errors="replace")
        return bool(data)


def outcomes(folder: Path) -> list[Outcome]:
    state = read_journal(folder).state()
    return [p.verdict.outcome for r in state.rounds for p in r.proposals if p.verdict]


def test_run_edit_hang_up_attach_and_finish(shell: Shell) -> None:  # noqa: F811
    """A plan accepted, its code edited in $EDITOR, the terminal lost; attached, a plan rejected."""
    write_quick_task(shell.folder / "kernels", SMALL_WORKLOAD)
    folder = shell.folder / "s"
    editor = f"{shlex.quote('sed')} -i '1i // mine'"
    run = ("run", "silu_and_mul", "--team", "playbook", "--rounds", "2", "--session", "s")
    first = Sitting(shell, *run, EDITOR=editor)
    first.sees("Accept this plan?")
    first.presses_until("a", "Run this code?")
    first.presses_until("\x07", "; round 2, ")
    first.hangs_up()
    second = Sitting(shell, "attach", "s")
    second.sees("Accept this plan?")
    second.presses_until("r", "reject, because")
    second.types("not now")
    second.presses_until("\r", "finished: nothing left")
    code, printed = second.presses_until_it_ends("q")
    assert code == 0, printed
    assert "finished  nothing left to try" in printed
    assert outcomes(folder) == [Outcome.BETTER, Outcome.REJECTED]
    state = read_journal(folder).state()
    assert [d.reason for d in state.decisions.values()][-1] == "not now"
    best = folder / "sources" / f"{state.best[:12]}.cu"
    assert best.read_text().startswith("// mine\n")


def test_nothing_is_written_over_an_editor(shell: Shell) -> None:  # noqa: F811
    """Someone else decides while the editor is open: told behind it, and the edit is kept."""
    write_quick_task(shell.folder / "kernels", SMALL_WORKLOAD)
    go_on = shell.folder / "go-on"
    editor = shell.folder / "editor.sh"
    editor.write_text(
        f"#!/bin/sh\necho the editor is open\nuntil [ -e '{go_on}' ]; do sleep 0.05; done\n"
        "sed -i '1i // mine' \"$1\"\necho the editor is closed\n"
    )
    editor.chmod(0o755)
    run = ("run", "silu_and_mul", "--team", "playbook", "--rounds", "1", "--session", "s")
    sitting = Sitting(shell, *run, columns=200, EDITOR=str(editor))
    sitting.sees("Accept this plan?")
    sitting.presses_until("a", "Run this code?")
    sitting.presses_until("\x07", "the editor is open")
    opened = sitting.written.index("the editor is open")
    asyncio.run(_accept(next(shell.runtime.glob("*.sock"))))
    go_on.touch()
    sitting.sees("decided meanwhile; nothing was sent")
    closed = sitting.written.index("the editor is closed")
    assert sitting.written[opened:closed] == "the editor is open\r\n"
    (kept,) = (shell.folder / "home").rglob("edit.cu")
    assert kept.read_text().startswith("// mine\n")
    code, printed = sitting.presses_until_it_ends("q")
    assert code == 0, printed
    assert outcomes(shell.folder / "s") == [Outcome.BETTER]


async def _accept(socket: Path) -> None:
    """Accepts what is asked, and waits for the end."""
    async with await EngineClient.connect(socket) as client:
        async for item in client.events():
            if isinstance(item, AnswerAwaited):
                asked = item.question
                await client.answer(
                    Answer(asked.id, asked.subject, ApprovalStatus.ACCEPTED, user_at_terminal())
                )


def test_home_lists_kernels_and_leaves(shell: Shell) -> None:  # noqa: F811
    home = Sitting(shell)
    home.sees("There are no sessions yet.")
    assert "silu_and_mul" in home.plain
    code, printed = home.presses_until_it_ends("q")
    assert code == 0
    assert "Traceback" not in printed


def test_without_its_terminal_a_screen_ends_even_under_nohup(shell: Shell) -> None:  # noqa: F811
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # What nohup does; children inherit it.
    try:
        home = Sitting(shell)
    finally:
        signal.signal(signal.SIGHUP, before)
    home.sees("There are no sessions yet.")
    home.hangs_up()
    assert home.process.returncode == -signal.SIGHUP


def test_a_session_that_cannot_begin_is_said_in_one_line(shell: Shell) -> None:  # noqa: F811
    sitting = Sitting(shell, "run", "silu_and_mull")
    code, printed = sitting.leaves()
    assert code == 2
    last = printed.rstrip().splitlines()[-2:]
    assert "there is no kernel task 'silu_and_mull'" in last[0]
    assert "did you mean 'silu_and_mul'?" in last[1]


@pytest.mark.parametrize("variables", [{"TERM": "dumb"}, {"ASTRA_TUI_PLAIN": "1"}])
def test_no_screen_where_none_can_be_or_is_wanted(
    shell: Shell,  # noqa: F811
    variables: dict[str, str],
) -> None:
    outcome = shell.on_terminal(**variables)
    assert "usage: astra-tui" in outcome.out
    assert "\x1b" not in outcome.out


def test_a_replay_plays_at_once_to_where_it_was_told(shell: Shell) -> None:  # noqa: F811
    sitting = Sitting(
        shell, "replay", "h100-playbook-silu", "--speed", "instant", "--to", "40", columns=140
    )
    sitting.sees("stopped instant")
    assert "event 41 of" in sitting.plain
    code, printed = sitting.presses_until_it_ends("q")
    assert code == 0
    assert "Traceback" not in printed


def test_a_speed_that_is_none_is_said_with_those_that_are(shell: Shell) -> None:  # noqa: F811
    for speed in ("0.4", "101", "nan", "fast"):
        outcome = shell.run("replay", "h100-playbook-silu", "--speed", speed)
        assert outcome.code == 2
        assert f"'{speed}' is no speed: a number from 0.5 to 100, or instant" in outcome.err


def test_compare_opens_a_screen_at_a_terminal(shell: Shell) -> None:  # noqa: F811
    sitting = Sitting(shell, "compare", "h100-playbook-silu:r1", "h100-playbook-silu")
    sitting.sees("from the baseline on")
    code, printed = sitting.presses_until_it_ends("q")
    assert code == 0
    assert "Traceback" not in printed
    lines = shell.run("compare", "h100-playbook-silu:r1", "h100-playbook-silu", "--plain")
    assert lines.code == 0
    assert "bottleneck" in lines.out
