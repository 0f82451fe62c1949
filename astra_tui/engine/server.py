"""The engine behind a Unix socket, so that front ends can come and go while it works.

See sessions/wire.py for the messages. The engine never waits for a front end: it works on when
they are slow, hang up, or are not there.
"""

from __future__ import annotations

import asyncio
import os
import platform
import socket
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

from astra_tui.engine.loop import Engine
from astra_tui.engine.peer import QUEUE_LENGTH, Peer
from astra_tui.engine.request_handler import RequestHandler
from astra_tui.engine.stops import Stop
from astra_tui.engine.tail import Tail
from astra_tui.model.errors import UserError
from astra_tui.model.events import (
    AnswerAwaited,
    DecisionTaken,
    Event,
    Paused,
    SessionClosed,
    StopReason,
    Transient,
    WorkersSeen,
)
from astra_tui.present.words import question_words
from astra_tui.sessions.client import NoListener, ask_welcome
from astra_tui.sessions.engines import socket_path
from astra_tui.sessions.wire import (
    LONGEST_MESSAGE,
    PROTOCOL,
    Greeting,
    Passed,
    Refused,
    Welcome,
    encode_message,
    recorded_line,
)

DISCONNECT_SECONDS = 5.0
"""How long front ends have, once the session is closed, to read the end of it."""

CONNECT_SECONDS = 5.0
"""How long the one who started an engine has to reach it, where its run ends before."""

_LOOKS = 20
"""How often in `linger_seconds` it is checked whether a front end is connected."""


