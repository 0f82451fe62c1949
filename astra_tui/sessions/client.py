"""The front end's side of an engine's socket, and what is written for it in an editor."""

from __future__ import annotations

import asyncio
import itertools
import os
import shlex
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Self

import msgspec
import platformdirs

from astra_tui.model.approval import Answer, AnswerRefused, AutoMode
from astra_tui.model.author import Author, AuthorKind
from astra_tui.model.check import Case
from astra_tui.model.errors import UserError
from astra_tui.model.events import Event, SessionClosed
from astra_tui.sessions.journal_lines import Record
from astra_tui.sessions.safe_open import make_folder, write_inside
from astra_tui.sessions.wire import (
    LONGEST_MESSAGE,
    PROTOCOL,
    AddCase,
    AddNote,
    Cancel,
    ChooseParent,
    Done,
    FromEngine,
    GiveAnswer,
    Greeting,
    Interrupt,
    MalformedMessage,
    Passed,
    Pause,
    Recorded,
    Refused,
    Request,
    Resume,
    SetAutoApproval,
    TakeBack,
    Welcome,
    decode_from_engine,
    encode_message,
)

WELCOME_SECONDS = 5.0
"""How long an engine may take to greet; its event loop is never busy for that long."""


class EngineGone(UserError):
    """There is no engine at the other end, or no longer."""


class NoListener(EngineGone):
    """A socket that no engine listens at: there is none, or it is left from a dead engine."""


class RequestRefused(UserError):
    """The engine did not do what it was asked for; the message says why."""


