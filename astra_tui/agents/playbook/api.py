"""What a move is given and what it answers."""

from __future__ import annotations

from typing import Protocol

import msgspec

from astra_tui.agents.playbook.kernel_text import KernelText
from astra_tui.model.counters import Counters
from astra_tui.model.dtypes import DType
from astra_tui.model.launch.scope import Scope
from astra_tui.model.plan import Plan
from astra_tui.model.task import KernelTask, Role


class ArgumentFacts(msgspec.Struct, frozen=True):
    """An argument of the operator; `dtype` None means the workload's element type `T`."""

    name: str
    role: Role
    dtype: DType | None
    rank: int


class TaskFacts(msgspec.Struct, frozen=True):
    """What a move may know of the task: no name, no reference, no values."""

    dtypes: tuple[DType, ...]
    arguments: tuple[ArgumentFacts, ...]
    accepts: tuple[str, ...]
    """The contract's conditions, in the plan's language."""
    scope: Scope

    def role_of(self, argument: str) -> Role | None:
        """The role of an argument, None for a workspace."""
        return next((a.role for a in self.arguments if a.name == argument), None)


def facts_of(task: KernelTask) -> TaskFacts:
    """The facts of a task that moves may use."""
    arguments = tuple(
        ArgumentFacts(a.name, a.role, a.dtype, len(a.shape)) for a in task.args.values()
    )
    return TaskFacts(task.dtypes, arguments, task.accepts_text, task.scope)


class Evidence(msgspec.Struct, frozen=True):
    """The task's facts, and what was counted of the current source on the task's workloads."""

    task: TaskFacts
    counters: Counters | None = None


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
