"""What the app is given by the command line, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec

from astra_tui.model.drafts import OpenPoint
from astra_tui.model.export import ExportReport, Format
from astra_tui.model.settings import Notification
from astra_tui.model.state import SessionState
from astra_tui.model.timing import Timing
from astra_tui.sessions.comparison import Sides
from astra_tui.sessions.engines import RunRequest
from astra_tui.sessions.store import DEFAULT_FOLDER
from astra_tui.sessions.wire import Welcome

TICK = 0.25
"""Seconds between two views while events stream."""


TimePair = Callable[[Sides], Coroutine[Any, Any, tuple[Timing | None, str]]]
"""One interleaved timing of the second side against the first, or why there is none; it may raise
UserError. Cancelling ends it.
"""

ExportBest = Callable[[Path, Format], Coroutine[Any, Any, ExportReport]]
"""Exports the best candidate of a session's folder in a form; it may raise UserError. Cancelling
ends it.
"""


class Drafting(Protocol):
    """A kernel task that is being drafted. Its methods take seconds, and may raise UserError."""

    folder: Path

    @property
    def points(self) -> tuple[OpenPoint, ...]:
        """What is open."""

    @property
    def answered(self) -> Mapping[str, str]:
        """The answers as TOML writes them, by key."""

    @property
    def source(self) -> tuple[str, str]:
        """The kernel's file as it is shown, and its text."""

    def answer(self, given: Mapping[str, str]) -> None:
        """Takes answers by key, "" takes one back; what was written of the draft follows."""

    def finish(self) -> tuple[str, ...]:
        """Writes the draft and compiles it; returns what does not work yet."""


class HomeContext(msgspec.Struct, frozen=True):
    """What home has to know: where sessions are, and what a run of a task is by default.

    `request_for` follows the settings file and the environment; `draft` begins a draft in a
    folder from a source and a kernel's name, or continues the one that is there, with neither.
    Both may raise UserError.
    """

    sessions: Path
    request_for: Callable[[str], RunRequest]
    draft: Callable[[Path, str, str], Drafting] | None = None


class DraftContext(msgspec.Struct, frozen=True):
    """A draft to be shown by itself."""

    drafting: Drafting


class ComparisonContext(msgspec.Struct, frozen=True):
    """Two candidates to be shown."""

    sides: Sides


class ExitState(msgspec.Struct, frozen=True):
    """How the engineer left a session, and how far it was; nothing of it where home was left.

    `welcome` is of the engine, which continues where `detached`.
    """

    state: SessionState = SessionState()
    folder: Path | None = None
    welcome: Welcome | None = None
    detached: bool = False

    def __repr__(self) -> str:
        # Leaving asyncio writes the result of its task into a message that no one sees.
        return type(self).__name__


class Preferences(msgspec.Struct, frozen=True):
    """What the settings file says about the screen: keys by binding id, a theme, the folder that
    new sessions come into, and how to say that a decision waits.

    `request_for` is what a run of a task is by default; without it no engine can be started.
    `time_pair` times two candidates against each other, and `export_best` exports one; where they
    are missing, that cannot be done.
    """

    keys: dict[str, str] = {}
    theme: str = ""
    sessions: Path = Path(DEFAULT_FOLDER)
    notification: Notification = Notification.OSC9
    request_for: Callable[[str], RunRequest] | None = None
    time_pair: TimePair | None = None
    export_best: ExportBest | None = None
