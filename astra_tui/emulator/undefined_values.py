"""Which registers hold values that follow from shared memory that no thread has written.

A compiler may load early what it turns out not to need, and drop it with a `selp`. So the load is
a fault only where its value is used: where it, or what instructions compute from it, decides a
branch or a predicate, is an address, is stored, or goes to other lanes. What merely computes
registers from registers passes the mark on; any other use is a fault. So only registers are ever
marked, never memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from astra_tui.emulator.control_flow import predicate_of
from astra_tui.emulator.faults import Fault, first_true
from astra_tui.emulator.step import Source, Step
from astra_tui.model.findings import FindingKind

if TYPE_CHECKING:
    from astra_tui.emulator.access import AccessSpec
    from astra_tui.emulator.lanes import Chunk, Group

_STEP_SHIFT = 32
_OFFSET_BITS = (1 << _STEP_SHIFT) - 1


class UndefinedValues:
    """The marks of a chunk's registers, lane by lane."""

    def __init__(self, chunk: Chunk):
        self.chunk = chunk
        self.marks: dict[int, Any] = {}
        """By register slot, a mark for each lane of the chunk: zero where its value is defined,
        else which step loaded what it follows from, and from which offset of shared memory. Slots
        without any mark are left out.
        """

    def note_load(self, spec: AccessSpec, group: Group, offsets: Any, missing: Any) -> None:
        """Marks what a load into registers has read of undefined memory.

        `offsets` are into the chunk's shared memory. `missing` has a row a lane: whether no thread
        has written each of the equal parts that the lane's bytes are divided into.
        """
        count, parts = len(spec.results), missing.shape[1]
        for number, slots in enumerate(spec.results):
            first = number * parts // count
            end = max(first + 1, (number + 1) * parts // count)
            origin = ((spec.index + 1) << _STEP_SHIFT) + offsets + number * (spec.size // count)
            found = np.where(missing[:, first:end].any(axis=1), origin, 0)
            for slot in slots:
                self._mark(slot, group.lanes, found)

    def follow(self, step: Step, group: Group) -> None:
        """Tells what a step does with marked registers, before a group of lanes runs it.

        Raises EmulationStopped, with the finding about the load, where it uses one of them.
        """
        predicate = predicate_of(step)
        if self.marks.keys().isdisjoint(step.reads | step.writes | predicate):
            return
        running = np.ones(group.n, np.bool_)
        if predicate:
            self._require_defined(predicate, step, group, running)
            running = np.broadcast_to(group.registers[step.predicate] != step.negated, group.n)
        if step.computes:
            found = self._of_sources(step.sources or (Source(step.reads),), group)
        else:
            self._require_defined(step.reads, step, group, running)
            found = np.zeros(group.n, np.int64)
        for slot in step.writes:
            self._mark(slot, group.lanes[running], found[running])

    def _of(self, slots: Iterable[int], group: Group) -> Any:
        """For each lane of a group, a mark of any of these slots."""
        found = np.zeros(group.n, np.int64)
        for slot in slots:
            if slot in self.marks:
                found = np.where(found != 0, found, self.marks[slot][group.lanes])
        return found

    def _of_sources(self, sources: tuple[Source, ...], group: Group) -> Any:
        """For each lane of a group, a mark of any of the sources that its result depends on."""
        found = np.zeros(group.n, np.int64)
        for source in sources:
            mark = self._of(source.slots, group)
            if source.unused is not None:
                unused = source.unused(group.registers) & (self._of(source.given, group) == 0)
                mark = np.where(unused, 0, mark)
            found = np.where(found != 0, found, mark)
        return found

    def _mark(self, slot: int, lanes: Any, found: Any) -> None:
        if slot not in self.marks:
            if not found.any():
                return
            self.marks[slot] = np.zeros(self.chunk.width, np.int64)
        known = self.marks[slot]
        known[lanes] = found
        if not known.any():
            del self.marks[slot]

    def _require_defined(
        self, slots: Iterable[int], step: Step, group: Group, running: Any
    ) -> None:
        """Raises EmulationStopped where a lane that runs a step uses a marked slot; an engineer
        may accept that.
        """
        found = np.where(running, self._of(slots, group), 0)
        machine = self.chunk.machine
        loads = found >> _STEP_SHIFT
        for load in np.unique(loads[loads != 0]).tolist():
            lane, lanes = first_true(loads == load)
            fault = self.fault(int(found[lane]) & _OFFSET_BITS, lane, lanes)
            origin = machine.program.steps[load - 1]
            if step.location.here != origin.location.here:
                fault.message += f", and {step.location.here} uses its value"
            if not machine.tolerates(fault, load - 1, group):
                raise machine.stop(fault, origin, group)

    def fault(self, offset: int, lane: int, lanes: int) -> Fault:
        """The fault of a load from an offset into the chunk's shared memory; `lane` is a position
        within the group that is at fault.
        """
        shared = self.chunk.machine.shared
        place = shared.describe_offset(offset % shared.stride)
        text = f"load of {place}: no thread has written it"
        return Fault(FindingKind.UNINITIALISED_SHARED, text, lane, lanes)
