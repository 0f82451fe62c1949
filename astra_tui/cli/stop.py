"""`astra-tui stop`: asks engines to end, and waits until they have."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from astra_tui import plain
from astra_tui.cli.exit_codes import ExitCode
from astra_tui.cli.failures import print_error
from astra_tui.model.errors import UserError

if TYPE_CHECKING:
    from astra_tui.session.wire import Welcome

PATIENCE_SECONDS = 30.0
"""How long an engine may take to end; it needs milliseconds, and its last writes to the disk."""

_LOOK_SECONDS = 0.02


def run(options: argparse.Namespace) -> int:
    """Ends one engine, or all; the exit code is 1 when there is none, or one does not end."""
    if bool(options.session) == options.all:
        raise UserError("name one session, or say --all", hint="see: astra-tui ps")
    return asyncio.run(_stop(options.session))


async def _stop(session: str | None) -> ExitCode:
    from astra_tui.session.client import running_engines
    from astra_tui.session.engines import NoSuchEngine, choose_engine
    from astra_tui.session.runtime import runtime_folder

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
            await _end(path, welcome)
            plain.note(f"{welcome.session} is stopped and can be resumed: {welcome.folder}")
        except UserError as error:
            print_error(error)
            code = ExitCode.FAILED
    return code


async def _end(path: Path, welcome: Welcome) -> None:
    """Returns once the engine has hung up and let go of the session."""
    from astra_tui.session.client import EngineClient, EngineGone
    from astra_tui.session.lock import writer_of

    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            try:
                async with await EngineClient.connect(path, answers=False, follows=False) as client:
                    await client.cancel()
                    await client.wait_gone()
            except EngineGone:
                pass  # It ended by itself meanwhile.
            while writer_of(Path(welcome.folder)) is not None:
                await asyncio.sleep(_LOOK_SECONDS)
    except TimeoutError:
        raise UserError(
            f"{welcome.session} (process {welcome.pid}) has not ended in {PATIENCE_SECONDS:.0f} s",
            hint="it is left alone: nothing of the session is lost while its process lives",
        ) from None
