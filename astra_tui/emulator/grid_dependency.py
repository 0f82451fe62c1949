"""Programmatic dependent launch: what a kernel may touch before the launches before it have ended.

PTX ISA, griddepcontrol. Hardware starts such a launch early; here launches run one after another,
and what would be wrong on hardware is a finding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from astra_tui.emulator.faults import Fault, first_true
from astra_tui.emulator.memory import Buffer, GlobalMemory
from astra_tui.emulator.step import AccessSpec
from astra_tui.model.device import ArgumentRole, DeviceBuffer, PackedLaunch
from astra_tui.model.findings import FindingKind

_ADVICE = "call cudaGridDependencySynchronize() before it"


class GridDependency:
    """The launches before one that may begin before they end."""

    def __init__(self, final: frozenset[str]):
        """`final` are the buffers that none of those launches can write any more."""
        self._final = final
        self.waited = False
        """Whether any thread has waited."""

    def require_waited(
        self,
        waited: Any,
        spec: AccessSpec,
        memory: GlobalMemory,
        buffer: Buffer | None,
        offsets: Any,
    ) -> None:
        """Raises Fault for lanes that touch global memory before they have `waited`."""
        early = ~waited
        if not early.any():
            return
        if not spec.writes:
            if buffer is not None and self._is_final(buffer):
                return
            owners = memory.owners(offsets)
            early &= ~np.array([self._is_final(b) for b in memory.buffers], np.bool_)[owners]
            if not early.any():
                return
        lane, lanes = first_true(early)
        place = memory.describe_offset(int(offsets[lane]))
        why = (
            "the launches before may still use what is there"
            if spec.writes
            else "the launches before may still write it, and the task does not call it stable"
        )
        text = f"{spec.direction} at {place} before griddepcontrol.wait: {why}; {_ADVICE}"
        raise Fault(FindingKind.BEFORE_WAIT, text, lane, lanes)

    def _is_final(self, buffer: Buffer) -> bool:
        return buffer.use is None or buffer.name in self._final


def share_waits(waited: Any, lanes: Any, meeting: Any) -> None:
    """Threads met, `meeting` by number: those of one number that has a thread that waited have.

    `waited` tells of each lane of a chunk whether it has, and is changed.
    """
    numbers = meeting[lanes]
    having = np.zeros(int(numbers.max()) + 1 if len(numbers) else 0, np.bool_)
    having[numbers[waited[lanes]]] = True
    waited[lanes] |= having[numbers]


def dependency_of(
    launches: Sequence[PackedLaunch], number: int, buffers: Sequence[DeviceBuffer]
) -> GridDependency | None:
    """What launch `number` of a plan depends on; None where it begins after all others have ended.

    An earlier launch without the attribute has waited for all that the caller had launched, so that
    what the plan only reads is final from then on.
    """
    if not launches[number].pdl:
        return None
    follows_caller = all(launch.pdl for launch in launches[:number])
    return GridDependency(
        frozenset(
            b.name for b in buffers if b.use is ArgumentRole.IN and (b.stable or not follows_caller)
        )
    )
