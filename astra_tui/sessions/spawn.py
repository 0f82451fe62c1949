"""Starts an engine in a process of its own, which outlives the front end that started it.

The engine gets a `RunRequest` on its standard input and says on its standard output, in one line,
that it listens (`Ready`) or why it does not (`NotReady`). Keys of models reach it by its
environment and are no part of a request.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
import threading
from typing import IO, Union

import msgspec

from astra_tui.model.errors import DeviceMissing, OutOfResources, Place, UserError
from astra_tui.model.settings import RunSettings

LINGER_SECONDS = 3600.0
"""How long an engine waits for somebody to decide before it ends by itself; it can be resumed."""

LOG_NAME = "engine.log"
"""In the session's folder: what the engine process wrote to its standard error."""

_MODULE = "astra_tui.engine"
_END_SECONDS = 10.0
_LAST_WORDS = 4_000


class RunRequest(msgspec.Struct, frozen=True):
    """What an engine is started for. Relative paths are meant from the current folder.

    The session is the one in `folder`, which goes on where it has a journal; where `folder` is
    empty, a new one is made in `sessions`. Prices are dollars for a million tokens.
    """

    task: str
    settings: RunSettings
    folder: str = ""
    sessions: str = "sessions"
    seed: int = 0
    """What a new session draws cases from; an older one keeps its own."""
    linger_seconds: float | None = None
    price_input_per_million: float | None = None
    price_output_per_million: float | None = None
    price_cached_per_million: float | None = None


class Ready(msgspec.Struct, frozen=True, tag_field="engine", tag="ready"):
    """The engine listens at `socket`; `first` is the number of the first record of this run."""

    folder: str
    socket: str
    pid: int
    first: int


class NotReady(msgspec.Struct, frozen=True, tag_field="engine", tag="not_ready"):
    """The engine cannot do what was asked: the parts of a UserError."""

    message: str
    file: str
    line: int
    column: int
    hint: str
    device_missing: bool = False
    out_of_resources: bool = False

    @classmethod
    def from_error(cls, error: UserError) -> NotReady:
        """The error as data."""
        place, missing = error.place, isinstance(error, DeviceMissing)
        full = isinstance(error, OutOfResources)
        return cls(error.message, error.file, place.line, place.column, error.hint, missing, full)

    def error(self) -> UserError:
        """The error as it was raised in the engine's process."""
        place = Place(self.line, self.column)
        kind = DeviceMissing if self.device_missing else UserError
        kind = OutOfResources if self.out_of_resources else kind
        return kind(self.message, file=self.file, place=place, hint=self.hint)


class EngineNotStarted(UserError):
    """The engine process ended before it could say why."""


_reply = msgspec.json.Decoder(Union[Ready, NotReady])  # noqa: UP007 - for msgspec.


async def start_engine(request: RunRequest) -> Ready:
    """Starts an engine; front ends can connect to it once this returns.

    Raises the UserError of the engine where it cannot open the session, and EngineNotStarted where
    it breaks down. Cancelled, it ends the engine: nobody would know of it.
    """
    with tempfile.TemporaryFile() as errors:
        process = _spawn(errors)
        try:
            reply = await asyncio.to_thread(_converse, process, msgspec.json.encode(request))
            return _ready(reply, process, errors)
        except BaseException:
            process.terminate()
            raise
        finally:
            _reap_later(process)


def _spawn(errors: IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", _MODULE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        start_new_session=True,  # The hang-up of our terminal is none of the engine's business.
    )


def _converse(process: subprocess.Popen[bytes], request: bytes) -> bytes:
    assert process.stdin is not None
    assert process.stdout is not None
    # An engine that broke down reads nothing; what it wrote before tells more than the pipe does.
    with contextlib.suppress(BrokenPipeError), process.stdin:
        process.stdin.write(request)
    with process.stdout:
        return process.stdout.read()


def _ready(reply: bytes, process: subprocess.Popen[bytes], errors: IO[bytes]) -> Ready:
    try:
        message: Ready | NotReady = _reply.decode(reply)
    except msgspec.MsgspecError:
        raise _not_started(process, errors) from None
    if isinstance(message, NotReady):
        raise message.error()
    return message


def _not_started(process: subprocess.Popen[bytes], errors: IO[bytes]) -> EngineNotStarted:
    try:
        code = process.wait(_END_SECONDS)
        how = f"ended with exit code {code}" if code >= 0 else f"was ended by signal {-code}"
    except subprocess.TimeoutExpired:
        how = "closed its output"
    errors.seek(max(0, errors.seek(0, os.SEEK_END) - _LAST_WORDS))
    words = errors.read().decode(errors="replace").strip()
    return EngineNotStarted(f"the engine process {how} before it was ready", hint=words)


def _reap_later(process: subprocess.Popen[bytes]) -> None:
    """Takes note of the engine's end, without which it would look alive to those who ask."""
    threading.Thread(target=process.wait, daemon=True).start()
