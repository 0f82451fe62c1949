"""What a session that continues meets here, beside what it ran on before."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec

from astra_tui.model.environment import (
    Difference,
    Environment,
    differences,
    recorded_environment,
)
from astra_tui.model.errors import UserError
from astra_tui.model.events import EngineStarted
from astra_tui.sessions.engines import NotReady
from astra_tui.sessions.integrity import Session, read_session

_ENVIRONMENT = "astra_tui.engine.environment"


def differences_here(folder: Path, device: str) -> tuple[Difference, ...]:
    """What of this machine is not as the session's last engine met it, on a device by its name.

    Takes a second or two. Raises UserError where the session cannot be read, and for a device that
    is not here.
    """
    return differences(last_environment(read_session(folder)), environment_here(device))


def last_environment(session: Session) -> Environment:
    """Where a session ran last. Raises UserError where its events make no sense."""
    engines = (e for e in reversed(session.contents.events) if isinstance(e, EngineStarted))
    try:
        return recorded_environment(session.state, next(engines, None))
    except ValueError as error:
        raise UserError(str(error), file=str(session.folder)) from None


def environment_here(device: str) -> Environment:
    """What this machine is, from a process of its own. Raises UserError for a missing device."""
    command = [sys.executable, "-P", "-m", _ENVIRONMENT, device]
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