class EngineClient:
    """One connection to a running engine. `connect` opens it; `close`, or leaving a block, ends it.

    `events` has to be read all the time: an engine disconnects a front end that does not.
    """

    def __init__(
        self, welcome: Welcome, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ):
        self.welcome = welcome
        self._reader = reader
        self._writer = writer
        self._events: asyncio.Queue[Record | Event | None] = asyncio.Queue()
        self._ids = itertools.count(1)
        self._replies: dict[int, asyncio.Future[Done | Refused]] = {}
        self._closed = False
        """Whether the session was closed, after which the engine leaves as it should."""
        self._trouble = ""
        self._reading = asyncio.ensure_future(self._read())

    @classmethod
    async def connect(
        cls, path: Path, by: Author | None = None, *, answers: bool = True, follows: bool = True
    ) -> EngineClient:
        """Connects to the engine at a socket.

        Raises EngineGone when no one is there, and UserError when it speaks another version.
        """
        reader, writer = await _open(path)
        try:
            welcome = await _welcome(path, reader)
            greeting = Greeting(PROTOCOL, by or user_at_terminal(), answers, follows)
            writer.write(encode_message(greeting))
        except BaseException:
            writer.close()
            raise
        return cls(welcome, reader, writer)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends the connection; the engine continues. A second call does nothing."""
        self._reading.cancel()
        await asyncio.wait([self._reading])
        self._writer.close()

    async def events(self) -> AsyncIterator[Record | Event]:
        """The journal from its first record on, then what happens; transient events come bare.

        Ends when the session is closed. Raises EngineGone when the engine goes without a word.
        """
        while (event := await self._events.get()) is not None:
            yield event
        if not self._closed:
            raise self._gone()

    async def answer(self, answer: Answer) -> None:
        """Decides a question.

        Raises AnswerRefused, which names who decided it before, and RequestRefused when it is
        too long.
        """
        refused = await self._ask(GiveAnswer(next(self._ids), answer))
        if refused is not None:
            raise AnswerRefused(refused.reason, hint=refused.hint, errors=refused.errors)

    async def take_back(self, question: str) -> None:
        """Takes back the rejection of a question. Raises RequestRefused where it is too late."""
        await self._order(TakeBack(next(self._ids), question))

    async def note(self, text: str) -> None:
        """Tells the team something."""
        await self._order(AddNote(next(self._ids), text))

    async def choose_parent(self, candidate: str) -> None:
        """Has the next round stand on a candidate. Raises RequestRefused for one that cannot be
        built on.
        """
        await self._order(ChooseParent(next(self._ids), candidate))

    async def case(self, case: Case) -> None:
        """Adds a case for every later candidate. Raises RequestRefused if there is one like it."""
        await self._order(AddCase(next(self._ids), case))

    async def auto(self, mode: AutoMode, left: int = 0) -> None:
        """Says which questions of those to come are accepted without asking, or how many."""
        await self._order(SetAutoApproval(next(self._ids), mode, left))

    async def pause(self) -> None:
        """Stops before the next step."""
        await self._order(Pause(next(self._ids)))

    async def resume(self) -> None:
        """Ends a pause."""
        await self._order(Resume(next(self._ids)))

    async def interrupt(self) -> None:
        """Drops the running step and pauses."""
        await self._order(Interrupt(next(self._ids)))

    async def cancel(self) -> None:
        """Ends the run; the session can be resumed."""
        await self._order(Cancel(next(self._ids)))

    async def wait_gone(self) -> None:
        """Waits until the engine has ended the connection."""
        await asyncio.wait([self._reading])

    async def _order(self, request: Request) -> None:
        refused = await self._ask(request)
        if refused is not None:
            raise RequestRefused(refused.reason, hint=refused.hint)

    async def _ask(self, request: Request) -> Refused | None:
        if self._reading.done():
            raise self._gone()
        line = encode_message(request)
        if len(line) > LONGEST_MESSAGE:  # The engine would end the connection.
            raise RequestRefused(f"this is too long: at most {LONGEST_MESSAGE >> 20} MiB are sent")
        reply: asyncio.Future[Done | Refused] = asyncio.Future()
        self._replies[request.id] = reply
        try:
            self._writer.write(line)
            answered = await reply
        finally:
            del self._replies[request.id]
        return answered if isinstance(answered, Refused) else None

    async def _read(self) -> None:
        try:
            while line := await self._reader.readline():
                self._take(decode_from_engine(line))
        except (OSError, ValueError) as error:
            self._trouble = str(error)
        finally:
            for reply in self._replies.values():
                if not reply.done():
                    reply.set_exception(self._gone())
            self._events.put_nowait(None)

    def _take(self, message: FromEngine) -> None:
        match message:
            case Recorded(record):
                self._closed = isinstance(record.event, SessionClosed)
                self._events.put_nowait(record)
            case Passed(event):
                self._events.put_nowait(event)
            case Done(request) | Refused(request):
                reply = self._replies.get(request)
                if reply is not None and not reply.done():
                    reply.set_result(message)
                elif isinstance(message, Refused):
                    self._trouble = message.reason
            case Welcome():
                raise MalformedMessage("a second welcome")

    def _gone(self) -> EngineGone:
        welcome = self.welcome
        why = f": {self._trouble}" if self._trouble else ""
        return EngineGone(
            f"the engine of {welcome.session} (process {welcome.pid}) is gone{why}",
            hint=f"the session is in {welcome.folder} and can be resumed",
        )


def user_at_terminal() -> Author:
    """The user that runs this process."""
    return Author(AuthorKind.ENGINEER, os.environ.get("USER", ""))


async def ask_welcome(path: Path) -> Welcome:
    """What the engine at a socket says of itself. Raises EngineGone when no one is there."""
    reader, writer = await _open(path)
    try:
        return await _welcome(path, reader)
    finally:
        writer.close()


async def running_engines(folder: Path) -> tuple[list[tuple[Path, Welcome]], list[UserError]]:
    """The engines whose sockets are in the runtime folder, and those that do not greet.

    Sockets that are left from dead engines are removed: an engine listens before its socket gets
    its name, so that a refused connection means that it is dead.
    """
    engines: list[tuple[Path, Welcome]] = []
    silent: list[UserError] = []
    for path in sorted(folder.glob("*.sock")):
        try:
            engines.append((path, await ask_welcome(path)))
        except NoListener:
            path.unlink(missing_ok=True)
        except UserError as error:
            silent.append(error)
    return engines, silent


async def _open(path: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    try:
        return await asyncio.open_unix_connection(path, limit=LONGEST_MESSAGE)
    except (FileNotFoundError, ConnectionRefusedError):
        message = "no engine listens at this socket"
        raise NoListener(message, file=str(path), hint="see: astra-tui ps") from None
    except OSError as error:
        raise UserError(f"cannot connect: {error.strerror or error}", file=str(path)) from None


async def _welcome(path: Path, reader: asyncio.StreamReader) -> Welcome:
    try:
        async with asyncio.timeout(WELCOME_SECONDS):
            line = await reader.readline()
        if not line:
            raise EngineGone("the engine ended the connection at once", file=str(path))
        welcome = decode_from_engine(line)
    except TimeoutError:
        message = f"the engine has sent nothing for {WELCOME_SECONDS:.0f} s"
        raise UserError(message, file=str(path)) from None
    except (OSError, ValueError) as error:
        message = f"this is no engine that can be talked to: {error}"
        raise UserError(message, file=str(path)) from None
    if not isinstance(welcome, Welcome):
        raise UserError("this is no engine: it gave no welcome", file=str(path))
    if welcome.protocol != PROTOCOL:
        raise UserError(
            f"the engine of {welcome.session} (process {welcome.pid}) speaks protocol "
            f"{welcome.protocol}, this program {PROTOCOL}",
            hint="use the version of astra-tui that started it",
        )
    return welcome


def editor_command() -> list[str]:
    """The command of $VISUAL or $EDITOR; empty where neither is set."""
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""
    try:
        return shlex.split(command)
    except ValueError:  # A quotation without an end: there is no such program, which is said then.
        return [command]


class Edit(msgspec.Struct, frozen=True):
    """A text in a file, alone in a folder that only its user can read."""

    file: Path

    @classmethod
    def begin(cls, text: str, name: str, suffix: str) -> Edit:
        """Writes a text into a new folder that begins with a name. Raises UserError."""
        try:
            file = write_inside(_new_folder(name), f"edit{suffix}", text.encode())
        except OSError as error:
            raise UserError(f"no file can be written to be edited: {error}") from None
        return cls(file)

    def read(self) -> str:
        """The text as it is now. Raises UserError when it cannot be read."""
        try:
            return self.file.read_bytes().decode()
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"what the editor left cannot be read: {error}") from None

    def is_still(self, text: str) -> bool:
        """Whether nothing but this text would be lost with it."""
        try:
            return self.file.read_bytes() == text.encode()
        except OSError:
            return not self.file.exists()

    def drop(self) -> None:
        """Removes it; its text is elsewhere, or no one wants it."""
        shutil.rmtree(self.file.parent, ignore_errors=True)


def _new_folder(name: str) -> Path:
    own = platformdirs.user_state_path("astra-tui") / "edits"
    try:
        make_folder(own)
        return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=own))
    except OSError:  # A home that cannot be written to.
        return Path(tempfile.mkdtemp(prefix="astra-tui-"))
