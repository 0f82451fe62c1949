"""The lab as the loop sees it: awaitable, and gone within milliseconds of a cancel."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    nullcontext,
)
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from astra_tui.engine.concurrency import ReadWriteLock
from astra_tui.lab.requests import (
    CaseCount,
    Check,
    Compile,
    Compiled,
    Disassemble,
    NamedSource,
    Profile,
    ReadHardware,
    Rest,
    Sanitize,
    Time,
    TimedWorkload,
    TimeShipped,
)
from astra_tui.model.check import Case, CaseResult, CheckReport, CheckVerdict, StillChecking
from astra_tui.model.counters import NcuReport
from astra_tui.model.digest import content_hash
from astra_tui.model.errors import UserError
from astra_tui.model.findings import SanitizerReport
from astra_tui.model.sass import Disassembly
from astra_tui.model.settings import EMULATOR
from astra_tui.model.task import KernelTask, Workload
from astra_tui.model.timing import Progress, Timing
from astra_tui.model.verdict import Profiled
from astra_tui.model.yardsticks import ShippedTimes
from astra_tui.processes.child import (
    AnyChild,
    Child,
    ChildDied,
    ChildTimeout,
    StartChild,
    in_thread,
)
from astra_tui.rpc import Call, Request, ServerUnfit

if TYPE_CHECKING:
    from astra_tui.workers import Workers

R = TypeVar("R")

LabEvent = CaseCount | CaseResult | CheckReport
"""What a check tells: the number of cases, each case, at last the report."""

TimingStep = Progress | TimedWorkload | Timing
"""What a timing tells: progress, each workload, at last all of them."""


class LabFailed(Exception):
    """The lab itself failed, not the candidate; the message says how."""


class LabEnded(UserError):
    """A lab process did not survive a candidate, and a fresh one is well."""


class Lab:
    """Lab processes of one task on one device. Each candidate is served by one; idle ones wait.

    On a GPU candidates are checked side by side, but timed alone: a timing waits until no check
    runs, and no check starts before it has ended. With other sessions on the same GPU the lab's
    processes agree by themselves (`processes/shared_device.py`).
    """

    def __init__(
        self,
        task: KernelTask,
        device: str = EMULATOR,
        processes: int = 1,
        quiet: Callable[[], AbstractContextManager[None]] = nullcontext,
        seed: int = 0,
        workers: Workers | None = None,
    ):
        """`quiet` keeps others from disturbing a timing. Drawn cases follow from `seed`.

        With `workers` these start all processes, and see to it that a timing has its GPU alone.
        """
        self._workers = workers
        self.device = device
        self.seed = seed
        self._quiet = quiet
        self.task = task
        self._free: list[AnyChild] = []
        self._timers: list[AnyChild] = []
        """The process that times, kept apart: it holds a warm GPU process from one to the next."""
        if workers is not None:
            processes = workers.slots + workers.gpus
        self._slots = asyncio.Semaphore(processes + self.has_times)
        self._gpu_lock = ReadWriteLock()
        self._taking = asyncio.Lock()
        """Held while idle processes are spoken to, so that no one takes one meanwhile."""

    @property
    def has_times(self) -> bool:
        """Whether the device gives times."""
        return self.device != EMULATOR

    @property
    def jobs_at_once(self) -> int:
        """How many processes work at a time, next to those that time: of workers alone."""
        return self._workers.slots if self._workers is not None else 1

    @property
    def timings_at_once(self) -> int:
        """On how many GPUs is measured at a time."""
        return max(1, self._workers.gpus) if self._workers is not None else 1

    @property
    def without_device(self) -> Lab:
        """Where work is done that needs no device, and may be far from it."""
        if self._workers is None:
            return self
        return Lab(self.task, EMULATOR, seed=self.seed, workers=self._workers)

    @property
    def idle(self) -> tuple[AnyChild, ...]:
        """The processes that wait for work."""
        return tuple(self._free)

    def open(self, source: NamedSource) -> OpenedSource:
        """A source on which the lab's verbs work."""
        return OpenedSource(self, source)

    async def release_gpu(self) -> None:
        """Has the idle processes leave the GPU, and give back what they keep of its memory."""
        if self._workers is not None:
            return
        async with self._taking:
            for child in tuple(self._free):
                try:
                    await self._finish(child, Rest())
                except (ChildDied, ChildTimeout):  # It holds no GPU any more either.
                    self._free.remove(child)

    def close(self) -> None:
        """Ends the processes."""
        for pool in (self._free, self._timers):
            while pool:
                pool.pop().close()

    def use_gpu(self) -> AbstractAsyncContextManager[None]:
        """Holds while candidates run on a GPU side by side, and nothing is timed."""
        shared = self.has_times and self._workers is None
        return self._gpu_lock.read() if shared else nullcontext()

    @asynccontextmanager
    async def alone_on_gpu(self) -> AsyncIterator[None]:
        """Holds while nothing else of this session uses the GPU."""
        if self._workers is not None:
            yield
            return
        async with self._gpu_lock.write():
            with self._quiet():
                yield

    async def one(self, request: Request[R]) -> R:
        """The one reply to a request. Raises as `ask` does."""
        replies = [reply async for reply in self.ask(request)]
        (reply,) = replies
        return reply

    async def ask(self, request: Request[R], *, timed: bool = False) -> AsyncIterator[R]:
        """The replies to a request, by an idle process or the one that times.

        A process that is left in the middle of them is killed. Raises LabEnded for one that did not
        survive the request, LabFailed where no process would, and UserError as the lab says.
        """
        async with self._child(self._timers if timed else self._free) as child:
            call = Call(child, request, cpu=not self.has_times)
            await in_thread(child, call.begin)
            while (reply := await self._receive(child, call)) is not None:
                yield reply

    async def _receive(self, child: AnyChild, call: Call[R]) -> R | None:
        try:
            return await in_thread(child, call.receive)
        except ServerUnfit as error:
            raise LabFailed(str(error)) from None

    async def _finish(self, child: AnyChild, request: Request[R]) -> None:
        """Has a process do something, to its end."""
        call = Call(child, request)
        await in_thread(child, call.begin)
        while await self._receive(child, call) is not None:
            pass

    @asynccontextmanager
    async def _child(self, pool: list[AnyChild]) -> AsyncIterator[AnyChild]:
        async with self._slots:
            async with self._taking:
                child = pool.pop() if pool else self._new()
            try:
                yield child
            except UserError:
                pool.append(child)
                raise
            except (ChildTimeout, ChildDied, TimeoutError) as error:
                child.close()
                raise await self._blame(error) from None
            except BaseException:
                child.kill()
                child.close()
                raise
            else:
                pool.append(child)

    async def _blame(self, error: Exception) -> Exception:
        """What the end of a process means: the candidate's doing, where a fresh process is well.

        Otherwise every candidate would be blamed for a lab that does not work.
        """
        fresh = self._new()
        try:
            await self._finish(fresh, Rest())
        except (ChildTimeout, ChildDied, LabFailed):
            return LabFailed(str(error))
        finally:
            fresh.close()
        return LabEnded(str(error), hint="the session continues without it")

    def _new(self) -> AnyChild:
        folder = str(self.task.folder.resolve())
        facts = folder, self.device, self.task.hash
        start: StartChild = Child if self._workers is None else self._workers.start
        return start("astra_tui.lab.worker", facts, "the lab process")


