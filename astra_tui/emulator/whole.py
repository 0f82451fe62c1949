"""A plan at a workload's own size: skeletons of whole grids, and chosen blocks run in full."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from astra_tui.emulator.device import Emulator, Kernel, parameters_of
from astra_tui.emulator.faults import EmulationStopped
from astra_tui.emulator.grid_dependency import dependency_of
from astra_tui.emulator.machine import Machine
from astra_tui.emulator.memory import Buffer, LocalMemory, PagedMemory, SharedMemory
from astra_tui.emulator.program import condition_number, is_condition
from astra_tui.emulator.skeleton import Skeleton, run_skeleton
from astra_tui.emulator.slicing import Slice
from astra_tui.emulator.step import side_bit
from astra_tui.emulator.stores import StoreMap
from astra_tui.emulator.tally import Tally
from astra_tui.emulator.tiles import Sample
from astra_tui.model.device import (
    Accepts,
    DeviceBuffer,
    PackedLaunch,
    Sides,
    accept_nothing,
)
from astra_tui.model.findings import Finding

Wanted = Mapping[str, Any]
"""Byte offsets into buffers, by the buffer's name."""


@dataclass(frozen=True)
class GridSkeleton:
    """The skeleton of one launch: what it found, and what it stores."""

    skeleton: Skeleton
    stores: StoreMap
    part: Slice

    def conditions(self) -> tuple[Sides, list[Sample]]:
        """The sides that reporting conditions took whatever the data, and who took them first."""
        program = self.part.program
        taken: dict[int, int] = {}
        first = []
        for (index, outcome), side in self.skeleton.sides.items():
            if index in self.part.certain and is_condition(program.instructions[index]):
                number = condition_number(program.instructions[index])
                taken[number] = taken.get(number, 0) | side_bit(bool(outcome))
                first.append(side.first)
        return Sides(program.conditions, taken), first

    def writers(self, buffer: str, offsets: Any) -> list[set[int]]:
        """For each wanted offset, the blocks that store it, as far as addresses tell."""
        known = self.stores.writers.get(buffer, {})
        return [known.get(int(o) >> self.stores.granule_bits, set()) for o in offsets]


@dataclass(frozen=True)
class Sampled:
    """What chosen blocks did: the memory afterwards, and what was found."""

    memory: PagedMemory
    findings: tuple[Finding, ...]

    @property
    def fault(self) -> Finding | None:
        """The finding that fails the run."""
        return next((f for f in self.findings if not f.is_warning), None)


class WholePlan:
    """The launches of a plan on buffers that exist only where something touches them.

    All that reads or runs PTX does so in the emulator's confined thread.
    """

    def __init__(
        self,
        device: Emulator,
        ptx: str,
        launches: tuple[PackedLaunch, ...],
        buffers: tuple[DeviceBuffer, ...],
        roots: frozenset[str],
        accepts: Accepts = accept_nothing,
    ):
        """Raises PtxError or Unsupported for a kernel that is not emulated."""
        self.thread = device.thread
        self.launches = launches
        self.buffers = buffers
        self.accepts = accepts
        self.thread.run(self._load, device, ptx, roots)

    def _load(self, device: Emulator, ptx: str, roots: frozenset[str]) -> None:
        launches = self.launches
        self.loaded = loaded = device.loaded(ptx)
        self.kernels = [loaded.kernel(launch.kernel.symbol) for launch in launches]
        self.parts = [loaded.slice(launch.kernel.symbol, roots) for launch in launches]
        sizes = [
            written.spec.size
            for part in self.parts
            for index in part.stores
            if (written := part.program.steps[index].written) is not None
        ]
        self.granule = min((k.program.smallest_global_access for k in self.kernels), default=1)
        self.places = self._memory()
        bases = [b.begin & -b.begin for b in self.places.buffers if b.tracked]
        self.store_granule = min((16, *sizes, *bases))

    @property
    def has_atomics(self) -> bool:
        """Whether blocks may depend on each other within one launch."""
        return any(
            written.spec.reads
            for part in self.parts
            for index in part.stores
            if (written := part.program.steps[index].written) is not None
        )

    def tracked(self, name: str) -> Buffer:
        """A buffer by name."""
        return next(b for b in self.places.buffers if b.name == name)

    def skeleton(
        self, number: int, wanted: Wanted, budget: int, blocks: Any = None
    ) -> GridSkeleton:
        """The skeleton of one launch; the writers of wanted bytes are found on the way.

        `blocks` are those that run, by default all.
        """
        return self.thread.run(self._skeleton, number, wanted, budget, blocks)

    def _skeleton(self, number: int, wanted: Wanted, budget: int, blocks: Any) -> GridSkeleton:
        launch, part = self.launches[number], self.parts[number]
        stores = StoreMap(self.places, self.store_granule)
        for buffer, offsets in wanted.items():
            stores.want(buffer, offsets)
        skeleton = run_skeleton(
            part,
            self.places,
            parameters_of(launch, self.places),
            launch.grid,
            launch.block,
            stores,
            budget=budget,
            kernel=launch.kernel.expression,
            launch_line=launch.line,
            dynamic_shared=launch.shared_bytes,
            cluster=self.loaded.cluster(launch),
            blocks=blocks,
        )
        return GridSkeleton(skeleton, stores, part)

    def run(
        self, blocks: Sequence[Any], budget: int, *, strict: bool = True
    ) -> tuple[Sampled, list[Any]]:
        """Runs chosen blocks of each launch in order, on fresh memory.

        Not `strict`, bytes that nothing wrote may be read, and a fault ends its launch alone.
        The second part says for each launch what was loaded of writable buffers: a table about the
        memory's granules, with the bits of `PagedMemory.loaded`. Raises MemoryError.
        """
        return self.thread.run(self._run, blocks, budget, strict)

    def _run(self, blocks: Sequence[Any], budget: int, strict: bool) -> tuple[Sampled, list[Any]]:
        memory = self._memory()
        memory.lenient = not strict
        findings: list[Finding] = []
        loads = []
        for number, (kernel, chosen) in enumerate(zip(self.kernels, blocks, strict=True)):
            if not strict:
                memory.loaded = np.zeros(0, np.uint8)
            machine = self._machine(number, kernel, memory, budget)
            try:
                machine.run(chosen)
            except EmulationStopped as stopped:
                findings.append(stopped.finding)
                if strict:
                    break
            finally:
                budget = max(0, machine.budget)
                findings.extend(machine.warnings.values())
            loads.append(memory.loaded)
        return Sampled(memory, tuple(findings)), loads

    def _memory(self) -> PagedMemory:
        return PagedMemory(self.buffers, self.loaded.globals, self.granule)

    def _machine(self, number: int, kernel: Kernel, memory: PagedMemory, budget: int) -> Machine:
        launch, program = self.launches[number], kernel.program
        shared = SharedMemory(
            kernel.shared_variables, launch.shared_bytes, program.smallest_shared_access
        )
        return Machine(
            program,
            memory,
            shared,
            LocalMemory(kernel.local_variables),
            parameters_of(launch, memory),
            launch.grid,
            launch.block,
            tally=Tally(program.steps),
            budget=budget,
            kernel=launch.kernel.expression,
            launch_line=launch.line,
            dynamic_shared=launch.shared_bytes,
            checked=True,
            counted=False,
            dependency=dependency_of(self.launches, number, self.buffers),
            cluster=self.loaded.cluster(launch),
            accepts=self.accepts,
        )
