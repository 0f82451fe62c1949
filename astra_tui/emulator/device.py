"""The emulator as a device: runs the launches of a case and returns outputs, findings, counters."""

from __future__ import annotations

import math
import re
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from astra_tui.emulator.address_space import GLOBAL, other_base, to_generic
from astra_tui.emulator.decode import decode
from astra_tui.emulator.faults import EmulationStopped, Unsupported
from astra_tui.emulator.grid_dependency import GridDependency, dependency_of
from astra_tui.emulator.machine import MAX_BLOCKS, Machine
from astra_tui.emulator.memory import (
    GlobalMemory,
    LocalMemory,
    SharedMemory,
    variable_addresses,
)
from astra_tui.emulator.program import Program
from astra_tui.emulator.ptx.inline import inline_calls
from astra_tui.emulator.ptx.module import Address, Function, Module, PtxError, Symbol, Variable
from astra_tui.emulator.ptx.parser import parse_ptx
from astra_tui.emulator.slicing import Slice, slice_of
from astra_tui.emulator.tally import Tally, counters_of, reached_lines
from astra_tui.emulator.traffic import TrafficLog
from astra_tui.model.compilation import Compilation
from astra_tui.model.counters import Counters
from astra_tui.model.device import (
    PLAIN,
    Accepts,
    ArgumentRole,
    DeviceBuffer,
    PackedLaunch,
    RunOutcome,
    Sides,
    Variation,
    accept_nothing,
)
from astra_tui.model.findings import Finding, FindingKind
from astra_tui.model.launch import DEVICE_ATTRIBUTES
from astra_tui.model.occupancy import (
    NO_CLUSTER,
    UnknownArchitecture,
    cluster_refusal,
    launch_refusal,
)
from astra_tui.processes.confine import ConfinedThread

BUDGET = 300_000
"""Steps that one case may take: an instruction of up to 1,024 lanes costs one."""

BUDGET_OF_THREADS = 500
"""Steps more for each 1,024 threads that a case launches: instructions of each thread."""

WORKSPACE_BYTES = 1 << 28
"""Each byte of a workspace costs about 14 here: what is known of who wrote and who read it."""

_KEPT_MODULES = 8
_LAUNCH_BOUNDS = re.compile(
    r"\.entry\s+(?P<kernel>[\w$]++)[^{;]*?\.(?P<how>maxntid|reqntid)\s+(?P<sizes>[\d, ]+)"
)
_CLUSTERS = re.compile(
    r"\.entry\s+(?P<kernel>[\w$]++)[^{;]*?\.(?P<how>reqnctapercluster|explicitcluster)\b"
    r"(?:\s+(?P<sizes>\d[\d, ]*))?(?:\s*\.reqnctapercluster\s+(?P<more>\d[\d, ]*))?"
)


def _three(sizes: str) -> tuple[int, int, int]:
    x, y, z = (*(int(n) for n in sizes.split(",")), 1, 1)[:3]
    return x, y, z


@dataclass(frozen=True)
class Kernel:
    """A kernel ready to run: decoded steps and the variables that it needs."""

    program: Program
    shared_variables: tuple[Variable, ...]
    local_variables: tuple[Variable, ...]


