"""Fetched wheels and sdists: one folder each, named by its hash, with licence and origin.

Nothing here is passed on: each user fetches from the index that their pip asks.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import tempfile
import time
from pathlib import Path, PurePosixPath

from astra_tui.model.errors import OutOfResources, UserError
from astra_tui.model.pin import Pin, normalised
from astra_tui.packages import pip
from astra_tui.packages.archive import Archive

LICENCES = "licences"
"""The folder next to a fetched file that holds METADATA and its licence files."""


_UNFINISHED = ".new-"
_ABANDONED_SECONDS = 86_400.0


class Packages:
    """Fetched files in `folder`. What is there is used without a network.

    Its hash is compared each time. A file that is no longer what was pinned is removed and fetched
    again.
    """

    def __init__(self, folder: Path):
        self.folder = folder

    def place_of(self, pin: Pin) -> Path:
        """Where a pin's file is, or would be."""
        return self.folder / pin.sha256 / pin.file

    def has(self, pin: Pin) -> bool:
        """Whether the file is there; its hash is compared when it is opened."""
        return self.place_of(pin).is_file()

    def cached(self, pin: Pin) -> Archive | None:
        """The file if it is there and is what was pinned, else None."""
        file = self.place_of(pin)
        if not file.is_file():
            return None
        try:
            if _sha256(file) == pin.sha256:
                return Archive(pin, file)
            shutil.rmtree(file.parent, ignore_errors=True)
        except OSError:
            return None
        return None

    def fetch(self, pin: Pin, progress: pip.Progress | None = None) -> Archive:
        """The file, from the index where it is not there yet. Raises UserError.

        `progress` is told some times a second how many bytes have come.
        """
        found = self.cached(pin)
        if found is not None:
            return found
        if pin.problem:
            raise UserError(f"{pin} cannot be fetched: {pin.problem}")
        try:
            return self._download(pin, progress or (lambda _bytes: None))
        except OSError as error:
            what = f"{pin} cannot be kept"
            raise OutOfResources.or_bad_input(error, what, self.folder) from None

    def newer(self, pin: Pin) -> tuple[str, ...]:
        """Versions in the index above the pinned one, the newest first. Raises UserError."""
        return pip.newer_versions(pin)

    def _download(self, pin: Pin, progress: pip.Progress) -> Archive:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._remove_abandoned()
        with tempfile.TemporaryDirectory(dir=self.folder, prefix=_UNFINISHED) as folder:
            file = pip.download(pin, Path(folder), progress)
            got = _sha256(file)
            if got != pin.sha256:
                raise UserError(
                    f"{pin.file} is not what was pinned: its SHA-256 should be {pin.sha256}, it "
                    f"is {got}"
                )
            _keep_licences(Archive(pin, file), file.parent / LICENCES)
            self._publish(file.parent, pin)
        return Archive(pin, self.place_of(pin))

    def _remove_abandoned(self) -> None:
        """Removes what downloads left that were killed long ago."""
        for folder in self.folder.glob(f"{_UNFINISHED}*"):
            with contextlib.suppress(OSError):
                if time.time() - folder.stat().st_mtime > _ABANDONED_SECONDS:
                    shutil.rmtree(folder, ignore_errors=True)

    def _publish(self, made: Path, pin: Pin) -> None:
        """Gives a complete folder its name; another process may have been faster."""
        place = self.place_of(pin).parent
        if not self.has(pin):
            shutil.rmtree(place, ignore_errors=True)
        try:
            made.rename(place)
        except OSError:
            if not self.has(pin):
                raise


def _keep_licences(archive: Archive, folder: Path) -> None:
    """Copies METADATA and licence files next to the file. Raises UserError for another package."""
    origin = archive.origin()
    pin = archive.pin
    if normalised(origin.name) != normalised(pin.name) or origin.version != pin.version:
        raise UserError(f"{pin.file} holds {origin.name} {origin.version}, not {pin}")
    folder.mkdir()
    info = PurePosixPath(origin.about).parent
    for name in (origin.about, *origin.licence_files):
        rest = PurePosixPath(name).relative_to(info)
        (folder / rest).parent.mkdir(parents=True, exist_ok=True)
        archive.copy(name, folder / rest)


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
