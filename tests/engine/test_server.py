"""An engine behind a real socket, with the front ends that a user can have."""

from __future__ import annotations

import asyncio
import math
import os
import stat
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from msgspec.structs import replace

from astra_tui.engine import server
from astra_tui.engine.host import build_engine, open_session, resume_session
from astra_tui.engine.server import Server
from astra_tui.model.approval import Answer, AnswerRefused, ApprovalStatus, Question
from astra_tui.model.author import Author, AuthorKind
from astra_tui.model.check import Case
from astra_tui.model.dtypes import DType
from astra_tui.model.errors import UserError
from astra_tui.model.events import (
    AnswerAwaited,
    CaseChecked,
    Event,
    NoteAdded,
    Paused,
    SessionClosed,
    StopReason,
    WorkersSeen,
)
from astra_tui.model.fold import fold
from astra_tui.model.settings import RunSettings
from astra_tui.model.task import KernelTask
from astra_tui.model.team_protocol import Brief, OnText, PlanAnswer, Team
from astra_tui.model.workers import WorkersStatus, WorkerStatus
from astra_tui.sessions.client import (
    EngineClient,
    EngineGone,
    NoListener,
    RequestRefused,
    ask_welcome,
    running_engines,
)
from astra_tui.sessions.engines import runtime_folder, socket_path
from astra_tui.sessions.folder import writer_of
from astra_tui.sessions.journal_lines import Record
from astra_tui.sessions.journal_reader import read_journal
from astra_tui.sessions.journal_writer import Redactor
from astra_tui.sessions.wire import (
    PROTOCOL,
    AddNote,
    Done,
    Greeting,
    Message,
    Refused,
    Welcome,
    decode_from_engine,
    encode_message,
)
from tests.engine.scripted import (
    ASK,
    AUTO,
    ScriptedTeam,
    Step,
    fill_disk,
    settings_of,
    sources_of,
)

pytestmark = pytest.mark.usefixtures("known_answers")

ANN = Author(AuthorKind.ENGINEER, "ann")
BOB = Author(AuthorKind.ENGINEER, "bob")
SECONDS = 600


@dataclass
class Hosted:
    """An engine that runs behind its socket, in this process."""

    folder: Path
    server: Server
    running: asyncio.Task[None]

    @property
    def path(self) -> Path:
        return self.server.path

    async def end(self) -> SessionClosed:
        await self.running
        closed = read_journal(self.folder).records[-1].event
        assert isinstance(closed, SessionClosed)
        return closed


@dataclass
class Screen:
    """A front end that keeps what it sees."""

    client: EngineClient
    seen: list[Record | Event] = field(default_factory=list)

    @property
    def numbers(self) -> list[int]:
        return [s.seq for s in self.seen if isinstance(s, Record)]

    async def watch(self, until: Callable[[Event], bool]) -> Event:
        """Reads on until an event is as it should be."""
        async for seen in self.client.events():
            self.seen.append(seen)
            event = seen.event if isinstance(seen, Record) else seen
            if until(event):
                return event
        raise AssertionError("the session ended before")

    async def question(self) -> Question:
        event = await self.watch(lambda e: isinstance(e, AnswerAwaited))
        assert isinstance(event, AnswerAwaited)
        return event.question

    async def to_the_end(self) -> None:
        async for seen in self.client.events():
            self.seen.append(seen)

    async def accept_all(self) -> None:
        async for seen in self.client.events():
            self.seen.append(seen)
            if isinstance(seen, AnswerAwaited):
                await self.client.answer(accepted(seen.question))


def accepted(question: Question, by: Author = ANN) -> Answer:
    return Answer(question.id, question.subject, ApprovalStatus.ACCEPTED, by)


@pytest.fixture(autouse=True)
def runtime(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("run")))
    return runtime_folder()


@pytest.fixture
def task(quick_task: KernelTask) -> KernelTask:
    return quick_task


