"""`astra-tui ps`: the engines that run now, found by talking to them."""

from __future__ import annotations

from astra_tui import plain
from astra_tui.cli.click_command import Options, command
from astra_tui.cli.exit_codes import ExitCode, error_entry, print_error
from astra_tui.cli.flags import JSON


@command(
    "list the engines that run now",
    "Every engine of this user on this machine is asked; sockets of dead ones are removed.",
    JSON,
    example="astra-tui ps",
)
def run(options: Options) -> int:
    """Prints a table, or JSON. A socket that listens but does not greet is named on stderr."""
    import asyncio

    from astra_tui.cli.json_answers import EngineEntry, EnginesAnswer
    from astra_tui.present.sessions import engines_blocks
    from astra_tui.sessions.client import running_engines
    from astra_tui.sessions.engines import runtime_folder

    engines, silent = asyncio.run(running_engines(runtime_folder()))
    welcomes = [welcome for _, welcome in engines]
    if options.json:
        entries = tuple(
            EngineEntry(w.session, w.folder, w.task, w.status, w.pid, w.host) for w in welcomes
        )
        plain.print_json(EnginesAnswer(entries, tuple(map(error_entry, silent))))
    elif welcomes:
        plain.print_blocks(engines_blocks(welcomes))
    elif not silent:
        plain.note("no engine runs")
    for error in silent:
        print_error(error)
    return ExitCode.FAILED if silent else ExitCode.OK
