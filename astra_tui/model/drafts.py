"""Kernel tasks that are drafted: what a draft leaves open, with what it says until someone answers,
and what a running service spends on an operator.
"""

from __future__ import annotations

import msgspec

from astra_tui.model.dtypes import DType


class ServiceWorkload(msgspec.Struct, frozen=True):
    """One workload of a service, and how much it counts."""

    dims: dict[str, int]
    dtype: DType
    weight: float
    """Its share of those that were kept."""
    calls: int
    gpu_us: float | None
    """Time of its kernels, all calls together."""


class ExposedTime(msgspec.Struct, frozen=True):
    """How much of a recorded time the GPU spent on an operator alone; all in microseconds."""

    recorded_us: float
    """From the first kernel's begin to the last one's end."""
    operator_us: float
    exposed_us: float
    """While no other kernel ran: what is saved here shortens the whole."""

    @property
    def share(self) -> float:
        """Of the recorded time."""
        return self.exposed_us / self.recorded_us if self.recorded_us else 0.0

    def end_to_end(self, speedup: float) -> float:
        """The speedup of the whole that a speedup of the operator gives at most."""
        return 1 / (1 - self.share * (1 - 1 / speedup))


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
