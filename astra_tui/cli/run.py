"""`astra-tui run`: optimises a kernel, round by round."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import shlex
import signal
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from astra_tui import plain
from astra_tui.cli.asking import Asking
from astra_tui.cli.exit_codes import ExitCode
from astra_tui.cli.settings import Choices, api_key, read_choices, run_settings
from astra_tui.model.events import StopReason
from astra_tui.model.state import SessionState
from astra_tui.model.task import KernelTask, find_task
from astra_tui.plain import ask
from astra_tui.plain.run import RunLines, print_run
from astra_tui.session.redaction import Redactor
from astra_tui.session.store import new_session_folder, sessions_folder

if TYPE_CHECKING:
    from astra_tui.engine.host import OpenSession
    from astra_tui.engine.loop import Engine
    from astra_tui.engine.server import Server
    from astra_tui.engine.teams import ModelAccess

OF_REASON = {
    StopReason.ROUNDS: ExitCode.OK,
    StopReason.NO_PLAN: ExitCode.OK,
    StopReason.BUDGET: ExitCode.OK,
    StopReason.BASELINE: ExitCode.FAILED,
    StopReason.CANCELLED: ExitCode.INTERRUPTED,
    StopReason.UNATTENDED: ExitCode.NEEDS_DECISION,
    StopReason.TROUBLE: ExitCode.TROUBLE,
}


def run(options: argparse.Namespace) -> int:
    """Runs a session to its end; the result goes to stdout, what happens meanwhile to stderr."""
    from astra_tui.session.summary import run_report

    choices = read_choices(options)
    task = find_task(options.task)
    state, folder = asyncio.run(_run(options, choices, task))
    if options.json:
        plain.print_json(run_report(state, folder))
    else:
        print_run(state, folder)
    assert state.closed is not None
    _say_how_to_go_on(state.closed.reason, options.task, folder)
    return OF_REASON[state.closed.reason]


async def _run(
    options: argparse.Namespace, choices: Choices, task: KernelTask
) -> tuple[SessionState, Path]:
    from astra_tui.engine.host import build_engine, open_session
    from astra_tui.engine.server import Server
    from astra_tui.engine.teams import ExchangeBook, build_team

    redactor = Redactor([api_key(os.environ)])
    session = _resumed(options.session, task, redactor)
    before = None
    if session is not None:
        before = replace(session.settings, rounds=session.state.round_limit)
    settings = run_settings(choices, options.task, os.environ, before)
    book = ExchangeBook()
    team = await build_team(settings, _model_access(choices), book)
    if session is None:
        # Only now is there a folder: what was refused above leaves none behind.
        session = open_session(_new_folder(options, choices, task), task, settings, redactor)
    attended = not options.headless and sys.stdin.isatty() and sys.stderr.isatty()
    with session.journal:
        engine = build_engine(session, task, settings, team, wait_for_engineer=attended, book=book)
        folder = session.journal.folder
        plain.note(f"session {folder}")
        await _work(engine, Server(engine, folder), attended)
        return engine.state, folder


async def _work(engine: Engine, server: Server, attended: bool) -> None:
    """Runs the engine to its end, and asks at the terminal meanwhile."""
    lines, asking = RunLines(), Asking(engine)
    _stop_on_signals(engine)
    at_terminal = asyncio.create_task(asking.run())
    # Nobody could answer once asking has broken down, so the run ends too.
    at_terminal.add_done_callback(lambda _: engine.control.cancel(ask.engineer()))
    try:
        async for event in server.run():
            lines.show(event)
            if attended:
                asking.notice(event)
    finally:
        at_terminal.cancel()
        await asyncio.wait([at_terminal])
    if not at_terminal.cancelled():
        at_terminal.result()


def _resumed(named: str | None, task: KernelTask, redactor: Redactor) -> OpenSession | None:
    """The session of a folder that has one; None where a new one has to begin."""
    from astra_tui.engine.host import has_session, resume_session

    if named is None or not has_session(Path(named)):
        return None
    return resume_session(Path(named), task, redactor)


def _new_folder(options: argparse.Namespace, choices: Choices, task: KernelTask) -> Path:
    if options.session is not None:
        return Path(options.session)
    return new_session_folder(sessions_folder(choices.sessions), task.name, datetime.now())


def _model_access(choices: Choices) -> ModelAccess:
    from astra_tui.engine.teams import ModelAccess

    given = (
        choices.price_input_per_million,
        choices.price_output_per_million,
        choices.price_cached_per_million,
    )
    if given == (None, None, None):
        return ModelAccess(api_key(os.environ))
    from astra_tui.agents.llm import Prices

    return ModelAccess(api_key(os.environ), Prices(*given))


def _stop_on_signals(engine: Engine) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        with contextlib.suppress(NotImplementedError, ValueError):
            loop.add_signal_handler(number, engine.control.cancel, ask.engineer())


def _say_how_to_go_on(reason: StopReason, task: str, folder: Path) -> None:
    command = f"astra-tui run {shlex.quote(task)} --session {shlex.quote(str(folder))}"
    if reason is StopReason.UNATTENDED:
        plain.note(f"decide at a terminal, or by a policy or a file, and go on:\n  {command}")
        plain.note(f"  {command} --approve auto|FILE")
    elif reason is StopReason.CANCELLED:
        plain.note(f"go on with: {command}")
