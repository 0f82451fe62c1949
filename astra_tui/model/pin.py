"""One file of a package index, a wheel or a source distribution, chosen by its hash."""

from __future__ import annotations

import re
from datetime import date
from pathlib import PurePosixPath
from typing import NamedTuple

import msgspec

_SHA256 = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.!+_]*")
_WHEEL = re.compile(r"([\w.]+)-([\w.!+]+)(?:-\d\w*)?-([\w.]+)-([\w.]+)-([\w.]+)\.whl", re.ASCII)
_SDIST = re.compile(r"([\w.-]+)-([\w.!+]+)\.tar\.gz", re.ASCII)


class Tags(NamedTuple):
    """What a wheel's file name says it runs on (PEP 425); several of a kind are joined by dots."""

    interpreters: str
    abis: str
    platforms: str


class Pin(msgspec.Struct, frozen=True):
    """A package's name and version, and a file of it: name, and SHA-256 in hexadecimal.

    `licence` is the package's SPDX expression, `released` the day on which the file was published.
    """

    name: str
    version: str
    file: str
    sha256: str
    licence: str
    released: date

    @property
    def is_sdist(self) -> bool:
        """Whether the file is a source distribution; else it is a wheel."""
        return _SDIST.fullmatch(self.file) is not None

    @property
    def tags(self) -> Tags:
        """Interpreters, ABIs and platforms. Raises ValueError for what is no name of a wheel."""
        found = _WHEEL.fullmatch(self.file)
        if found is None:
            raise ValueError(f"{self.file!r} is not a valid wheel name")
        return Tags(found[3], found[4], found[5])

    @property
    def problem(self) -> str:
        """What is wrong with the pin, so that it cannot be fetched; "" where nothing is."""
        if not _NAME.fullmatch(self.name):
            return f"{self.name!r} is not a valid package name"
        if not _VERSION.fullmatch(self.version):
            return f"{self.version!r} is no version"
        if not _SHA256.fullmatch(self.sha256):
            return "sha256 is 64 hexadecimal digits, in small letters"
        found = _WHEEL.fullmatch(self.file) or _SDIST.fullmatch(self.file)
        if found is None:
            return f"{self.file!r} is not a valid name of a wheel (.whl) or sdist (.tar.gz)"
        if normalised(found[1]) != normalised(self.name) or found[2] != self.version:
            return f"{self.file} is no file of {self.name} {self.version}"
        return ""

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


def normalised(name: str) -> str:
    """A package's name as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def is_safe(name: str) -> bool:
    """Whether a name stays inside of the folder that it is used in, on every system."""
    path = PurePosixPath(name)
    plain = all(c.isprintable() and c not in '\\:*?"<>|' for c in name)
    return (
        bool(path.parts)
        and plain
        and not path.is_absolute()
        and ".." not in path.parts
        and str(path) == name
    )