@dataclass(frozen=True)
class OpenedSource:
    """A source in a lab. Its verbs raise LabFailed, and LabEnded with the lab's process."""

    lab: Lab
    source: NamedSource

    async def compile(self) -> Compiled:
        """Compiles it, without running anything. Raises UserError for a bad launch plan."""
        return await self.lab.one(Compile(self.source, self.lab.seed))

    async def check(
        self,
        added: tuple[Case, ...] = (),
        seed: int | None = None,
        known: tuple[CaseResult, ...] = (),
    ) -> AsyncIterator[LabEvent]:
        """Checks it against the task's suite and the added cases, event by event.

        Cases are drawn from `seed`; by default from that of all checks. Those with `known`
        results, of a check that was cut off, do not run again.
        """
        seed = self.lab.seed if seed is None else seed
        async with self.lab.use_gpu():
            try:
                async for event in self.lab.ask(Check(self.source, added, seed, known)):
                    if not isinstance(event, StillChecking):
                        yield event
            except LabEnded as error:
                yield self._unfinished(error.message)

    async def check_cases(
        self, cases: tuple[Case, ...], failures: int = 0
    ) -> AsyncIterator[LabEvent]:
        """Checks it on some cases alone, and stops after so many failed ones, with no report."""
        async with self.lab.use_gpu():
            request = Check(self.source, seed=self.lab.seed, only=cases, failures=failures)
            async for event in self.lab.ask(request):
                if not isinstance(event, StillChecking):
                    yield event

    def _unfinished(self, message: str) -> CheckReport:
        """The report of a check that its process did not survive."""
        task, digest = self.lab.task, content_hash(self.source.text)
        names = task.name, task.hash, self.source.file, digest, self.lab.device, ""
        return CheckReport(*names, CheckVerdict.INCONCLUSIVE, message, (), (), (), (), None, 0.0)

    async def sanitize(self) -> tuple[SanitizerReport, ...]:
        """Has compute-sanitizer watch it, once it has passed its check; one report a tool.

        Raises UserError for a source that cannot be run.
        """
        async with self.lab.use_gpu():
            return (await self.lab.one(Sanitize(self.source))).reports

    async def read_hardware(self, workload: str) -> NcuReport:
        """Its hardware counters on a workload, or why there are none, once it has passed.

        Nothing else of ours uses the GPU meanwhile. Raises UserError where it cannot be run.
        """
        async with self.lab.alone_on_gpu():
            await self.lab.release_gpu()
            return await self.lab.one(ReadHardware(self.source, workload))

    async def profile(
        self, shapes: tuple[Workload, ...] = (), *, may_be_wrong: bool = False
    ) -> Profiled:
        """Its profile and machine code, on every workload or on some shapes, where its outputs are
        right there or may be wrong.

        Raises UserError when one of them cannot be run.
        """
        return await self.lab.one(Profile(self.source, shapes, may_be_wrong))

    async def disassemble(self) -> Disassembly:
        """The machine code of the kernels that workloads use. Raises UserError without any."""
        return await self.lab.one(Disassemble(self.source))

    async def time(
        self, base: NamedSource, *, final: bool = False, workloads: tuple[str, ...] = ()
    ) -> AsyncIterator[TimingStep]:
        """Times it against a base on the named workloads, or on all.

        Both have passed their checks. A `final` timing is taken in a fresh process, and by the
        paper's protocol as well.

        Raises UserError when a workload cannot be timed.
        """
        async with self.lab.alone_on_gpu():
            request = Time(base, self.source, final, workloads)
            async for step in self.lab.ask(request, timed=True):
                yield step

    async def time_shipped(self, base: NamedSource) -> ShippedTimes:
        """Times it against the yardsticks that are in the cache, after a producer.

        Both sources passed their checks. Raises UserError when a workload cannot be timed.
        """
        async with self.lab.alone_on_gpu():
            request = TimeShipped(base, self.source)
            steps = [step async for step in self.lab.ask(request, timed=True)]
        (shipped,) = (step for step in steps if isinstance(step, ShippedTimes))
        return shipped
