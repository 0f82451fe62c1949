"""Where what was tried on this machine is kept: one JSON object a line, the user's own."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import platformdirs

from astra_tui.model.errors import OutOfResources, UserError
from astra_tui.model.experience import Experience
from astra_tui.sessions.safe_open import make_folder, write_inside

VARIABLE = "ASTRA_TUI_MEMORY"
"""The file; "off" for none."""
MOST = 5_000
"""Plans that are kept; the oldest are forgotten first."""

_LOCK = ".memory.lock"


def memory_file() -> Path | None:
    """Where the memory is; None where it is switched off."""
    configured = os.environ.get(VARIABLE, "")
    if configured == "off":
        return None
    own = platformdirs.user_data_path("astra-tui") / "memory.jsonl"
    return Path(configured).expanduser() if configured else own


class ExperienceStore:
    """The memory's file. Several engines may write it; each change is whole or not there."""

    def __init__(self, file: Path):
        self.file = file

    def read(self) -> tuple[Experience, ...]:
        """All that is kept, oldest first. Raises UserError for a line that is none of ours."""
        try:
            lines = self.file.read_bytes().splitlines()
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise UserError(f"cannot be read: {error}", file=str(self.file)) from None
        found: dict[str, Experience] = {}
        for number, line in enumerate(lines, 1):
            try:
                one = msgspec.json.decode(line, type=Experience)
            except msgspec.MsgspecError as error:
                hint = "take the line out; astra-tui memory --forget all begins a new memory"
                file = str(self.file)
                raise UserError(f"line {number}: {error}", file=file, hint=hint) from None
            found.pop(one.id, None)
            found[one.id] = one
        return tuple(found.values())

    def add(self, new: Iterable[Experience]) -> None:
        """Keeps more; one that is there already is replaced. Raises UserError."""
        added = {one.id: one for one in new}
        self._change(lambda kept: [*(k for k in kept if k.id not in added), *added.values()])

    def forget(self, is_meant: Callable[[Experience], bool]) -> int:
        """Takes some out; returns how many. Raises UserError."""
        before = len(self.read())
        self._change(lambda kept: [one for one in kept if not is_meant(one)])
        return before - len(self.read())

    def clear(self) -> None:
        """Takes all out, whatever the file holds. Raises UserError."""
        with self._locked():
            write_inside(self.file.parent, self.file.name, b"")

    def _change(self, change: Callable[[tuple[Experience, ...]], list[Experience]]) -> None:
        with self._locked():
            kept = change(self.read())[-MOST:]
            lines = (msgspec.json.encode(one) + b"\n" for one in kept)
            write_inside(self.file.parent, self.file.name, b"".join(lines))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            make_folder(self.file.parent)
            handle = os.open(self.file.parent / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
                yield
            finally:
                os.close(handle)
        except OSError as error:
            raise OutOfResources.or_bad_input(error, "cannot be written", self.file) from None