@pytest.fixture
def team(task: KernelTask) -> ScriptedTeam:
    return ScriptedTeam([Step("tuned", (sources_of(task).better,))])


@asynccontextmanager
async def hosted(
    folder: Path,
    task: KernelTask,
    team: Team,
    *,
    automatic: bool = False,
    linger: float | None = None,
    queue_length: int = 8192,
    settings: RunSettings | None = None,
) -> AsyncIterator[Hosted]:
    settings = settings or settings_of(AUTO if automatic else ASK, rounds=1)
    resumed = (folder / "journal.jsonl").exists()
    opened = (
        resume_session(folder, task, Redactor())
        if resumed
        else open_session(folder, task, settings, Redactor())
    )
    with opened.journal:
        engine = build_engine(opened, task, settings, team, wait_for_engineer=True)
        server = Server(engine, folder, linger_seconds=linger, queue_length=queue_length)
        running = asyncio.create_task(server.serve())
        await listens(server.path, running)
        try:
            async with asyncio.timeout(SECONDS):
                yield Hosted(folder, server, running)
        finally:
            engine.control.cancel(ANN)
            await running


async def listens(path: Path, running: asyncio.Task[None]) -> None:
    """Waits until the engine can be talked to."""
    while not running.done():
        try:
            await ask_welcome(path)
            return
        except NoListener:
            await asyncio.sleep(0)
    await running


@asynccontextmanager
async def attached(
    engine: Hosted, by: Author = ANN, *, answers: bool = True
) -> AsyncIterator[Screen]:
    async with await EngineClient.connect(engine.path, by, answers=answers) as client:
        yield Screen(client)


def run(test: Awaitable[None]) -> None:
    async def main() -> None:
        await test

    asyncio.run(main())


def test_an_engine_that_someone_cancels_waits_for_no_one(
    tmp_path: Path, task: KernelTask, team: ScriptedTeam, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "CONNECT_SECONDS", "an error where it is waited")

    async def test() -> None:
        async with hosted(tmp_path / "s", task, team) as engine:
            pass
        assert (await engine.end()).reason is StopReason.CANCELLED

    run(test())


def test_a_front_end_sees_the_journal_and_decides(
    tmp_path: Path, task: KernelTask, team: ScriptedTeam
) -> None:
    async def test() -> None:
        async with hosted(tmp_path / "s", task, team) as engine, attached(engine) as screen:
            welcome = screen.client.welcome
            assert (welcome.session, welcome.task, welcome.pid) == ("s", task.name, os.getpid())
            assert welcome.folder == str((tmp_path / "s").resolve())
            await screen.accept_all()
            closed = await engine.end()
            assert closed.reason is StopReason.ROUNDS
        contents = read_journal(tmp_path / "s")
        records = [s for s in screen.seen if isinstance(s, Record)]
        assert tuple(records) == contents.records
        assert fold(r.event for r in records[:-1]).digest() == closed.digest
        assert {d.by for d in contents.state().decisions.values()} == {ANN}

    run(test())


def test_the_first_decision_wins_and_the_other_is_told(
    tmp_path: Path, task: KernelTask, team: ScriptedTeam
) -> None:
    async def test() -> None:
        async with (
            hosted(tmp_path / "s", task, team) as engine,
            attached(engine, ANN) as ann,
            attached(engine, BOB) as bob,
        ):
            question = await ann.question()
            assert await bob.question() == question
            both = [
                ann.client.answer(accepted(question, ANN)),
                bob.client.answer(accepted(question, BOB)),
            ]
            first, second = await asyncio.gather(*both, return_exceptions=True)
            assert first is None
            assert isinstance(second, AnswerRefused)
            told = f"{question.id} was decided before: engineer ann accepted it"
            assert second.message == told
            await ann.question()
            with pytest.raises(AnswerRefused, match="engineer ann accepted it"):
                await bob.client.answer(accepted(question, BOB))

    run(test())


