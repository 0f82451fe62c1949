"""What a worker does with a job: it runs in the worker, and nothing else of ours does there."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import msgspec
from distributed import Worker, get_worker

from astra_tui.lab.cache import cache_root
from astra_tui.lab.devices import choose_device
from astra_tui.model.errors import UserError
from astra_tui.model.settings import EMULATOR, FIRST_GPU
from astra_tui.processes.child import Child, ChildDied, ChildTimeout
from astra_tui.rpc import Call, Failure, Message, Request, ServerUnfit
from astra_tui.workers.jobs import (
    PROCESSES,
    Answer,
    Ended,
    Folder,
    Job,
    decode_job,
    encode,
    own_identity,
)
from astra_tui.workers.roster import Use

BEAT_SECONDS = 0.5
"""How often a worker says that it is at work on a job."""

IDLE_SECONDS = 300.0
"""How long a process waits for another job before it ends: its engine may be gone."""

_IDLE_CHILDREN = 3
"""How many processes wait for another job of their kind, at least."""

_Key = tuple[str, tuple[str, ...], bool]
"""What runs, and whether it times: the process that does keeps what it has on the GPU."""


async def perform(data: bytes) -> bytes:
    """Does a Job; returns its Answer. The only function of ours that a cluster calls for a job."""
    worker = get_worker()
    station = _stations.setdefault(worker, Station(worker))
    job = decode_job(data)
    doing = asyncio.get_running_loop().run_in_executor(station.threads, station.do, job)
    while not (await asyncio.wait([doing], timeout=BEAT_SECONDS))[0]:
        worker.log_event(job.topic, {"job": job.id})
    asyncio.get_running_loop().call_later(IDLE_SECONDS, station.close_idle, IDLE_SECONDS)
    return encode(doing.result())


def stop(job: str, dask_worker: Worker) -> None:
    """Ends the process that is at work on a job here, if there is one."""
    station = _stations.get(dask_worker)
    if station is not None:
        station.stop(job)


def rest(dask_worker: Worker) -> None:
    """Ends all processes here: an engine leaves a cluster that others use as well."""
    station = _stations.get(dask_worker)
    if station is not None:
        station.close()


class Station:
    """The processes of one worker. Idle ones wait for a job with the same arguments."""

    def __init__(self, worker: Worker):
        self.threads = ThreadPoolExecutor(worker.state.nthreads, thread_name_prefix="astra-job")
        self._has_gpu = bool(worker.state.total_resources.get("GPU"))
        self._most_idle = max(_IDLE_CHILDREN, worker.state.nthreads)
        self._lock = threading.Lock()
        self._idle: list[tuple[_Key, Child, float]] = []
        """With the time since which they wait."""
        self._busy: dict[str, Child] = {}
        self._stopped: set[str] = set()

    def do(self, job: Job) -> Answer:
        """Asks the process that the job names, and waits for all that it says."""
        begun = time.monotonic()
        if not job.module:
            return self._identified()
        answer = self._ask(placed(job))
        seconds = round(time.monotonic() - begun, 6)
        return msgspec.structs.replace(answer, seconds=seconds)

    def _identified(self) -> Answer:
        """What this worker is, with its GPU where it offers one."""
        if not self._has_gpu:
            return Answer(identity=own_identity())
        try:
            device = choose_device(FIRST_GPU).identify()
        except UserError as error:
            return Answer(Ended.DIED, message=f"it offers a GPU, and {error.message}")
        return Answer(identity=own_identity(), device=device)

    def stop(self, job: str) -> None:
        """Ends the process that is at work on a job."""
        with self._lock:
            self._stopped.add(job)
            child = self._busy.get(job)
        if child is not None:
            child.kill()

    def close(self) -> None:
        """Ends all processes."""
        self.close_idle(0.0)
        with self._lock:
            children = tuple(self._busy.values())
        for child in children:
            child.kill()

    def close_idle(self, seconds: float) -> None:
        """Ends the processes that have waited for so long."""
        with self._lock:
            ends = time.monotonic() - seconds
            ended = [child for _, child, since in self._idle if since <= ends]
            self._idle = [one for one in self._idle if one[2] > ends]
        for child in ended:
            child.close()

    def _ask(self, job: Job) -> Answer:
        need = PROCESSES[job.module].need(job.arguments, job.request)
        key = job.module, job.arguments, need.use is Use.ALONE
        child, is_new = self._take(key, job)
        answer = self._answered(job, child)
        self._leave(key, job, child)
        said_nothing = answer.ended is Ended.DIED and not answer.messages
        if said_nothing and not is_new and job.id not in self._stopped:
            return self._ask(job)  # It ended while it waited, as after a hang; a new one tells.
        return answer

    def _answered(self, job: Job, child: Child) -> Answer:
        """What a process says to a job."""
        asked: Request[Any] = msgspec.convert(job.request, PROCESSES[job.module].requests)
        call = Call(child, asked, cpu=job.cpu, silence=job.silence)
        used, messages = child.cpu_seconds, []
        ended, why = Ended.ANSWERED, ""
        try:
            for reply in call.replies():
                messages.append(Message(type(reply).__name__, reply))
            messages.append(Message())
        except UserError as error:
            messages.append(Message(failure=Failure.of(error)))
        except ServerUnfit as error:
            messages.append(Message(failure=Failure.unfit(str(error))))
        except ChildDied as error:
            ended, why = Ended.DIED, str(error)
        except (ChildTimeout, TimeoutError) as error:
            child.close()
            ended, why = Ended.TIMED_OUT, str(error)
        seconds = max(0.0, child.cpu_seconds - used)
        return Answer(ended, tuple(messages), why, cpu_seconds=seconds)

    def _take(self, key: _Key, job: Job) -> tuple[Child, bool]:
        """A process for a job, and whether it is a new one."""
        with self._lock:
            fit = [i for i, (k, *_) in enumerate(self._idle) if k == key]
            place = fit[-1] if fit else None  # The last one: few have hold of a GPU so.
            if place is None:
                child = Child(job.module, job.arguments)
            else:
                child = self._idle.pop(place)[1]
            child.start()  # Before anyone can stop the job, which kills it.
            self._busy[job.id] = child
        if job.id in self._stopped:
            child.kill()
        return child, place is None

    def _leave(self, key: _Key, job: Job, child: Child) -> None:
        with self._lock:
            del self._busy[job.id]
            dropped = [] if child.running else [child]
            if child.running:
                self._idle.append((key, child, time.monotonic()))
                while len(self._idle) > self._most_idle:
                    dropped.append(self._idle.pop(0)[1])
        for one in dropped:
            one.close()


_stations: WeakKeyDictionary[Worker, Station] = WeakKeyDictionary()


# -- folders ---------------------------------------------------------------------------------------


def placed(job: Job) -> Job:
    """A job with what this machine has: the folder of the same content, and the GPU by its name
    here, where a worker sees one alone.
    """
    device = PROCESSES[job.module].device
    if job.arguments[device] != EMULATOR:
        arguments = [*job.arguments[:device], FIRST_GPU, *job.arguments[device + 1 :]]
        job = msgspec.structs.replace(job, arguments=tuple(arguments))
    if job.folder is None:
        return job
    here = str(_folder_here(job.folder))

    def moved(value: Any) -> Any:
        return here if value == job.folder.path else value  # type: ignore[union-attr]

    return msgspec.structs.replace(
        job,
        arguments=tuple(map(moved, job.arguments)),
        request={name: moved(value) for name, value in job.request.items()},
    )


def _folder_here(folder: Folder) -> Path:
    """A folder of this content: the one of that path, else one that is made in the cache."""
    named = Path(folder.path)
    if _holds(named, folder):
        return named
    made = cache_root() / "folders" / folder.digest / named.name
    if _holds(made, folder):
        return made
    shutil.rmtree(made, ignore_errors=True)  # It was altered.
    made.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix=".new-", dir=made.parent)) / named.name
    for name, content in folder.files.items():
        file = new / name
        if not file.resolve().is_relative_to(new.resolve()):
            raise UserError("a file that lies outside of its folder", file=name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    with contextlib.suppress(OSError):  # Another worker of this machine was first.
        new.replace(made)
    shutil.rmtree(new.parent)
    return made


def _holds(path: Path, folder: Folder) -> bool:
    try:
        return path.is_dir() and Folder.of(path).digest == folder.digest
    except OSError:
        return False
