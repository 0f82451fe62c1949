"""Engine processes: starting one that outlives its front end, finding one, and how this machine
differs from where a session's last engine ran.

An engine gets a `RunRequest` on its standard input and says on its standard output, in one line,
that it listens (`Ready`) or why it does not (`NotReady`). Keys of models reach it by its
environment and are no part of a request. Sockets lie in a folder that only its owner can enter.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Union

import msgspec
import platformdirs

from astra_tui.model.digest import content_hash
from astra_tui.model.environment import (
    Difference,
    Environment,
    differences,
    recorded_environment,
)
from astra_tui.model.errors import OutOfResources, UserError, nearest
from astra_tui.model.events import EngineStarted
from astra_tui.model.settings import RunSettings
from astra_tui.rpc import Failure
from astra_tui.sessions.client import EngineClient, EngineGone, running_engines
from astra_tui.sessions.folder import writer_of
from astra_tui.sessions.integrity import Session, read_session
from astra_tui.sessions.safe_open import make_folder
from astra_tui.sessions.wire import Welcome

LONGEST_SOCKET_PATH = 107
"""Bytes: `sun_path` of unix(7) holds 108 with the closing zero."""

_NAMES = 10
_NAME_LENGTH = 16
_SUFFIX = ".sock"


def runtime_folder() -> Path:
    """The folder of the sockets, with mode 0700; the same for all of a user's processes.

    $XDG_RUNTIME_DIR/astra-tui where that can be used; else one under the temporary folder, or where
    another user took that name first, one in the user's own state folder, or of another name.
    Raises UserError where none can be made, the user's own is open to others, and every path to a
    socket would be too long.
    """
    first, *others = _choices()
    why: list[UserError] = []
    for folder in (first, *filter(_is_there, others), *others):  # One that is in use is kept.
        if _socket_length(folder) > LONGEST_SOCKET_PATH:
            why.append(_too_long(folder))
        elif (problem := _problem(folder)) is None:
            return folder
        else:
            why.append(problem)
    raise why[0]


def socket_path(session: Path) -> Path:
    """The socket of the engine that writes a session; the same for every path to its folder."""
    name = content_hash(os.fsencode(session.resolve()))[:_NAME_LENGTH]
    return runtime_folder() / f"{name}{_SUFFIX}"


def _choices() -> list[Path]:
    shared = Path(tempfile.gettempdir())
    name = f"astra-tui-{os.getuid()}"
    own = platformdirs.user_state_path("astra-tui") / "run"
    choices = [shared / name, own, *(shared / f"{name}-{n}" for n in range(1, _NAMES))]
    given = os.environ.get("XDG_RUNTIME_DIR", "")
    if given and Path(given).is_absolute() and Path(given).is_dir():
        choices.insert(0, Path(given) / "astra-tui")
    return choices


def _is_there(folder: Path) -> bool:
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()


def _socket_length(folder: Path) -> int:
    return len(os.fsencode(folder)) + 1 + _NAME_LENGTH + len(_SUFFIX)


def _too_long(folder: Path) -> UserError:
    return UserError(
        f"paths to sockets in {folder} are longer than {LONGEST_SOCKET_PATH} bytes",
        hint="set XDG_RUNTIME_DIR to a folder of your own with a short path",
    )


def _problem(folder: Path) -> UserError | None:
    """Why a folder cannot be used, which is made where it is missing.

    Raises UserError for one of the user's own that others may enter.
    """
    try:
        make_folder(folder)
        found = folder.lstat()
    except OSError as error:
        return OutOfResources.or_bad_input(error, "cannot be made", folder)
    if not stat.S_ISDIR(found.st_mode):
        return UserError("this is not a folder", file=str(folder), hint="remove it")
    if found.st_uid != os.getuid():
        message = f"this folder belongs to user {found.st_uid}, not to you"
        hint = "set XDG_RUNTIME_DIR to a folder of your own"
        return UserError(message, file=str(folder), hint=hint)
    if stat.S_IMODE(found.st_mode) & 0o077:
        message = f"others may enter this folder (mode {stat.S_IMODE(found.st_mode):04o})"
        raise UserError(message, file=str(folder), hint=f"chmod 700 {folder}")
    return None


END_SECONDS = 30.0
"""How long an engine may take to end; it needs milliseconds, and its last writes to the disk."""

_LOOK_SECONDS = 0.02

Running = tuple[Path, Welcome]
"""An engine's socket, and its Welcome."""


class NoSuchEngine(UserError):
    """No engine runs, or none that was meant."""


async def find_engine(session: str | None) -> Running:
    """The engine of a session, named by its name or folder; the only one that runs for None.

    Raises NoSuchEngine where there is none, and UserError where there are several.
    """
    engines, _ = await running_engines(runtime_folder())
    return choose_engine(engines, session)


def choose_engine(engines: Sequence[Running], session: str | None) -> Running:
    """The same, of engines that were found before."""
    meant = [e for e in engines if session is None or is_session_of(e[1], session)]
    if not meant:
        raise _none([welcome.session for _, welcome in engines], session)
    if len(meant) > 1:
        raise _several([welcome for _, welcome in meant], session)
    return meant[0]


