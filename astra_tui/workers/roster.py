"""Which workers there are, what each is at, and who gets the next job: decided without any Dask."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

import msgspec

from astra_tui.model.gpu import GpuIdentity
from astra_tui.model.workers import WorkersStatus, WorkerStatus

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
class Need:
    """What a job needs: a part of a worker and, but for CPU work, a GPU of a kind; "" for any."""

    use: Use = Use.CPU
    kind: str = ""

    def met_by(self, member: Member) -> bool:
        """Whether a worker that is free could do it."""
        if self.use is Use.CPU:
            return True
        return bool(member.gpu) and self.kind in ("", member.kind)


@dataclass(frozen=True)
class Doing:
    """A job at a worker: what it takes of it, and what it does, in words."""

    use: Use
    words: str = ""


@dataclass(frozen=True)
class Member:
    """A worker that may get jobs: `slots` at a time, and one timing if it has a GPU."""

    address: str
    name: str
    slots: int = 1
    device: GpuIdentity | None = None
    """Its GPU, with a UUID."""
    jobs: Mapping[str, Doing] = field(default_factory=dict)
    done: int = 0
    seconds: float = 0.0
    """Of work, for all jobs that are done."""
    proven: str = ""
    """What the A/A timing of its GPU showed; "" before it was taken."""
    trouble: str = ""
    """What went wrong here last."""

    @property
    def gpu(self) -> str:
        """The UUID of its GPU; "" without one."""
        return (self.device.uuid or "") if self.device is not None else ""

    @property
    def kind(self) -> str:
        """The name of its GPU: those with the same name give times that mean the same."""
        return (self.device.name or "") if self.device is not None else ""

    def count(self, *uses: Use) -> int:
        """How many of its jobs take these of it."""
        return sum(job.use in uses for job in self.jobs.values())

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
    lost: Mapping[str, Member] = field(default_factory=dict)
    """Workers by name that are gone and may come back."""

    def join(self, member: Member) -> Roster:
        """With a worker that is fit."""
        lost = {name: m for name, m in self.lost.items() if name != member.name}
        return replace(self, members={**self.members, member.address: member}, lost=lost)

    def exclude(self, name: str, reason: str) -> Roster:
        """Without the workers of a name, of which none comes back."""
        left = {a: m for a, m in self.members.items() if m.name != name}
        lost = {n: m for n, m in self.lost.items() if n != name}
        excluded = {**self.excluded, name: reason}
        return replace(self, members=left, lost=lost, excluded=excluded)

    def lose(self, address: str) -> Roster:
        """Without a worker that is gone."""
        if address not in self.members:
            return self
        left = dict(self.members)
        member = replace(left.pop(address), jobs={})
        return replace(self, members=left, lost={**self.lost, member.name: member})

    def can_now(self, need: Need) -> bool:
        """Whether a worker that is here could do a job, once it is free."""
        return any(map(need.met_by, self.members.values()))

    def can_ever(self, need: Need) -> bool:
        """Whether a worker could do a job, once it is free, or back."""
        return self.can_now(need) or any(map(need.met_by, self.lost.values()))

    def has_gpu(self, uuid: str) -> Member | None:
        """The worker that has a GPU."""
        return next((m for m in self.members.values() if m.gpu == uuid), None)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Names of GPUs that differ, those of which there are most first."""
        counted = Counter(m.kind for m in self.members.values() if m.gpu)
        return tuple(sorted(counted, key=lambda kind: (-counted[kind], kind)))

    def choose(self, need: Need, prefer: str = "", timings: int = 0) -> Member | None:
        """The worker for a job: the preferred one, else the least loaded; None while all work.

        For as many `timings` as wait for such a GPU, GPUs are kept free of other jobs.
        """
        fit = [m for m in self.members.values() if need.met_by(m)]
        able = [m for m in fit if m.takes(need.use)]
        if need.use is Use.GPU and timings:
            gpus = [m for m in fit if not m.count(Use.ALONE)]
            kept = sorted(gpus, key=lambda m: (m.count(Use.GPU), m.address))[:timings]
            able = [m for m in able if m not in kept]
        if not able:
            return None
        return min(able, key=lambda m: (m.address != prefer, len(m.jobs), m.done))

    def begin(self, address: str, job: str, use: Use, words: str = "") -> Roster:
        """With a job at a worker, or with other words for one that is there."""
        member = self.members[address]
        return self.join(replace(member, jobs={**member.jobs, job: Doing(use, words)}))

    def end(self, address: str, job: str, seconds: float | None) -> Roster:
        """Without it; with no seconds it did not come to an end. A worker may be gone by now."""
        member = self.members.get(address)
        if member is None:
            return self
        member = replace(member, jobs={j: doing for j, doing in member.jobs.items() if j != job})
        if seconds is not None:
            member = replace(member, done=member.done + 1, seconds=member.seconds + seconds)
        return self.join(member)

    def prove(self, address: str, proven: str) -> Roster:
        """With what an A/A timing of a GPU showed."""
        return self._with(address, proven=proven, trouble="")

    def doubt(self, address: str, trouble: str) -> Roster:
        """With a GPU that has to prove itself again, after trouble."""
        return self._with(address, proven="", trouble=trouble)

    def _with(self, address: str, **changes: str) -> Roster:
        member = self.members.get(address)
        return self if member is None else self.join(replace(member, **changes))  # type: ignore[arg-type]

    def status(self, waiting: Mapping[Use, int]) -> WorkersStatus:
        """What they are at, by name, and so many jobs that wait."""
        at_work = [_status(m) for m in self.members.values()]
        lost = [_status(replace(m, trouble="it is lost")) for m in self.lost.values()]
        left_out = [
            WorkerStatus(name, trouble=reason, left_out=True)
            for name, reason in self.excluded.items()
        ]
        known = sorted((*at_work, *lost), key=lambda w: _by_number(w.name))
        counted = {use.value: number for use, number in waiting.items() if number}
        return WorkersStatus((*known, *left_out), counted)


def _status(member: Member) -> WorkerStatus:
    return WorkerStatus(
        member.name, member.kind, member.gpu, tuple(d.words for d in member.jobs.values()),
        member.done, round(member.seconds, 1), member.proven, member.trouble,
    )  # fmt: skip


def _by_number(name: str) -> tuple[str, int]:
    """As people sort them: worker9 before worker10."""
    letters = name.rstrip("0123456789")
    return letters, int(name[len(letters) :] or 0)


def unfit(engine: Identity, worker: Identity) -> str:
    """Why a worker cannot have an engine's jobs; "" where it can."""
    differs = engine.differs(worker)
    return f"it is not the same as the engine: {differs}" if differs else ""


def silent(beats: Mapping[str, float], now: float) -> tuple[str, ...]:
    """Jobs of which nothing was heard for too long, by the time of their last sign of life."""
    return tuple(job for job, last in beats.items() if now - last > LOST_SECONDS)
