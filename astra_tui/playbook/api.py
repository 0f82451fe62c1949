"""What a move is given and what it answers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Protocol

import msgspec
from tree_sitter import Node

from astra_tui.cuda_source.syntax import line_of
from astra_tui.model.counters import Counters, add_counters
from astra_tui.model.occupancy import overlaps_launches
from astra_tui.model.plan import Choice, Parameter, Plan
from astra_tui.model.settings import EMULATOR
from astra_tui.model.task import KernelTask
from astra_tui.model.team_protocol import Brief, SecondParent
from astra_tui.model.timing import Timing, mean_ratio
from astra_tui.model.traffic import WastedTraffic
from astra_tui.playbook.kernel_text import KernelText

WORKLOADS = "workloads"
"""The parameter of a plan that says on which workloads its new code is used."""


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
    wasted: tuple[WastedTraffic, ...] = ()
    """What was counted to be moved in vain, on all workloads."""
    second: SecondParent | None = None
    """What the source is to be merged with, in a round that merges."""
    room: float = math.inf
    """How many times as fast the device lets the source become; infinite where unknown."""
    included: Mapping[str, str] = {}
    """Upstream files of the task: texts, by the name that counters have for them."""
    settings: Mapping[str, Choice | tuple[Choice, ...]] = {}
    """Values of the move's parameters; of those that are left out it has its own."""

    @classmethod
    def of(cls, brief: Brief) -> Evidence:
        """What a brief knows of its base."""
        profile = brief.profile
        if profile is None:
            return cls(brief.task, second=brief.second, included=brief.included)
        counters = add_counters(w.counters for w in profile.workloads)
        parts = counters, profile.device, profile.arch, profile.wasted
        room = room_of(brief.timing) if brief.timing is not None else math.inf
        return cls(brief.task, *parts, brief.second, room, brief.included)

    def one(
        self, name: str, meaning: str, choices: Sequence[Choice], own: Choice | None = None
    ) -> Parameter:
        """A parameter with one of `choices`: `own`, or the first, unless it was set.

        Raises UserError where it was set to something else.
        """
        parameter = Parameter(
            name, meaning, choices[0] if own is None else own, tuple(dict.fromkeys(choices))
        )
        return parameter.having(self.settings[name]) if name in self.settings else parameter

    def several(self, name: str, meaning: str, choices: Iterable[Choice]) -> Parameter:
        """A parameter with all of `choices`, or those that it was set to. Raises UserError."""
        everything = tuple(dict.fromkeys(choices))
        parameter = Parameter(name, meaning, everything, everything)
        return parameter.having(self.settings[name]) if name in self.settings else parameter

    def lines(self, nodes: Iterable[Node]) -> Parameter:
        """The lines of some nodes, of which each can be left as it is. Raises UserError."""
        return self.several(
            "lines", "lines that change; the others stay", sorted({line_of(n) for n in nodes})
        )

    def workloads(self) -> Parameter:
        """The workloads on which new code is used; on all others the old. Raises UserError."""
        names = (w.name for w in self.task.workloads)
        return self.several(WORKLOADS, "workloads that use the new kernel", names)

    def kernels(self, names: Iterable[str]) -> Parameter:
        """The kernels that a move can change, of which each can be left. Raises UserError."""
        return self.several("kernels", "kernels that change; the others stay", names)

    @property
    def timed(self) -> bool:
        """Whether times decide. Only they can judge launch geometry: counters see no waiting."""
        return self.device != EMULATOR

    @property
    def overlaps_launches(self) -> bool:
        """Whether the GPU has programmatic dependent launch: compute capability 9.0 and later."""
        return overlaps_launches(self.arch)


def room_of(timing: Timing) -> float:
    """How many times as fast a candidate can become on the GPU that timed it, by the mean.

    Memory bounds it: what a copy of as many bytes takes beyond its launch, which launches that
    overlap may hide. Infinite where a workload has no such floor.
    """
    rooms = []
    for workload in timing.workloads:
        if workload.floor is None or workload.invalidated:
            return math.inf
        moving = max(workload.floor.copy_us - workload.floor.launch_us, 0.1)
        us = (workload.chained or workload.cold).candidate_us
        rooms.append(max(us / moving, 1.0))
    return mean_ratio(rooms, timing.weights) if rooms else math.inf


class Proposal(msgspec.Struct, frozen=True):
    """A change that is written out: its plan and the complete new source."""

    plan: Plan
    source: str
    reach: float = 1.0
    """The share of the workloads, by their weights, that would run something else."""


def settable(*parameters: Parameter) -> tuple[Parameter, ...]:
    """The parameters that leave something to choose."""
    return tuple(p for p in parameters if len(p.choices) > 1)


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
    """One known inefficiency and its remedy. Deterministic: the same input, the same answer."""

    name: str
    summary: str
    kind: MoveKind
    needs_gpu: str
    """Why counters cannot judge it, so that it waits for a GPU; "" where they can."""

    @property
    def gain(self) -> tuple[float, float] | None:
        """Lowest and highest speedup of the move alone on the bundled tasks, on an H100; None where
        its plan says what it promises.
        """
        ...

    def propose(self, source: KernelText, evidence: Evidence) -> Proposal | NotApplicable:
        """The source without the inefficiency, or why there is nothing to change.

        Raises UserError for settings that are no choice here.
        """
        ...