class LoadedModule:
    """One compiled source: its PTX, parsed, and the kernels decoded so far."""

    def __init__(self, ptx: str):
        self.module: Module = parse_ptx(ptx)
        self.globals = _used_globals(self.module)
        self.addresses = variable_addresses(self.globals)
        self.kernels: dict[str, Kernel] = {}
        self.most_threads = {
            m["kernel"]: math.prod(int(n) for n in m["sizes"].split(","))
            for m in _LAUNCH_BOUNDS.finditer(ptx)
        }
        """By the kernel's symbol, where its source sets bounds."""
        self.required_blocks = {
            m["kernel"]: _three(m["sizes"])
            for m in _LAUNCH_BOUNDS.finditer(ptx)
            if m["how"] == "reqntid"
        }
        """By the kernel's symbol, where its source names the one block that it takes."""
        self.clusters = {
            m["kernel"]: _three(m["sizes"] or m["more"]) if m["sizes"] or m["more"] else None
            for m in _CLUSTERS.finditer(ptx)
        }
        """By the kernel's symbol, where a source asks for clusters: the one that it takes; None
        where it leaves that to the launch."""
        self.slices: dict[tuple[str, frozenset[str]], Slice] = {}

    def cluster(self, launch: PackedLaunch) -> tuple[int, int, int]:
        """The blocks of a cluster, as the launch or the kernel says."""
        return self.clusters.get(launch.kernel.symbol) or launch.cluster

    def cluster_mismatch(self, launch: PackedLaunch) -> str:
        """Where the clusters of a launch are not what the kernel asks for, what each says."""
        symbol = launch.kernel.symbol
        required = self.clusters.get(symbol, launch.cluster)
        if required is None:
            plain = launch.cluster == NO_CLUSTER
            return "the kernel asks for clusters, and the launch has no cluster=" if plain else ""
        if launch.cluster in (required, NO_CLUSTER):
            return ""
        given, wanted = ("x".join(map(str, sizes)) for sizes in (launch.cluster, required))
        return f"cluster= says {given} blocks, and __cluster_dims__ of the kernel {wanted}"

    def slice(self, symbol: str, roots: frozenset[str]) -> Slice:
        """The slice of a kernel with these roots. Raises PtxError or Unsupported."""
        key = symbol, roots
        if key not in self.slices:
            self.slices[key] = slice_of(self.kernel(symbol).program, roots)
        return self.slices[key]

    def kernel(self, symbol: str) -> Kernel:
        """The decoded kernel. Raises PtxError or Unsupported."""
        if symbol not in self.kernels:
            self.kernels[symbol] = self._load(symbol)
        return self.kernels[symbol]

    def _load(self, symbol: str) -> Kernel:
        function = inline_calls(self.module, symbol)
        variables = (*self.module.variables, *function.variables)
        used = _symbols_in(function)
        shared = tuple(v for v in variables if v.space == "shared" and v.name in used)
        local = tuple(v for v in variables if v.space == "local")
        layout = SharedMemory(shared, 0, 1)
        symbols = {
            **self.addresses,
            **{name: to_generic("shared", offset) for name, offset in layout.offsets.items()},
            **{
                name: to_generic("local", offset)
                for name, offset in LocalMemory(local).offsets.items()
            },
        }
        return Kernel(decode(function, symbols), shared, local)


class Emulator:
    """CUDA kernels on the CPU: exact memory counters, no time."""

    name = "emulator"
    attributes = DEVICE_ATTRIBUTES
    workspace_bytes = WORKSPACE_BYTES

    thread = ConfinedThread()
    """Where PTX is read and run: files, sockets and processes are closed to it."""

    def __init__(self, budget: int = BUDGET):
        self.budget = budget
        self._loaded: OrderedDict[str, LoadedModule] = OrderedDict()

    def run(
        self,
        compilation: Compilation,
        launches: tuple[PackedLaunch, ...],
        buffers: tuple[DeviceBuffer, ...],
        *,
        checked: bool = True,
        counted: bool = True,
        traffic: bool = False,
        variation: Variation = PLAIN,
        accepts: Accepts = accept_nothing,
    ) -> RunOutcome:
        """Runs launches in order on fresh buffers; stops at the first finding that fails a case."""
        return self.thread.run(
            self._run,
            compilation,
            launches,
            buffers,
            checked,
            counted,
            traffic,
            variation,
            accepts,
        )

    def _run(
        self,
        compilation: Compilation,
        launches: tuple[PackedLaunch, ...],
        buffers: tuple[DeviceBuffer, ...],
        checked: bool,
        counted: bool,
        traffic: bool,
        variation: Variation,
        accepts: Accepts,
    ) -> RunOutcome:
        try:
            loaded = self.loaded(compilation.ptx)
            kernels = [loaded.kernel(launch.kernel.symbol) for launch in launches]
        except (PtxError, Unsupported) as error:
            return _cannot_run(str(error), buffers)
        # Conditions that report make a program longer.
        budget = (2 if any(k.program.conditions for k in kernels) else 1) * (
            self.budget + BUDGET_OF_THREADS * _threads(launches) // 1024
        )
        try:
            call = _Call(
                loaded, kernels, buffers, budget, checked, counted, traffic, variation, accepts
            )
            return call.run(launches, compilation)
        except MemoryError as error:
            return _out_of_memory(str(error), launches, buffers)

    def loaded(self, ptx: str) -> LoadedModule:
        """A compiled source, parsed once."""
        if ptx in self._loaded:
            self._loaded.move_to_end(ptx)
        else:
            self._loaded[ptx] = LoadedModule(ptx)
            if len(self._loaded) > _KEPT_MODULES:
                self._loaded.popitem(last=False)
        return self._loaded[ptx]


