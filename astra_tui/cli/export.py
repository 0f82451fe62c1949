"""`astra-tui export`: the winner of a session in a form that can be used elsewhere."""

from __future__ import annotations

import argparse
from pathlib import Path

from astra_tui import plain
from astra_tui.cli.devices import open_compiler
from astra_tui.cli.exit_codes import ExitCode
from astra_tui.cli.flags import chosen_seed
from astra_tui.cli.session_lookup import local_task, saved_session
from astra_tui.export import ExportReport, Format, Winner, find_winner
from astra_tui.model.settings import check_device_name
from astra_tui.model.task import KernelTask
from astra_tui.sessions.integrity import read_session


def run(options: argparse.Namespace) -> int:
    """Writes the export and says what was checked; 1 where a check failed, and nothing is left."""
    from astra_tui.plain.export import print_export

    check_device_name(options.device)
    folder = saved_session(options.session, options.sessions)
    session = read_session(folder)
    winner = find_winner(session, options.candidate, allow_altered=options.allow_altered)
    if not session.trust.whole:
        plain.note(f"the session is {session.trust.describe()}; the export says so")
    _, task = local_task(session.state, folder, options.task, trust=options.trust)
    to = Format(options.format)
    out = Path(options.out) if options.out else Path(f"{task.name}-{to.value}")
    report = _export(winner, task, to, out, options)
    if options.json:
        plain.print_json(report)
    else:
        print_export(report)
    return ExitCode.FAILED if report.failed else ExitCode.OK


def _export(
    winner: Winner, task: KernelTask, to: Format, out: Path, options: argparse.Namespace
) -> ExportReport:
    from astra_tui.export.exporting import export_text, open_exporter

    if options.no_check and to in (Format.CU, Format.PATCH):
        return export_text(winner, task, to, out)
    with (
        open_compiler() as compiler,
        open_exporter(
            task, options.device, compiler, trust=options.trust, fresh_seed=chosen_seed(None)
        ) as exporter,
    ):
        return exporter.export(winner, to, out, check=not options.no_check)
