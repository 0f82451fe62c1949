"""The trials of a sweep: sources compiled in parallel, and what the device model knows of them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from math import prod

from astra_tui.emulator.ptx.inline import inline_calls
from astra_tui.emulator.ptx.module import PtxError
from astra_tui.emulator.ptx.parser import parse_ptx
from astra_tui.gpu.messages import Kernel
from astra_tui.lab.compiler import Compiler
from astra_tui.lab.on_gpu.workload import Compiled, WorkloadBuffers, compile_source
from astra_tui.lab.tuning.device_model import LaunchWork, code_of, predicted_us
from astra_tui.lab.tuning.search import Candidates
from astra_tui.model.digest import content_hash
from astra_tui.model.errors import UserError
from astra_tui.model.occupancy import UnknownArchitecture, resident_blocks
from astra_tui.model.task import KernelTask
from astra_tui.model.timing import Floor


@dataclass(frozen=True)
class Trial:
    """One source of a sweep; `problem` says why it cannot be tried, "" where it can."""

    settings: Mapping[str, int]
    text: str
    compiled: Compiled | None
    problem: str


@dataclass(frozen=True)
class Work:
    """What a trial launches on a workload; equal identities do the same."""

    identity: str
    launches: tuple[LaunchWork, ...]


def compile_trials(
    task: KernelTask,
    attributes: Mapping[str, int],
    sources: Iterable[tuple[Mapping[str, int], str]],
    open_compiler: Callable[[], Compiler],
    processes: int = 0,
) -> tuple[Trial, ...]:
    """Compiles the kernels that workloads launch, several sources at a time.

    `sources` are texts with their settings; `open_compiler` starts a compiler for the device's
    architecture, `processes` of them, or 0 for as many as there are processors.
    """
    own = threading.local()
    count = processes or os.cpu_count() or 1
    with ExitStack() as stack:
        pool = ThreadPoolExecutor(count)

        def compiled(given: tuple[Mapping[str, int], str]) -> Trial:
            settings, text = given
            if not hasattr(own, "compiler"):
                own.compiler = open_compiler()
                stack.callback(own.compiler.close)
            try:
                file = f"trial {settings}"
                done = compile_source(task, own.compiler, attributes, text, file, whole=False)
            except UserError as error:
                return Trial(settings, text, None, error.message)
            return Trial(settings, text, done, "")

        with pool:
            return tuple(pool.map(compiled, sources))


def works_of(
    task: KernelTask, trials: Sequence[Trial], attributes: Mapping[str, int]
) -> Mapping[str, Mapping[int, Work]]:
    """By workload, what each trial launches there; trials whose plans refuse it are left out."""
    buffers = {w.name: WorkloadBuffers(task, w, 0) for w in task.workloads}
    found: dict[str, dict[int, Work]] = {name: {} for name in buffers}
    for number, trial in enumerate(trials):
        if trial.compiled is None:
            continue
        try:
            codes = _Codes(trial.compiled)
        except PtxError:
            continue
        for name, of_workload in buffers.items():
            try:
                version = of_workload.bind(trial.compiled, attributes)
                launches = tuple(codes.work(kernel) for kernel in version.kernels)
            except (UserError, UnknownArchitecture):
                continue
            what = "|".join(f"{codes.hashes[k.symbol]} {_geometry(k)}" for k in version.kernels)
            found[name][number] = Work(content_hash(what), launches)
    return found


def candidates_of(
    works: Mapping[str, Mapping[int, Work]], floors: Mapping[str, Floor], multiprocessors: int
) -> tuple[Candidates, ...]:
    """What there is to try on each workload, the first of those that do the same."""
    found = []
    for workload, of_trial in works.items():
        first: dict[str, int] = {}
        for trial, work in of_trial.items():
            first.setdefault(work.identity, trial)
        predicted = {
            trial: predicted_us(of_trial[trial].launches, floors[workload], multiprocessors)
            for trial in first.values()
        }
        launchable = {t: us for t, us in predicted.items() if us < float("inf")}
        found.append(Candidates(workload, launchable))
    return tuple(found)


class _Codes:
    """What the PTX of one compiled trial says of its kernels, by symbol."""

    def __init__(self, compiled: Compiled):
        module = parse_ptx(compiled.compilation.ptx)
        functions = {k.symbol: inline_calls(module, k.symbol) for k in compiled.compilation.kernels}
        self._arch = compiled.compilation.arch
        self._resources = {k.symbol: k.resources for k in compiled.compilation.kernels}
        self._codes = {symbol: code_of(function) for symbol, function in functions.items()}
        self.hashes = {
            symbol: content_hash("\n".join(i.text for i in function.instructions))
            for symbol, function in functions.items()
        }
        """Of the instructions, without their lines."""

    def work(self, kernel: Kernel) -> LaunchWork:
        """One launch of a kernel."""
        needs = self._resources[kernel.symbol]
        threads = prod(kernel.block)
        shared = needs.static_shared + kernel.shared_bytes
        resident = resident_blocks(self._arch, threads, needs.registers, shared)
        return LaunchWork(self._codes[kernel.symbol], prod(kernel.grid), threads, resident)


def _geometry(kernel: Kernel) -> str:
    shape = (kernel.grid, kernel.block, kernel.shared_bytes, kernel.pdl, kernel.cluster)
    return f"{shape} {kernel.parameters.hex()} {kernel.pointers}"
