"""A child process (`processes/child.py`) on a worker: the same calls, wherever it runs."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from astra_tui.lab.devices import DeviceChoice
from astra_tui.model.errors import DeviceMissing
from astra_tui.model.settings import AUTO_DEVICE, EMULATOR, FIRST_GPU, check_device_name
from astra_tui.model.workers import WorkersStatus
from astra_tui.processes.child import ChildDied, ChildTimeout
from astra_tui.workers.jobs import PROCESSES, Ended, Folder, Job

if TYPE_CHECKING:
    from astra_tui.workers.pool import Done
    from astra_tui.workers.roster import Need, Roster, Use


@dataclass
class Workers:
    """The workers of a cluster, for any thread."""

    submit: Callable[..., Future[Done]]
    """`Pool.ask`, on the loop of the cluster."""
    read_roster: Callable[[], Roster]
    read_waiting: Callable[[], Mapping[Use, int]]
    kind: str = ""
    """The name of the GPUs that get jobs for a GPU; "" for any."""
    _folders: dict[Path, Folder] = field(default_factory=dict)

    @property
    def roster(self) -> Roster:
        """The workers as they are now."""
        return self.read_roster()

    @property
    def status(self) -> WorkersStatus:
        """What they are at now, and what waits."""
        return self.roster.status(self.read_waiting())

    @property
    def slots(self) -> int:
        """How many jobs they do at a time."""
        return sum(m.slots for m in self.roster.members.values())

    @property
    def gpus(self) -> int:
        """How many timings they take at a time."""
        members = self.roster.members.values()
        return sum(bool(m.gpu) and self.kind in ("", m.kind) for m in members)

    def of_kind(self, kind: str) -> Workers:
        """The same ones, but that a GPU's job goes to GPUs of this name alone."""
        return replace(self, kind=kind)

    def device(self, name: str, kind: str = "") -> DeviceChoice:
        """What `--device` means on them: a GPU of a kind if there is one, else of the kind of which
        there are most; this machine needs none. Raises UserError.
        """
        check_device_name(name)
        kinds = self.roster.kinds
        if name == EMULATOR or (name == AUTO_DEVICE and not kinds):
            return DeviceChoice()
        if not kinds:
            raise DeviceMissing(
                f"there is no device '{name}': no worker has a GPU",
                hint="--workers local starts one for each GPU here; see docs/workers.md",
            )
        wanted = kind if kind in kinds else kinds[0]
        found = (m.device for m in self.roster.members.values() if m.kind == wanted)
        return DeviceChoice(FIRST_GPU, far=next(found))

    def start(self, module: str, arguments: tuple[str, ...] = (), name: str = "") -> RemoteChild:
        """A process of ours on some worker, as Child is one of this machine."""
        return RemoteChild(self, module, arguments, name)

    def folder(self, path: Path) -> Folder:
        """A folder as it was when it was first named."""
        if path not in self._folders:
            self._folders[path] = Folder.of(path)
        return self._folders[path]

    def ask(self, job: Job, need: Need, prefer: str = "") -> Done:
        """Has a worker do a job; see `Pool.ask`."""
        future = self.submit(job, need, prefer)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise


class RemoteChild:
    """`python -m MODULE` on a worker: a request is sent to one that is free, by preference again
    to the one that did the last. Where it is lost, another one starts over, and what the first had
    said is not read.
    """

    def __init__(self, workers: Workers, module: str, arguments: tuple[str, ...], name: str):
        self.module, self.arguments, self.name = module, arguments, name
        self.cpu_seconds = 0.0
        self.last: Done | None = None
        """The last answer, with its worker."""
        self._workers = workers
        self._lock = threading.Lock()
        self._asked: Any = None
        self._future: Future[Done] | None = None
        self._messages: deque[Any] = deque()
        self._killed = False

    @property
    def running(self) -> bool:
        """Whether a request is being answered."""
        return self._future is not None and not self._future.done()

    @property
    def pid(self) -> int:
        """None of this machine."""
        return 0

    def send(self, message: Any, seconds: float) -> None:
        """Takes a request, which is sent when its first answer is waited for."""
        del seconds
        self._asked = message
        self._messages.clear()
        self._killed = False

    def receive(self, seconds: float, *, cpu: bool = False) -> Any:
        """The next message of the answer, all of which comes at once.

        `seconds` is how long the process may be silent at its worker. Raises ChildDied and
        ChildTimeout as Child does, and WorkersFailed.
        """
        if self._asked is not None:
            asked, self._asked = self._asked, None
            self._ask(asked, seconds, cpu)
        if not self._messages:
            raise ChildDied(f"{self.name} said nothing more")
        return self._messages.popleft()

    def kill(self) -> None:
        """Ends the process at once, from any thread; a caller that waits for it gets ChildDied."""
        with self._lock:
            self._killed = True
            future = self._future
        if future is not None:
            future.cancel()

    def close(self) -> None:
        """Ends what it is at; idle processes are the workers' own."""
        self.kill()

    def _ask(self, request: Any, silence: float, cpu: bool) -> None:
        served = PROCESSES[self.module]
        folder = self._workers.folder(served.folder(self.arguments, request))
        proof, words = served.proof(request), served.words(request)
        parts = self.module, self.arguments, request, folder, silence, cpu, proof, words
        job, need = Job("", "", *parts), served.need(self.arguments, request, self._workers.kind)
        prefer = self.last.worker.address if self.last is not None else ""
        with self._lock:
            if self._killed:
                raise ChildDied(f"{self.name} was ended")
            self._future = self._workers.submit(job, need, prefer)
        try:
            done = self._future.result()
        except BaseException as error:
            self._future.cancel()
            if self._killed:
                raise ChildDied(f"{self.name} was ended") from None
            raise error
        self.last = done
        answer = done.answer
        self.cpu_seconds += answer.cpu_seconds
        where = f" (on {done.worker.name})"
        if answer.ended is Ended.DIED:
            raise ChildDied(answer.message + where)
        if answer.ended is Ended.TIMED_OUT:
            raise ChildTimeout(answer.message + where)
        self._messages.extend(
            msgspec.to_builtins(m, builtin_types=(bytes,)) for m in answer.messages
        )
