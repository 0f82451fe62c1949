"""What travels between an engine and a worker: plain data in MessagePack, and no pickle of ours.

A job is one typed request (`rpc/`) to one of the processes in `PROCESSES`. Code does not travel:
a worker runs its own, which has to be the same, and says so before its first job.
"""

from __future__ import annotations

import functools
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

from astra_tui.lab.audit.running import gate_identity
from astra_tui.lab.requests import Judge, LabRequest
from astra_tui.model.digest import content_hash
from astra_tui.model.environment import current_versions
from astra_tui.rpc import Failure, Message


class WorkersFailed(Exception):
    """No worker can do a job; the message says why."""


@dataclass(frozen=True)
class Served:
    """A process of ours that workers start: its module, and what it can be asked."""

    requests: Any
    argument: int | None
    """Which of its arguments names the folder that it works on; None: its requests do."""

    def folder(self, arguments: tuple[str, ...], request: Mapping[str, Any]) -> Path:
        """The folder that a request is about."""
        named = request["folder"] if self.argument is None else arguments[self.argument]
        return Path(named)


PROCESSES = {
    "astra_tui.lab.worker": Served(LabRequest, argument=0),
    "astra_tui.lab.audit.worker": Served(Judge, argument=None),
}
"""All that a job can start, by module."""


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


@functools.cache
def own_identity() -> Identity:
    """That of this process."""
    versions = {**current_versions(), "machine": platform.machine()}
    return Identity(gate_identity(""), versions)


class Folder(msgspec.Struct, frozen=True):
    """A folder that a job needs: a worker that has no such folder with this content makes one."""

    path: str
    files: dict[str, bytes]

    @property
    def digest(self) -> str:
        """Of names and contents."""
        return content_hash(msgspec.msgpack.encode(sorted(self.files.items())))

    @classmethod
    def of(cls, path: Path) -> Folder:
        """A folder as it is now, with all below it but what no task has: hidden and compiled."""
        files = {f.relative_to(path).as_posix(): f for f in sorted(path.rglob("*")) if f.is_file()}
        wanted = {name: file for name, file in files.items() if _travels(name)}
        return cls(str(path), {name: file.read_bytes() for name, file in wanted.items()})


def _travels(name: str) -> bool:
    return not any(p.startswith(".") or p == "__pycache__" for p in name.split("/"))


class Job(msgspec.Struct, frozen=True, omit_defaults=True):
    """One request to a process of ours on a worker; with no `module`, only the worker's Identity.

    Where `folder` is made under another path, that stands for its path in `arguments` and in the
    request. `silence` and `cpu` are those of `rpc.Call`.
    """

    id: str
    topic: str
    """Under which the worker says that it is at work."""
    module: str = ""
    arguments: tuple[str, ...] = ()
    request: Any = None
    folder: Folder | None = None
    silence: float | None = None
    cpu: bool = False
    device: str = ""
    """Of a timing: the device that it has to itself."""


class Ended(StrEnum):
    """How a job ended for its worker."""

    ANSWERED = "answered"
    DIED = "died"
    TIMED_OUT = "timed_out"


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a worker made of a job. Seconds count from when it began: queues cost nothing."""

    ended: Ended = Ended.ANSWERED
    messages: tuple[Message, ...] = ()
    """What the process wrote, to its end."""
    message: str = ""
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    identity: Identity | None = None
    gpu: str = ""
    """The UUID of the worker's GPU."""

    @property
    def failure(self) -> Failure | None:
        """Why the process said that it cannot answer."""
        return self.messages[-1].failure if self.messages else None


def encode(value: Job | Answer) -> bytes:
    """As it travels."""
    return msgspec.msgpack.encode(value)


def decode_job(data: bytes) -> Job:
    """Raises msgspec.ValidationError for anything else."""
    return msgspec.msgpack.decode(data, type=Job)


def decode_answer(data: bytes) -> Answer:
    """Raises msgspec.ValidationError for anything else."""
    return msgspec.msgpack.decode(data, type=Answer)
