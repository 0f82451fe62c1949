"""What the app does with Textual's own parts: the window's title, and an end without a traceback.

The only module that uses names of Textual that are not public.
"""

from __future__ import annotations

import contextlib
import os
import traceback
from pathlib import Path
from typing import Generic, TypeVar

import platformdirs
from textual.app import App

from astra_tui.model.errors import UserError
from astra_tui.session.redaction import Redactor
from astra_tui.tui.text.visible import visible_inline

Result = TypeVar("Result")

CRASH_FILE = "screen-crash.txt"


class Breakdown(UserError):
    """A fault of the screen itself. Engines are other processes and go on."""


class Shell(App[Result], Generic[Result], inherit_bindings=False):
    """An app that breaks down in one sentence, with the details in a file."""

    breakdown: Breakdown | None = None

    def set_title(self, text: str) -> None:
        """The title of the terminal's window."""
        if self._driver is not None and not self.is_headless:
            title = f"astra-tui: {text}" if text else "astra-tui"
            self._driver.write(f"\x1b]0;{visible_inline(title)}\x07")

    def _fatal_error(self) -> None:
        """Textual would print a traceback with the values of all variables, secrets among them."""
        error = self._exception
        self.breakdown = Breakdown(
            f"the screen broke down: {type(error).__name__}",
            hint=f"engines that run go on: astra-tui attach. The fault is told in {_keep(error)}",
        )
        self._close_messages_no_wait()


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
