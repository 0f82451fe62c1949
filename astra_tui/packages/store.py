"""Fetched wheels and sdists: one folder each, named by its hash, with licence and origin.

Nothing here is passed on: each user fetches from the index that their pip asks.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import tempfile
import time
from collections.abc import Collection
from datetime import UTC, date, datetime
from pathlib import Path, PurePosixPath

import msgspec

from astra_tui.model.errors import OutOfResources, UserError
from astra_tui.model.pin import Pin, normalised
from astra_tui.packages import pip
from astra_tui.packages.archive import Archive

LICENCES = "licences"
"""The folder next to a fetched file that holds METADATA and its licence files."""

NO_LICENCE = "the package names none"
"""The licence in a pin of a package whose own words do not name it."""

_UNPACKED = "sources"
_MAX_SHOWN = 8
_UNFINISHED = ".new-"
_ABANDONED_SECONDS = 86_400.0


class Packages:
    """Fetched files in `folder`. What is there is used without a network.

    With `offline` the rest is not fetched, which is a UserError.
    Its hash is compared each time. A file that is no longer what was pinned is removed and fetched
    again.
    """

    def __init__(self, folder: Path, *, offline: bool = False):
        self.folder = folder
        self.offline = offline

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
        if self.offline:
            raise UserError(f"{pin} is not in the cache")
        return self._fetch_new(pin, progress)

    def listed(self, name: str, version: str) -> tuple[Pin, ...]:
        """Pins of the files that the index has of a version, the likeliest to hold sources first.

        That is a wheel for all machines, then the sdist, then one wheel of one machine. They lack
        the licence, and the hash where the index gives none: `fetch_listed` adds both. A file
        whose day of release the index does not say has today's. Raises UserError.
        """
        files = pip.files_of(name)
        found = [f for f in files if f.version == version]
        if not found:
            versions = list(dict.fromkeys(f.version for f in reversed(files)))
            raise UserError(
                f"the package index has no {name} {version}",
                hint=f"it has {', '.join(versions[:_MAX_SHOWN])}",
            )
        pins = [_pin_of(name, file) for file in found]
        pins.sort(key=_likelihood)
        built = [pin for pin in pins if _is_built(pin)]
        return tuple(p for p in pins if not _unnamed(p) and p not in built[1:])

    def fetch_listed(self, pin: Pin, progress: pip.Progress | None = None) -> Archive:
        """The file of a pin from `listed`, with a complete pin. Raises UserError."""
        archive = self.fetch(pin, progress) if pin.sha256 else self._fetch_new(pin, progress)
        licence = archive.origin().licence or NO_LICENCE
        return Archive(msgspec.structs.replace(archive.pin, licence=licence), archive.file)

    def unpacked(self, archive: Archive, suffixes: Collection[str]) -> Path:
        """A folder with the files of a fetched archive that end so, read-only. Raises UserError.

        It lies next to the file, and is made once.
        """
        folder = archive.file.parent / _UNPACKED
        if folder.is_dir():
            return folder
        try:
            with tempfile.TemporaryDirectory(dir=folder.parent, prefix=_UNFINISHED) as place:
                made = Path(place, _UNPACKED)
                made.mkdir()
                archive.unpack(made, lambda name: PurePosixPath(name).suffix in suffixes)
                with contextlib.suppress(OSError):  # Another process was faster.
                    made.rename(folder)
        except OSError as error:
            what = f"{archive.pin} cannot be unpacked"
            raise OutOfResources.or_bad_input(error, what, folder.parent) from None
        return folder

    def newer(self, pin: Pin) -> tuple[str, ...]:
        """Versions in the index above the pinned one, the newest first. Raises UserError."""
        return pip.newer_versions(pin)

    def _fetch_new(self, pin: Pin, progress: pip.Progress | None) -> Archive:
        try:
            return self._download(pin, progress or (lambda _bytes: None))
        except OSError as error:
            what = f"{pin} cannot be kept"
            raise OutOfResources.or_bad_input(error, what, self.folder) from None

    def _download(self, pin: Pin, progress: pip.Progress) -> Archive:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._remove_abandoned()
        with tempfile.TemporaryDirectory(dir=self.folder, prefix=_UNFINISHED) as folder:
            file = pip.download(pin, Path(folder), progress)
            got = _sha256(file)
            if pin.sha256 and got != pin.sha256:
                raise UserError(
                    f"{pin.file} is not what was pinned: its SHA-256 should be {pin.sha256}, it "
                    f"is {got}",
                    hint=pip.WRONG_HASH_HINT,
                )
            pin = msgspec.structs.replace(pin, sha256=got)
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


def _pin_of(name: str, file: pip.IndexFile) -> Pin:
    released = date.fromisoformat(file.released) if file.released else datetime.now(UTC).date()
    return Pin(name, file.version, file.file, file.sha256, "", released)


def _unnamed(pin: Pin) -> str:
    """What is wrong with the names in a pin whose hash may not be known yet."""
    return msgspec.structs.replace(pin, sha256=pin.sha256 or "0" * 64).problem


def _likelihood(pin: Pin) -> tuple[bool, bool, bool, str]:
    """Lower where a file is likelier to hold sources: built wheels often leave them out."""
    is_linux = "linux" in pin.file and "x86_64" in pin.file
    return _is_built(pin), pin.is_sdist, not is_linux, pin.file


def _is_built(pin: Pin) -> bool:
    """Whether a file is a wheel for one kind of machine."""
    return not pin.is_sdist and pin.tags.platforms != "any"


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