class _Call:
    """The launches of one case on one set of buffers."""

    def __init__(
        self,
        loaded: LoadedModule,
        kernels: list[Kernel],
        buffers: tuple[DeviceBuffer, ...],
        budget: int,
        checked: bool,
        counted: bool,
        traffic: bool,
        variation: Variation,
        accepts: Accepts,
    ):
        self.loaded = loaded
        self.kernels = kernels
        self.buffers = buffers
        self.given = self.budget = budget
        self.checked = checked
        self.counted = counted
        self.variation = variation
        self.accepts = accepts
        granule = min((k.program.smallest_global_access for k in kernels), default=1)
        self.memory = GlobalMemory(
            buffers,
            loaded.globals,
            granule,
            base=other_base(variation.seed) if variation.moved_buffers else GLOBAL,
        )
        self.findings: list[Finding] = []
        self.tallies: dict[str, Tally] = {}
        self.sides: dict[str, Sides] = {}
        self.traffic = TrafficLog(self.memory) if traffic else None

    def run(self, launches: tuple[PackedLaunch, ...], compilation: Compilation) -> RunOutcome:
        try:
            for number, (launch, kernel) in enumerate(zip(launches, self.kernels, strict=True)):
                self._require_resources(launch, compilation.arch)
                dependency = dependency_of(launches, number, self.buffers)
                self._launch(launch, kernel, dependency)
                if dependency is not None and not dependency.waited and all(launch.grid):
                    raise EmulationStopped(_never_waited(launch))
        except EmulationStopped as stopped:
            self.findings.append(stopped.finding)
        else:
            self._look_at_outputs(launches)
        return RunOutcome(
            contents={b.name: self.memory.content(b.name) for b in self.buffers},
            findings=tuple(self.findings),
            counters=counters_of(list(self.tallies.values()), compilation.compiler)
            if self.counted
            else Counters(),
            reached=reached_lines(list(self.tallies.values())),
            traffic=self.traffic.arguments() if self.traffic is not None else (),
            steps=self.given - self.budget,
            sides=self.sides,
        )

    def _require_resources(self, launch: PackedLaunch, arch: str) -> None:
        """Raises EmulationStopped for a launch that a GPU would refuse."""
        needs = launch.kernel.resources
        threads = math.prod(launch.block)
        most = self.loaded.most_threads.get(launch.kernel.symbol, threads)
        required = self.loaded.required_blocks.get(launch.kernel.symbol)
        why = ""
        if required is not None and launch.block != required:
            given, wanted = ("x".join(map(str, block)) for block in (launch.block, required))
            why = f"blocks of {given} threads, where the kernel takes blocks of {wanted} alone"
        elif threads > most:
            why = f"{threads} threads a block, where __launch_bounds__ promises at most {most}"
        else:
            why = self.loaded.cluster_mismatch(launch)
            why = why or cluster_refusal(launch.grid, self.loaded.cluster(launch))
        if not why:
            try:
                why = launch_refusal(
                    arch,
                    threads,
                    needs.registers,
                    needs.static_shared,
                    launch.shared_bytes,
                    needs.stack,
                )
            except UnknownArchitecture:
                return
        if why:
            raise EmulationStopped(
                Finding(
                    FindingKind.OUT_OF_RESOURCES,
                    f"a GPU refuses this launch: {why}",
                    line=launch.line,
                    kernel=launch.kernel.expression,
                    launch_line=launch.line,
                )
            )

    def _launch(
        self, launch: PackedLaunch, kernel: Kernel, dependency: GridDependency | None
    ) -> None:
        if launch.grid[0] * launch.grid[1] * launch.grid[2] > MAX_BLOCKS:
            raise EmulationStopped(
                Finding(
                    FindingKind.UNSUPPORTED,
                    f"a grid of {launch.grid}: the emulator runs at most {MAX_BLOCKS} blocks",
                    line=launch.line,
                    launch_line=launch.line,
                )
            )
        shared = SharedMemory(
            kernel.shared_variables, launch.shared_bytes, kernel.program.smallest_shared_access
        )
        symbol = launch.kernel.symbol
        tally = self.tallies.setdefault(symbol, Tally(kernel.program.steps))
        machine = Machine(
            kernel.program,
            self.memory,
            shared,
            LocalMemory(kernel.local_variables),
            parameters_of(launch, self.memory),
            launch.grid,
            launch.block,
            tally=tally,
            budget=self.budget,
            kernel=launch.kernel.expression,
            launch_line=launch.line,
            dynamic_shared=launch.shared_bytes,
            checked=self.checked,
            counted=self.counted,
            variation=self.variation,
            accepts=self.accepts,
            dependency=dependency,
            traffic=self.traffic,
            cluster=self.loaded.cluster(launch),
        )
        if self.traffic is not None:
            self.traffic.begin_launch(kernel.program.steps, machine.warps_per_block)
        try:
            machine.run()
        finally:
            self.budget = machine.budget
            self.findings.extend(machine.warnings.values())
            if kernel.program.conditions:
                name = launch.kernel.expression
                sides = Sides(kernel.program.conditions, machine.sides)
                self.sides[name] = sides.joined(self.sides.get(name))

    def _look_at_outputs(self, launches: tuple[PackedLaunch, ...]) -> None:
        """What shows only at the end: unwritten parts of outputs, bytes changed next to buffers."""
        if self.checked:
            for buffer in self.buffers:
                missing = self.memory.unwritten(buffer) if buffer.use is ArgumentRole.OUT else None
                if missing is not None:
                    self.findings.append(self._unwritten(buffer, *missing, launches))
        outside = self.memory.red_zones_changed()
        if outside is not None:
            self.findings.append(
                Finding(FindingKind.WROTE_OUTSIDE, f"bytes next to {outside.name} have changed")
            )

    def _unwritten(
        self, buffer: DeviceBuffer, first: int, count: int, launches: tuple[PackedLaunch, ...]
    ) -> Finding:
        line = self._last_store_line()
        last = launches[-1] if launches else None
        text = (
            f"byte {first} of {buffer.name}, which has {len(buffer.content)}, and {count - 1} more"
        )
        text += " were not written by any thread"
        if last is not None:
            text += f" (grid {last.grid}, block {last.block})"
        return Finding(
            FindingKind.UNWRITTEN_OUTPUT,
            text,
            line=line,
            kernel=last.kernel.expression if last else "",
            launch_line=last.line if last else 0,
        )

    def _last_store_line(self) -> int:
        """The source line of the last instruction that stored to global memory."""
        lines = [
            tally.steps[index].location.line
            for tally in self.tallies.values()
            for index, space, direction, _ in sorted(tally.memory)
            if space == "global" and direction != "load"
        ]
        return lines[-1] if lines else 0


