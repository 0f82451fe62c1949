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

from astra_tui.gpu.timing.stopping import minimum_detectable
from astra_tui.lab.audit.running import gate_identity
from astra_tui.lab.requests import (
    Check,
    Compile,
    CompileTrials,
    Disassemble,
    Judge,
    LabRequest,
    NamedSource,
    Profile,
    ReadGpu,
    ReadHardware,
    Sanitize,
    Time,
    TimeShipped,
    TimeTrials,
)
from astra_tui.model.digest import content_hash
from astra_tui.model.environment import current_versions
from astra_tui.model.gpu import GpuIdentity
from astra_tui.model.settings import EMULATOR
from astra_tui.model.timing import Timing
from astra_tui.rpc import Failure, Message, ServerUnfit
from astra_tui.workers.roster import Identity, Need, Use


class WorkersFailed(ServerUnfit):
    """No worker can do a job; the message says why."""


@dataclass(frozen=True)
class Served:
    """A process of ours that workers start: its module, and what it can be asked."""

    requests: Any
    device: int
    """Which of its arguments names the device."""
    argument: int | None = None
    """Which of its arguments names the folder that it works on; None: its requests do."""

    def folder(self, arguments: tuple[str, ...], request: Mapping[str, Any]) -> Path:
        """The folder that a request is about."""
        named = request["folder"] if self.argument is None else arguments[self.argument]
        return Path(named)

    def need(self, arguments: tuple[str, ...], request: Mapping[str, Any], kind: str = "") -> Need:
        """What a request needs, on GPUs of a kind where one is named."""
        asked = msgspec.convert(request, self.requests)
        if arguments[self.device] == EMULATOR:
            return Need()
        if isinstance(asked, _ON_HOST):
            return Need(Use.HOST, kind)
        is_timing = isinstance(asked, _ALONE) or (isinstance(asked, Judge) and asked.timed)
        return Need(Use.ALONE if is_timing else Use.GPU, kind)

    def words(self, request: Mapping[str, Any]) -> str:
        """What a request has its worker do."""
        asked = msgspec.convert(request, self.requests)
        if isinstance(asked, Time):
            return f"timing {_stem(asked.source)} vs {_stem(asked.base)}"
        if isinstance(asked, Judge):
            return f"judging {Path(asked.folder).name}"
        what = _WORDS.get(type(asked), "working")
        source = getattr(asked, "source", None)
        return f"{what} {_stem(source)}" if source is not None else what

    def proof(self, request: Mapping[str, Any]) -> dict[str, Any] | None:
        """The A/A timing that a GPU takes before a timing: the base against itself."""
        asked = msgspec.convert(request, self.requests)
        if isinstance(asked, TimeTrials):
            base = NamedSource(asked.base.text, "base.cu")
        elif isinstance(asked, Time | TimeShipped):
            base = asked.base
        else:
            return None
        made: dict[str, Any] = msgspec.to_builtins(Time(base, base))
        return made


def _stem(source: NamedSource) -> str:
    return Path(source.file).stem


_WORDS: dict[type, str] = {
    Compile: "compiling",
    CompileTrials: "compiling trials of a sweep",
    Disassemble: "disassembling",
    Check: "checking",
    Profile: "profiling",
    Sanitize: "watching",
    ReadHardware: "reading counters of",
    TimeTrials: "timing trials of a sweep",
    TimeShipped: "timing what ships against",
}
_ON_HOST = Compile, Disassemble, ReadGpu
_ALONE = Time, TimeTrials, TimeShipped, ReadHardware


PROCESSES = {
    "astra_tui.lab.worker": Served(LabRequest, device=1, argument=0),
    "astra_tui.lab.audit.worker": Served(Judge, device=0),
}
"""All that a job can start, by module."""


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
    proof: Any = None
    """An A/A timing that a GPU takes first, where it has not shown yet what it can tell."""
    words: str = ""
    """What it does, for who watches."""


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
    device: GpuIdentity | None = None
    """The worker's GPU."""

    @property
    def failure(self) -> Failure | None:
        """Why the process said that it cannot answer."""
        return self.messages[-1].failure if self.messages else None

    @property
    def trouble(self) -> str:
        """What went wrong, as a caller will hear it; "" where the answer is whole."""
        if self.ended is not Ended.ANSWERED:
            return self.message.strip().partition("\n")[0]
        return self.failure.message if self.failure is not None else ""


LEAST_TOLD = 0.005
"""A GPU that cannot tell versions apart that differ by this fraction gets no timing."""


def proven_by(answer: Answer) -> tuple[str, str]:
    """What an A/A timing shows, in words, or why its GPU is left out."""
    found = (m.reply for m in answer.messages if m.name == Timing.__name__)
    timing = msgspec.convert(next(found, None), Timing | None)
    if timing is None:
        return "", f"its A/A timing failed: {answer.trouble}"
    told = minimum_detectable(timing.control)
    if not told <= LEAST_TOLD:
        return "", f"its A/A timing tells no less than {told:.2%}, and {LEAST_TOLD:.1%} is needed"
    return f"{told:.2%}", ""


def encode(value: Job | Answer) -> bytes:
    """As it travels."""
    return msgspec.msgpack.encode(value)


def decode_job(data: bytes) -> Job:
    """Raises msgspec.ValidationError for anything else."""
    return msgspec.msgpack.decode(data, type=Job)


def decode_answer(data: bytes) -> Answer:
    """Raises msgspec.ValidationError for anything else."""
    return msgspec.msgpack.decode(data, type=Answer)
