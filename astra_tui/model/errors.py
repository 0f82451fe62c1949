"""Errors that a user can act on: what is wrong, where, and what to do next."""

from __future__ import annotations

import difflib
import errno
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a text: 1-based line and column; 0 where unknown."""

    line: int = 0
    column: int = 0


class UserError(Exception):
    """Bad input. The message stands alone and says what to do; no traceback is shown for it."""

    def __init__(self, message: str, *, file: str = "", place: Place | None = None, hint: str = ""):
        super().__init__(message)
        self.message = message
        self.file = file
        self.place = place or Place()
        self.hint = hint

    def __str__(self) -> str:
        return self.describe()

    def describe(self) -> str:
        """One or two lines: `file:line:column: message` and the hint."""
        where = self.file
        if self.place.line:
            where += f":{self.place.line}"
            if self.place.column:
                where += f":{self.place.column}"
        where = where.lstrip(":")
        text = f"{where}: {self.message}" if where else self.message
        return f"{text}\n  {self.hint}" if self.hint else text


class DeviceMissing(UserError):
    """A device that is not on this machine."""


class OutOfResources(UserError):
    """The machine is why, and not what was asked for: its disk, its memory, its open files."""

    @staticmethod
    def or_bad_input(error: OSError, what: str, file: Path) -> UserError:
        """What a user reads of an error of the system: `what` could not be done with a file."""
        message = f"{what}: {error.strerror or error}"
        hint = _RESOURCES.get(error.errno or 0)
        if hint is None:
            return UserError(message, file=str(file))
        return OutOfResources(message, file=str(file), hint=hint)


_DISK = "is the disk full? make room and try again"
_FILES = "raise the limit on open files: ulimit -n 1024"
_RESOURCES = {
    errno.ENOSPC: _DISK,
    errno.EDQUOT: "your quota on this disk is used up: make room and try again",
    errno.EFBIG: "raise the limit on the size of files: ulimit -f unlimited",
    errno.EIO: "the disk fails; see the log of the kernel: dmesg",
    errno.EMFILE: _FILES,
    errno.ENFILE: _FILES,
    errno.ENOMEM: "raise the limit on memory: ulimit -v unlimited",
}


_EXPECTED = re.compile(r"Expected `([a-z |]+)`(?: (>=|<=|>) ([0-9.e+-]+))?(?:, got `([a-z]+)`)?")
_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "a text",
    "array": "a list",
    "object": "a table",
}
_BOUNDS = {">=": "of {} or more", "<=": "of at most {}", ">": "above {}"}


def value_words(error: Exception) -> str:
    """What msgspec refuses of a value, as in "a whole number of 1 or more is needed"."""

    def in_words(found: re.Match[str]) -> str:
        kinds, bound, limit, given = found.groups()
        names = [_KINDS.get(kind, f"`{kind}`") for kind in kinds.split(" | ") if kind != "null"]
        told = " or ".join(names)
        told += f" {_BOUNDS[bound].format(limit.removesuffix('.0'))}" if bound else ""
        return f"{told} is needed" + (f", not {_KINDS.get(given, given)}" if given else "")

    return _EXPECTED.sub(in_words, str(error))


def nearest(name: str, valid: Iterable[str]) -> str:
    """A hint that names the valid name closest to `name`, or lists them all when none is close."""
    names = sorted(set(valid))
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if close:
        return f"did you mean '{close[0]}'?"
    return "valid names: " + ", ".join(names) if names else "no names are valid here"
