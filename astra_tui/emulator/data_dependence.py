"""Which reads a store has to wait for, because what they gave reaches it from other lanes.

A shuffle or a vote orders no memory by itself: a compiler may move a store over it. But a store
that follows from what a shuffle brought, and that from what a lane read before, comes after the
read whatever is moved. What follows from what is taken from registers and branches alone, with
local memory as one place, and without regard to the order of the steps.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np

from astra_tui.emulator.control_flow import CONTROL, ControlFlow, predicate_of
from astra_tui.emulator.ptx.module import Instruction
from astra_tui.emulator.step import Step, WarpOrder

_OWN = {"local", "param"}
_SHARED_BY_LANES = {"global", "shared", "const"}


class Dependence:
    """What the steps of one program follow from. All is found when first asked for."""

    def __init__(self, steps: tuple[Step, ...], instructions: tuple[Instruction, ...]):
        self.steps = steps
        self.instructions = instructions
        self.known: dict[int, Any] = {}

    def awaited(self, store: int) -> Any:
        """For each step, whether its result reaches a store by way of other lanes of the warp."""
        if store not in self.known:
            exchanges = [
                i
                for i in self._behind([store])
                if self.steps[i].orders is WarpOrder.WRITES_AFTER_READS
            ]
            found = np.zeros(len(self.steps), np.bool_)
            found[list(self._behind(exchanges))] = True
            self.known[store] = found
        return self.known[store]

    def _behind(self, steps: Iterable[int]) -> set[int]:
        """These steps, and all that they follow from."""
        found: set[int] = set()
        pending = list(steps)
        while pending:
            index = pending.pop()
            if index in found:
                continue
            found.add(index)
            step = self.steps[index]
            for slot in step.reads | predicate_of(step):
                pending += self._writers.get(slot, ())
            pending += self._deciders.get(index, ())
            if self._may_access_own(index, ("ld",)):
                pending += self._own_stores
        return found

    @cached_property
    def _writers(self) -> dict[int, list[int]]:
        """The steps that write each slot."""
        writers: dict[int, list[int]] = {}
        for index, step in enumerate(self.steps):
            for slot in step.writes:
                writers.setdefault(slot, []).append(index)
        return writers

    @cached_property
    def _deciders(self) -> dict[int, list[int]]:
        """The branches that decide whether, or how often, each step runs."""
        flow = ControlFlow(self.steps)
        deciders: dict[int, list[int]] = {}
        for branch, step in enumerate(self.steps):
            if step.flow in CONTROL and step.reads | predicate_of(step):
                for index in flow.region(branch)[0]:
                    deciders.setdefault(index, []).append(branch)
        return deciders

    @cached_property
    def _own_stores(self) -> list[int]:
        return [i for i in range(len(self.steps)) if self._may_access_own(i, ("st", "call"))]

    def _may_access_own(self, index: int, operations: tuple[str, ...]) -> bool:
        """Whether a step is one of these operations, and may be about a thread's own memory."""
        if index >= len(self.instructions):
            return False
        instruction = self.instructions[index]
        spaces = {m.split("::")[0] for m in instruction.modifiers}
        return instruction.operation in operations and (
            bool(spaces & _OWN) or not spaces & _SHARED_BY_LANES
        )
