"""A child process (`processes/child.py`) on a worker: the same calls, wherever it runs."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from astra_tui.processes.child import ChildDied, ChildTimeout
from astra_tui.workers.jobs import PROCESSES, Ended, Folder, Job
from astra_tui.workers.roster import Use

if TYPE_CHECKING:
    from astra_tui.workers.pool import Done
    from astra_tui.workers.roster import Roster


@dataclass
class Workers:
    """The workers of a cluster, for any thread."""

    submit: Callable[..., Future[Done]]
    """`Pool.ask`, on the loop of the cluster."""
    read_roster: Callable[[], Roster]
    _folders: dict[Path, Folder] = field(default_factory=dict)

    @property
    def roster(self) -> Roster:
        """The workers as they are now."""
        return self.read_roster()

    @property
    def slots(self) -> int:
        """How many jobs they do at a time."""
        return sum(m.slots for m in self.roster.members.values())

    @property
    def gpus(self) -> int:
        """How many timings they take at a time."""
        return sum(bool(m.gpu) for m in self.roster.members.values())

    def start(self, module: str, arguments: tuple[str, ...] = (), name: str = "") -> RemoteChild:
        """A process of ours on some worker, as Child is one of this machine."""
        return RemoteChild(self, module, arguments, name)

    def folder(self, path: Path) -> Folder:
        """A folder as it was when it was first named."""
        if path not in self._folders:
            self._folders[path] = Folder.of(path)
        return self._folders[path]

    def ask(self, job: Job, use: Use = Use.CPU, prefer: str = "") -> Done:
        """Has a worker do a job; see `Pool.ask`."""
        future = self.submit(job, use, prefer)
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
        proof = served.proof(request)
        job = Job("", "", self.module, self.arguments, request, folder, silence, cpu, proof)
        use = served.use(self.arguments, request)
        prefer = self.last.worker.address if self.last is not None else ""
        with self._lock:
            if self._killed:
                raise ChildDied(f"{self.name} was ended")
            self._future = self._workers.submit(job, use, prefer)
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
