"""A stand-in for the CUDA driver: NumPy memory, kernels by script, and a clock of its own.

Work is done when it is queued, and its errors come to light where a real driver shows them: at the
next call that waits. After an error that kills the context every call gives it again.
"""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from astra_tui.gpu.messages import DeviceFacts, Node
from astra_tui.gpu.process.driver import DriverError, Launch
from tests.gpu.behaviours import BEHAVIOURS, Running, produced
from tests.gpu.device_memory import DeviceMemory, failure
from tests.gpu.faults import TROUBLES, wait_for_ever
from tests.gpu.script import (
    FACTS,
    INVALID_VALUE,
    LARGEST_SHARED,
    NOT_FOUND,
    SEPARATOR,
    Machine,
    Script,
    Scripted,
)

_COPIED_A_US = 1e6
"""Bytes that the device copies or fills in a microsecond."""


@dataclass(frozen=True)
class _Function:
    module: int
    symbol: str
    script: Scripted


class ScriptedDriver:
    """Implements the protocol `Driver`; `reply_fd` is where troubles of the process write."""

    def __init__(
        self,
        reply_fd: int = -1,
        facts: tuple[DeviceFacts, ...] = (FACTS,),
        machine: Machine | None = None,
    ):
        self.memory = DeviceMemory(max((f.memory for f in facts), default=0))
        self.modules: dict[int, Script] = {}
        self.graphs: dict[int, list[Launch]] = {}
        self.launched: Counter[str] = Counter()
        self.now_us = 0.0
        self._reply_fd = reply_fd
        self._devices = facts
        self._use(machine or Machine())
        self._functions: list[_Function] = []
        self._launched_of: Counter[tuple[int, str]] = Counter()
        self._times: dict[int, float] = {}
        self._handles = 0
        self._late: Launch | None = None
        """A producer that has not written yet."""
        self._pending: DriverError | None = None
        self._is_hung = False
        self._dead: DriverError | None = None

    def devices(self) -> list[DeviceFacts]:
        return list(self._devices)

    def open(self, ordinal: int) -> None:
        self._check()

    def load(self, cubin: bytes) -> int:
        self._check()
        script = msgspec.json.decode(cubin.rpartition(SEPARATOR)[2], type=Script)
        if script.machine is not None:
            self._use(script.machine)
        self.modules[self._handle()] = script
        return self._handles

    def unload(self, module: int) -> None:
        self._check()
        del self.modules[module]

    def function(self, module: int, symbol: str, shared_bytes: int) -> int:
        self._check()
        script = self.modules[module].kernels.get(symbol)
        if script is None:
            raise failure(NOT_FOUND, "cuModuleGetFunction")
        if shared_bytes > LARGEST_SHARED:
            raise failure(INVALID_VALUE, "cuFuncSetAttribute")
        self._functions.append(_Function(module, symbol, script))
        return len(self._functions) - 1

    def occupancy(self, function: int, threads: int, shared_bytes: int) -> int:
        self._check()
        return 2048 // threads

    def allocate(self, size: int) -> int:
        self._check()
        return self.memory.allocate(size)

    def free(self, address: int) -> None:
        self._check()
        self.memory.free(address)

    def free_memory(self) -> int:
        self._check()
        return self.memory.size - self.memory.used

    def upload(self, address: int, data: Any) -> None:
        self.wait()
        self.memory.bytes(address, data.size)[:] = data

    def download(self, address: int, size: int) -> Any:
        self.wait()
        return self.memory.bytes(address, size).copy()

    def download_into(self, address: int, target: Any) -> None:
        self._check()
        target[:] = self.memory.bytes(address, target.size)

    def copy(self, target: int, source: int, size: int) -> None:
        self._check()
        self.memory.bytes(target, size)[:] = self.memory.bytes(source, size)
        self.now_us += size / _COPIED_A_US

    def fill(self, address: int, byte: int, size: int) -> None:
        self._check()
        self.memory.bytes(address, size)[:] = byte
        self.now_us += size / _COPIED_A_US

    def launch(self, launch: Launch) -> None:
        self._check()
        self._run_in_turn(launch, self._pace())

    def build_graph(self, launches: list[Launch]) -> int:
        self._check()
        self.graphs[self._handle()] = list(launches)
        return self._handles

    def run_graph(self, graph: int) -> None:
        self._check()
        pace = self._pace()
        self.now_us += self.machine.offset_us
        for launch in self.graphs[graph]:
            self._run_in_turn(launch, pace)

    def graph_nodes(self, graph: int) -> list[Node]:
        self._check()
        return [
            Node(
                self._functions[one.function].symbol,
                one.grid,
                one.block,
                one.shared_bytes,
                one.pdl,
                one.cluster,
            )
            for one in self.graphs[graph]
        ]

    def free_graph(self, graph: int) -> None:
        self._check()
        del self.graphs[graph]

    def event(self) -> int:
        self._check()
        return self._handle()

    def free_event(self, event: int) -> None:
        self._check()
        self._times.pop(event, None)

    def record(self, event: int) -> None:
        self._check()
        self._times[event] = self.now_us

    def elapsed(self, start: int, end: int) -> float:
        self.wait()
        return self._times[end] - self._times[start]

    def wait(self) -> None:
        self._check()
        if self._is_hung:
            wait_for_ever()
        if self._pending is not None:
            self._dead = self._pending
            raise self._dead

    def _check(self) -> None:
        if self._dead is not None:
            raise self._dead

    def _handle(self) -> int:
        self._handles += 1
        return self._handles

    def _use(self, machine: Machine) -> None:
        self.machine = machine
        self._random = np.random.default_rng(machine.seed)

    def _pace(self) -> float:
        """By how much everything is slower just now than the script says."""
        noise = float(np.exp(self.machine.noise * self._random.standard_normal()))
        return noise * (1 + self.machine.drift * self.now_us * 1e-6)

    def _placement(self, launch: Launch) -> float:
        """By how much a launch is slower because of where its buffers lie."""
        if not self.machine.placement or len(launch.parameters) < 8:
            return 1.0
        (first,) = struct.unpack_from("<Q", launch.parameters)
        return 1 + self.machine.placement * self.memory.rank(first)

    def _run_in_turn(self, launch: Launch, pace: float) -> None:
        """A late producer writes only once a launch that may begin early, and does, is over."""
        late, self._late = self._late, None
        script = self._functions[launch.function].script
        if late is not None and not (launch.pdl and "begins_early" in script.options):
            self._run(late, pace)
            late = None
        if script.does == "produce" and self._is_late(launch):
            self._late = launch
            return
        before = self._content(late)
        self._run(launch, pace)
        if late is not None:
            if self._content(late) != before:
                self._control(late)[1] += 1
            self._run(late, pace)

    def _content(self, producer: Launch | None) -> list[bytes]:
        """What a producer is about to write."""
        if producer is None:
            return []
        script = self._functions[producer.function].script
        running = Running(self.memory, self.machine, producer, script, 0)
        return [buffer.data[buffer.written].tobytes() for buffer in produced(running)]

    def _control(self, producer: Launch) -> Any:
        (control,) = struct.unpack_from("<Q", producer.parameters, 33 * 8)
        return self.memory.array(control, 2, "u8")

    def _is_late(self, producer: Launch) -> bool:
        return bool(self._control(producer)[0])

    def _run(self, launch: Launch, pace: float) -> None:
        function = self._functions[launch.function]
        script, of_module = function.script, (function.module, function.symbol)
        before = self._launched_of[of_module]
        self._launched_of[of_module] += 1
        self.launched[function.symbol] += 1
        goes_wrong = before >= script.spared
        if script.refused and goes_wrong:
            raise failure(script.refused, "cuLaunchKernel")
        if script.trouble and goes_wrong:
            self._trouble(script.trouble)
        if self._pending is not None or self._is_hung:
            return
        share = 1.0
        try:
            if script.error and goes_wrong:
                raise failure(script.error, "cuStreamSynchronize")
            running = Running(self.memory, self.machine, launch, script, before)
            share = BEHAVIOURS[script.does](running) or share
        except DriverError as error:
            self._pending = DriverError(error.code, error.name, "cuStreamSynchronize")
        self.now_us += share * script.us * pace * self._placement(launch)

    def _trouble(self, name: str) -> None:
        if name == "hang":
            self._is_hung = True
        else:
            TROUBLES[name](self._reply_fd)
