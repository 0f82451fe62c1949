"""The trials of a sweep: sources compiled in parallel, and what the device model knows of them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from math import prod
from types import MappingProxyType

from msgspec.structs import replace

from astra_tui.emulator.ptx.inline import inline_calls
from astra_tui.emulator.ptx.module import PtxError
from astra_tui.emulator.ptx.parser import parse_ptx
from astra_tui.gpu.messages import Kernel
from astra_tui.lab.compiler import Compiler
from astra_tui.lab.on_gpu.workload import Compiled, WorkloadBuffers, compile_source
from astra_tui.lab.requests import CompiledTrial
from astra_tui.lab.tuning.device_model import code_of, predicted_us
from astra_tui.lab.tuning.search import Candidates
from astra_tui.model.digest import content_hash
from astra_tui.model.errors import UserError
from astra_tui.model.occupancy import UnknownArchitecture, resident_blocks
from astra_tui.model.task import KernelTask
from astra_tui.model.timing import Floor
from astra_tui.model.tuning import LaunchWork, TrialWork

TRIAL = "trial.cu"
"""What messages call one."""


def compile_trials(
    task: KernelTask,
    attributes: Mapping[str, int],
    texts: Iterable[str],
    open_compiler: Callable[[], Compiler],
    processes: int = 0,
) -> Iterator[CompiledTrial]:
    """Compiles the kernels that workloads launch on a device with such attributes, several sources
    at a time; one comes for each text, in their order.

    `open_compiler` starts a compiler for the device's architecture, `processes` of them, or 0 for
    as many as there are processors.
    """
    buffers = {w.name: WorkloadBuffers(task, w, 0) for w in task.workloads}
    own = threading.local()
    with ExitStack() as stack:

        def compiled(text: str) -> Compiled | str:
            if not hasattr(own, "compiler"):
                own.compiler = open_compiler()
                stack.callback(own.compiler.close)
            try:
                return compile_source(task, own.compiler, attributes, text, TRIAL, whole=False)
            except UserError as error:
                return error.message

        with ThreadPoolExecutor(processes or os.cpu_count() or 1) as pool:
            for found in pool.map(compiled, texts):
                if isinstance(found, str):
                    yield CompiledTrial(found)
                    continue
                works = _works(found, buffers, attributes)
                yield CompiledTrial(compilation=found.compilation, works=works)


def _works(
    compiled: Compiled, buffers: Mapping[str, WorkloadBuffers], attributes: Mapping[str, int]
) -> dict[str, TrialWork]:
    """By workload what a trial launches there; without those that its plan refuses."""
    try:
        codes = _Codes(compiled)
    except PtxError:
        return {}
    found = {}
    for name, of_workload in buffers.items():
        try:
            version = of_workload.bind(compiled, attributes)
            launches = tuple(codes.work(kernel) for kernel in version.kernels)
        except (UserError, UnknownArchitecture):
            continue
        what = "|".join(codes.identity(kernel) for kernel in version.kernels)
        found[name] = TrialWork(content_hash(what), launches)
    return found


def candidates_of(
    trials: Sequence[CompiledTrial],
    floors: Mapping[str, Floor],
    multiprocessors: int,
    unbounded: Mapping[int, int] = MappingProxyType({}),
) -> tuple[Candidates, ...]:
    """What there is to try on each workload with a floor, the first of those that do the same.

    `unbounded` has, by trial whose launch bounds ask for blocks, the one without them: fewer
    registers can only pay on workloads of which more blocks run at once by that.
    """
    found = []
    for workload in floors:
        of_trial = {n: t.works[workload] for n, t in enumerate(trials) if workload in t.works}
        first: dict[str, int] = {}
        for trial, work in of_trial.items():
            other = of_trial.get(unbounded.get(trial, trial), work)
            if other is work or _adds_blocks(work, other, multiprocessors):
                first.setdefault(work.identity, trial)
        predicted = {
            trial: predicted_us(of_trial[trial].launches, floors[workload], multiprocessors)
            for trial in first.values()
        }
        launchable = {t: us for t, us in predicted.items() if us < float("inf")}
        found.append(Candidates(workload, launchable))
    return tuple(found)


def _adds_blocks(work: TrialWork, other: TrialWork, multiprocessors: int) -> bool:
    """Whether more blocks of some launch run at once than of the other's."""
    pairs = zip(work.launches, other.launches, strict=True)
    return any(a.at_once(multiprocessors) > b.at_once(multiprocessors) for a, b in pairs)


class _Codes:
    """What the PTX of one compiled trial says of its kernels, by symbol."""

    def __init__(self, compiled: Compiled):
        module = parse_ptx(compiled.compilation.ptx)
        functions = {k.symbol: inline_calls(module, k.symbol) for k in compiled.compilation.kernels}
        self._arch = compiled.compilation.arch
        self._resources = {k.symbol: k.resources for k in compiled.compilation.kernels}
        self._codes = {symbol: code_of(function) for symbol, function in functions.items()}
        self._hashes = {
            symbol: content_hash("\n".join(i.text for i in function.instructions))
            for symbol, function in functions.items()
        }

    def work(self, kernel: Kernel) -> LaunchWork:
        """One launch of a kernel."""
        needs = self._resources[kernel.symbol]
        threads = prod(kernel.block)
        shared = needs.static_shared + kernel.shared_bytes
        resident = resident_blocks(self._arch, threads, needs.registers, shared)
        code = self._codes[kernel.symbol]
        spilled = (needs.spill_stores + needs.spill_loads) // 4  # PTX has none of them.
        code = replace(code, instructions=code.instructions + spilled)
        return LaunchWork(code, prod(kernel.grid), threads, resident)

    def identity(self, kernel: Kernel) -> str:
        """What tells one launch from another: instructions without their lines, what the compiler
        gave them, and geometry.
        """
        needs = self._resources[kernel.symbol]
        return f"{self._hashes[kernel.symbol]} {needs} {_geometry(kernel)}"


def _geometry(kernel: Kernel) -> str:
    shape = (kernel.grid, kernel.block, kernel.shared_bytes, kernel.pdl, kernel.cluster)
    return f"{shape} {kernel.parameters.hex()} {kernel.pointers}"
