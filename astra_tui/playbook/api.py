"""What a move is given and what it answers."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Protocol

import msgspec

from astra_tui.model.counters import Counters, add_counters
from astra_tui.model.plan import Plan
from astra_tui.model.settings import EMULATOR
from astra_tui.model.task import KernelTask
from astra_tui.model.team import Brief
from astra_tui.playbook.kernel_text import KernelText


class Evidence(msgspec.Struct, frozen=True):
    """The task, and what was counted of the current source on the task's workloads.

    Moves read the task's arguments, contract and scope; none may look at its name.
    """

    task: KernelTask
    counters: Counters | None = None
    device: str = EMULATOR
    """The device whose profile decides, as the profile names it."""
    arch: str = ""
    """What is compiled for, such as sm_90; empty where that is not known."""

    @classmethod
    def of(cls, brief: Brief) -> Evidence:
        """What a brief knows of its base."""
        profile = brief.profile
        if profile is None:
            return cls(brief.task)
        counters = add_counters(w.counters for w in profile.workloads)
        return cls(brief.task, counters, profile.device, profile.arch)

    @property
    def timed(self) -> bool:
        """Whether times decide. Only they can judge launch geometry: counters see no waiting."""
        return self.device != EMULATOR

    @property
    def overlaps_launches(self) -> bool:
        """Whether the GPU has programmatic dependent launch: compute capability 9.0 and later."""
        number = re.match(r"sm_(\d+)", self.arch)
        return number is None or int(number[1]) >= 90


class Proposal(msgspec.Struct, frozen=True):
    """A change that is written out: its plan and the complete new source."""

    plan: Plan
    source: str


class NotApplicable(msgspec.Struct, frozen=True):
    """Why a move has nothing to offer for a source, with the lines that are in its way."""

    move: str
    reason: str


class MoveKind(StrEnum):
    """What the effect of a move follows from."""

    CODE = "code"
    """The lines that it changes."""
    GEOMETRY = "geometry"
    """How the kernel is launched as well."""


class Move(Protocol):
    """One known inefficiency and its remedy. Deterministic: the same input, the same answer.

    Where times decide, moves come in the order of their `priority`, lowest first, as measured on an
    H100. A grid that fills the GPU comes first. Arithmetic becomes cheap before accesses become
    wide: a thread computes the elements of a pack one after the other, so that accurate functions
    would make small sizes slower; and where rows are long, registers that divisions need keep
    blocks out. Blocks grow once no tree reduction needs a power of two of them, and a row is kept
    once a thread has few iterations of it.
    """

    name: str
    summary: str
    kind: MoveKind
    needs_gpu: str
    """Why counters cannot judge it, so that it waits for a GPU; "" where they can."""
    priority: int
    gain: tuple[float, float]
    """Lowest and highest speedup of the move alone on the bundled tasks, on an H100."""

    def propose(self, source: KernelText, evidence: Evidence) -> Proposal | NotApplicable:
        """The source without the inefficiency, or why there is nothing to change."""
        ...