def _never_waited(launch: PackedLaunch) -> Finding:
    return Finding(
        FindingKind.BEFORE_WAIT,
        "a launch with pdl= ended without griddepcontrol.wait in any thread: it may end before the "
        "launches before it, and what comes next would not wait for them",
        line=launch.line,
        kernel=launch.kernel.expression,
        launch_line=launch.line,
    )


def _threads(launches: tuple[PackedLaunch, ...]) -> int:
    """All threads of all launches that the emulator runs."""
    return sum(
        min(math.prod(launch.grid), MAX_BLOCKS) * math.prod(launch.block) for launch in launches
    )


def parameters_of(launch: PackedLaunch, memory: GlobalMemory) -> bytes:
    """The parameters of a launch, with the addresses that its buffers have."""
    data = bytearray(launch.parameters)
    for offset, name in launch.pointers:
        distance = int.from_bytes(data[offset : offset + 8], "little", signed=True)
        address = (memory.address_of(name) + distance) % (1 << 64)
        data[offset : offset + 8] = address.to_bytes(8, "little")
    return bytes(data)


def _symbols_in(function: Function) -> set[str]:
    used: set[str] = set()
    for instruction in function.instructions:
        for operand in instruction.operands:
            parts: tuple[Any, ...] = getattr(operand, "items", (operand,))
            for part in parts:
                base = part.base if isinstance(part, Address) else part
                if isinstance(base, Symbol):
                    used.add(base.name)
    return used


def _used_globals(module: Module) -> tuple[Variable, ...]:
    """The global variables that code names, and those whose addresses they begin with.

    Headers bring thousands that no kernel uses.
    """
    known = {v.name: v for v in module.variables if v.space in ("global", "const")}
    left = [name for function in module.functions.values() for name in _symbols_in(function)]
    used: set[str] = set()
    while left:
        name = left.pop()
        if name in known and name not in used:
            used.add(name)
            left += [other for _, other, _ in known[name].addresses]
    return tuple(v for name, v in known.items() if name in used)


def _out_of_memory(
    message: str, launches: tuple[PackedLaunch, ...], buffers: tuple[DeviceBuffer, ...]
) -> RunOutcome:
    line = launches[0].line if launches else 0
    text = "these launches need more memory than the emulator may have"
    text += f" ({message[0].lower()}{message[1:]})" if message else ""
    finding = Finding(FindingKind.UNSUPPORTED, text, line=line, launch_line=line)
    return RunOutcome({b.name: b.content for b in buffers}, (finding,))


def _cannot_run(message: str, buffers: tuple[DeviceBuffer, ...]) -> RunOutcome:
    line = 0
    if message.startswith("line "):
        number, _, rest = message[5:].partition(": ")
        if number.isdigit():
            line, message = int(number), rest
    finding = Finding(FindingKind.UNSUPPORTED, message, line=line)
    return RunOutcome({b.name: b.content for b in buffers}, (finding,))
