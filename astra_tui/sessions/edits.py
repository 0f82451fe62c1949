"""What an engineer writes in an editor: on the disk until an engine has taken it."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from astra_tui.model.errors import UserError
from astra_tui.sessions.safe_open import make_folder, write_inside


@dataclass(frozen=True)
class Edit:
    """A text in a file, alone in a folder that only its user can read."""

    file: Path

    @classmethod
    def begin(cls, text: str, name: str, suffix: str) -> Edit:
        """Writes a text into a new folder that begins with a name. Raises UserError."""
        try:
            file = write_inside(_new_folder(name), f"edit{suffix}", text.encode())
        except OSError as error:
            raise UserError(f"no file can be written to be edited: {error}") from None
        return cls(file)

    def read(self) -> str:
        """The text as it is now. Raises UserError when it cannot be read."""
        try:
            return self.file.read_bytes().decode()
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"what the editor left cannot be read: {error}") from None

    def is_still(self, text: str) -> bool:
        """Whether nothing but this text would be lost with it."""
        try:
            return self.file.read_bytes() == text.encode()
        except OSError:
            return not self.file.exists()

    def drop(self) -> None:
        """Removes it; its text is elsewhere, or no one wants it."""
        shutil.rmtree(self.file.parent, ignore_errors=True)


def _new_folder(name: str) -> Path:
    own = platformdirs.user_state_path("astra-tui") / "edits"
    try:
        make_folder(own)
        return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=own))
    except OSError:  # A home that cannot be written to.
        return Path(tempfile.mkdtemp(prefix="astra-tui-"))
