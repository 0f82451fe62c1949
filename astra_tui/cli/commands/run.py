"""`astra-tui run`: optimises a kernel, round by round."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from astra_tui import plain
from astra_tui.cli.click_command import Options, argument, command, flag
from astra_tui.cli.exit_codes import ExitCode
from astra_tui.cli.flags import RUN, SEED, WORKERS, chosen_seed
from astra_tui.model.errors import UserError
from astra_tui.model.settings import RunSettings

if TYPE_CHECKING:
    from astra_tui.cli.settings import Choices
    from astra_tui.engine.control import Control
    from astra_tui.model.environment import Difference
    from astra_tui.model.state import SessionState
    from astra_tui.sessions.engines import RunRequest
    from astra_tui.workers import Workers


@command(
    "optimise a kernel, round by round",
    "Each round plans one change, writes it, checks it and profiles it; you decide on the plan "
    "and on the diff. Settings come from flags, then from the environment (ASTRA_TUI_ROUNDS, "
    "...), then from ./astra-tui.toml or the user's config.toml.",
    argument("task", "TASK", "a task's name or folder"),
    *RUN,
    *WORKERS,
    flag(
        "--session", metavar="DIR", help="the session's folder; one that has a journal is resumed"
    ),
    flag("--sessions", metavar="DIR", help="where new sessions go (default: ./sessions)"),
    SEED,
    example="astra-tui run silu_and_mul --rounds 3",
)
def run(options: Options) -> int:
    """Runs a session to its end; the result goes to stdout, what happens meanwhile to stderr.

    A terminal follows an engine in a process of its own. Without anyone the engine
    is in this process: it has nothing to outlive.
    """
    from astra_tui.cli.settings import read_choices

    return carry_out(run_request(options, read_choices(options)), options)


def carry_out(request: RunRequest, options: Options, found: Sequence[Difference] = ()) -> int:
    """Runs what was asked for, on the screen, in lines or headless; returns the exit code.

    `found` is what the screen says first: how this machine differs from where a session ran.
    """
    import asyncio

    from astra_tui.cli.devices import fetch_upstream
    from astra_tui.cli.run_result import end_session
    from astra_tui.cli.screen import choices_for_screen, show_run
    from astra_tui.model.task import find_task

    fetch_upstream(find_task(request.task))
    if not options.headless and (screen_choices := choices_for_screen(options)):
        return show_run(request, screen_choices, found, as_json=options.json)
    if not options.headless and sys.stdin.isatty() and sys.stderr.isatty():
        return asyncio.run(_attend_new_engine(request, as_json=options.json))
    state, folder = asyncio.run(host(request))
    return end_session(state, folder, as_json=options.json, settings=request.settings)


def run_request(options: Options, choices: Choices) -> RunRequest:
    """What the flags, the environment and the settings file ask for. Raises UserError."""
    from astra_tui.cli.settings import refuse_foreign_server, request_for

    before = settings_before(Path(options.session)) if options.session else None
    if before is not None:
        refuse_foreign_server(before, choices, Path(options.session), trust=False)
    request = request_for(choices, options.task, before)
    return replace(
        request,
        folder=options.session or "",
        seed=chosen_seed(options.seed),
        workers=options.workers or "",
        scheduler=options.scheduler or "",
    )


def settings_before(folder: Path) -> RunSettings | None:
    """The settings of the session in a folder; None where a new one can begin there."""
    from astra_tui.sessions.engines import LOG_NAME
    from astra_tui.sessions.folder import LOCK_NAME
    from astra_tui.sessions.journal_reader import journal_path
    from astra_tui.sessions.store import settings_of

    before = settings_of(folder)
    if before is not None or journal_path(folder).exists() or not folder.is_dir():
        return before
    if {entry.name for entry in folder.iterdir()} - {LOCK_NAME, LOG_NAME}:
        raise UserError(
            "this folder holds other things and no session",
            file=str(folder),
            hint="name a session's folder, or a new one: --session DIR",
        )
    return None


async def _attend_new_engine(request: RunRequest, *, as_json: bool) -> int:
    import asyncio

    from astra_tui.cli.attending.follow import follow
    from astra_tui.cli.run_result import leave_engine, print_next_step
    from astra_tui.model.events import StopReason
    from astra_tui.sessions.client import EngineClient
    from astra_tui.sessions.engines import end_engine, start_engine

    ready = await start_engine(request)
    folder = Path(ready.folder)
    plain.note(f"session {folder}")
    try:
        async with await EngineClient.connect(Path(ready.socket)) as client:
            followed = await follow(client, first=ready.first)
    except asyncio.CancelledError:  # Ctrl-C, before the front end was there to take it.
        await end_engine(Path(ready.socket), folder.name, folder)
        print_next_step(StopReason.CANCELLED, request.settings, folder)
        return ExitCode.INTERRUPTED
    return leave_engine(
        followed, client.welcome, folder, as_json=as_json, settings=request.settings
    )


async def host(
    request: RunRequest, *, among: Hosted | None = None, workers: Workers | None = None
) -> tuple[SessionState, Path]:
    """Runs the engine in this process; no one is asked. What happens goes to stderr; of one
    `among` others of this process, nowhere. With `workers` these do the lab's jobs.
    """
    from astra_tui.engine.opening import open_run
    from astra_tui.engine.server import Server
    from astra_tui.plain.run import RunLines

    opening = open_run(request, os.environ, wait_for_engineer=False, workers=workers)
    with await opening as opened:
        lines = RunLines()
        if among is None:
            plain.note(f"session {opened.folder}")
        with (among or Hosted.until_signal()).controlling(opened.engine.control):
            async for event in Server(opened.engine, opened.folder).run():
                if among is None:
                    lines.show(event, lambda: opened.engine.state)
        return opened.engine.state, opened.folder


@dataclass
class Hosted:
    """The runs of this process, all of which a signal cancels."""

    cancelled: bool = False
    controls: list[Control] = field(default_factory=list)

    @classmethod
    def until_signal(cls) -> Hosted:
        """Runs of the loop that runs."""
        import asyncio

        hosted, loop = cls(), asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with contextlib.suppress(NotImplementedError, ValueError):
                loop.add_signal_handler(number, hosted.cancel)
        return hosted

    def cancel(self) -> None:
        """Cancels all runs, and those that are still to begin."""
        from astra_tui.sessions.client import user_at_terminal

        self.cancelled = True
        for control in self.controls:
            control.cancel(user_at_terminal())

    @contextlib.contextmanager
    def controlling(self, control: Control) -> Iterator[None]:
        """Holds while a run is one of these."""
        self.controls.append(control)
        if self.cancelled:
            self.cancel()
        try:
            yield
        finally:
            self.controls.remove(control)
