"""`astra-tui compare`: two sessions, or two candidates of sessions, side by side."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from astra_tui import plain
from astra_tui.cli.click_command import Options, argument, command, flag
from astra_tui.cli.exit_codes import ExitCode
from astra_tui.cli.flags import DEVICE, JSON, PLAIN, SESSION_TASK
from astra_tui.model.hunks import unified_diff

if TYPE_CHECKING:
    from astra_tui.sessions.comparison import Side, Sides
    from astra_tui.tui.app_io import TimePair


@command(
    "compare two sessions or candidates",
    "Plans, checks, counters, verdicts, times and the diff of the sources, on the screen or in "
    "lines. Where there is a GPU and both ran on the same task, the two are timed against each "
    "other: in lines at once, on the screen with a key.",
    argument("first", "A", "a session, for its best candidate; or SESSION:HASH, or SESSION:r3"),
    argument("second", "B", "the other one"),
    flag("--sessions", metavar="DIR", help="where they are (default: ./sessions)"),
    *SESSION_TASK,
    DEVICE,
    PLAIN,
    JSON,
    example="astra-tui compare h100-playbook-silu h200-playbook-silu",
)
def run(options: Options) -> int:
    """Opens the screen; or prints both sides, and an interleaved timing where there is a GPU."""
    first, second = (_side(named, options.sessions) for named in (options.first, options.second))
    if (code := _on_screen(options, (first, second))) is not None:
        return code
    return _print(options, first, second)


def _on_screen(options: Options, sides: Sides) -> int | None:
    """None where there is no terminal, or lines are wanted."""
    from astra_tui.cli.screen import choices_for_screen, show_comparison

    if options.json or not sys.stdout.isatty():
        return None
    choices = choices_for_screen(options)
    return None if choices is None else show_comparison(sides, choices, _timer(options))


def _print(options: Options, first: Side, second: Side) -> int:
    import asyncio

    from astra_tui.cli.json_answers import CompareAnswer
    from astra_tui.present.comparison import comparison_blocks

    for side in (first, second):
        if not side.trust.whole:
            plain.note(f"{side.folder.name} is {side.trust.describe()}")
    timing, why_not = asyncio.run(_timer(options)((first, second)))
    answer = CompareAnswer(
        exit_code=int(ExitCode.OK),
        sides=(first.compared, second.compared),
        diff=unified_diff(first.source, second.source, first.name, second.name),
        timing=timing,
        not_timed=why_not,
        trust=(first.trust, second.trust),
    )
    plain.print_answer(answer, options.json, lambda: comparison_blocks((first, second), timing))
    if why_not and not options.json:
        plain.note(f"not timed here: {why_not}")
    return answer.exit_code


def _side(named: str, root: str | None) -> Side:
    from astra_tui.cli.session_lookup import saved_session
    from astra_tui.sessions.comparison import read_side

    session, choice = _split(named, root)
    return read_side(saved_session(session, root), choice)


def _split(named: str, root: str | None) -> tuple[str, str]:
    """A session and a candidate of it; a folder may have a colon in its name."""
    from astra_tui.sessions.journal_reader import journal_path

    session, colon, choice = named.rpartition(":")
    if not colon or journal_path(Path(root or "sessions") / named).is_file():
        return named, ""
    if journal_path(Path(named)).is_file():
        return named, ""
    return session, choice


def _timer(options: Options) -> TimePair:
    from astra_tui.cli.timed_sources import time_sides

    return partial(time_sides, task=options.task, trust=options.trust, device=options.device)
