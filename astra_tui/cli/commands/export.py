"""`astra-tui export`: the winner of a session in a form that can be used elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from astra_tui import plain
from astra_tui.cli.click_command import OneOf, Options, argument, command, flag
from astra_tui.cli.exit_codes import ExitCode
from astra_tui.cli.flags import DEVICE, JSON, NO_CHECK, SESSION_TASK, WINNER, chosen_seed
from astra_tui.model.errors import UserError
from astra_tui.model.export import Format
from astra_tui.model.settings import AUTO_DEVICE, check_device_name

if TYPE_CHECKING:
    from astra_tui.export import ExportReport, Winner
    from astra_tui.model.task import KernelTask


@command(
    "export the best kernel of a session",
    f"The forms are {'; '.join(f'{one}: {one.about}' for one in Format)}. It is compiled and "
    "checked against the task's reference first, with what this machine has, and the answer and "
    "the README next to it say what was checked where (docs/export.md).",
    argument("session", "SESSION", "a session's name or folder"),
    flag(
        "--to",
        "format",
        type=OneOf([one.value for one in Format]),
        required=True,
        help="the form",
    ),
    WINNER,
    flag("--out", metavar="DIR", help="a new folder (default: TASK-FORMAT in the current one)"),
    NO_CHECK,
    flag("--allow-altered", help="export from a session that was altered; every file says so"),
    flag("--sessions", metavar="DIR", help="where they are (default: ./sessions)"),
    *SESSION_TASK,
    DEVICE,
    JSON,
    example="astra-tui export h100-playbook-silu --to torch",
)
def run(options: Options) -> int:
    """Writes the export and says what was checked; 1 where a check failed, and nothing is left."""
    from astra_tui.cli.session_lookup import open_winner
    from astra_tui.present.outcomes import export_blocks

    check_device_name(options.device)
    _, winner, task = open_winner(options, "export")
    to = Format(options.format)
    out = Path(options.out) if options.out else _new_folder(task, to)
    report = _export(winner, task, to, out, options)
    plain.print_answer(report, options.json, lambda: export_blocks(report))
    return ExitCode.FAILED if report.failed else ExitCode.OK


async def export_best(folder: Path, to: Format) -> ExportReport:
    """Exports the best candidate of a session into the current folder, for the screen.

    It is made in a process of its own, which a cancel ends. Raises UserError.
    """
    import asyncio

    from astra_tui.cli.session_lookup import local_task
    from astra_tui.export.worker import Export
    from astra_tui.processes.child import Child, ChildDied, ChildTimeout, in_thread
    from astra_tui.rpc import Call, ServerUnfit
    from astra_tui.sessions.integrity import read_session

    session = await asyncio.to_thread(read_session, folder)
    _, task = await asyncio.to_thread(local_task, session.state, folder, None, trust=False)
    places = str(folder.resolve()), str(task.folder.resolve())
    request = Export(*places, to, str(_new_folder(task, to)), AUTO_DEVICE, chosen_seed(None))
    with Child("astra_tui.export.worker", name="the export") as child:
        try:
            (report,) = await in_thread(child, lambda: tuple(Call(child, request).replies()))
        except (ServerUnfit, ChildDied, ChildTimeout) as error:
            raise UserError("the export broke down", hint=str(error)) from None
    return report


def _new_folder(task: KernelTask, to: Format) -> Path:
    return Path(f"{task.name}-{to.value}")


def _export(
    winner: Winner, task: KernelTask, to: Format, out: Path, options: Options
) -> ExportReport:
    from astra_tui.cli.devices import open_compiler
    from astra_tui.export import FORMATS
    from astra_tui.export.exporting import export_text, open_exporter

    if options.no_check and FORMATS[to].is_source:
        return export_text(winner, task, to, out)
    with (
        open_compiler(task) as compiler,
        open_exporter(
            task, options.device, compiler, trust=options.trust, fresh_seed=chosen_seed(None)
        ) as exporter,
    ):
        return exporter.export(winner, to, out, check=not options.no_check)
