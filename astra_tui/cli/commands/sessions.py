"""`astra-tui sessions`: the sessions in a folder, whole or damaged."""

from __future__ import annotations

from astra_tui import plain
from astra_tui.cli.click_command import Options, command, flag
from astra_tui.cli.exit_codes import ExitCode
from astra_tui.cli.flags import JSON


@command(
    "list sessions",
    "Each is listed with its result; damage of a journal is reported on stderr.",
    flag("--sessions", metavar="DIR", help="where they are (default: ./sessions)"),
    JSON,
)
def run(options: Options) -> int:
    """Prints a table, or JSON. Damage is not an error of this command."""
    from astra_tui.cli.json_answers import SessionsAnswer
    from astra_tui.present.sessions import session_entry, sessions_blocks
    from astra_tui.sessions.store import list_sessions, sessions_folder

    root = sessions_folder(options.sessions)
    found = list_sessions(root, session_entry)
    if options.json:
        plain.print_json(SessionsAnswer(str(root), tuple(found)))
    elif found:
        plain.print_blocks(sessions_blocks(found))
        for entry in found:
            for damage in entry.damage:
                plain.note(f"{entry.name}: {damage}")
    else:
        plain.note(f"{root} holds no sessions; begin one with: astra-tui run TASK")
    return ExitCode.OK
