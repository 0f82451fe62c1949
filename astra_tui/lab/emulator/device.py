"""The emulator as a device: runs the launches of a case and returns outputs, findings, counters."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from astra_tui.lab.device import BufferUse, DeviceBuffer, PackedLaunch, RunOutcome
from astra_tui.lab.emulator.address_space import to_generic
from astra_tui.lab.emulator.faults import EmulationStopped, Unsupported
from astra_tui.lab.emulator.machine import MAX_BLOCKS, Machine
from astra_tui.lab.emulator.memory import (
    GlobalMemory,
    LocalMemory,
    SharedMemory,
    variable_addresses,
)
from astra_tui.lab.emulator.program import Program, decode
from astra_tui.lab.emulator.ptx.inline import inline_calls
from astra_tui.lab.emulator.ptx.module import Address, Function, Module, PtxError, Symbol, Variable
from astra_tui.lab.emulator.ptx.parser import parse_ptx
from astra_tui.lab.emulator.tally import Tally, counters_of
from astra_tui.model.compilation import Compilation
from astra_tui.model.counters import Counters
from astra_tui.model.findings import Finding, FindingKind
from astra_tui.model.launch import DEVICE_ATTRIBUTES

BUDGET = 300_000
"""Steps that one case may take: an instruction of up to 1,024 lanes costs one."""

_KEPT_MODULES = 8


@dataclass(frozen=True)
class Kernel:
    """A kernel ready to run: decoded steps and the variables that it needs."""

    program: Program
    shared_variables: tuple[Variable, ...]
    local_variables: tuple[Variable, ...]


class _Loaded:
    """One compiled source: its PTX, parsed, and the kernels decoded so far."""

    def __init__(self, ptx: str):
        self.module: Module = parse_ptx(ptx)
        self.globals = tuple(v for v in self.module.variables if v.space in ("global", "const"))
        self.addresses = variable_addresses(self.globals)
        self.kernels: dict[str, Kernel] = {}

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

    def __init__(self, budget: int = BUDGET):
        self.budget = budget
        self._loaded: OrderedDict[str, _Loaded] = OrderedDict()

    def run(
        self,
        compilation: Compilation,
        launches: tuple[PackedLaunch, ...],
        buffers: tuple[DeviceBuffer, ...],
        *,
        checked: bool = True,
        counted: bool = True,
    ) -> RunOutcome:
        """Runs launches in order on fresh buffers; stops at the first finding that fails a case."""
        try:
            loaded = self._module(compilation.ptx)
            kernels = [loaded.kernel(launch.kernel.symbol) for launch in launches]
        except (PtxError, Unsupported) as error:
            return _cannot_run(str(error), buffers)
        call = _Call(loaded, kernels, buffers, self.budget, checked, counted)
        return call.run(launches, compilation.compiler)

    def _module(self, ptx: str) -> _Loaded:
        if ptx in self._loaded:
            self._loaded.move_to_end(ptx)
        else:
            self._loaded[ptx] = _Loaded(ptx)
            if len(self._loaded) > _KEPT_MODULES:
                self._loaded.popitem(last=False)
        return self._loaded[ptx]


class _Call:
    """The launches of one case on one set of buffers."""

    def __init__(
        self,
        loaded: _Loaded,
        kernels: list[Kernel],
        buffers: tuple[DeviceBuffer, ...],
        budget: int,
        checked: bool,
        counted: bool,
    ):
        self.kernels = kernels
        self.buffers = buffers
        self.budget = budget
        self.checked = checked
        self.counted = counted
        granule = min((k.program.smallest_global_access for k in kernels), default=1)
        self.memory = GlobalMemory(buffers, loaded.globals, granule)
        self.findings: list[Finding] = []
        self.tallies: dict[str, Tally] = {}

    def run(self, launches: tuple[PackedLaunch, ...], compiler: str) -> RunOutcome:
        try:
            for launch, kernel in zip(launches, self.kernels, strict=True):
                self._launch(launch, kernel)
        except EmulationStopped as stopped:
            self.findings.append(stopped.finding)
        else:
            self._look_at_outputs(launches)
        return RunOutcome(
            contents={b.name: self.memory.content(b.name) for b in self.buffers},
            findings=tuple(self.findings),
            counters=counters_of(list(self.tallies.values()), compiler)
            if self.counted
            else Counters(),
        )

    def _launch(self, launch: PackedLaunch, kernel: Kernel) -> None:
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
            self._parameters(launch),
            launch.grid,
            launch.block,
            tally=tally,
            budget=self.budget,
            kernel=launch.kernel.expression,
            launch_line=launch.line,
            dynamic_shared=launch.shared_bytes,
            checked=self.checked,
            counted=self.counted,
        )
        try:
            machine.run()
        finally:
            self.budget = machine.budget
            self.findings.extend(machine.warnings.values())

    def _parameters(self, launch: PackedLaunch) -> bytes:
        data = bytearray(launch.parameters)
        for offset, name in launch.pointers:
            data[offset : offset + 8] = self.memory.address_of(name).to_bytes(8, "little")
        return bytes(data)

    def _look_at_outputs(self, launches: tuple[PackedLaunch, ...]) -> None:
        """What shows only at the end: unwritten parts of outputs, bytes changed beside buffers."""
        if self.checked:
            for buffer in self.buffers:
                missing = self.memory.unwritten(buffer) if buffer.use is BufferUse.OUT else None
                if missing is not None:
                    self.findings.append(self._unwritten(buffer, *missing, launches))
        outside = self.memory.red_zones_changed()
        if outside is not None:
            self.findings.append(
                Finding(FindingKind.WROTE_OUTSIDE, f"bytes beside {outside.name} have changed")
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


def _cannot_run(message: str, buffers: tuple[DeviceBuffer, ...]) -> RunOutcome:
    line = 0
    if message.startswith("line "):
        number, _, rest = message[5:].partition(": ")
        if number.isdigit():
            line, message = int(number), rest
    finding = Finding(FindingKind.UNSUPPORTED, message, line=line)
    return RunOutcome({b.name: b.content for b in buffers}, (finding,))
