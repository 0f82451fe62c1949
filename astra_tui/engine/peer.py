"""One front end at the engine's socket: what it is sent, and that it cannot hold the engine up."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence

from astra_tui.sessions.wire import (
    FromFrontEnd,
    Message,
    Refused,
    decode_from_front_end,
    encode_message,
    request_number,
)

QUEUE_LENGTH = 8192
"""Messages that may wait for a front end that is slow to read."""

DRAIN_SECONDS = 30.0
"""How long a front end may read nothing while there is something for it."""

_Lines = Callable[[], Sequence[bytes]]


class Peer:
    """A connection. `send` never waits; a front end that does not read is disconnected."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        queue_length: int = QUEUE_LENGTH,
    ):
        self._reader = reader
        self._writer = writer
        self._waiting: asyncio.Queue[bytes | _Lines | None] = asyncio.Queue(queue_length)
        self._writing = asyncio.ensure_future(self._write())

    def send(self, line: bytes) -> None:
        """Queues a line; drops the connection when the queue is full."""
        self._put(line)

    def send_later(self, read: _Lines) -> None:
        """Queues lines that a thread reads when it is their turn."""
        self._put(read)

    def reply(self, message: Message) -> None:
        """Queues a message."""
        self._put(encode_message(message))

    def drop(self) -> None:
        """Ends the connection at once; what is queued is lost."""
        self._writing.cancel()
        # Closing would wait until everything is read.
        self._writer.transport.abort()

    async def finish(self, seconds: float) -> None:
        """Ends the connection once all that is queued was sent, or after that time."""
        self._put(None)
        await asyncio.wait([self._writing], timeout=seconds)
        self.drop()

    async def messages(self) -> AsyncIterator[FromFrontEnd]:
        """What the front end says, until it hangs up. A line that is no message is answered so."""
        while True:
            try:
                line = await self._reader.readline()
            except ValueError:
                self.reply(Refused(0, "this line is too long"))
                return
            except OSError:
                return
            if not line.endswith(b"\n"):
                return
            try:
                message = decode_from_front_end(line)
            except ValueError as error:
                self.reply(Refused(request_number(line), f"this cannot be read: {error}"))
            else:
                yield message

    def _put(self, item: bytes | _Lines | None) -> None:
        try:
            self._waiting.put_nowait(item)
        except asyncio.QueueFull:
            self.drop()

    async def _write(self) -> None:
        with contextlib.suppress(OSError):
            while (item := await self._waiting.get()) is not None:
                for line in [item] if isinstance(item, bytes) else await asyncio.to_thread(item):
                    await self._write_line(line)
            self._writer.close()
            await self._writer.wait_closed()
            return
        self._writer.transport.abort()

    async def _write_line(self, line: bytes) -> None:
        self._writer.write(line)
        async with asyncio.timeout(DRAIN_SECONDS):  # TimeoutError is an OSError.
            await self._writer.drain()
