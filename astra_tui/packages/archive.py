"""A wheel or source distribution on disk, read as zip or tar file. Nothing in it is run."""

from __future__ import annotations

import gzip
import shutil
import stat
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from email.parser import HeaderParser
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import IO, NoReturn, Protocol

import msgspec

from astra_tui.model.errors import OutOfResources, UserError, nearest
from astra_tui.model.pin import Pin, is_safe

MAX_TEXT_BYTES = 8 << 20
MAX_MEMBER_BYTES = 2 << 30
MAX_UNPACKED_BYTES = 4 << 30
_MAX_MEMBERS = 200_000
_ENCRYPTED = 0x1
_NOT_SAID = "UNKNOWN"
"""What build tools write for a field that their user left out."""
_MAX_SHOWN = 120
_CHUNK = 1 << 20


class Origin(msgspec.Struct, frozen=True):
    """Where a package comes from, in its own words, and the licence files it carries.

    `about` is the file with those words, METADATA or PKG-INFO; licence files lie at or below it.
    """

    name: str
    version: str
    licence: str
    home: str
    licence_files: tuple[str, ...]
    about: str


def licence_in(metadata: str) -> str:
    """The licence in the text of a METADATA or PKG-INFO, in a line; "" where it names none."""
    fields = HeaderParser().parsestr(metadata)
    marks = [c.split(" :: ") for c in fields.get_all("Classifier") or []]
    classified = ", ".join(parts[-1] for parts in marks if parts[0] == "License")
    named = fields.get("License-Expression") or fields.get("License") or ""
    if named.strip() in ("", _NOT_SAID):
        named = classified
    return named.strip().partition("\n")[0].strip()[:_MAX_SHOWN]


class Archive:
    """One fetched file. What is asked of it by name is read within limits, or a UserError."""

    def __init__(self, pin: Pin, file: Path):
        self.pin = pin
        self.file = file

    def names(self) -> tuple[str, ...]:
        """The files in it."""
        with self._open() as members:
            return tuple(members.names())

    def read(self, name: str, most: int = MAX_TEXT_BYTES) -> bytes:
        """The content of one file. Raises UserError: missing, unsafe, damaged, or above `most`."""
        return self.read_all([name], most)[name]

    def read_all(self, names: Iterable[str], most: int = MAX_TEXT_BYTES) -> dict[str, bytes]:
        """The contents of several files, by name. Raises UserError as `read` does."""
        with self._open() as members:
            found = {}
            for name in names:
                with self._member(members, name, most) as stream:
                    found[name] = stream.read()
            return found

    def copy(self, name: str, to: Path, most: int = MAX_MEMBER_BYTES) -> None:
        """Writes one file of it to `to`. Raises UserError as `read` does."""
        with self._open() as members, self._member(members, name, most) as stream:
            try:
                with to.open("wb") as written:
                    shutil.copyfileobj(stream, written, _CHUNK)
            except OSError as error:
                raise OutOfResources.or_bad_input(error, f"{name} cannot be copied", to) from None

    def unpack(self, folder: Path, is_wanted: Callable[[str], bool]) -> None:
        """Writes the files whose names are wanted below `folder`, read-only.

        Links and unsafe names are left out. Raises UserError, and OSError of writing.
        """
        with self._open() as members:
            wanted = [
                name
                for name in members.names()
                if is_safe(name) and is_wanted(name) and members.is_plain(name)
            ]
            if sum(members.size(name) or 0 for name in wanted) > MAX_UNPACKED_BYTES:
                self._fail(f"more than {MAX_UNPACKED_BYTES:,} bytes are in it")
            for name in wanted:
                to = folder / name
                to.parent.mkdir(parents=True, exist_ok=True)
                with members.open(name) as stream, to.open("wb") as written:
                    shutil.copyfileobj(stream, written, _CHUNK)
                to.chmod(0o444)

    def origin(self) -> Origin:
        """Name, version, licence and home page as the package states them. Raises UserError."""
        names = self.names()
        about = self._about()
        if about not in names:
            self._fail(f"{self._kind} has no {about}")
        text = self.read(about).decode(errors="replace")
        fields = HeaderParser().parsestr(text)
        folder = about.rpartition("/")[0]
        return Origin(
            fields.get("Name", ""),
            fields.get("Version", ""),
            licence_in(text),
            _home(fields.get("Home-page") or "", fields.get_all("Project-URL") or []),
            tuple(n for n in names if _is_licence(n, folder)),
            about,
        )

    @property
    def _kind(self) -> str:
        return "the sdist" if self.pin.is_sdist else "the wheel"

    def _about(self) -> str:
        """The file with the package's own words; its folder follows from the name of the file."""
        if self.pin.is_sdist:
            return f"{self.pin.file.removesuffix('.tar.gz')}/PKG-INFO"
        name, version, *_ = self.pin.file.split("-")
        return f"{name}-{version}.dist-info/METADATA"

    @contextmanager
    def _open(self) -> Iterator[_Members]:
        try:
            if self.pin.is_sdist:
                yield self._tar
            else:
                with zipfile.ZipFile(self.file) as archive:
                    yield _ZipMembers(self, archive)
        except (
            *(zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError),
            *(tarfile.TarError, gzip.BadGzipFile),
        ) as error:
            self._fail(f"{self._kind} cannot be read: {error}")
        except OSError as error:
            what = f"{self._kind} cannot be read"
            raise OutOfResources.or_bad_input(error, what, self.file) from None

    @cached_property
    def _tar(self) -> _TarMembers:
        """The members of an sdist, unpacked by gzip into a file without a name.

        Gzip cannot be read from its middle, and one object is asked for many members.
        """
        unpacked = tempfile.TemporaryFile(prefix="astra-tui-")  # noqa: SIM115 - as long as this
        with gzip.open(self.file) as stream:
            while chunk := stream.read(_CHUNK):
                if unpacked.tell() + len(chunk) > MAX_UNPACKED_BYTES:
                    self._fail(f"more than {MAX_UNPACKED_BYTES:,} bytes are in it")
                unpacked.write(chunk)
        unpacked.seek(0)
        return _TarMembers(self, tarfile.open(fileobj=unpacked, mode="r:"))

    @contextmanager
    def _member(self, members: _Members, name: str, most: int) -> Iterator[IO[bytes]]:
        if not is_safe(name):
            self._fail(f"{name!r} is no path inside of a package")
        size = members.size(name)
        if size is None:
            hint = _nearest_file(name, list(members.names()))
            self._fail(f"{self._kind} has no file {name}", hint)
        if size > most:  # neither zipfile nor tarfile reads further than this size
            self._fail(f"{name} has {size:,} bytes, more than {most:,}")
        with members.open(name) as stream:
            yield stream

    def _fail(self, message: str, hint: str = "") -> NoReturn:
        raise UserError(f"{self.pin}: {message}", file=str(self.file), hint=hint)


