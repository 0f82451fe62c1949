"""The engine process: reads a request, opens the session, says that it listens, and works.

See sessions/engines.py for the protocol. No one waits for this process and no one reads its output:
what it has to say is in the journal, and what goes wrong with itself in the session's engine.log.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import signal
import sys
import traceback

import msgspec

from astra_tui.engine.control import Control
from astra_tui.engine.opening import OpenRun, open_run
from astra_tui.engine.server import Server
from astra_tui.model.errors import UserError
from astra_tui.sessions.client import user_at_terminal
from astra_tui.sessions.engines import LOG_NAME, NotReady, Ready, RunRequest
from astra_tui.sessions.journal_writer import Redactor
from astra_tui.sessions.safe_open import open_to_write

_FAILED = 1


def main() -> int:
    """The exit code: 0 when the session was closed, 1 when the engine could not do its work."""
    reply = _ReplyLine()
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=RunRequest)
    _point(0, os.open(os.devnull, os.O_RDONLY))
    try:
        return asyncio.run(_run(request, reply))
    except UserError as error:  # It was not ready: once it is, no error leaves `_run`.
        reply.say(NotReady.of(error))
        return _FAILED


async def _run(request: RunRequest, reply: _ReplyLine) -> int:
    with await open_run(request, os.environ, wait_for_engineer=True) as opened:
        handle = open_to_write(opened.folder, LOG_NAME, os.O_APPEND)
        server = Server(opened.engine, opened.folder, linger_seconds=request.linger_seconds)
        await server.start()
        _cancel_on_signals(opened.engine.control)
        log = _Log(handle, opened.redactor)
        try:
            reply.say(_ready(opened, server))
            await server.serve()
            return 0
        except BaseException:
            traceback.print_exc()
            return _FAILED
        finally:
            log.end()


def _ready(opened: OpenRun, server: Server) -> Ready:
    return Ready(str(opened.folder), str(server.path), os.getpid(), opened.first)


def _cancel_on_signals(control: Control) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, control.cancel, user_at_terminal())


def _point(fd: int, target: int) -> None:
    """Makes `fd` another name of `target`, which is closed."""
    os.dup2(target, fd)
    os.close(target)


class _ReplyLine:
    """The standard output, kept for the one line that the starter waits for.

    Whatever else in this process writes to standard output writes to standard error instead.
    """

    def __init__(self) -> None:
        self._fd = os.dup(1)
        os.dup2(2, 1)

    def say(self, message: Ready | NotReady) -> None:
        """Writes the line, unless the starter is gone: others may come to the socket."""
        with contextlib.suppress(BrokenPipeError), os.fdopen(self._fd, "wb") as pipe:
            pipe.write(msgspec.json.encode(message))


class _Log(io.TextIOBase):
    """Takes over standard error and standard output; each line is written without secrets.

    What a full disk does not take is lost.
    """

    def __init__(self, handle: int, redactor: Redactor):
        self._redactor = redactor
        self._line = ""
        os.dup2(handle, 1)
        _point(2, handle)
        sys.stderr = sys.stdout = self

    def writable(self) -> bool:
        """Always."""
        return True

    def write(self, text: str) -> int:
        """Writes the lines that are whole."""
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            self._put(line + "\n")
        return len(text)

    def flush(self) -> None:
        """Nothing: a secret may continue in the part of a line that is still to come."""

    def end(self) -> None:
        """Writes a last line that has no end."""
        if self._line:
            self._put(self._line)
            self._line = ""

    def _put(self, line: str) -> None:
        with contextlib.suppress(OSError):
            os.write(2, self._redactor.text(line).encode("utf-8", "replace"))
