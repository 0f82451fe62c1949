"""`astra-tui deliver`: the winner of a session behind a function of a framework."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from astra_tui import plain
from astra_tui.cli.click_command import OneOf, Options, argument, command, flag
from astra_tui.cli.exit_codes import ExitCode
from astra_tui.cli.flags import DEVICE, JSON, NO_CHECK, SESSION_TASK, WINNER, chosen_seed
from astra_tui.model.export import Framework
from astra_tui.model.settings import check_device_name


@command(
    "put the best kernel of a session behind a framework's function",
    "Writes an adapter: a package with the kernel's machine code, a guard that falls back to the "
    "framework's own operator, counters, an off switch, and a proof of its use that can be run "
    "again anywhere (docs/delivery.md).",
    argument("session", "SESSION", "a session's name or folder"),
    flag(
        "--to",
        "framework",
        type=OneOf([one.value for one in Framework]),
        required=True,
        help="the framework",
    ),
    WINNER,
    flag("--out", metavar="DIR", help="a new folder (default: TASK-for-FRAMEWORK)"),
    flag("--prove", help="prove on this GPU that the framework's calls reach the kernel"),
    flag(
        "--python",
        metavar="FILE",
        help="an interpreter that has the framework (default: the one that runs this)",
    ),
    flag(
        "--dossier",
        help="write a page and a patch for the framework's maintainers, and no adapter",
    ),
    flag("--audit", metavar="FILE", help="for the dossier: what `astra-tui audit --json` wrote"),
    NO_CHECK,
    flag("--allow-altered", help="deliver from a session that was altered; every file says so"),
    flag("--sessions", metavar="DIR", help="where they are (default: ./sessions)"),
    *SESSION_TASK,
    DEVICE,
    JSON,
    example="astra-tui deliver h100-playbook-silu --to flashinfer",
)
def run(options: Options) -> int:
    """Writes the adapter and says what was checked; 1 where a check failed: nothing is left."""
    from astra_tui.cli.devices import open_compiler
    from astra_tui.cli.session_lookup import open_winner
    from astra_tui.export.exporting import open_exporter, write_dossier
    from astra_tui.present.outcomes import delivery_blocks

    check_device_name(options.device)
    session, winner, task = open_winner(options, "adapter")
    to = Framework(options.framework)
    out = Path(options.out) if options.out else Path(f"{task.name}-for-{to.value}")
    if options.dossier:
        audit = json.loads(Path(options.audit).read_text("utf-8")) if options.audit else None
        files = write_dossier(winner, task, session.state, to, out, audit)
        plain.note(f"written to {out}: {', '.join(files)}")
        return ExitCode.OK
    with (
        open_compiler(task) as compiler,
        open_exporter(
            task, options.device, compiler, trust=options.trust, fresh_seed=chosen_seed(None)
        ) as exporter,
    ):
        report = exporter.deliver(
            winner,
            to,
            session.state,
            out,
            options.python or sys.executable,
            check=not options.no_check,
            prove=options.prove,
        )
    plain.print_answer(report, options.json, lambda: delivery_blocks(report))
    return ExitCode.FAILED if report.failed else ExitCode.OK
