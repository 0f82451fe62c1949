"""Which workers there are, what each is at, and who gets the next job: decided without any Dask."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from astra_tui.workers.jobs import Identity

LOST_SECONDS = 2.0
"""After so long a silence a worker at work counts as dead."""


@dataclass(frozen=True)
class Member:
    """A worker that may get jobs: `slots` at a time, and one timing if it has a GPU."""

    address: str
    name: str
    slots: int = 1
    gpu: str = ""
    jobs: tuple[str, ...] = ()
    leased: str = ""
    """The job that has the GPU to itself."""
    done: int = 0
    seconds: float = 0.0
    """Of work, for all jobs that are done."""
    proven: str = ""
    """By which A/A timing its GPU has shown that it can tell differences; "" before it has."""

    @property
    def free(self) -> bool:
        """Whether it takes another job, but a timing."""
        return len(self.jobs) < self.slots


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

    def choose(self, *, lease: bool, prefer: str = "") -> Member | None:
        """The worker for a job: the preferred one, else the least loaded; None while all work."""
        able = [m for m in self.members.values() if _can(m, lease)]
        if not able:
            return None
        return min(able, key=lambda m: (m.address != prefer, len(m.jobs), m.done))

    def begin(self, address: str, job: str, *, lease: bool) -> Roster:
        """With a job at a worker."""
        member = self.members[address]
        if lease:
            return self.join(replace(member, leased=job))
        return self.join(replace(member, jobs=(*member.jobs, job)))

    def end(self, address: str, job: str, seconds: float | None) -> Roster:
        """Without it; with no seconds it did not come to an end. A worker may be gone by now."""
        member = self.members.get(address)
        if member is None:
            return self
        left = tuple(j for j in member.jobs if j != job)
        member = replace(member, jobs=left, leased="" if member.leased == job else member.leased)
        if seconds is not None:
            member = replace(member, done=member.done + 1, seconds=member.seconds + seconds)
        return self.join(member)

    def prove(self, address: str, proven: str) -> Roster:
        """With what an A/A timing of a GPU showed; "" takes it back, as after trouble."""
        member = self.members.get(address)
        return self if member is None else self.join(replace(member, proven=proven))


def _can(member: Member, lease: bool) -> bool:
    return bool(member.gpu) and not member.leased if lease else member.free


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
    at = [f"timing {member.leased}"] if member.leased else []
    at += [f"at work on {len(member.jobs)}"] if member.jobs else []
    gpu = f" ({member.gpu})" if member.gpu else ""
    return f"{member.name}{gpu}: {member.done} done in {member.seconds:.1f} s, " + (
        ", ".join(at) or "idle"
    )
