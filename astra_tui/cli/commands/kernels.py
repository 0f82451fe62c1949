"""`astra-tui kernels`: the tasks that can be named, and where they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from astra_tui import plain
from astra_tui.cli.click_command import Options, command
from astra_tui.cli.exit_codes import ExitCode, error_entry, print_error
from astra_tui.cli.flags import JSON
from astra_tui.model.errors import UserError

if TYPE_CHECKING:
    from astra_tui.cli.json_answers import TaskEntry
    from astra_tui.model.task import KernelTask


@command(
    "list the kernel tasks",
    "Tasks are looked up in ./kernels, in $ASTRA_TUI_KERNELS, then among the bundled ones.",
    JSON,
    example="astra-tui kernels",
)
def run(options: Options) -> int:
    """Prints a table, or JSON. A task that cannot be read is named on stderr."""
    from astra_tui.cli.json_answers import KernelsAnswer
    from astra_tui.model.task import list_tasks, load_task
    from astra_tui.present.tasks import tasks_blocks

    tasks: list[KernelTask] = []
    broken: list[UserError] = []
    for found in list_tasks():
        try:
            tasks.append(load_task(found.folder))
        except UserError as error:
            broken.append(error)
    answer = KernelsAnswer(tuple(map(_entry, tasks)), tuple(map(error_entry, broken)))
    plain.print_answer(answer, options.json, lambda: tasks_blocks(tasks))
    for problem in broken:
        print_error(problem)
    return ExitCode.FAILED if broken else ExitCode.OK


def _entry(task: KernelTask) -> TaskEntry:
    from astra_tui.cli.json_answers import TaskEntry, WorkloadEntry

    return TaskEntry(
        name=task.name,
        summary=task.summary,
        origin=task.origin,
        folder=str(task.folder),
        hash=task.hash,
        dtypes=tuple(task.dtypes),
        workloads=tuple(WorkloadEntry(w.name, dict(w.dims), w.dtype) for w in task.workloads),
        sources=tuple(sorted(p.name for p in task.folder.glob("*.cu"))),
    )
