"""`astra-tui workloads`: workloads with weights, from what a running service recorded."""

from __future__ import annotations

from pathlib import Path

from astra_tui import plain
from astra_tui.cli.click_command import Options, argument, at_least_one, command, flag
from astra_tui.cli.exit_codes import ExitCode
from astra_tui.cli.flags import JSON


def _rows(text: str) -> tuple[int, ...]:
    return tuple(at_least_one(part) for part in text.split(","))


@command(
    "make workloads with weights from what a service recorded",
    "Reads a torch profiler trace, SGLang's fused-op trace, FlashInfer's trace dump, an adapter's "
    "counters or CSV, and prints [[workloads]] for the task's task.toml (docs/delivery.md).",
    argument("task", "TASK", "a kernel task, by name or folder"),
    flag("--from", "source", metavar="FILE", required=True, help="what was recorded"),
    flag("--op", metavar="NAME", help="the operator's name there (default: the task's)"),
    flag("--rows", metavar="N,N", type=_rows, help="rows, where it does not say them"),
    flag("--most", metavar="N", type=at_least_one, default=12, help="workloads (default: 12)"),
    flag("--speedup", metavar="X", type=float, help="say what this of the kernel is worth"),
    JSON,
    example="astra-tui workloads silu_and_mul --from trace.json",
)
def run(options: Options) -> int:
    """Prints the workloads; 1 where the recording has no call that is the task's."""
    from astra_tui.cli.json_answers import WorkloadsAnswer
    from astra_tui.drafting.service_traces import read_recorded, workloads_of
    from astra_tui.model.errors import UserError
    from astra_tui.model.task import find_task
    from astra_tui.present.tasks import service_blocks

    task = find_task(options.task)
    operator = options.op or task.name
    recorded = read_recorded(Path(options.source), task, operator, options.rows or ())
    workloads, share = workloads_of(task, recorded, options.most)
    if not workloads:
        named = ", ".join(recorded.others[:12])
        raise UserError(
            f"has no call of {operator} that this task accepts",
            file=options.source,
            hint=f"it names: {named}; choose one with --op" if named else "look at its shapes",
        )
    end_to_end = None
    if options.speedup and recorded.exposed is not None:
        end_to_end = recorded.exposed.end_to_end(options.speedup)
    answer = WorkloadsAnswer(
        task.name, recorded.format, workloads, share, recorded.exposed, end_to_end
    )
    plain.print_answer(
        answer,
        options.json,
        lambda: service_blocks(recorded.format, workloads, share, recorded.exposed, end_to_end),
    )
    return ExitCode.OK
