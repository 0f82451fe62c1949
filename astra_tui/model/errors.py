"""Errors that a user can act on: what is wrong, where, and what to do next."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass


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


def nearest(name: str, valid: Iterable[str]) -> str:
    """A hint that names the valid name closest to `name`, or lists them all when none is close."""
    names = sorted(set(valid))
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if close:
        return f"did you mean '{close[0]}'?"
    return "valid names: " + ", ".join(names) if names else "no names are valid here"
