"""A process that does the lab's verbs (`requests.py`) on sources of one kernel task.

It is started by the engine and can be killed at any time.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from astra_tui.emulator.device import Emulator
from astra_tui.gpu.device import CudaDevice
from astra_tui.lab.check.emulator_check import EmulatorCheck
from astra_tui.lab.check.execution import Source, read_source
from astra_tui.lab.check.kernels import kernels_to_compile, workload_cases
from astra_tui.lab.check.oracle import Oracle
from astra_tui.lab.check.runner import Checker
from astra_tui.lab.check.suite import build_suite
from astra_tui.lab.compiler import Compiler, CompilerUnavailable
from astra_tui.lab.devices import Opened, open_device
from astra_tui.lab.explain.profile import profile_source
from astra_tui.lab.explain.sass import disassemble
from astra_tui.lab.on_gpu.bench import Bench, WorkloadDone
from astra_tui.lab.on_gpu.hardware_counters import read_source_counters
from astra_tui.lab.on_gpu.measuring import Chain, MeasurementFailed, Options
from astra_tui.lab.on_gpu.opening import Gpu, open_oracle
from astra_tui.lab.on_gpu.sanitizing import sanitize_source
from astra_tui.lab.on_gpu.workload import Compiled as Launchable
from astra_tui.lab.on_gpu.workload import compile_source
from astra_tui.lab.requests import (
    CaseCount,
    Check,
    Compile,
    Compiled,
    CompileTrials,
    Disassemble,
    Escapes,
    GpuRead,
    LabRequest,
    NamedSource,
    Profile,
    ReadGpu,
    ReadHardware,
    Rest,
    Sanitize,
    Sanitized,
    Time,
    TimedWorkload,
    TimeShipped,
    TimeTrials,
    TrialTimings,
    TryEscapes,
)
from astra_tui.lab.tuning.sweep import FINAL, SCREENING, time_trials
from astra_tui.lab.tuning.trials import TRIAL, compile_trials
from astra_tui.lab.upstream import task_headers, user_packages
from astra_tui.lab.yardsticks import NotBuilt, open_yardsticks
from astra_tui.lab.yardsticks.timing import MIN_ROUNDS, TimedVersion, YardstickTimer
from astra_tui.model.check import CaseResult, CheckReport, StillChecking
from astra_tui.model.compilation import describe_errors
from astra_tui.model.errors import UserError
from astra_tui.model.sass import Disassembly
from astra_tui.model.task import KernelTask, Workload, load_task
from astra_tui.model.task.yardstick import load_yardsticks
from astra_tui.model.timing import Progress
from astra_tui.model.yardsticks import BEST, ChainTimes, ShippedTimes
from astra_tui.processes.escapes import try_escapes
from astra_tui.processes.exit_with_parent import exit_with_parent
from astra_tui.processes.frames import FrameError, read_frame, write_frame
from astra_tui.rpc import ServerUnfit, serve

KEPT_SOURCES = 16
"""How many sources stay opened."""

Replies: TypeAlias = Iterator[msgspec.Struct]


class _Worker:
    def __init__(self, task: KernelTask, opened: Opened, oracle: Oracle, compiler: Compiler):
        self.task = task
        self.opened = opened
        self.compiler = compiler
        self.oracle = oracle
        self.emulator_check = EmulatorCheck(task) if opened.gpu is not None else None
        self.checker = Checker(
            task, opened.device, compiler, oracle, emulator_check=self.emulator_check
        )
        self._bench: Bench | None = None
        self._trials = ""
        """The sweep whose trials it timed last; "" after anything else."""
        self._open = lru_cache(KEPT_SOURCES)(self._read)

    def answer(self, request: LabRequest) -> Replies:
        """The replies that the request's type says."""
        match request:
            case Compile():
                yield self._compile(request)
            case Check():
                yield from self._check(request)
            case Sanitize(source):
                parts = self.task, self.compiler, self.opened
                yield Sanitized(sanitize_source(*parts, source.text, source.file))
            case Profile(source, shapes, may_be_wrong):
                device, checker = self.opened.device, self.checker
                opened, facts = self._open(source), (device.name, device.attributes)
                compiler, judge = self.compiler, None if may_be_wrong else checker.problem_of
                yield profile_source(self.task, opened, compiler, *facts, judge, shapes)
            case Disassemble(source):
                yield self._disassemble(self._open(source))
            case Time():
                yield from self._time(request)
            case ReadGpu():
                gpu = self._gpu
                yield GpuRead(gpu.facts, gpu.identify(), self.compiler.identify())
            case CompileTrials():
                yield from self._compile_trials(request)
            case TimeTrials():
                yield self._time_trials(request)
            case TimeShipped():
                yield from self._time_shipped(request)
            case ReadHardware(source, name):
                self._rest()
                (workload,) = (w for w in self.task.workloads if w.name == name)
                place = self.task, self.compiler, self.opened
                yield read_source_counters(*place, source.text, source.file, workload)
            case Rest():
                self._rest()
            case TryEscapes(targets):
                plain = msgspec.to_builtins(targets)
                yield Escapes(Emulator.thread.run(try_escapes, plain))

    def _read(self, source: NamedSource) -> Source:
        return read_source(self.task, source.text, source.file)

    def _time(self, request: Time) -> Replies:
        bench, base, candidate = self._bench_and_pair(request)
        bench.options = Options(paper=request.final)
        if request.final:
            bench.renew()
        try:
            for event in bench.time(self._workloads(request.workloads), base, [candidate]):
                yield _timed_workload(event) if isinstance(event, WorkloadDone) else event
        except MeasurementFailed as error:
            raise UserError(str(error), file=request.source.file) from None

    def _compile_trials(self, request: CompileTrials) -> Replies:
        arch, upstream = request.arch, self.compiler.upstream
        yield from compile_trials(
            self.task, request.attributes, request.texts,
            lambda: Compiler(arch=arch, upstream=upstream), request.processes,
        )  # fmt: skip

    def _time_trials(self, request: TimeTrials) -> TrialTimings:
        bench = self._opened_bench(request.process)
        bench.options = FINAL if request.final else SCREENING
        base, *trials = (
            Launchable(self._open(NamedSource(one.text, TRIAL)), one.compilation)
            for one in (request.base, *request.trials)
        )
        return time_trials(bench, request.workloads, base, trials)

    def _time_shipped(self, request: TimeShipped) -> Replies:
        bench, base, candidate = self._bench_and_pair(request)
        attributes = self.opened.device.attributes
        packages = user_packages(offline=True)
        arch, declared = bench.facts.arch, load_yardsticks(self.task)
        found = [*open_yardsticks(self.task, declared, self.compiler, arch, packages)]
        not_timed = {one.yardstick.name: one.reason for one in found if isinstance(one, NotBuilt)}
        times = None
        if len(not_timed) < len(found):
            bench.options = Options(warm=False, chain=Chain.PRODUCER, least_rounds=MIN_ROUNDS)
            bench.renew()
            pair = TimedVersion(request.base.file, base), [TimedVersion(BEST, candidate)]
            timer = YardstickTimer(self.task, bench, *pair, found, attributes)
            try:
                for event in timer.time(self.task.workloads):
                    if isinstance(event, Progress):
                        yield event
                    elif isinstance(event, ChainTimes):
                        times = event
            except MeasurementFailed as error:
                raise UserError(str(error), file=request.source.file) from None
        yield ShippedTimes(times, not_timed)

    def _bench_and_pair(self, request: Time | TimeShipped) -> tuple[Bench, Launchable, Launchable]:
        """What times, and the base and the candidate of a request."""
        bench = self._opened_bench()
        attributes = self.opened.device.attributes
        base, candidate = (
            compile_source(self.task, self.compiler, attributes, source.text, source.file)
            for source in (request.base, request.source)
        )
        return bench, base, candidate

    def _opened_bench(self, of_trials: str = "") -> Bench:
        """What times; in a fresh process where trials come after anything else, or others."""
        if self._bench is None:
            gpu = self._gpu
            self._bench = Bench(self.task, gpu.facts, gpu.tools, self.oracle)
        if of_trials and of_trials != self._trials:
            self._bench.renew()
        self._trials = of_trials
        return self._bench

    @property
    def _gpu(self) -> Gpu:
        if self.opened.gpu is None:
            raise UserError("the emulator gives no times")
        return self.opened.gpu

    def settle(self) -> None:
        """Waits until nothing that this process has begun continues by itself."""
        if isinstance(self.opened.device, CudaDevice):
            self.opened.device.settle()

    def close(self) -> None:
        """Ends the processes that hold the GPU, and the emulator's."""
        self._rest()
        if self.emulator_check is not None:
            self.emulator_check.close()

    def _workloads(self, names: tuple[str, ...]) -> tuple[Workload, ...]:
        """Those that were asked for by name; all if none was."""
        return tuple(w for w in self.task.workloads if not names or w.name in names)

    def _rest(self) -> None:
        """Leaves the GPU to the process that measures."""
        if self._bench is not None:
            self._bench.close()
            self._bench = None
        if isinstance(self.opened.device, CudaDevice):
            self.opened.device.close()

    def _draw_from(self, seed: int) -> None:
        """Has the suite's drawn cases follow from a seed: the same one for all of a session."""
        self.checker = self.checker.drawing_from(seed)

    def _compile(self, request: Compile) -> Compiled:
        self._draw_from(request.seed)
        source = self._open(request.source)
        compilation = self.compiler.compile(source.text, self.checker.kernels_of(source))
        return Compiled.of(compilation, source.plan, self.compiler.included(source.text).paths)

    def _disassemble(self, source: Source) -> Disassembly:
        attributes = self.opened.device.attributes
        kernels = kernels_to_compile(self.task, source, workload_cases(self.task), attributes)
        compilation = self.compiler.compile(source.text, kernels)
        if not compilation.ok:
            raise UserError(describe_errors(compilation.errors), file=source.file)
        return disassemble(compilation)

    def _check(self, request: Check) -> Replies:
        self._draw_from(request.seed)
        source = self._open(request.source)
        cases = request.only
        if cases is None:
            cases = (*build_suite(self.task, self.checker.seed), *request.added)
            if request.part is not None:
                for result in self.checker.check_part(source, cases, *request.part):
                    yield msgspec.structs.replace(result, counters=None)
                return
            of_source = self.checker.cases_of(source, cases)
            yield CaseCount(len(cases) + len(of_source.cases))
        else:
            yield CaseCount(len(cases))
        whole, failed = request.only is None, 0
        for event in self.checker.check_source(
            source, cases, whole_suite=whole, known=request.known
        ):
            if isinstance(event, CaseResult):
                yield msgspec.structs.replace(event, counters=None)
                failed += not event.outcome.ok
                if failed and failed == request.failures:
                    return
            elif isinstance(event, CheckReport):
                yield msgspec.structs.replace(event, cases=(), counters=None)
            else:
                yield StillChecking()


