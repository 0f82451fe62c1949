"""What screens and panes may ask of the app. It knows none of them; app.py puts them together."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
import traceback
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

import platformdirs
from textual.app import App
from textual.geometry import Size
from textual.screen import Screen
from textual.scroll_view import ScrollView

from astra_tui.model.environment import Difference
from astra_tui.model.errors import UserError
from astra_tui.model.settings import Notification
from astra_tui.model.visible import visible, visible_inline
from astra_tui.sessions.engines import RunRequest, environment_differences
from astra_tui.sessions.journal_writer import Redactor
from astra_tui.tui.app_io import TICK, ExitState, ExportBest, TimePair
from astra_tui.tui.approval import KeyGuard
from astra_tui.tui.source import OpenSource, start

Result = TypeVar("Result")

CRASH_FILE = "screen-crash.txt"

_PLAIN_TERMINALS = ("", "dumb", "linux")
"""Terminals that show nothing outside of themselves, by $TERM."""


class Breakdown(UserError):
    """A fault of the screen itself. Engines are other processes and keep running."""


class Shell(App[Result], Generic[Result], inherit_bindings=False):
    """An app that breaks down in one sentence, with the details in a file."""

    breakdown: Breakdown | None = None
    notification = Notification.OSC9
    is_away = False
    """Whether another program has the terminal: nothing may be written, no key is meant for us."""

    @contextlib.contextmanager
    def terminal_lent(self) -> Iterator[None]:
        """Leaves the terminal to another program while the event loop continues.

        Raises SuspendNotSupported. What is raised within continues once the terminal is ours again.
        """
        failure: Exception | None = None
        with self.batch_update(), self.suspend(), _signals_left_to_others():
            self.is_away = True
            try:
                yield
            except Exception as error:  # Textual would not take the terminal back.
                failure = error
            finally:
                self.is_away = False
        self.refresh(layout=True)  # What was asked for within the batch is not drawn.
        if failure is not None:
            raise failure

    def bell(self) -> None:
        """Rings, unless another program has the terminal."""
        if not self.is_away:
            super().bell()

    def ring(self, text: str) -> None:
        """Says once that someone is waited for: the bell, and what the terminal shows elsewhere."""
        if self.notification is Notification.OFF or self.is_away:
            return
        self.bell()
        told = visible_inline(text)
        sequence = {
            Notification.OSC9: f"\x1b]9;astra-tui: {told}\x07",
            Notification.OSC777: f"\x1b]777;notify;astra-tui;{told.replace(';', ',')}\x07",
        }.get(self.notification)
        knows_sequences = os.environ.get("TERM", "") not in _PLAIN_TERMINALS
        if sequence is not None and knows_sequences and self._driver is not None:
            self._driver.write(sequence)

    def _set_pointer_shape(self, shape: str) -> None:
        if not self.is_away:
            super()._set_pointer_shape(shape)

    def set_title(self, text: str) -> None:
        """The title of the terminal's window."""
        if self._driver is not None and not self.is_headless and not self.is_away:
            title = f"astra-tui: {text}" if text else "astra-tui"
            self._driver.write(f"\x1b]0;{visible_inline(title)}\x07")

    def _fatal_error(self) -> None:
        """Textual would print a traceback with the values of all variables, secrets among them."""
        error = self._exception
        self.breakdown = Breakdown(
            f"the screen broke down: {type(error).__name__}",
            hint=f"engines keep running: astra-tui attach. The fault is told in {_keep(error)}",
        )
        self._close_messages_no_wait()


class SteadyScrollView(ScrollView):
    """A scrolling view that knows its size by itself, and is painted again only where it changed.

    Textual paints every scrollbar again when anything of the screen is laid out; and where the
    size of any widget is asked for between the mounting of another one and its layout, it never
    tells that one of its size.
    """

    _laid_out: tuple[object, ...] = ()

    @property
    def inner_size(self) -> Size:
        """What it has for its lines; while it is hidden, what it had."""
        gutter, bars = self.styles.gutter, self.scrollbar_gutter
        width, height = self.outer_size
        return Size(
            max(0, width - gutter.width - bars.width), max(0, height - gutter.height - bars.height)
        )

    def resized(self) -> None:
        """It has another inner size."""

    def _size_updated(
        self, size: Size, virtual_size: Size, container_size: Size, layout: bool = True
    ) -> bool:
        before = self._laid_out
        if before == (size, self.virtual_size, self.inner_size):
            return False
        updated = super()._size_updated(size, virtual_size, container_size, layout)
        self._laid_out = size, self.virtual_size, self.inner_size
        if before[2:] != self._laid_out[2:]:
            self.call_later(self.resized)
        return updated


@contextlib.contextmanager
def _signals_left_to_others() -> Iterator[None]:
    """Keys such as ctrl+c are signals again, for all programs at the terminal; not for this one.

    Not SIG_IGN, which a program that is started would inherit.
    """
    numbers = (signal.SIGINT, signal.SIGQUIT)
    before = {number: signal.signal(number, lambda _number, _frame: None) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _keep(error: BaseException | None) -> Path | str:
    """Writes a fault to a file of the user's own, without values and without keys."""
    told = "".join(traceback.format_exception(error)) if error else "unknown"
    file = platformdirs.user_cache_path("astra-tui") / CRASH_FILE
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as opened:
            opened.write(Redactor((), os.environ).text(told))
        return file
    return "no file, which could not be written"


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
        self.time_pair: TimePair | None = None
        """Times two candidates; None where none can be timed from here."""
        self.export_best: ExportBest | None = None
        """Exports a session's best candidate; None where none can be exported from here."""
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

    @abstractmethod
    def open_session(
        self,
        open_source: OpenSource,
        found: Sequence[Difference] = (),
        instead_of: Screen[None] | None = None,
    ) -> None:
        """Shows a session over what is there or instead of a screen, and at first how this machine
        differs from where it ran.
        """

    @abstractmethod
    def leave_session(
        self, screen: Screen[None], left: ExitState, error: UserError | None = None
    ) -> None:
        """Closes a session's screen, `left` like this; what began with it ends with it."""

    @abstractmethod
    def action_leave(self) -> None:
        """Leaves the screen or the program; asks first when an engine works."""
