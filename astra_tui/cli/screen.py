"""Opens the screen where a terminal can show one."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from astra_tui.cli.click_command import Options
from astra_tui.cli.exit_codes import ExitCode
from astra_tui.cli.settings import Choices, read_choices
from astra_tui.model.settings import Notification

if TYPE_CHECKING:
    from astra_tui.model.environment import Difference
    from astra_tui.sessions.comparison import Sides
    from astra_tui.sessions.engines import RunRequest
    from astra_tui.tui.app_io import Drafting, Preferences, TimePair
    from astra_tui.tui.source import OpenSource


IN_BROWSER = "textual.drivers.web_driver:WebDriver"
"""The driver that Textual is told to use where a browser shows the screen (`serve`)."""


def has_terminal() -> bool:
    """Whether someone sits at a terminal that can show a screen, or at a browser in its place."""
    if os.environ.get("TEXTUAL_DRIVER") == IN_BROWSER:
        return True
    at_terminal = sys.stdin.isatty() and sys.stderr.isatty()
    return at_terminal and os.environ.get("TERM", "dumb") not in ("", "dumb")


def choices_for_screen(options: Options) -> Choices | None:
    """The settings, where a screen is to be shown; None where lines are wanted or all there is."""
    if not has_terminal():
        return None
    choices = read_choices(Options(**{"config": None, **vars(options)}))
    return None if choices.plain else choices


def show_run(
    request: RunRequest, choices: Choices, found: Sequence[Difference] = (), *, as_json: bool
) -> int:
    """Begins or continues with a session on the screen; prints its result afterwards.

    What differs from where a session ran is shown over it at first.
    """
    from astra_tui.tui.source import start

    return _show_session(partial(start, request), choices, found, as_json=as_json, request=request)


def show_engine(socket: Path, choices: Choices) -> int:
    """Attaches to a running engine on the screen."""
    from astra_tui.tui.source import attach

    return _show_session(partial(attach, socket), choices, as_json=False)


def show_replay(folder: Path, choices: Choices, options: Options) -> int:
    """Shows a saved session on the screen: at its end, after `to`, or playing at a `speed`."""
    from astra_tui.tui import open_session
    from astra_tui.tui.source import open_saved

    open_source = partial(open_saved, folder, speed=options.speed, to=options.to)
    open_session(open_source, _preferences(choices))
    return ExitCode.OK


def show_comparison(sides: Sides, choices: Choices, time_pair: TimePair) -> int:
    """Shows two candidates side by side; `time_pair` times them where that is asked for."""
    from astra_tui.tui import open_comparison
    from astra_tui.tui.app_io import ComparisonContext

    preferences = msgspec.structs.replace(_preferences(choices), time_pair=time_pair)
    open_comparison(ComparisonContext(sides), preferences)
    return ExitCode.OK


def show_home(choices: Choices) -> int:
    """Shows kernels and sessions."""
    from astra_tui.cli.settings import request_for
    from astra_tui.sessions.store import sessions_folder
    from astra_tui.tui import open_home
    from astra_tui.tui.app_io import HomeContext

    context = HomeContext(
        sessions_folder(choices.sessions), partial(request_for, choices), begin_draft
    )
    open_home(context, _preferences(choices))
    return ExitCode.OK


def show_draft(drafting: Drafting, choices: Choices) -> None:
    """Asks for what a draft leaves open, until the engineer leaves."""
    from astra_tui.tui import open_draft
    from astra_tui.tui.app_io import DraftContext

    open_draft(DraftContext(drafting), _preferences(choices))


def begin_draft(folder: Path, source: str, kernel: str) -> Drafting:
    """Begins a draft from the screen, or continues the one in a folder. Raises UserError."""
    from astra_tui.cli.drafting import Drafting
    from astra_tui.drafting.answers import Answers

    drafting = Drafting(folder, Answers(source=source, kernel=kernel))
    drafting.keep()
    return drafting


def _show_session(
    open_source: OpenSource,
    choices: Choices,
    found: Sequence[Difference] = (),
    *,
    as_json: bool,
    request: RunRequest | None = None,
) -> int:
    from astra_tui.cli.attending.follow import Followed, LeaveReason
    from astra_tui.cli.run_result import leave_engine
    from astra_tui.tui import open_session

    left = open_session(open_source, _preferences(choices, request), found)
    if left.welcome is None or left.folder is None:
        return ExitCode.INTERRUPTED  # Left before the engine was there.
    ended = left.state.closed is not None and not left.detached
    followed = Followed(left.state, LeaveReason.ENDED if ended else LeaveReason.DETACHED)
    settings = request.settings if request else None
    return leave_engine(followed, left.welcome, left.folder, as_json=as_json, settings=settings)


def _preferences(choices: Choices, request: RunRequest | None = None) -> Preferences:
    """What was chosen; another engine is started as the one of `request` was, if there was one."""
    from astra_tui.cli.commands.export import export_best
    from astra_tui.cli.settings import request_for
    from astra_tui.cli.timed_sources import time_sides
    from astra_tui.sessions.store import sessions_folder
    from astra_tui.tui.app_io import Preferences

    return Preferences(
        choices.keys or {},
        choices.theme or "",
        sessions_folder(choices.sessions),
        choices.notify or Notification.OSC9,
        (lambda _task: request) if request else partial(request_for, choices),
        time_sides,
        export_best,
    )
