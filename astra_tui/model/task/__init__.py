"""The kernel task: an operator's contract, its workloads, and how its results are judged."""

from astra_tui.model.task.loader import TaskError, load_task, parse_task
from astra_tui.model.task.task import (
    Argument,
    Dimension,
    ExtraCase,
    KernelTask,
    Role,
    Tolerance,
    Workload,
)
from astra_tui.model.task.values import ValueKind, Values

__all__ = [
    "Argument",
    "Dimension",
    "ExtraCase",
    "KernelTask",
    "Role",
    "TaskError",
    "Tolerance",
    "ValueKind",
    "Values",
    "Workload",
    "load_task",
    "parse_task",
]