def is_session_of(welcome: Welcome, session: str) -> bool:
    """Whether a name or folder means the session of this engine."""
    return session == welcome.session or str(Path(session).expanduser().resolve()) == welcome.folder


async def end_engine(path: Path, session: str, folder: Path) -> None:
    """Cancels a run; returns once the engine has disconnected and released the session.

    Raises UserError when it does not end in time.
    """
    try:
        async with asyncio.timeout(END_SECONDS):
            with contextlib.suppress(EngineGone):  # It ended by itself meanwhile.
                async with await EngineClient.connect(path, answers=False, follows=False) as client:
                    await client.cancel()
                    await client.wait_gone()
            while writer_of(folder) is not None:
                await asyncio.sleep(_LOOK_SECONDS)
    except TimeoutError:
        holder = writer_of(folder)
        who = f"{session} ({holder.describe()})" if holder else session
        raise UserError(
            f"{who} has not ended in {END_SECONDS:.0f} s",
            hint="it is left alone: nothing of the session is lost while its process lives",
        ) from None


def _none(names: Sequence[str], session: str | None) -> NoSuchEngine:
    if session is None:
        hint = "start or resume a session: astra-tui run TASK [--session FOLDER]"
        return NoSuchEngine("no engine runs", hint=hint)
    hint = (
        nearest(session, names)
        if names
        else "resume one that has ended with: astra-tui run TASK --session FOLDER"
    )
    return NoSuchEngine(f"no engine runs session '{session}'", hint=hint)


def _several(welcomes: Sequence[Welcome], session: str | None) -> UserError:
    if session is None:
        names = ", ".join(sorted(w.session for w in welcomes))
        return UserError(f"{len(welcomes)} engines run", hint=f"name one: {names}")
    folders = " or ".join(w.folder for w in welcomes)
    message = f"{len(welcomes)} engines run sessions of this name"
    return UserError(message, hint=f"name the folder: {folders}")


LINGER_SECONDS = 3600.0
"""How long an engine waits for someone to decide before it ends by itself; it can be resumed."""

LOG_NAME = "engine.log"
"""In the session's folder: what the engine process wrote to its standard error."""

_MODULE = "astra_tui.engine"
_END_SECONDS = 10.0
_LAST_WORDS = 4_000


class RunRequest(msgspec.Struct, frozen=True):
    """What an engine is started for. Relative paths are meant from the current folder.

    The session is the one in `folder`, which continues where it has a journal; where `folder` is
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
    workers: str = ""
    scheduler: str = ""
    """Who does the lab's jobs, as `--workers` and `--scheduler` say; the engine itself for none."""
    take_back: str = ""
    """The question of the last decision, a rejection, which is asked again first."""


class Ready(msgspec.Struct, frozen=True, tag_field="engine", tag="ready"):
    """The engine listens at `socket`; `first` is the number of the first record of this run."""

    folder: str
    socket: str
    pid: int
    first: int


class NotReady(Failure, frozen=True, tag_field="engine", tag="not_ready"):
    """The engine cannot do what was asked."""


class EngineNotStarted(UserError):
    """The engine process ended before it could say why."""


_reply = msgspec.json.Decoder(Union[Ready, NotReady])  # noqa: UP007 - for msgspec.


async def start_engine(request: RunRequest) -> Ready:
    """Starts an engine; front ends can connect to it once this returns.

    Raises the UserError of the engine where it cannot open the session, and EngineNotStarted where
    it breaks down. Cancelled, it ends the engine: no one would know of it.
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
            # Without that it would look alive, after its end, to those who ask.
            threading.Thread(target=process.wait, daemon=True).start()


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


def environment_differences(folder: Path, device: str) -> tuple[Difference, ...]:
    """What of this machine is not as the session's last engine met it, on a device by its name.

    Takes a second or two. Raises UserError where the session cannot be read, and for a device that
    is not here.
    """
    return differences(last_environment(read_session(folder)), current_environment(device))


def last_environment(session: Session) -> Environment:
    """Where a session ran last. Raises UserError where its events make no sense."""
    engines = (e for e in reversed(session.contents.events) if isinstance(e, EngineStarted))
    try:
        return recorded_environment(session.state, next(engines, None))
    except ValueError as error:
        raise UserError(str(error), file=str(session.folder)) from None


def current_environment(device: str) -> Environment:
    """What this machine is, from a process of its own. Raises UserError for a missing device."""
    command = [sys.executable, "-P", "-m", "astra_tui.engine.environment", device]
    ended = subprocess.run(command, capture_output=True, check=False)
    try:
        if ended.returncode == 0:
            return msgspec.json.decode(ended.stdout, type=Environment)
        error = msgspec.json.decode(ended.stdout, type=NotReady).error()
    except msgspec.MsgspecError:
        words = ended.stderr.decode(errors="replace").strip()
        raise UserError("this machine could not be looked at", hint=words) from None
    raise error


def difference_words(difference: Difference) -> str:
    """As in "compiler: was NVRTC 13.0, is NVRTC 13.1"."""
    return f"{difference.what}: was {difference.recorded}, is {difference.here}"
