"""A wheel on disk, read as a zip file. Nothing in it is ever run or installed."""

from __future__ import annotations

import shutil
import stat
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from email.parser import HeaderParser
from pathlib import Path, PurePosixPath
from typing import IO

import msgspec

from astra_tui.model.errors import OutOfResources, UserError, nearest
from astra_tui.model.pin import Pin, is_safe

MAX_TEXT_BYTES = 8 << 20
MAX_MEMBER_BYTES = 2 << 30
_MAX_MEMBERS = 200_000
_ENCRYPTED = 0x1
_MAX_SHOWN = 120


class Origin(msgspec.Struct, frozen=True):
    """Where a package comes from, in its own words (METADATA), and the licence files it carries."""

    name: str
    version: str
    licence: str
    home: str
    licence_files: tuple[str, ...]


class Wheel:
    """One fetched wheel. What is asked of it by name is read within limits, or a UserError."""

    def __init__(self, pin: Pin, file: Path):
        self.pin = pin
        self.file = file

    def names(self) -> tuple[str, ...]:
        """The files in the wheel."""
        with self._open() as archive:
            return tuple(i.filename for i in archive.infolist() if not i.is_dir())

    def read(self, name: str, most: int = MAX_TEXT_BYTES) -> bytes:
        """The content of one file. Raises UserError: missing, unsafe, damaged, or above `most`."""
        with self._open() as archive, self._member(archive, name, most) as stream:
            return stream.read()

    def copy(self, name: str, to: Path, most: int = MAX_MEMBER_BYTES) -> None:
        """Writes one file of the wheel to `to`. Raises UserError as `read` does."""
        with self._open() as archive, self._member(archive, name, most) as stream:
            try:
                with to.open("wb") as written:
                    shutil.copyfileobj(stream, written, 1 << 20)
            except OSError as error:
                raise OutOfResources.or_bad_input(error, f"{name} cannot be copied", to) from None

    def origin(self) -> Origin:
        """Name, version, licence and home page as the wheel states them. Raises UserError."""
        names = self.names()
        info = self._info_folder(names)
        text = self.read(f"{info}/METADATA").decode(errors="replace")
        fields = HeaderParser().parsestr(text)
        licence = fields.get("License-Expression") or fields.get("License") or ""
        licences = [n for n in names if _is_licence(n, info)]
        return Origin(
            fields.get("Name", ""),
            fields.get("Version", ""),
            licence.strip().partition("\n")[0].strip()[:_MAX_SHOWN],
            _home(fields.get("Home-page") or "", fields.get_all("Project-URL") or []),
            tuple(licences),
        )

    def _info_folder(self, names: tuple[str, ...]) -> str:
        """The folder with METADATA; its name follows from the wheel's."""
        name, version, *_ = self.pin.file.split("-")
        info = f"{name}-{version}.dist-info"
        if f"{info}/METADATA" not in names:
            raise self._error(f"the wheel has no {info}/METADATA")
        return info

    @contextmanager
    def _open(self) -> Iterator[zipfile.ZipFile]:
        try:
            with zipfile.ZipFile(self.file) as archive:
                if len(archive.infolist()) > _MAX_MEMBERS:
                    raise self._error(f"more than {_MAX_MEMBERS:,} files are in it")
                yield archive
        except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError) as error:
            raise self._error(f"this wheel cannot be read: {error}") from None
        except OSError as error:
            what = "this wheel cannot be read"
            raise OutOfResources.or_bad_input(error, what, self.file) from None

    @contextmanager
    def _member(self, archive: zipfile.ZipFile, name: str, most: int) -> Iterator[IO[bytes]]:
        if not is_safe(name):
            raise self._error(f"{name!r} is no path inside of a wheel")
        try:
            info = archive.getinfo(name)
        except KeyError:
            hint = _nearest_file(name, archive.namelist())
            raise self._error(f"the wheel has no file {name}", hint) from None
        if stat.S_ISLNK(info.external_attr >> 16) or info.is_dir():
            raise self._error(f"{name} is no plain file")
        if info.flag_bits & _ENCRYPTED:
            raise self._error(f"{name} is encrypted")
        if info.file_size > most:  # zipfile reads no further than this size
            raise self._error(f"{name} has {info.file_size:,} bytes, more than {most:,}")
        with archive.open(info) as stream:
            yield stream

    def _error(self, message: str, hint: str = "") -> UserError:
        return UserError(f"{self.pin}: {message}", file=str(self.file), hint=hint)


def _is_licence(name: str, info: str) -> bool:
    if not is_safe(name) or not name.startswith(f"{info}/"):
        return False
    rest = name[len(info) + 1 :]
    words = ("licen", "copying", "notice")
    return rest.startswith("licenses/") or ("/" not in rest and rest.lower().startswith(words))


def _nearest_file(name: str, names: list[str]) -> str:
    """Names with the same last part first; else the closest in spelling."""
    last = PurePosixPath(name).name
    same = [each for each in names if PurePosixPath(each).name == last]
    if same:
        return "there is " + ", ".join(sorted(same)[:3])
    folder = name.rpartition("/")[0]
    near = [each for each in names if each.startswith(folder)] or names
    hint = nearest(name, near)
    return hint if len(hint) <= 2 * _MAX_SHOWN else hint[: 2 * _MAX_SHOWN - 3] + "..."


def _home(home_page: str, urls: list[str]) -> str:
    """The home page, or the first project URL, one that is labelled as the home page preferred."""
    if home_page.strip():
        return home_page.strip()[:_MAX_SHOWN]
    labelled = [tuple(part.strip() for part in url.split(",", 1)) for url in urls]
    pairs = [pair for pair in labelled if len(pair) == 2]
    pairs.sort(key=lambda pair: pair[0].lower() not in ("homepage", "home"))
    return pairs[0][1][:_MAX_SHOWN] if pairs else ""
