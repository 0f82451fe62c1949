"""`astra-tui run`: optimises a kernel, round by round."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from astra_tui import plain
from astra_tui.cli.exit_codes import ExitCode
from astra_tui.cli.settings import Choices, api_key, read_choices, run_settings
from astra_tui.model.author import Author, AuthorKind
from astra_tui.model.events import AnswerAwaited, StopReason
from astra_tui.model.settings import RunSettings
from astra_tui.model.state import SessionState
from astra_tui.model.task import KernelTask, find_task
from astra_tui.plain.run import RunLines, print_run

if TYPE_CHECKING:
    from astra_tui.engine.host import OpenSession
    from astra_tui.engine.loop import Engine
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
    settings = run_settings(choices, options.task, os.environ)
    state, folder = asyncio.run(_run(options, choices, task, settings))
    if options.json:
        plain.print_json(run_report(state, folder))
    else:
        print_run(state, folder)
    assert state.closed is not None
    if state.closed.reason is StopReason.UNATTENDED:
        plain.note(f"decide and go on with: astra-tui run {options.task} --session {folder}")
    return OF_REASON[state.closed.reason]


def _open(
    options: argparse.Namespace, choices: Choices, task: KernelTask, settings: RunSettings
) -> OpenSession:
    from astra_tui.engine.host import open_session, resume_session
    from astra_tui.session.reading import journal_path
    from astra_tui.session.redaction import Redactor
    from astra_tui.session.store import new_session_folder, sessions_folder

    redactor = Redactor([api_key(os.environ)])
    if options.session is not None:
        folder = Path(options.session)
        if journal_path(folder).exists():
            return resume_session(folder, task, redactor)
    else:
        root = sessions_folder(choices.sessions)
        folder = new_session_folder(root, task.name, datetime.now())
    return open_session(folder, task, settings, redactor)


async def _run(
    options: argparse.Namespace, choices: Choices, task: KernelTask, settings: RunSettings
) -> tuple[SessionState, Path]:
    """Hosts an engine to its end, with a socket for `astra-tui ps` and `stop`."""
    from astra_tui.engine.host import build_engine
    from astra_tui.engine.server import Server
    from astra_tui.engine.teams import ExchangeBook, build_team

    attended = not options.headless and sys.stdin.isatty() and sys.stderr.isatty()
    book = ExchangeBook()
    # Before there is a session: a model that is not set up should leave nothing behind.
    team = await build_team(settings, _access(choices), book)
    session = _open(options, choices, task, settings)
    folder = session.journal.folder
    with session.journal:
        engine = build_engine(session, task, settings, team, wait_for_engineer=attended, book=book)
        plain.note(f"session {folder}")
        _stop_on_signals(engine)
        lines = RunLines()
        asking: asyncio.Task[None] | None = None
        async for event in Server(engine, folder).run():
            lines.show(event)
            if isinstance(event, AnswerAwaited) and attended:
                asking = asyncio.create_task(_ask(engine, event, asking))
        if asking is not None:
            asking.cancel()
    return engine.state, folder


def _access(choices: Choices) -> ModelAccess:
    from astra_tui.agents.llm import Prices
    from astra_tui.engine.teams import ModelAccess

    prices = Prices(
        choices.price_input_per_million,
        choices.price_output_per_million,
        choices.price_cached_per_million,
    )
    return ModelAccess(api_key(os.environ), prices)


def _stop_on_signals(engine: Engine) -> None:
    loop = asyncio.get_running_loop()
    by = Author(AuthorKind.ENGINEER, os.environ.get("USER", ""))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        with contextlib.suppress(NotImplementedError, ValueError):
            loop.add_signal_handler(number, engine.control.cancel, by)


async def _ask(engine: Engine, event: AnswerAwaited, before: asyncio.Task[None] | None) -> None:
    """Asks at the terminal until the question is decided; one question at a time."""
    from astra_tui.model.approval import AnswerRefused, Gate
    from astra_tui.plain import ask

    if before is not None:
        await asyncio.wait([before])
    question = event.question
    state = engine.state
    proposal = state.round(question.round).proposals[question.proposal]
    if question.gate is Gate.PLAN:
        shown: object = proposal.plan
        ask.show(ask.describe_plan(proposal.plan, proposal.author))
        keys = ask.PLAN_KEYS
    else:
        get = engine.record.store.get
        shown = get(question.subject)
        ask.show(ask.describe_diff(get(question.base), get(question.subject), question))
        keys = ask.DIFF_KEYS
    while question in engine.desk.open:
        ask.show(keys)
        line = await _read_line()
        try:
            if line == "":
                raise EOFError
            answer = ask.read_answer(line, question, ask.engineer(), shown)  # type: ignore[arg-type]
            if answer is None:
                raise EOFError
            engine.desk.answer(answer)
        except EOFError:
            engine.control.cancel(ask.engineer())
            return
        except (ask.NotUnderstood, AnswerRefused) as error:
            ask.show(str(error))


async def _read_line() -> str:
    """A line from the terminal, without a thread that would keep the process alive."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(sys.stdin, ready.set)
    try:
        await ready.wait()
        return sys.stdin.readline()
    finally:
        loop.remove_reader(sys.stdin)
