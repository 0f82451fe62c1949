"""The kernel task: an operator's contract, its workloads, and how its results are judged."""

from astra_tui.model.device import ArgumentRole
from astra_tui.model.findings import Acceptance
from astra_tui.model.task.loader import find_task, load_task, parse_task
from astra_tui.model.task.table import TaskError
from astra_tui.model.task.task import (
    NAME_RULE,
    Argument,
    Dimension,
    ExtraCase,
    KernelTask,
    Tolerance,
    Workload,
    is_task_name,
)
from astra_tui.model.task.upstream import Upstream, upstream_files
from astra_tui.model.task_folders import Found, bundled, list_tasks
from astra_tui.model.values import ValueKind, Values

__all__ = [
    "NAME_RULE",
    "Acceptance",
    "Argument",
    "ArgumentRole",
    "Dimension",
    "ExtraCase",
    "Found",
    "KernelTask",
    "TaskError",
    "Tolerance",
    "Upstream",
    "ValueKind",
    "Values",
    "Workload",
    "bundled",
    "find_task",
    "is_task_name",
    "list_tasks",
    "load_task",
    "parse_task",
    "upstream_files",
]
