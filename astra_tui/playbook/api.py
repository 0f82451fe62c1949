"""What a move is given and what it answers."""

from __future__ import annotations

from typing import Protocol

import msgspec

from astra_tui.model.counters import Counters
from astra_tui.model.plan import Plan
from astra_tui.model.task import KernelTask
from astra_tui.playbook.kernel_text import KernelText


class Evidence(msgspec.Struct, frozen=True):
    """The task, and what was counted of the current source on the task's workloads.

    Moves read the task's arguments, contract and scope; none may look at its name.
    """

    task: KernelTask
    counters: Counters | None = None
    device: str = "emulator"
    """The device whose profile decides, as the profile names it."""

    @property
    def timed(self) -> bool:
        """Whether times decide. Only they can judge launch geometry: counters see no waiting."""
        return self.device != "emulator"


class Proposal(msgspec.Struct, frozen=True):
    """A change that is written out: its plan and the complete new source."""

    plan: Plan
    source: str


class NotApplicable(msgspec.Struct, frozen=True):
    """Why a move has nothing to offer for a source, with the lines that are in its way."""

    move: str
    reason: str


class Move(Protocol):
    """One known inefficiency and its remedy. Deterministic: the same input, the same answer."""

    name: str
    summary: str

    def propose(self, source: KernelText, evidence: Evidence) -> Proposal | NotApplicable:
        """The source without the inefficiency, or why there is nothing to change."""
        ...
