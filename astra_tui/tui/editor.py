"""The engineer's own editor, which gets the terminal for as long as it runs."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from textual.app import App, SuspendNotSupported

from astra_tui.model.errors import UserError


def editor_command(environment: Mapping[str, str] = os.environ) -> list[str]:
    """The command of $VISUAL or $EDITOR; empty where neither is set."""
    return shlex.split(environment.get("VISUAL") or environment.get("EDITOR") or "")


def edit_outside(app: App[Any], text: str, suffix: str) -> str:
    """The text after the engineer's editor; the app stands still meanwhile.

    Raises UserError where there is no editor, where it fails, and where the app cannot give its
    terminal away, as in a browser. Nothing is changed then.
    """
    command = editor_command()
    if not command:
        raise UserError("neither $VISUAL nor $EDITOR is set", hint="edit here instead, with e")
    with tempfile.TemporaryDirectory(prefix="astra-tui-") as folder:
        file = Path(folder) / f"edit{suffix}"
        file.write_text(text, encoding="utf-8")
        try:
            with app.suspend():
                done = subprocess.run([*command, str(file)], check=False)
        except SuspendNotSupported:
            message = "this terminal cannot be handed to an editor"
            raise UserError(message, hint="edit here instead, with e") from None
        except OSError as error:
            raise UserError(f"{command[0]}: {error.strerror}", hint="set $EDITOR") from None
        if done.returncode:
            raise UserError(f"{command[0]} ended with {done.returncode}; nothing was changed")
        try:
            return file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"what the editor left cannot be read: {error}") from None
