"""A process that compiles, checks, profiles and times candidates of one kernel task.

It is started by the engine and can be killed at any time. Requests are maps with a "do"; answers
are maps of which the last has "done" or "error".
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import msgspec

from astra_tui.emulator.device import Emulator
from astra_tui.gpu.device import CudaDevice
from astra_tui.lab.check.emulator_check import EmulatorCheck
from astra_tui.lab.check.execution import read_source
from astra_tui.lab.check.oracle import Oracle
from astra_tui.lab.check.runner import Checker
from astra_tui.lab.check.suite import build_suite
from astra_tui.lab.compiler import Compiler, CompilerUnavailable
from astra_tui.lab.devices import Opened, open_device
from astra_tui.lab.explain.profile import profile_source
from astra_tui.lab.on_gpu.bench import Bench, BenchEvent, WorkloadDone
from astra_tui.lab.on_gpu.compiling import compile_source
from astra_tui.lab.on_gpu.hardware_counters import read_source_counters
from astra_tui.lab.on_gpu.measuring import Chain, MeasurementFailed, Options, Progress
from astra_tui.lab.on_gpu.opening import open_oracle
from astra_tui.lab.on_gpu.sanitizing import sanitize_source
from astra_tui.lab.on_gpu.workload import Compiled
from astra_tui.lab.upstream import task_headers, user_packages
from astra_tui.lab.yardsticks import NotBuilt, open_yardsticks
from astra_tui.lab.yardsticks.timing import MIN_ROUNDS, TimedVersion, YardstickTimer
from astra_tui.model.check import Case, CaseResult, CheckReport
from astra_tui.model.compilation import Compilation
from astra_tui.model.errors import UserError
from astra_tui.model.machine_code import Profiled
from astra_tui.model.ncu import NcuReport
from astra_tui.model.sanitizer import SanitizerReport
from astra_tui.model.task import KernelTask, Workload, load_task
from astra_tui.model.task.yardstick_file import load_yardsticks
from astra_tui.model.yardsticks import BEST, ChainTimes, ShippedTimes
from astra_tui.processes.escapes import try_escapes
from astra_tui.processes.exit_with_parent import exit_with_parent
from astra_tui.processes.frames import FrameError, read_frame, write_frame


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

    def answer(self, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
        match request["do"]:
            case "compile":
                self._draw_from(request["seed"])
                yield self._compile(request["text"], request["file"])
            case "check":
                self._draw_from(request["seed"])
                yield from self._check(request)
            case "sanitize":
                yield {"sanitizer": msgspec.to_builtins(self._sanitize(request))}
            case "profile":
                yield {"profile": msgspec.to_builtins(self._profile(request))}
            case "time":
                yield from self._time(request)
            case "time_shipped":
                yield from self._time_shipped(request)
            case "hardware":
                yield {"hardware": msgspec.to_builtins(self._hardware(request))}
            case "rest":
                self._rest()
            case "escapes":
                yield {"escapes": Emulator.thread.run(try_escapes, request["targets"])}
            case other:
                raise UserError(f"this process does not know how to do {other!r}")

    def _sanitize(self, request: dict[str, Any]) -> tuple[SanitizerReport, ...]:
        source = request["text"], request["file"]
        return sanitize_source(self.task, self.compiler, self.opened, *source)

    def _hardware(self, request: dict[str, Any]) -> NcuReport:
        self._rest()
        (workload,) = (w for w in self.task.workloads if w.name == request["workload"])
        source = request["text"], request["file"]
        return read_source_counters(self.task, self.compiler, self.opened, *source, workload)

    def _profile(self, request: dict[str, Any]) -> Profiled:
        source = read_source(self.task, request["text"], request["file"])
        device = self.opened.device
        return profile_source(
            self.task,
            source,
            self.compiler,
            device.name,
            device.attributes,
            self.checker.problem_of,
        )

    def _time(self, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
        bench, base, candidate = self._bench_and_pair(request)
        bench.options = Options(paper=request["final"])
        if request["final"]:
            bench.renew()
        try:
            for event in bench.time(self._workloads(request), base, [candidate]):
                yield _timing_message(event)
        except MeasurementFailed as error:
            raise UserError(str(error), file=request["file"]) from None

    def _time_shipped(self, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """A candidate against the baseline and the yardsticks that are in the cache."""
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
            pair = TimedVersion(request["base_file"], base), [TimedVersion(BEST, candidate)]
            timer = YardstickTimer(self.task, bench, *pair, found, attributes)
            try:
                for event in timer.time(self.task.workloads):
                    if isinstance(event, Progress):
                        yield _timing_message(event)
                    elif isinstance(event, ChainTimes):
                        times = event
            except MeasurementFailed as error:
                raise UserError(str(error), file=request["file"]) from None
        yield {"shipped": msgspec.to_builtins(ShippedTimes(times, not_timed))}

    def _bench_and_pair(self, request: dict[str, Any]) -> tuple[Bench, Compiled, Compiled]:
        """What times, and the base and the candidate of a request."""
        bench = self._opened_bench()
        bench.idle_processes = tuple(request["idle_processes"])
        attributes = self.opened.device.attributes
        base, candidate = (
            compile_source(self.task, self.compiler, attributes, text, file)
            for text, file in (
                (request["base_text"], request["base_file"]),
                (request["text"], request["file"]),
            )
        )
        return bench, base, candidate

    def _opened_bench(self) -> Bench:
        gpu = self.opened.gpu
        if gpu is None:
            raise UserError("the emulator gives no times")
        if self._bench is None:
            self._bench = Bench(self.task, gpu.facts, gpu.tools, self.oracle)
        return self._bench

    def settle(self) -> None:
        """Waits until nothing that this process has begun continues by itself."""
        if isinstance(self.opened.device, CudaDevice):
            self.opened.device.settle()

    @property
    def gpu_processes(self) -> tuple[int, ...]:
        """Ids of the processes of this one that hold the GPU."""
        of_bench = self._bench.gpu_processes if self._bench is not None else ()
        device = self.opened.device
        of_device = device.gpu_processes if isinstance(device, CudaDevice) else ()
        of_oracle = (self.oracle.pid,) if self.opened.gpu is not None and self.oracle.pid else ()
        return (*of_bench, *of_device, *of_oracle)

    def close(self) -> None:
        """Ends the processes that hold the GPU, and the emulator's."""
        self._rest()
        if self.emulator_check is not None:
            self.emulator_check.close()

    def _workloads(self, request: dict[str, Any]) -> tuple[Workload, ...]:
        """Those that were asked for by name; all if none was."""
        named = request["workloads"]
        return tuple(w for w in self.task.workloads if not named or w.name in named)

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

    def _compile(self, text: str, file: str) -> dict[str, Any]:
        expressions = self.checker.kernels_of(read_source(self.task, text, file))
        return {"compilation": _without_code(self.compiler.compile(text, expressions))}

    def _check(self, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The suite and added cases, or, with "only", some cases alone."""
        source = request["text"], request["file"]
        added = msgspec.convert(request["cases"], tuple[Case, ...])
        cases = (*build_suite(self.task, self.checker.seed), *added)
        only = request.get("only")
        count = len(cases)
        if only is not None:
            cases = msgspec.convert(only, tuple[Case, ...])
            count = len(cases)
        else:
            of_source, _ = self.checker.cases_of(read_source(self.task, *source), cases)
            count += len(of_source)
        yield {"cases": count}
        known = msgspec.convert(request.get("known", ()), tuple[CaseResult, ...])
        whole = only is None
        for event in self.checker.check(*source, cases, whole_suite=whole, known=known):
            if isinstance(event, Compilation):
                yield {"compilation": _without_code(event)}
            elif isinstance(event, CaseResult):
                lean = msgspec.structs.replace(event, counters=None)
                yield {"case": msgspec.to_builtins(lean)}
            elif isinstance(event, CheckReport):
                lean_report = msgspec.structs.replace(event, cases=(), counters=None)
                yield {"report": msgspec.to_builtins(lean_report)}


def _without_code(compilation: Compilation) -> dict[str, Any]:
    lean = msgspec.structs.replace(compilation, ptx="", cubin=b"")
    return {**msgspec.to_builtins(lean), "ok": compilation.ok}


def _timing_message(event: BenchEvent) -> dict[str, Any]:
    if isinstance(event, Progress):
        return {
            "progress": {
                "workload": event.workload,
                "base_us": event.base_us,
                "candidate_us": event.candidate_us,
                "speedup": msgspec.to_builtins(event.speedup),
                "rounds": event.rounds,
            }
        }
    if isinstance(event, WorkloadDone):
        rounds = [[round(float(t), 5) for t in pair] for pair in event.rounds_us]
        return {"workload": {"timing": msgspec.to_builtins(event.timing), "rounds": rounds}}
    return {"timing": msgspec.to_builtins(event)}


def main() -> None:
    """Answers requests until the other side is gone."""
    read_fd, write_fd, folder, device, task_hash = (
        int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4], sys.argv[5],
    )  # fmt: skip
    exit_with_parent(read_fd)
    with ExitStack() as stack, suppress(FrameError):
        try:
            task = _the_task(folder, task_hash)
            compiler = stack.enter_context(Compiler(upstream=task_headers(task)))
        except UserError as error:
            while True:
                read_frame(read_fd)
                write_frame(write_fd, {"error": error.describe(), "unavailable": True})
        opened = stack.enter_context(open_device(device, compiler))
        oracle = stack.enter_context(open_oracle(task, opened.gpu))
        worker = _Worker(task, opened, oracle, compiler)
        stack.callback(worker.close)
        while True:
            _serve(worker, read_frame(read_fd), write_fd)


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


def _serve(worker: _Worker, request: dict[str, Any], write_fd: int) -> None:
    try:
        try:
            for message in worker.answer(request):
                write_frame(write_fd, {**message, "gpu_processes": worker.gpu_processes})
        finally:
            worker.settle()
    except UserError as error:
        last: dict[str, Any] = {
            "error": error.message,
            "file": error.file,
            "line": error.place.line,
            "column": error.place.column,
            "hint": error.hint,
        }
    except CompilerUnavailable as error:
        last = {"error": str(error), "unavailable": True}
    else:
        last = {"done": True}
    write_frame(write_fd, {**last, "gpu_processes": worker.gpu_processes})


if __name__ == "__main__":
    main()
