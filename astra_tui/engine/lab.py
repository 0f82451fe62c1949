"""The lab as the loop sees it: awaitable, and gone within milliseconds of a cancel."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import msgspec

from astra_tui.engine.concurrency import ReadWriteLock
from astra_tui.model.check import Case, CaseResult, CheckReport, CheckVerdict
from astra_tui.model.compilation import Compilation
from astra_tui.model.errors import Place, UserError
from astra_tui.model.machine_code import Profiled
from astra_tui.model.ncu import NcuReport
from astra_tui.model.sanitizer import SanitizerReport
from astra_tui.model.settings import EMULATOR
from astra_tui.model.task import KernelTask
from astra_tui.model.timing import Timing, WorkloadTiming
from astra_tui.model.yardsticks import ShippedTimes
from astra_tui.processes.child import Child, ChildDied, ChildTimeout

COMPILE_SECONDS = 120.0
CASE_SECONDS = 120.0
"""How long the lab may be silent during a check or a profile, in seconds of its CPU time."""

CHECK_SECONDS = 300.0
"""What one check may take in all, in seconds of the lab process's CPU time."""

TIMING_SECONDS = 300.0
"""How long one step of a timing may take; building graphs and the first floors are the longest."""

SANITIZER_SECONDS = 1800.0
"""For all four tools. Each run of one has a limit of its own; this is for our process alone."""

HARDWARE_SECONDS = 300.0
"""For reading hardware counters: ncu replays every launch many times, and has limits of its own."""

LabEvent = Compilation | int | CaseResult | CheckReport
"""What a check tells: the compilation, the number of cases, each case, at last the report."""


@dataclass(frozen=True)
class TimedWorkload:
    """One workload of a timing, with its samples."""

    timing: WorkloadTiming
    rounds: tuple[tuple[float, float], ...]


TimingStep = dict[str, Any] | TimedWorkload | Timing
"""What a timing tells: progress (fields of RoundsTimed), each workload, at last all of them."""


@dataclass(frozen=True)
class NamedSource:
    """A source with the name that messages give it."""

    text: str
    file: str


class LabFailed(Exception):
    """The lab itself failed, not the candidate; the message says how."""


class LabEnded(UserError):
    """A lab process did not survive a candidate, and a fresh one is well."""


