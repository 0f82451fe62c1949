"""`sessions`, `ps` and `stop`, with a real engine in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from astra_tui.cli.exit_codes import ExitCode
from astra_tui.cli.json_answers import EnginesAnswer, MemoryAnswer, SessionsAnswer
from astra_tui.sessions.experience import ExperienceStore
from astra_tui.sessions.folder import writer_of
from astra_tui.sessions.journal_reader import journal_path, read_journal
from tests.cli.command import Shell
from tests.conftest import ROOT
from tests.quick import SMALL_WORKLOAD, write_quick_task
from tests.sessions.samples import EXPERIENCE

ENGINE = """
import asyncio, sys
from pathlib import Path
from astra_tui.playbook.playbook_team import PlaybookTeam
from astra_tui.engine.host import build_engine, open_session
from astra_tui.engine.server import Server
from astra_tui.model.events import AnswerAwaited
from astra_tui.model.settings import RunSettings, TeamKind
from astra_tui.model.task import load_task
from astra_tui.sessions.journal_writer import Redactor

async def main(folder, task):
    task, settings = load_task(task), RunSettings("silu_and_mul", TeamKind.PLAYBOOK)
    session = open_session(folder, task, settings, Redactor())
    with session.journal:
        engine = build_engine(session, task, settings, PlaybookTeam(), wait_for_engineer=True)
        async for event in Server(engine, folder).run():
            if isinstance(event, AnswerAwaited):
                print("waiting", flush=True)

asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
"""


@pytest.fixture
def waiting(shell: Shell) -> Iterator[Path]:
    """The folder of a session whose engine waits for the decision on a plan."""
    folder = shell.folder / "sessions" / "mine"
    task = write_quick_task(shell.folder / "kernels", SMALL_WORKLOAD)
    process = subprocess.Popen(
        [sys.executable, "-c", ENGINE, str(folder), str(task)],
        cwd=ROOT,
        env=shell.environment(),
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"waiting\n"
        yield folder
    finally:
        process.terminate()
        process.communicate()


def test_an_engine_is_listed_and_stopped(shell: Shell, waiting: Path) -> None:
    answer = msgspec.json.decode(shell.run("ps", "--json").out, type=EnginesAnswer)
    (engine,) = answer.engines
    assert (engine.session, engine.folder) == ("mine", str(waiting.resolve()))
    assert (engine.task, engine.status) == ("silu_and_mul", "waiting")
    assert shell.run("ps").out.splitlines()[1].split()[:3] == ["mine", "silu_and_mul", "waiting"]

    stopped = shell.run("stop", "mine")
    assert (stopped.code, stopped.err.splitlines()[0]) == (
        ExitCode.OK,
        f"mine is stopped and can be resumed: {waiting.resolve()}",
    )
    assert writer_of(waiting) is None
    closed = read_journal(waiting).state().closed
    assert closed is not None
    assert closed.reason == "cancelled"
    assert list(shell.runtime.iterdir()) == []

    again = shell.run("stop", "mine")
    assert (again.code, again.err) == (ExitCode.FAILED, "no engine runs session 'mine'\n")


def test_all_engines_are_stopped(shell: Shell, waiting: Path) -> None:
    assert shell.run("stop", "--all").code == ExitCode.OK
    assert writer_of(waiting) is None
    none = shell.run("stop", "--all")
    assert (none.code, none.err) == (ExitCode.FAILED, "no engine runs\n")


def test_an_engine_is_stopped_by_its_folder_and_sessions_are_listed_with_their_damage(
    shell: Shell, waiting: Path
) -> None:
    rows = shell.run("sessions").out.splitlines()
    assert rows[1].split()[:5] == ["mine", "silu_and_mul", "playbook", "emulator", "waiting"]
    assert shell.run("stop", "sessions/mine").code == ExitCode.OK
    assert writer_of(waiting) is None
    with journal_path(waiting).open("ab") as journal:
        journal.write(b'{"seq":')

    outcome = shell.run("sessions", "--sessions", str(waiting.parent))
    assert outcome.code == ExitCode.OK
    assert outcome.out.splitlines()[1].split()[4] == "closed"
    assert "the last line ends in the middle" in outcome.err
    answer = msgspec.json.decode(shell.run("sessions", "--json").out, type=SessionsAnswer)
    (session,) = answer.sessions
    assert (session.name, session.status, session.rounds) == ("mine", "closed", 0)
    assert session.best == read_journal(waiting).state().best
    assert len(session.damage) == 1


def test_where_there_is_nothing(shell: Shell) -> None:
    ps, sessions = shell.run("ps"), shell.run("sessions")
    assert (ps.code, ps.out, ps.err) == (ExitCode.OK, "", "no engine runs\n")
    assert (sessions.code, sessions.out) == (ExitCode.OK, "")
    assert sessions.err.startswith("sessions holds no sessions")


def test_stop_wants_one_session_or_all(shell: Shell) -> None:
    for arguments in ((), ("mine", "--all")):
        outcome = shell.run("stop", *arguments)
        assert outcome.code == ExitCode.BAD_INPUT
        assert "name one session, or say --all" in outcome.err


def test_the_memory_is_listed_exported_and_forgotten(shell: Shell) -> None:
    file = shell.folder / "home" / ".local" / "share" / "astra-tui" / "memory.jsonl"
    empty = shell.run("memory")
    assert (empty.code, str(file) in empty.err) == (0, True)
    ExperienceStore(file).add([EXPERIENCE, replace(EXPERIENCE, session="new", operator="rmsnorm")])
    listed = shell.run("memory", "--operator", "silu_and_mul")
    assert "old/2.1" in listed.out
    assert "new/2.1" not in listed.out
    answer = msgspec.json.decode(shell.run("memory", "--json").out, type=MemoryAnswer)
    assert [one.id for one in answer.plans] == ["old/2.1", "new/2.1"]
    assert (answer.ledger[0].plans, answer.file) == (2, str(file))
    assert shell.run("memory", "--export", "out.jsonl").code == 0
    assert (shell.folder / "out.jsonl").read_bytes() == file.read_bytes()
    wrong = shell.run("memory", "--forget", "olt/2.1")
    assert (wrong.code, "old/2.1" in wrong.err) == (2, True)
    assert shell.run("memory", "--forget", "old").code == 0
    assert [one.session for one in ExperienceStore(file).read()] == ["new"]
    assert shell.run("memory", "--forget", "all").code == 0
    assert not file.read_bytes()
    assert shell.run("memory", ASTRA_TUI_MEMORY="off").code == 2


def test_workloads_from_a_service_s_calls(shell: Shell) -> None:
    (shell.folder / "calls.csv").write_text("tokens,d,calls,us\n16,4096,9,30\n64,8192,1,10\n")
    done = shell.run("workloads", "silu_and_mul", "--from", "calls.csv")
    assert done.code == 0
    assert "[[workloads]] # 9 calls\ndims = { tokens = 16, d = 4096 }" in done.out
    assert "weight = 0.75" in done.out
    missing = shell.run("workloads", "silu_and_mul", "--from", "none.csv")
    assert (missing.code, "cannot be read" in missing.err) == (2, True)
