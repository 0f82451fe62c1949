"""`astra-tui stop`: asks engines to end, and waits until they have."""

from __future__ import annotations

from pathlib import Path

from astra_tui import plain
from astra_tui.cli.click_command import Options, argument, command, flag
from astra_tui.cli.exit_codes import ExitCode, print_error
from astra_tui.model.errors import UserError


@command(
    "end a running engine",
    "Asks the engine to end and waits until it has. The session can be resumed.",
    argument("session", "SESSION", "a session's name or folder", required=False),
    flag("--all", help="end every engine that runs"),
    example="astra-tui stop --all",
)
def run(options: Options) -> int:
    """Ends one engine, or all; the exit code is 1 when there is none, or one does not end."""
    import asyncio

    if bool(options.session) == options.all:
        raise UserError("name one session, or say --all", hint="see: astra-tui ps")
    return asyncio.run(_stop(options.session))


async def _stop(session: str | None) -> ExitCode:
    from astra_tui.sessions.client import running_engines
    from astra_tui.sessions.engines import NoSuchEngine, choose_engine, end_engine, runtime_folder

    chosen, _ = await running_engines(runtime_folder())
    if session is not None or not chosen:
        try:
            chosen = [choose_engine(chosen, session)]
        except NoSuchEngine as error:
            plain.note(error.message)
            return ExitCode.FAILED
    code = ExitCode.OK
    for path, welcome in chosen:
        try:
            await end_engine(path, welcome.session, Path(welcome.folder))
            plain.note(f"{welcome.session} is stopped and can be resumed: {welcome.folder}")
        except UserError as error:
            print_error(error)
            code = ExitCode.FAILED
    return code