def test_a_hang_up_loses_nothing_and_a_late_front_end_sees_all(
    tmp_path: Path, task: KernelTask, team: ScriptedTeam
) -> None:
    async def test() -> None:
        async with hosted(tmp_path / "s", task, team) as engine:
            async with attached(engine) as early:
                await early.watch(lambda e: isinstance(e, CaseChecked))
            async with attached(engine) as late:
                # The late one has all that the early one saw, then what came meanwhile.
                question = await late.question()
                assert late.numbers[: len(early.numbers)] == early.numbers
                await late.client.answer(accepted(question))
                await late.accept_all()
            assert late.numbers == list(range(len(late.numbers)))
            assert (await engine.end()).reason is StopReason.ROUNDS
        assert len(late.numbers) == len(read_journal(tmp_path / "s").records)

    run(test())


def test_an_open_question_and_what_workers_are_at_reach_whoever_comes_later(
    tmp_path: Path, task: KernelTask, team: ScriptedTeam
) -> None:
    async def test() -> None:
        folder, workers = tmp_path / "s", WorkersSeen(WorkersStatus((WorkerStatus("gpu0"),)))
        async with hosted(folder, task, team) as engine:
            async with attached(engine) as first:
                question = await first.question()
            engine.server._engine.record.emit(workers)
            async with attached(engine) as other:
                assert await other.watch(lambda e: isinstance(e, WorkersSeen)) == workers
            async with attached(engine) as second:
                assert await second.question() == question
                await second.client.cancel()
            assert (await engine.end()).reason is StopReason.CANCELLED
        async with hosted(folder, task, team) as engine, attached(engine) as third:
            assert await third.question() == question

    run(test())


@pytest.mark.usefixtures("lab_at_work")
def test_interrupt_is_answered_at_once_and_the_run_goes_on(
    tmp_path: Path, task: KernelTask, team: ScriptedTeam, record_property: Callable[..., None]
) -> None:
    async def test() -> None:
        async with hosted(tmp_path / "s", task, team, automatic=True) as engine:
            async with attached(engine) as screen:
                await screen.watch(lambda e: isinstance(e, CaseChecked))
                started = time.perf_counter()
                await screen.client.interrupt()
                acknowledged = time.perf_counter() - started
                event = await screen.watch(lambda e: isinstance(e, Paused))
                took = time.perf_counter() - started
                record_property("interrupt_ack_ms", round(acknowledged * 1000, 1))
                record_property("interrupt_paused_ms", round(took * 1000, 1))
                assert event == Paused(ANN, interrupted=True)
                await screen.client.resume()
                await screen.to_the_end()
            assert (await engine.end()).reason is StopReason.ROUNDS

    run(test())


