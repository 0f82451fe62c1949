"""What screens and panes may ask of the app. It knows none of them; app.py puts them together."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from textual.screen import Screen

from astra_tui.model.environment import Difference
from astra_tui.model.errors import UserError
from astra_tui.model.visible import visible, visible_inline
from astra_tui.sessions.engines import RunRequest, environment_differences
from astra_tui.tui.app_io import TICK, ExitState
from astra_tui.tui.key_guard import KeyGuard
from astra_tui.tui.shell import Shell
from astra_tui.tui.source import OpenSource, start

NOTICE_LENGTH = 300
"""Characters of an error that a notice shows; `details` shows the rest."""


class AppBase(Shell[ExitState], inherit_bindings=False):
    """The app as its screens see it. `clock` gives seconds."""

    def __init__(
        self, sessions: Path, clock: Callable[[], float] = time.monotonic, tick: float = TICK
    ):
        super().__init__()
        self.sessions = sessions
        """The folder that new sessions come into."""
        self.clock = clock
        self.tick = tick
        self.guard = KeyGuard(clock)
        self.reported: UserError | None = None
        """The last error."""
        self.request_for: Callable[[str], RunRequest] | None = None
        """What a run of a task is by default; None where no engine can be started from here."""
        self._announced: set[tuple[str, str]] = set()

    def say(self, text: str) -> None:
        """A remark that goes away by itself."""
        self.notify(visible(text), markup=False, timeout=4)

    def report(self, error: UserError) -> None:
        """An error as a notice; `details` shows it in full."""
        self.reported = error
        text = visible_inline(error.message, NOTICE_LENGTH)
        if error.hint:
            text += "\n" + visible_inline(error.hint, NOTICE_LENGTH)
        self.notify(text, title="ctrl+o: details", severity="error", markup=False, timeout=10)

    def announce(self, folder: str, question: str, text: str, *, silent: bool = False) -> None:
        """Rings once for a question of a session, wherever it is shown; `silent` takes note."""
        if (folder, question) not in self._announced:
            self._announced.add((folder, question))
            if not silent:
                self.ring(text)

    async def resume_session(self, request: RunRequest, instead_of: Screen[None] | None) -> None:
        """Starts an engine that continues a session; first shows what differs from when it ran.

        The session comes in the place of a screen, or over the one that is shown.
        """
        self.say("looking at this machine ...")
        folder, device = Path(request.folder), request.settings.device
        try:
            found = await asyncio.to_thread(environment_differences, folder, device)
        except UserError as error:
            self.report(error)
            return
        self.open_session(partial(start, request), found, instead_of)

    def open_session(
        self,
        open_source: OpenSource,
        found: Sequence[Difference] = (),
        instead_of: Screen[None] | None = None,
    ) -> None:
        """Shows a session over what is there or instead of a screen, and at first how this machine
        differs from where it ran.
        """
        raise NotImplementedError

    def leave_session(
        self, screen: Screen[None], left: ExitState, error: UserError | None = None
    ) -> None:
        """Closes a session's screen, `left` like this; what began with it ends with it."""
        raise NotImplementedError

    def action_leave(self) -> None:
        """Leaves the screen or the program; asks first when an engine works."""
        raise NotImplementedError
