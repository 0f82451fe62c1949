"""A sweep of a source's open numbers: what its trials launch, and what it found."""

from __future__ import annotations

import msgspec


class ThreadWork(msgspec.Struct, frozen=True):
    """What the code of a kernel says of one thread that goes through it once."""

    instructions: int
    moved_bytes: int
    """Of global memory, loads and stores."""
    flying_bytes: int
    """The most that it loads with no barrier and no end of a loop in between."""
    barriers: int
    spread: int = 1
    """16-byte accesses of one thread that lie next to each other: a warp's request is spread out
    by as much."""


class LaunchWork(msgspec.Struct, frozen=True):
    """One launch of a workload, as far as the device model looks at it."""

    code: ThreadWork
    blocks: int
    threads: int
    """Of a block."""
    resident: int
    """Blocks that a multiprocessor holds at once; 0 where none fits."""

    def busiest(self, multiprocessors: int) -> int:
        """Blocks of the multiprocessor that has most."""
        return -(-self.blocks // multiprocessors)

    def at_once(self, multiprocessors: int) -> int:
        """Blocks that run at once where most are."""
        return min(self.resident, self.busiest(multiprocessors))


class TrialWork(msgspec.Struct, frozen=True):
    """What a trial launches on a workload; equal identities do the same."""

    identity: str
    launches: tuple[LaunchWork, ...]


class SweptCandidate(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of the sweep of a candidate.

    `result` is the hash of the source that it makes, empty where nothing is better; `summary` says
    what that consists of, or why there is none.
    """

    summary: str
    result: str = ""
    trials: int = 0
    """That differ, over all workloads."""
    timed: int = 0
    gpu_seconds: float = 0.0
    """How long trials had a GPU to themselves, of all GPUs."""
    gpus: tuple[str, ...] = ()
    """UUIDs of those that timed them."""
