"""The engineer's own editor, which gets the terminal for as long as it runs."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from pathlib import Path
from typing import Any

from textual.app import SuspendNotSupported

from astra_tui.model.errors import UserError
from astra_tui.sessions.client import editor_command
from astra_tui.tui.app_base import Shell


async def edit_outside(app: Shell[Any], file: Path) -> None:
    """Has the engineer edit a file; the app continues meanwhile, but shows nothing.

    Raises UserError where there is no editor, where it fails, and where the app cannot give its
    terminal away, as in a browser.
    """
    command = editor_command()
    if not command:
        raise UserError("neither $VISUAL nor $EDITOR is set", hint="edit here instead, with e")
    try:
        with app.terminal_lent():
            code = await _run([*command, str(file)])
    except SuspendNotSupported:
        message = "this terminal cannot be handed to an editor"
        raise UserError(message, hint="edit here instead, with e") from None
    except OSError as error:
        raise UserError(f"{command[0]}: {error.strerror}", hint="set $EDITOR") from None
    if code:
        raise UserError(f"{command[0]} ended with {code}; nothing was changed")


async def _run(command: list[str]) -> int:
    """The exit code of a program at the terminal, which stdout need not be."""
    terminal = sys.__stderr__.fileno() if sys.__stderr__ is not None else None
    process = await asyncio.create_subprocess_exec(*command, stdout=terminal)
    try:
        return await process.wait()
    except asyncio.CancelledError:  # The app ends, and the terminal goes to who started it.
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        raise
