"""One wheel of a package index, chosen by its hash."""

from __future__ import annotations

import re
from datetime import date
from typing import NamedTuple

import msgspec

_SHA256 = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.!+_]*")
_WHEEL = re.compile(r"([\w.]+)-([\w.!+]+)(?:-\d\w*)?-([\w.]+)-([\w.]+)-([\w.]+)\.whl", re.ASCII)


class Tags(NamedTuple):
    """What a wheel's file name says it runs on (PEP 425); several of a kind are joined by dots."""

    interpreters: str
    abis: str
    platforms: str


class Pin(msgspec.Struct, frozen=True):
    """A wheel: the package's name and version, the file's name, and its SHA-256 in hexadecimal.

    `licence` is the package's SPDX expression, `released` the day on which the file was published.
    """

    name: str
    version: str
    wheel: str
    sha256: str
    licence: str
    released: date

    @property
    def tags(self) -> Tags:
        """Interpreters, ABIs and platforms. Raises ValueError for what is no name of a wheel."""
        found = _WHEEL.fullmatch(self.wheel)
        if found is None:
            raise ValueError(f"{self.wheel!r} is not a valid wheel name")
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
        found = _WHEEL.fullmatch(self.wheel)
        if found is None:
            return f"{self.wheel!r} is not a valid wheel name"
        if normalised(found[1]) != normalised(self.name) or found[2] != self.version:
            return f"{self.wheel} is no wheel of {self.name} {self.version}"
        return ""

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


def normalised(name: str) -> str:
    """A package's name as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()
