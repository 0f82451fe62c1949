"""What a draft of a kernel task leaves open, with what it says until someone answers."""

from __future__ import annotations

import msgspec


class Guess(msgspec.Struct, frozen=True):
    """A value that the draft holds: the key that answers it, and the value as TOML writes it.

    A text that TOML reads as nothing else stands without quotes; "" is no value.
    """

    key: str
    value: str = ""
    choices: tuple[str, ...] = ()
    """All values that it may have, where they are few."""


class OpenPoint(msgspec.Struct, frozen=True):
    """Something to confirm or to decide, with the key that answers it, "" where none does."""

    text: str
    key: str = ""
    line: int = 0
    """The line of the kernel's file that it comes from, 0 for none."""
    guesses: tuple[Guess, ...] = ()
    """What the draft says at the key or below it."""

    def __str__(self) -> str:
        return f"{self.text} [{self.key}]" if self.key else self.text
