"""What a sweep of a source's open numbers found."""

from __future__ import annotations

import msgspec


class ServedSizes(msgspec.Struct, frozen=True):
    """A trial that serves some sizes in place of the default.

    `condition` is an expression of the launch plan, `gains` says in words what it gains and where.
    """

    trial: int
    condition: str
    gains: str


class SweepProgress(msgspec.Struct, frozen=True):
    """How far a sweep is, in words."""

    text: str


class Swept(msgspec.Struct, frozen=True):
    """The outcome of a sweep; trials are numbered from 0, which is the source itself.

    The number behind the last trial stands for the source that it was made from.
    """

    trials: int
    """That differ, over all workloads."""
    timed: int
    gpu_seconds: float
    """How long the sweep had the GPU to itself."""
    default: int
    parts: tuple[ServedSizes, ...] = ()


class SweptCandidate(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of the sweep of a candidate.

    `result` is the hash of the source that it makes, empty where nothing is better; `summary` says
    what that consists of, or why there is none.
    """

    summary: str
    result: str = ""
    trials: int = 0
    timed: int = 0
    gpu_seconds: float = 0.0
