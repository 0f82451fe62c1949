"""Finding one of the engines that run, by what a user calls its session."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from pathlib import Path

from astra_tui.model.errors import UserError, nearest
from astra_tui.sessions.client import EngineClient, EngineGone, running_engines
from astra_tui.sessions.lock import writer_of
from astra_tui.sessions.runtime import runtime_folder
from astra_tui.sessions.wire import Welcome

PATIENCE_SECONDS = 30.0
"""How long an engine may take to end; it needs milliseconds, and its last writes to the disk."""

_LOOK_SECONDS = 0.02

Running = tuple[Path, Welcome]
"""An engine's socket, and what it said of itself."""


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
    meant = [e for e in engines if session is None or is_called(e[1], session)]
    if not meant:
        raise _none([welcome.session for _, welcome in engines], session)
    if len(meant) > 1:
        raise _several([welcome for _, welcome in meant], session)
    return meant[0]


def is_called(welcome: Welcome, session: str) -> bool:
    """Whether a name or folder means the session of this engine."""
    return session == welcome.session or str(Path(session).expanduser().resolve()) == welcome.folder


async def end_engine(path: Path, session: str, folder: Path) -> None:
    """Cancels a run; returns once the engine has hung up and let go of the session.

    Raises UserError when it does not end in time.
    """
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
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
            f"{who} has not ended in {PATIENCE_SECONDS:.0f} s",
            hint="it is left alone: nothing of the session is lost while its process lives",
        ) from None


def _none(names: Sequence[str], session: str | None) -> NoSuchEngine:
    if session is None:
        hint = "begin or go on with a session: astra-tui run TASK [--session FOLDER]"
        return NoSuchEngine("no engine runs", hint=hint)
    hint = (
        nearest(session, names)
        if names
        else "one that has ended goes on with: astra-tui run TASK --session FOLDER"
    )
    return NoSuchEngine(f"no engine runs session '{session}'", hint=hint)


def _several(welcomes: Sequence[Welcome], session: str | None) -> UserError:
    if session is None:
        names = ", ".join(sorted(w.session for w in welcomes))
        return UserError(f"{len(welcomes)} engines run", hint=f"name one: {names}")
    folders = " or ".join(w.folder for w in welcomes)
    message = f"{len(welcomes)} engines run sessions of this name"
    return UserError(message, hint=f"name the folder: {folders}")
