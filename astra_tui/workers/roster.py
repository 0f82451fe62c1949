"""Which workers there are, what each is at, and who gets the next job: decided without any Dask."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

import msgspec

LOST_SECONDS = 2.0
"""After so long a silence a worker at work counts as dead."""

MOST_ON_GPU = 4
"""So many jobs next to each other have a GPU at a time: each has memory there."""


class Identity(msgspec.Struct, frozen=True):
    """What has to be the same at an engine and its workers, for results that can be compared."""

    gate: str
    """A hash over the code that compiles, checks and times."""
    versions: dict[str, str]

    def differs(self, other: Identity) -> str:
        """How another one differs from this, in words; "" where it does not."""
        if self.gate != other.gate and self.versions == other.versions:
            return "it runs other code under the same version"
        names = sorted({*self.versions, *other.versions})
        return "; ".join(
            f"{name} is {other.versions.get(name, 'missing')}, and not {self.versions.get(name)}"
            for name in names
            if self.versions.get(name) != other.versions.get(name)
        )


class Use(StrEnum):
    """What a job takes of its worker."""

    CPU = "cpu"
    HOST = "host"
    """Processors next to a GPU, as a compilation for it does."""
    GPU = "gpu"
    """Its GPU, next to others."""
    ALONE = "alone"
    """Its GPU, with no other job on it: a timing."""


@dataclass(frozen=True)
class Member:
    """A worker that may get jobs: `slots` at a time, and one timing if it has a GPU."""

    address: str
    name: str
    slots: int = 1
    gpu: str = ""
    jobs: Mapping[str, Use] = field(default_factory=dict)
    done: int = 0
    seconds: float = 0.0
    """Of work, for all jobs that are done."""
    proven: str = ""
    """What the A/A timing of its GPU showed; "" before it was taken."""

    def count(self, *uses: Use) -> int:
        """How many of its jobs take these of it."""
        return sum(use in uses for use in self.jobs.values())

    def takes(self, use: Use) -> bool:
        """Whether it can begin another job."""
        if use is Use.ALONE:
            return bool(self.gpu) and not self.count(Use.GPU, Use.ALONE)
        has_slot = len(self.jobs) - self.count(Use.ALONE) < self.slots
        is_able = use is Use.CPU or bool(self.gpu)
        if use is Use.GPU and (self.count(Use.ALONE) or self.count(Use.GPU) >= MOST_ON_GPU):
            return False
        return has_slot and is_able


@dataclass(frozen=True)
class Roster:
    """All workers of an engine. Nothing changes: every method returns the next roster."""

    members: Mapping[str, Member] = field(default_factory=dict)
    """By address."""
    excluded: Mapping[str, str] = field(default_factory=dict)
    """Names of workers that get no job, with the reason."""

    def join(self, member: Member) -> Roster:
        """With a worker that is fit."""
        return replace(self, members={**self.members, member.address: member})

    def exclude(self, name: str, reason: str) -> Roster:
        """Without the workers of a name, of which none comes back."""
        left = {a: m for a, m in self.members.items() if m.name != name}
        return replace(self, members=left, excluded={**self.excluded, name: reason})

    def lose(self, address: str) -> Roster:
        """Without a worker that is gone."""
        return replace(self, members={a: m for a, m in self.members.items() if a != address})

    def choose(self, use: Use, prefer: str = "", timings: int = 0) -> Member | None:
        """The worker for a job: the preferred one, else the least loaded; None while all work.

        For as many `timings` as wait, GPUs are kept free of other jobs.
        """
        able = [m for m in self.members.values() if m.takes(use)]
        if use is Use.GPU and timings:
            gpus = [m for m in self.members.values() if m.gpu and not m.count(Use.ALONE)]
            kept = sorted(gpus, key=lambda m: (m.count(Use.GPU), m.address))[:timings]
            able = [m for m in able if m not in kept]
        if not able:
            return None
        return min(able, key=lambda m: (m.address != prefer, len(m.jobs), m.done))

    def begin(self, address: str, job: str, use: Use) -> Roster:
        """With a job at a worker."""
        member = self.members[address]
        return self.join(replace(member, jobs={**member.jobs, job: use}))

    def end(self, address: str, job: str, seconds: float | None) -> Roster:
        """Without it; with no seconds it did not come to an end. A worker may be gone by now."""
        member = self.members.get(address)
        if member is None:
            return self
        member = replace(member, jobs={j: use for j, use in member.jobs.items() if j != job})
        if seconds is not None:
            member = replace(member, done=member.done + 1, seconds=member.seconds + seconds)
        return self.join(member)

    def prove(self, address: str, proven: str) -> Roster:
        """With what an A/A timing of a GPU showed; "" takes it back, as after trouble."""
        member = self.members.get(address)
        return self if member is None else self.join(replace(member, proven=proven))


def unfit(engine: Identity, worker: Identity) -> str:
    """Why a worker cannot have an engine's jobs; "" where it can."""
    differs = engine.differs(worker)
    return f"it is not the same as the engine: {differs}" if differs else ""


def silent(beats: Mapping[str, float], now: float, limit: float = LOST_SECONDS) -> tuple[str, ...]:
    """Jobs of which nothing was heard for too long, by the time of their last sign of life."""
    return tuple(job for job, last in beats.items() if now - last > limit)


def describe(roster: Roster) -> tuple[str, ...]:
    """A line for each worker."""
    lines = [_line(m) for m in sorted(roster.members.values(), key=lambda m: m.name)]
    left_out = (f"{name}: left out: {reason}" for name, reason in roster.excluded.items())
    return (*lines, *left_out)


def _line(member: Member) -> str:
    timing = member.count(Use.ALONE)
    counted = (len(member.jobs) - timing, "running"), (timing, "timing")
    at = ", ".join(f"{number} {what}" for number, what in counted if number)
    gpu = f" ({member.gpu})" if member.gpu else ""
    proven = f", A/A {member.proven}" if member.proven else ""
    return (
        f"{member.name}{gpu}: {member.done} done in {member.seconds:.1f} s, {at or 'idle'}{proven}"
    )