def test_a_full_disk_ends_the_engine_and_is_told_to_those_who_watch(
    tmp_path: Path, task: KernelTask, team: ScriptedTeam, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "s"

    async def test() -> None:
        async with hosted(folder, task, team, automatic=True) as engine, attached(engine) as screen:
            await screen.watch(lambda e: isinstance(e, CaseChecked))
            fill_disk(monkeypatch)
            with pytest.raises(EngineGone, match=rf"is gone: {full}"):
                await screen.to_the_end()
            await asyncio.wait([engine.running])
            assert not engine.path.exists()

    full = f"{folder / 'journal.jsonl'}: the journal cannot be written: No space left"
    with pytest.raises(UserError, match=full):
        run(test())
    assert writer_of(folder) is None


def test_orders_reach_the_engine_and_what_it_refuses_is_said(
    tmp_path: Path, task: KernelTask, team: ScriptedTeam
) -> None:
    case = Case("one", "the smallest", DType.FLOAT16, {"tokens": 1, "d": 8})

    async def test() -> None:
        async with hosted(tmp_path / "s", task, team) as engine, attached(engine) as screen:
            question = await screen.question()
            await screen.client.note("rows are long")
            note = await screen.watch(lambda e: isinstance(e, NoteAdded))
            assert note == NoteAdded("rows are long", ANN)
            await screen.client.case(case)
            with pytest.raises(RequestRefused, match="there is a case float16/one already"):
                await screen.client.case(case)
            large = Case("big", "", DType.FLOAT16, {"tokens": 1024, "d": 5120})
            with pytest.raises(RequestRefused, match=r"case big: .* the most are 65536"):
                await screen.client.case(large)
            wide = Case("wide", "", DType.FLOAT16, {"tokens": 1, "d": 5128})
            with pytest.raises(RequestRefused, match=r"case wide: .* contract: d <= 5120"):
                await screen.client.case(wide)
            await screen.client.pause()
            assert await screen.watch(lambda e: isinstance(e, Paused)) == Paused(ANN)
            await screen.client.resume()
            other = Answer(question.id, "0" * 64, ApprovalStatus.ACCEPTED, ANN)
            with pytest.raises(AnswerRefused, match="what is shown is"):
                await screen.client.answer(other)
            no_hunks = replace(accepted(question, ANN), hunks=(math.inf,))
            with pytest.raises(AnswerRefused, match="this cannot be read"):
                await screen.client.answer(no_hunks)
            with pytest.raises(AnswerRefused, match="nonsense is not open"):
                await screen.client.answer(Answer("nonsense", "", ApprovalStatus.ACCEPTED, ANN))
            await screen.client.cancel()
            await screen.to_the_end()
            assert (await engine.end()).message == "cancelled by engineer ann"
            with pytest.raises(EngineGone, match=r"the engine of s .* is gone"):
                await screen.client.note("too late")

    run(test())


class Wire:
    """Talks to the socket line by line."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self.reader, self.writer = reader, writer

    async def hear(self) -> object:
        return decode_from_engine(await self.reader.readline())

    async def say(self, message: Message | bytes) -> None:
        line = message if isinstance(message, bytes) else encode_message(message)
        self.writer.write(line)
        await self.writer.drain()


def test_malformed_messages_are_answered(
    tmp_path: Path, task: KernelTask, team: ScriptedTeam
) -> None:
    async def test() -> None:
        async with hosted(tmp_path / "s", task, team) as engine:
            wire = Wire(*await asyncio.open_unix_connection(engine.path))
            assert isinstance(await wire.hear(), Welcome)
            await wire.say(Greeting(PROTOCOL, ANN, follows=False))
            for nonsense in (b"\n", b"{}\n", b"\xff\xfe\n", b'{"message":"note","id":"x"}\n'):
                await wire.say(nonsense)
                refused = await wire.hear()
                assert isinstance(refused, Refused)
                assert (refused.request, refused.reason[:18]) == (0, "this cannot be rea")
            await wire.say(AddNote(7, "still here"))
            assert await wire.hear() == Done(7)
            wire.writer.close()

    run(test())


def test_another_protocol_is_refused(tmp_path: Path, task: KernelTask, team: ScriptedTeam) -> None:
    async def test() -> None:
        async with hosted(tmp_path / "s", task, team) as engine:
            for first in (Greeting(PROTOCOL + 1, ANN), AddNote(1, "no greeting")):
                wire = Wire(*await asyncio.open_unix_connection(engine.path))
                await wire.hear()
                await wire.say(first)
                assert isinstance(await wire.hear(), Refused)
                assert await wire.reader.read() == b""
                wire.writer.close()
            assert engine.server._engine.desk.clients == 0

    run(test())


class TalkativeTeam(ScriptedTeam):
    """Streams more than a socket can hold before it plans."""

    async def plan(self, brief: Brief, count: int, on_text: OnText) -> PlanAnswer:
        for _ in range(2000):
            on_text("planning", "x" * 1000, False)
        return await super().plan(brief, count, on_text)


def test_a_front_end_that_does_not_read_is_disconnected(
    tmp_path: Path, task: KernelTask, team: ScriptedTeam
) -> None:
    async def test() -> None:
        talkative = TalkativeTeam(team.steps)
        options = {"automatic": True, "queue_length": 64}
        async with hosted(tmp_path / "s", task, talkative, **options) as engine:  # type: ignore[arg-type]
            async with attached(engine, BOB, answers=False) as screen:
                await screen.watch(lambda _: True)  # The past is read before anything begins.
                reader, writer = await asyncio.open_unix_connection(engine.path, limit=1024)
                await Wire(reader, writer).say(Greeting(PROTOCOL, ANN))
                await screen.to_the_end()
            assert (await engine.end()).reason is StopReason.ROUNDS
            assert b"session_closed" not in await reader.read()
            writer.close()
        assert screen.numbers == list(range(len(screen.numbers)))

    run(test())


@pytest.mark.parametrize("paused", [False, True])
def test_an_engine_that_only_waits_ends_when_nobody_is_there(
    tmp_path: Path, task: KernelTask, team: ScriptedTeam, paused: bool
) -> None:
    async def test() -> None:
        async with hosted(tmp_path / "s", task, team, linger=0.1) as engine:
            async with attached(engine) as screen, attached(engine, BOB, answers=False) as other:
                await screen.question()
                if paused:
                    await screen.client.interrupt()
                    await screen.watch(lambda e: isinstance(e, Paused))
                assert not engine.running.done()
                await screen.client.close()
                await other.to_the_end()
            closed = await engine.end()
        assert closed.reason is StopReason.UNATTENDED
        what = "end the pause" if paused else "decide 1.0.plan"
        assert closed.message == f"no one was there for 0.1 s to {what}"

    run(test())


def test_the_socket_is_private_and_goes_with_the_engine(
    tmp_path: Path, task: KernelTask, team: ScriptedTeam
) -> None:
    async def test() -> None:
        async with hosted(tmp_path / "s", task, team) as engine:
            assert stat.S_IMODE(engine.path.stat().st_mode) == 0o600
            assert stat.S_IMODE(engine.path.parent.stat().st_mode) == 0o700
        assert list(engine.path.parent.iterdir()) == []
        with pytest.raises(NoListener, match="no engine listens"):
            await EngineClient.connect(engine.path)

    run(test())


def test_a_dead_socket_is_replaced_and_a_live_one_refused(
    tmp_path: Path, task: KernelTask, team: ScriptedTeam
) -> None:
    async def test() -> None:
        folder = tmp_path / "s"
        leave_dead_socket(socket_path(folder))
        async with hosted(folder, task, team) as engine, attached(engine):
            with pytest.raises(UserError, match=f"process {os.getpid()} on .* runs this session"):
                await Server(engine.server._engine, folder).serve()
            async with attached(engine):
                pass

    run(test())


def test_running_engines_are_found_and_dead_sockets_removed(
    tmp_path: Path, task: KernelTask, team: ScriptedTeam, runtime: Path
) -> None:
    async def test() -> None:
        dead = runtime / "0123456789abcdef.sock"
        leave_dead_socket(dead)
        async with hosted(tmp_path / "s", task, team) as engine:
            ((path, welcome),), silent = await running_engines(runtime)
            assert (path, welcome.session, silent) == (engine.path, "s", [])
        assert not dead.exists()

    run(test())


def test_a_path_that_is_too_long_for_a_socket_is_said(
    tmp_path: Path, task: KernelTask, team: ScriptedTeam, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(long))
    monkeypatch.setenv("XDG_STATE_HOME", str(long))
    monkeypatch.setattr("tempfile.tempdir", str(long))
    with pytest.raises(UserError, match="longer than 107 bytes"):
        socket_path(tmp_path / "s")
    monkeypatch.setattr("tempfile.tempdir", "/tmp")
    # A session's own path may be as long as it likes: the socket is named after its hash.
    assert len(os.fsencode(socket_path(long / "y" / "s"))) <= 107


def leave_dead_socket(path: Path) -> None:
    import socket

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
