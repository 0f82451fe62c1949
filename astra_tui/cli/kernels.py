"""`astra-tui kernels`: the tasks that can be named, and where they are."""

from __future__ import annotations

import argparse

from astra_tui import plain
from astra_tui.cli.exit_codes import ExitCode
from astra_tui.model.errors import UserError
from astra_tui.model.task import KernelTask, list_tasks, load_task


def run(options: argparse.Namespace) -> int:
    """Prints a table, or JSON. A task that cannot be read is named on stderr."""
    tasks: list[KernelTask] = []
    broken: list[UserError] = []
    for found in list_tasks():
        try:
            tasks.append(load_task(found.folder))
        except UserError as error:
            broken.append(error)
    if options.json:
        plain.print_json(
            {
                "tasks": [_as_data(task) for task in tasks],
                "errors": [error.describe() for error in broken],
            }
        )
    else:
        plain.print_tasks(tasks)
    for problem in broken:
        plain.note(problem.describe())
    return ExitCode.FAILED if broken else ExitCode.OK


def _as_data(task: KernelTask) -> dict[str, object]:
    return {
        "name": task.name,
        "summary": task.summary,
        "origin": task.origin,
        "folder": str(task.folder),
        "hash": task.hash,
        "dtypes": [d.value for d in task.dtypes],
        "workloads": [
            {"name": w.name, "dims": dict(w.dims), "dtype": w.dtype.value} for w in task.workloads
        ],
        "sources": sorted(p.name for p in task.folder.glob("*.cu")),
    }
