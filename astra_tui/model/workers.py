"""What workers are at: plain data for the screen and for lines."""

from __future__ import annotations

import msgspec


class WorkerStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    """One worker as it is now, or one that gets no job any more."""

    name: str
    kind: str = ""
    """The name of its GPU, as NVIDIA H200; "" without one."""
    uuid: str = ""
    doing: tuple[str, ...] = ()
    """What its jobs do, as "timing a.cu against b.cu"."""
    done: int = 0
    seconds: float = 0.0
    """Of work, for all jobs that are done."""
    proven: str = ""
    """What its GPU's A/A timing tells apart, as 0.10%; "" before it was taken."""
    trouble: str = ""
    """What went wrong last, or why it is left out."""
    left_out: bool = False


class WorkersStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    """All workers of an engine, by name, and how many jobs wait for one."""

    workers: tuple[WorkerStatus, ...] = ()
    waiting: dict[str, int] = {}
    """By what they take of a worker: "cpu", "host", "gpu", or "alone" for a timing."""