class Lab:
    """Lab processes of one task on one device. Each candidate is served by one; idle ones wait.

    On a GPU candidates are checked side by side, but timed alone: a timing waits until no check
    runs, and no check starts before it has ended.
    """

    def __init__(
        self,
        task: KernelTask,
        device: str = EMULATOR,
        processes: int = 1,
        quiet: Callable[[], AbstractContextManager[None]] = nullcontext,
        seed: int = 0,
    ):
        """`quiet` keeps others from disturbing a timing. Drawn cases follow from `seed`."""
        self.device = device
        self._seed = seed
        self._quiet = quiet
        self._task = task
        self._free: list[Child] = []
        self._timers: list[Child] = []
        """The process that times, kept apart: it holds a warm GPU process from one to the next."""
        self._slots = asyncio.Semaphore(processes + self.has_times)
        self._holding: dict[Child, tuple[int, ...]] = {}
        """Ids of the processes through which each has hold of the GPU."""
        self._gpu_lock = ReadWriteLock()
        self._taking = asyncio.Lock()
        """Held while idle processes are spoken to, so that no one takes one meanwhile."""

    @property
    def has_times(self) -> bool:
        """Whether the device gives times."""
        return self.device != EMULATOR

    @property
    def idle(self) -> tuple[Child, ...]:
        """The processes that wait for work."""
        return tuple(self._free)

    async def compile(self, text: str, file: str) -> Compilation:
        """Compiles a source, without running anything. Raises UserError for a bad launch plan."""
        request = {"text": text, "file": file, "seed": self._seed}
        answer = await self._answer("compile", COMPILE_SECONDS, **request)
        return _compilation(answer["compilation"])

    async def check(
        self,
        text: str,
        file: str,
        added: tuple[Case, ...],
        seed: int | None = None,
        known: tuple[CaseResult, ...] = (),
    ) -> AsyncIterator[LabEvent]:
        """Checks a source against the task's suite and the added cases, event by event.

        Cases are drawn from `seed`; by default from that of all checks. Those with `known`
        results, of a check that was cut off, do not run again.
        """
        seed = self._seed if seed is None else seed
        cases = msgspec.to_builtins(added)
        request = {"text": text, "file": file, "cases": cases, "seed": seed}
        if known:
            request["known"] = msgspec.to_builtins(known)
        async with self._gpu_lock.read() if self.has_times else nullcontext():
            try:
                async for key, value in self._ask("check", CASE_SECONDS, **request):
                    match key:
                        case "compilation":
                            yield _compilation(value)
                        case "cases":
                            yield int(value)
                        case "case":
                            yield msgspec.convert(value, CaseResult)
                        case "report":
                            yield msgspec.convert(value, CheckReport)
            except LabEnded as error:
                yield self._unfinished(text, file, error.message)

    def _unfinished(self, text: str, file: str, message: str) -> CheckReport:
        """The report of a check that its process did not survive."""
        digest = hashlib.sha256(text.encode()).hexdigest()
        names = self._task.name, self._task.hash, file, digest, self.device, ""
        return CheckReport(*names, CheckVerdict.INCONCLUSIVE, message, (), (), (), (), None, 0.0)

    async def sanitize(self, text: str, file: str) -> tuple[SanitizerReport, ...]:
        """Has compute-sanitizer watch a source that passed its check; one report a tool.

        Raises UserError for a source that cannot be run.
        """
        async with self._gpu_lock.read() if self.has_times else nullcontext():
            answer = await self._answer("sanitize", SANITIZER_SECONDS, text=text, file=file)
        return msgspec.convert(answer["sanitizer"], tuple[SanitizerReport, ...])

    async def read_hardware(self, text: str, file: str, workload: str) -> NcuReport:
        """Hardware counters of a correct source on a workload, or why there are none.

        Nothing else of ours uses the GPU meanwhile. Raises UserError for a source that cannot be
        run.
        """
        request = {"text": text, "file": file, "workload": workload}
        async with self._gpu_lock.write():
            await self.release_gpu()
            with self._quiet():
                answer = await self._answer("hardware", HARDWARE_SECONDS, **request)
        return msgspec.convert(answer["hardware"], NcuReport)

    async def profile(self, text: str, file: str) -> Profiled:
        """Profile and machine code of a correct source.

        Raises UserError when a workload cannot be run.
        """
        answer = await self._answer("profile", CASE_SECONDS, text=text, file=file)
        return msgspec.convert(answer["profile"], Profiled)

    async def time(
        self,
        base: NamedSource,
        candidate: NamedSource,
        *,
        final: bool = False,
        workloads: tuple[str, ...] = (),
    ) -> AsyncIterator[TimingStep]:
        """Times a candidate against a base on the named workloads, or on all.

        Both have passed their checks. A `final` timing is taken in a fresh process, and by the
        paper's protocol as well.

        Raises UserError when a workload cannot be timed.
        """
        request = {
            "text": candidate.text,
            "file": candidate.file,
            "base_text": base.text,
            "base_file": base.file,
            "final": final,
            "workloads": workloads,
        }
        async with self._gpu_lock.write():
            request["idle_processes"] = self._idle_gpu_processes()
            with self._quiet():
                async for key, value in self._ask("time", TIMING_SECONDS, self._timers, **request):
                    yield _timing_step(key, value)

    async def time_shipped(self, base: NamedSource, best: NamedSource) -> ShippedTimes:
        """Times the best candidate against the yardsticks that are in the cache, after a producer.

        Base and best have passed their checks. Raises UserError when a workload cannot be timed.
        """
        pair = {
            "text": best.text,
            "file": best.file,
            "base_text": base.text,
            "base_file": base.file,
        }
        async with self._gpu_lock.write():
            idle, timers = self._idle_gpu_processes(), self._timers
            with self._quiet():
                steps = self._ask(
                    "time_shipped", TIMING_SECONDS, timers, idle_processes=idle, **pair
                )
                told = {key: value async for key, value in steps}
        return msgspec.convert(told["shipped"], ShippedTimes)

    async def release_gpu(self) -> None:
        """Has the idle processes leave the GPU, which would count as others in a measurement."""
        async with self._taking:
            for child in tuple(self._free):
                try:
                    answer = await _in_thread(child, child.ask, {"do": "rest"}, CASE_SECONDS)
                    self._holding[child] = tuple(answer["gpu_processes"])
                except (ChildDied, ChildTimeout):  # It holds no GPU any more either.
                    self._free.remove(child)

    def _idle_gpu_processes(self) -> tuple[int, ...]:
        """Those that hold the GPU while others are timed: all but the one that times."""
        others = (p for c, p in self._holding.items() if c.running and c not in self._timers)
        return tuple(chain.from_iterable(others))

    def close(self) -> None:
        """Ends the processes."""
        for pool in (self._free, self._timers):
            while pool:
                pool.pop().close()

    async def _answer(self, do: str, seconds: float, **request: Any) -> dict[str, Any]:
        """All that is answered to a request, to its end: a process left in the middle is killed."""
        return {key: value async for key, value in self._ask(do, seconds, **request)}

    async def _ask(
        self, do: str, seconds: float, pool: list[Child] | None = None, **request: Any
    ) -> AsyncIterator[tuple[str, Any]]:
        async with self._child(self._free if pool is None else pool) as child:
            await _in_thread(child, child.send, {"do": do, **request}, seconds)
            receive, used = partial(child.receive, cpu=not self.has_times), child.cpu_seconds
            while True:
                if do == "check" and child.cpu_seconds - used > CHECK_SECONDS:
                    child.kill()
                    raise ChildTimeout(f"the check took more than {CHECK_SECONDS:g} s of CPU time")
                message = await _in_thread(child, receive, seconds)
                self._holding[child] = tuple(message.pop("gpu_processes", ()))
                if "done" in message:
                    return
                if "error" in message:
                    raise _error(message)
                (pair,) = ((k, v) for k, v in message.items())
                yield pair

    @asynccontextmanager
    async def _child(self, pool: list[Child]) -> AsyncIterator[Child]:
        async with self._slots:
            async with self._taking:
                child = pool.pop() if pool else self._new()
            try:
                yield child
            except UserError:
                pool.append(child)
                raise
            except (ChildTimeout, ChildDied) as error:
                self._holding.pop(child, None)
                raise await self._blame(error) from None
            except BaseException:
                self._holding.pop(child, None)
                child.kill()
                child.close()
                raise
            else:
                pool.append(child)

    async def _blame(self, error: ChildTimeout | ChildDied) -> Exception:
        """What the end of a process means: the candidate's doing, where a fresh process is well.

        Otherwise every candidate would be blamed for a lab that does not work.
        """
        fresh = self._new()
        try:
            await _in_thread(fresh, fresh.ask, {"do": "rest"}, CASE_SECONDS)
        except (ChildTimeout, ChildDied):
            return LabFailed(str(error))
        finally:
            fresh.close()
        return LabEnded(str(error), hint="the session continues without it")

    def _new(self) -> Child:
        folder = str(self._task.folder.resolve())
        facts = folder, self.device, self._task.hash
        return Child("astra_tui.lab.worker", facts, name="the lab process")


async def _in_thread(child: Child, call: Any, *arguments: Any) -> Any:
    """Runs a blocking call of a child; a cancel kills the child and waits for the thread to see."""
    future = asyncio.get_running_loop().run_in_executor(None, call, *arguments)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        child.kill()
        await asyncio.wait([future])
        future.exception()
        raise


def _compilation(value: dict[str, Any]) -> Compilation:
    ok = value.pop("ok")
    compilation = msgspec.convert(value, Compilation)
    # The code stays in the lab; a mark in its place keeps `ok` true.
    return msgspec.structs.replace(compilation, ptx="(in the lab)") if ok else compilation


def _timing_step(key: str, value: Any) -> TimingStep:
    match key:
        case "workload":
            rounds = tuple((b, c) for b, c in value["rounds"])
            return TimedWorkload(msgspec.convert(value["timing"], WorkloadTiming), rounds)
        case "timing":
            return msgspec.convert(value, Timing)
    progress: dict[str, Any] = value
    return progress


def _error(message: dict[str, Any]) -> Exception:
    if message.get("unavailable"):
        return LabFailed(message["error"])
    return UserError(
        message["error"],
        file=message["file"],
        place=Place(message["line"], message["column"]),
        hint=message["hint"],
    )