def _timed_workload(event: WorkloadDone) -> TimedWorkload:
    base, candidate = ([round(float(t), 5) for t in times] for times in event.rounds_us.T)
    return TimedWorkload(event.timing, tuple(zip(base, candidate, strict=True)))


def main() -> None:
    """Answers requests until the other side is gone."""
    read_fd, write_fd, folder, device, task_hash = (
        int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4], sys.argv[5],
    )  # fmt: skip
    exit_with_parent(read_fd)

    def write(message: Any) -> None:
        write_frame(write_fd, message)

    with ExitStack() as stack, suppress(FrameError):
        try:
            task = _the_task(folder, task_hash)
            compiler = stack.enter_context(Compiler(upstream=task_headers(task)))
        except UserError as error:
            while True:
                read_frame(read_fd)
                serve(_raising(ServerUnfit(error.describe())), write)
        opened = stack.enter_context(open_device(device, compiler))
        oracle = stack.enter_context(open_oracle(task, opened.gpu))
        worker = _Worker(task, opened, oracle, compiler)
        stack.callback(worker.close)
        while True:
            request: LabRequest = msgspec.convert(read_frame(read_fd), LabRequest)
            serve(_settled(worker, request), write)


def _the_task(folder: Path, task_hash: str) -> KernelTask:
    """The task in a folder, if it is still the one that our parent works on. Raises UserError."""
    task = load_task(folder)
    if task.hash != task_hash:
        raise UserError(
            "the task has changed while a session works on it",
            file=str(folder),
            hint="start a new session; results of different task versions are not comparable",
        )
    return task


def _settled(worker: _Worker, request: LabRequest) -> Replies:
    """The replies to a request; nothing continues by itself after the last one."""
    try:
        yield from worker.answer(request)
    except CompilerUnavailable as error:
        raise ServerUnfit(str(error)) from None
    finally:
        worker.settle()


def _raising(error: Exception) -> Replies:
    yield from ()
    raise error


if __name__ == "__main__":
    main()
