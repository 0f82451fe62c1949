"""Which registers hold values that follow from shared memory that no thread has written.

A compiler may load early what it turns out not to need, and drop it with a `selp`. So the load is
a fault only where its value is used: where it, or what instructions compute from it, decides a
branch or a predicate, is an address, is stored, or goes to other lanes. What merely computes
registers from registers passes the mark on; any other use is a fault. So only registers are ever
marked, never memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from astra_tui.emulator.control_flow import predicate_of
from astra_tui.emulator.faults import Fault, first_true
from astra_tui.emulator.lanes import Chunk, Group
from astra_tui.emulator.step import AccessSpec, Source, Step
from astra_tui.model.findings import FindingKind

_STEP_SHIFT = 32
_OFFSET_BITS = (1 << _STEP_SHIFT) - 1


def note_load(spec: AccessSpec, group: Group, offsets: Any, missing: Any) -> None:
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
            _mark(group.chunk, slot, group.lanes, found)


def follow(step: Step, group: Group) -> None:
    """Tells what a step does with marked registers, before a group of lanes runs it.

    Raises EmulationStopped, with the finding about the load, where it uses one of them.
    """
    predicate = predicate_of(step)
    if group.chunk.marks.keys().isdisjoint(step.reads | step.writes | predicate):
        return
    running = np.ones(group.n, np.bool_)
    if predicate:
        _require_defined(predicate, step, group, running)
        running = np.broadcast_to(group.registers[step.predicate] != step.negated, group.n)
    if step.computes:
        found = _of_sources(step.sources or (Source(step.reads),), group)
    else:
        _require_defined(step.reads, step, group, running)
        found = np.zeros(group.n, np.int64)
    for slot in step.writes:
        _mark(group.chunk, slot, group.lanes[running], found[running])


def _of(slots: Iterable[int], group: Group) -> Any:
    """For each lane of a group, a mark of any of these slots."""
    found, marks = np.zeros(group.n, np.int64), group.chunk.marks
    for slot in slots:
        if slot in marks:
            found = np.where(found != 0, found, marks[slot][group.lanes])
    return found


def _of_sources(sources: tuple[Source, ...], group: Group) -> Any:
    """For each lane of a group, a mark of any of the sources that its result depends on."""
    found = np.zeros(group.n, np.int64)
    for source in sources:
        mark = _of(source.slots, group)
        if source.unused is not None:
            unused = source.unused(group.registers) & (_of(source.given, group) == 0)
            mark = np.where(unused, 0, mark)
        found = np.where(found != 0, found, mark)
    return found


def _mark(chunk: Chunk, slot: int, lanes: Any, found: Any) -> None:
    if slot not in chunk.marks:
        if not found.any():
            return
        chunk.marks[slot] = np.zeros(chunk.width, np.int64)
    known = chunk.marks[slot]
    known[lanes] = found
    if not known.any():
        del chunk.marks[slot]


def _require_defined(slots: Iterable[int], step: Step, group: Group, running: Any) -> None:
    """Raises EmulationStopped where a lane that runs a step uses a marked slot; an engineer
    may accept that.
    """
    found = np.where(running, _of(slots, group), 0)
    steps = group.chunk.launch.program.steps
    loads = found >> _STEP_SHIFT
    for load in np.unique(loads[loads != 0]).tolist():
        lane, lanes = first_true(loads == load)
        fault = fault_of(group.chunk, int(found[lane]) & _OFFSET_BITS, lane, lanes)
        origin = steps[load - 1]
        if step.location.here != origin.location.here:
            fault.message += f", and {step.location.here} uses its value"
        if not group.tolerates(fault, load - 1):
            raise group.stop(fault, origin)


def fault_of(chunk: Chunk, offset: int, lane: int, lanes: int) -> Fault:
    """The fault of a load from an offset into the chunk's shared memory; `lane` is a position
    within the group that is at fault.
    """
    shared = chunk.launch.shared
    place = shared.describe_offset(offset % shared.stride)
    text = f"load of {place}: no thread has written it"
    return Fault(FindingKind.UNINITIALISED_SHARED, text, lane, lanes)