class _Members(Protocol):
    """The members of an open archive. A name of another than a plain file fails as it says."""

    def names(self) -> Iterable[str]:
        """Of all members but folders."""

    def is_plain(self, name: str) -> bool:
        """Whether a member is a plain file, no link or device."""

    def size(self, name: str) -> int | None:
        """Bytes of a member; None where there is none of that name."""

    def open(self, name: str) -> IO[bytes]:
        """The content of a member."""


class _ZipMembers:
    def __init__(self, archive: Archive, opened: zipfile.ZipFile):
        self._archive = archive
        self._opened = opened
        _require_few(archive, len(opened.infolist()))

    def names(self) -> Iterable[str]:
        return (i.filename for i in self._opened.infolist() if not i.is_dir())

    def is_plain(self, name: str) -> bool:
        info = self._opened.NameToInfo[name]
        return not stat.S_ISLNK(info.external_attr >> 16) and not info.is_dir()

    def size(self, name: str) -> int | None:
        info = self._opened.NameToInfo.get(name)
        if info is None:
            return None
        if not self.is_plain(name):
            self._archive._fail(f"{name} is no plain file")
        if info.flag_bits & _ENCRYPTED:
            self._archive._fail(f"{name} is encrypted")
        return info.file_size

    def open(self, name: str) -> IO[bytes]:
        return self._opened.open(name)


class _TarMembers:
    def __init__(self, archive: Archive, opened: tarfile.TarFile):
        self._archive = archive
        self._opened = opened
        self._found: dict[str, tarfile.TarInfo] = {}
        for number, info in enumerate(opened, 1):
            _require_few(archive, number)
            self._found[info.name] = info

    def names(self) -> Iterable[str]:
        return (name for name, info in self._found.items() if not info.isdir())

    def is_plain(self, name: str) -> bool:
        info = self._found[name]
        return info.isreg() and not info.issparse()

    def size(self, name: str) -> int | None:
        info = self._found.get(name)
        if info is not None and not self.is_plain(name):
            self._archive._fail(f"{name} is no plain file")
        return None if info is None else info.size

    def open(self, name: str) -> IO[bytes]:
        stream = self._opened.extractfile(self._found[name])
        assert stream is not None, "a plain file has content"
        return stream


def _require_few(archive: Archive, count: int) -> None:
    if count > _MAX_MEMBERS:
        archive._fail(f"more than {_MAX_MEMBERS:,} files are in it")


def _is_licence(name: str, folder: str) -> bool:
    if not is_safe(name) or not name.startswith(f"{folder}/"):
        return False
    rest = name[len(folder) + 1 :]
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
