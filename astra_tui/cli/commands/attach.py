"""`astra-tui attach`: attaches to a running engine."""

from __future__ import annotations

import sys
from pathlib import Path

from astra_tui import plain
from astra_tui.cli.click_command import Options, argument, command
from astra_tui.cli.exit_codes import ExitCode, print_error
from astra_tui.cli.flags import PLAIN
from astra_tui.model.errors import UserError


@command(
    "attach to a running engine",
    "Shows what has happened and what happens, and asks you what is to be decided. Ctrl-C "
    "cancels the run; to leave it running, detach at a question or close the terminal. Without "
    "a terminal to ask at, it only shows.",
    argument(
        "session",
        "SESSION",
        "a session's name or folder; by default the only one that runs",
        required=False,
    ),
    PLAIN,
    example="astra-tui attach",
)
def run(options: Options) -> int:
    """Follows an engine until its session ends; the exit code is 1 when there is none."""
    import asyncio

    from astra_tui.cli.screen import choices_for_screen, show_engine
    from astra_tui.sessions.engines import NoSuchEngine, find_engine

    try:
        if choices := choices_for_screen(options):
            socket, _ = asyncio.run(find_engine(options.session))
            return show_engine(socket, choices)
        return asyncio.run(_attach(options.session))
    except NoSuchEngine as error:
        print_error(_ended(options.session) or error)
        return ExitCode.FAILED


def _ended(session: str | None) -> UserError | None:
    """What to say of a session that is there, but on which no engine works any more."""
    from astra_tui.cli.session_lookup import saved_session

    if session is None:
        return None
    try:
        folder = saved_session(session)
    except UserError:
        return None
    return UserError(
        f"no engine works on session '{session}'",
        file=str(folder),
        hint=f"look at it: astra-tui replay {session}, or resume it: astra-tui resume {session}",
    )


async def _attach(session: str | None) -> int:
    from astra_tui.cli.attending.follow import follow
    from astra_tui.cli.run_result import leave_engine
    from astra_tui.sessions.client import EngineClient
    from astra_tui.sessions.engines import find_engine

    path, _ = await find_engine(session)
    asks = sys.stdin.isatty() and sys.stderr.isatty()
    async with await EngineClient.connect(path, answers=asks) as client:
        plain.note(f"session {client.welcome.folder}")
        followed = await follow(client, asks=asks)
    return leave_engine(followed, client.welcome, Path(client.welcome.folder), as_json=False)
