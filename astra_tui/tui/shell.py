"""What the app does with Textual's own parts: the window's title, lending the terminal to another
program, and an end without a traceback.

The only module that uses names of Textual that are not public.
"""

from __future__ import annotations

import contextlib
import os
import signal
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Generic, TypeVar

import platformdirs
from textual.app import App
from textual.geometry import Size
from textual.scroll_view import ScrollView

from astra_tui.model.errors import UserError
from astra_tui.model.settings import Notification
from astra_tui.model.visible import visible_inline
from astra_tui.sessions.journal import Redactor

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
