"""Short ways that some threads of a group take and others skip, where they only compute.

All threads of the group compute them, and those that skip keep what they had: that costs less than
to take the threads apart, to gather their registers and to put them together again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from astra_tui.emulator.lanes import Group
from astra_tui.emulator.registers import MaskedRegisters
from astra_tui.emulator.step import Flow, Step

_IN_VAIN = 16
"""Steps that all threads may compute in vain."""


def is_cheap(running: Any, steps: int) -> bool:
    """Whether few enough threads compute so many steps in vain."""
    idle = len(running) - int(np.count_nonzero(running))
    return idle * steps <= _IN_VAIN * len(running)


class Aside:
    """The steps between a branch and where it leads, for the lanes of a group that take them."""

    def __init__(self, group: Group, index: int, running: Any):
        launch = group.chunk.launch
        self.group, self.launch = group, launch
        self.steps = launch.program.steps
        self.at, self.end = index + 1, self.steps[index].target
        self.waiting: dict[int, Any] = {}
        """By the step ahead at which they are, lanes that have skipped some."""
        self._go_on(running)

    def is_affordable(self) -> bool:
        """Whether the instruction budget is enough for all steps."""
        return self.launch.budget > (self.end - self.at) * (1 + (self.group.n >> 10))

    def run(self) -> None:
        """Runs until all lanes are where the branch leads."""
        while self.at < self.end:
            if self.at in self.waiting:
                self.registers.flush(self.launch.program.needed[self.at])
                self._go_on(self.running | self.waiting.pop(self.at))
            if not self.lanes:
                self.at = min(self.waiting, default=self.end)
                continue
            self._step(self.steps[self.at])
            self.at += 1
        self.registers.flush(self.launch.program.needed[self.end])

    def _go_on(self, running: Any) -> None:
        self.running = running
        self.registers = MaskedRegisters(self.group.registers, running)
        self.lanes, self.warps = self.group.counts(running)
        self.cost = 1 + (self.lanes >> 10)

    def _step(self, step: Step) -> None:
        tally = self.launch.tally
        tally.warp_hits[self.at] += self.warps
        tally.lane_hits[self.at] += self.lanes
        self.launch.budget -= self.cost
        condition = self._condition(step)
        if step.flow is Flow.BRANCH:
            self._branch(step.target, condition)
        elif condition.ndim:
            self.group.run_masked(step, condition, self.registers)
        elif condition:
            step.run(self.registers, self.group)  # type: ignore[misc]

    def _condition(self, step: Step) -> Any:
        if step.predicate < 0:
            return np.True_
        return self.registers[step.predicate] != step.negated

    def _branch(self, target: int, condition: Any) -> None:
        going = self.running & condition
        if not np.count_nonzero(going):
            return
        self.registers.flush(self.launch.program.needed[self.at])
        self.waiting[target] = self.waiting.get(target, np.False_) | going
        self._go_on(self.running & ~going)