class Server:
    """Runs an engine and serves it. `run` is used in place of the engine's own `run`.

    `folder` is the session's. With `linger_seconds`, a session that only waits for someone is
    closed when no one who could answer was there for that long.
    """

    def __init__(
        self,
        engine: Engine,
        folder: Path,
        *,
        linger_seconds: float | None = None,
        queue_length: int = QUEUE_LENGTH,
    ):
        self.path = socket_path(folder)
        self._engine = engine
        self._folder = folder
        self._linger = linger_seconds
        self._queue_length = queue_length
        self._requests = RequestHandler(engine)
        self._followers: set[Peer] = set()
        self._connections: dict[asyncio.Task[None], Peer] = {}
        self._lasting: dict[str, AnswerAwaited | WorkersSeen] = {}
        """What is passed on and not kept, and what a later follower has to know too."""
        self._last_event = 0.0
        self._was_met = asyncio.Event()
        self._listening: asyncio.Server | None = None

    async def start(self) -> None:
        """Lets front ends in; what they ask for is done once the engine runs.

        Raises UserError when another engine listens at the socket, or when it cannot be made.
        """
        self._tail = Tail(self._folder)
        self._listening = await self._listen()

    async def run(self) -> AsyncIterator[Event]:
        """Runs the engine to its end; yields every event after it was sent to those who follow.

        Starts first where that has not been done, and raises what `start` raises. What ends the
        engine is told to the front ends before it is raised.
        """
        if self._listening is None:
            await self.start()
        watching = asyncio.ensure_future(self._watch_attendance())
        try:
            async for event in self._engine.run():
                self._broadcast(event)
                # Events may come in bursts; those who write them out get a turn in between.
                await asyncio.sleep(0)
                yield event
        except UserError as error:
            self._tell(error)
            raise
        finally:
            watching.cancel()
            self.path.unlink(missing_ok=True)
            if self._listening is not None:
                self._listening.close()
            await self._dismiss()
            self._tail.close()

    async def serve(self) -> None:
        """Runs the engine to its end, for an engine process that shows nothing itself.

        A run that is over at once still tells its end to the one who started it, unless someone
        has cancelled it.
        """
        async for event in self.run():
            if isinstance(event, SessionClosed) and event.reason is not StopReason.CANCELLED:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._was_met.wait(), CONNECT_SECONDS)

    # -- the socket ------------------------------------------------------------------------------

    async def _listen(self) -> asyncio.Server:
        await self._refuse_if_taken()
        # It listens before it gets its name: a refusal at a name means that the engine is dead.
        nameless = self.path.with_suffix(".new")
        nameless.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listener.bind(os.fspath(nameless))
            nameless.chmod(0o600)
            listener.listen()
            nameless.rename(self.path)
        except OSError as error:
            listener.close()
            message = f"the engine cannot listen here: {error.strerror}"
            raise UserError(message, file=str(self.path)) from None
        return await asyncio.start_unix_server(
            self._accept, sock=listener, limit=LONGEST_MESSAGE, start_serving=True
        )

    async def _refuse_if_taken(self) -> None:
        try:
            other = await ask_welcome(self.path)
        except NoListener:
            return
        message = f"process {other.pid} on {other.host} runs this session already"
        hint = f"end it first: astra-tui stop {other.session}"
        raise UserError(message, file=str(self._folder), hint=hint)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = Peer(reader, writer, self._queue_length)
        task = asyncio.current_task()
        assert task is not None
        self._connections[task] = peer
        try:
            await self._attend(peer)
        finally:
            del self._connections[task]
            self._followers.discard(peer)

    def _tell(self, error: UserError) -> None:
        """Says why the engine goes; the journal, which should say it, may be what failed."""
        reason = f"{error.file}: {error.message}" if error.file else error.message
        for peer in self._connections.values():
            peer.reply(Refused(0, reason, error.hint))

    async def _dismiss(self) -> None:
        """Sends everyone the end of the session, then hangs up."""
        peers = list(self._connections.values())
        tasks = list(self._connections)
        await asyncio.gather(*(peer.finish(DISCONNECT_SECONDS) for peer in peers))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- one front end ---------------------------------------------------------------------------

    async def _attend(self, peer: Peer) -> None:
        peer.reply(self._welcome())
        messages = peer.messages()
        greeting = await anext(messages, None)
        if not isinstance(greeting, Greeting) or greeting.protocol != PROTOCOL:
            if greeting is not None:
                spoken = f"a greeting in protocol {PROTOCOL} has to come first"
                peer.reply(Refused(0, spoken, "use the version of astra-tui that started it"))
            await peer.finish(DISCONNECT_SECONDS)
            return
        self._engine.desk.clients += greeting.answers
        try:
            if greeting.follows:
                self._follow(peer)
                self._was_met.set()
            async for message in messages:
                peer.reply(await self._requests.carry_out(message, greeting.by))
            await peer.finish(DISCONNECT_SECONDS)
        finally:
            self._engine.desk.clients -= greeting.answers
            peer.drop()

    def _welcome(self) -> Welcome:
        state = self._engine.state
        asked = next(iter(self._engine.desk.open), None)
        return Welcome(
            protocol=PROTOCOL,
            session=self._folder.resolve().name,
            folder=str(self._folder.resolve()),
            pid=os.getpid(),
            host=platform.node(),
            task=state.opened.settings.task if state.opened else "",
            status=state.status.value,
            question=asked.id if asked else "",
            waits_for=question_words(state, asked) if asked else "",
        )

    def _follow(self, peer: Peer) -> None:
        """From here on the peer gets everything: first the past, then what is broadcast."""
        end = self._tail.end
        peer.send_later(lambda: [recorded_line(line) for line in self._tail.past(end)])
        for lasting in self._lasting.values():
            peer.send(encode_message(Passed(lasting)))
        self._followers.add(peer)

    def _broadcast(self, event: Event) -> None:
        self._last_event = time.monotonic()
        self._keep_lasting(event)
        if isinstance(event, Transient):
            line = encode_message(Passed(event))  # type: ignore[arg-type]
        else:
            line = recorded_line(self._tail.next_line())
        for peer in self._followers:
            peer.send(line)

    def _keep_lasting(self, event: Event) -> None:
        match event:
            case AnswerAwaited(question):
                self._lasting[question.id] = event
            case WorkersSeen():
                self._lasting["workers"] = event
            case DecisionTaken(decision):
                self._lasting.pop(decision.question, None)
            case Paused(interrupted=True):  # The step that asked is gone; the next one asks again.
                workers = self._lasting.get("workers")
                self._lasting = {"workers": workers} if workers is not None else {}

    # -- no one there ----------------------------------------------------------------------------

    async def _watch_attendance(self) -> None:
        if self._linger is None:
            return
        since = time.monotonic()
        while True:
            await asyncio.sleep(self._linger / _LOOKS)
            now = time.monotonic()
            if not self._waits_for_nobody():
                since = now
            elif now - max(since, self._last_event) >= self._linger:
                message = f"no one was there for {self._linger:g} s to {self._what_to_do()}"
                self._engine.control.end(Stop(StopReason.UNATTENDED, message))
                return

    def _waits_for_nobody(self) -> bool:
        """Whether nothing continues before someone comes, and no one is there."""
        if self._engine.desk.clients:
            return False
        state = self._engine.state
        if state.paused:
            return True
        proposals = state.rounds[-1].proposals if state.rounds else ()
        unfinished = sum(p.verdict is None for p in proposals)
        return 0 < unfinished <= len(self._engine.desk.open)

    def _what_to_do(self) -> str:
        if self._engine.state.paused:
            return "end the pause"
        return "decide " + ", ".join(question.id for question in self._engine.desk.open)
