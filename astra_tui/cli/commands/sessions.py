"""`astra-tui sessions`: the sessions in a folder, whole or damaged."""

from __future__ import annotations

from astra_tui.cli.click_command import Options, command, flag
from astra_tui.cli.exit_codes import ExitCode
from astra_tui.cli.flags import JSON


@command(
    "list sessions",
    "Each is listed with its result; damage of a journal is reported on stderr.",
    flag("--sessions", metavar="DIR", help="where they are (default: ./sessions)"),
    JSON,
    example="astra-tui sessions",
)
def run(options: Options) -> int:
    """Prints a table, or JSON. Damage is not an error of this command."""
    from astra_tui.cli.session_lookup import print_sessions

    print_sessions(options)
    return ExitCode.OK
