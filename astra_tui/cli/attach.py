"""`astra-tui attach`: comes back to an engine that runs."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from astra_tui import plain
from astra_tui.cli.ending import leave_engine
from astra_tui.cli.exit_codes import ExitCode
from astra_tui.cli.failures import print_error
from astra_tui.cli.screen import choices_for_screen, show_engine


def run(options: argparse.Namespace) -> int:
    """Attends an engine until its session ends; the exit code is 1 when there is none."""
    from astra_tui.session.engines import NoSuchEngine, find_engine

    try:
        if choices := choices_for_screen(options):
            socket, _ = asyncio.run(find_engine(options.session))
            return show_engine(socket, choices)
        return asyncio.run(_attach(options.session))
    except NoSuchEngine as error:
        print_error(error)
        return ExitCode.FAILED


async def _attach(session: str | None) -> int:
    from astra_tui.plain.attend import attend
    from astra_tui.session.client import EngineClient
    from astra_tui.session.engines import find_engine

    path, _ = await find_engine(session)
    asks = sys.stdin.isatty() and sys.stderr.isatty()
    async with await EngineClient.connect(path, answers=asks) as client:
        plain.note(f"session {client.welcome.folder}")
        attended = await attend(client, asks=asks)
    return leave_engine(attended, client.welcome, Path(client.welcome.folder), as_json=False)
