"""`astra-tui compare`: two sessions, or two candidates of sessions, side by side."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from astra_tui import plain
from astra_tui.cli.command import Options, argument, command, flag
from astra_tui.cli.exit_codes import ExitCode
from astra_tui.cli.flags import DEVICE, JSON, PLAIN, SESSION_TASK
from astra_tui.model.errors import UserError
from astra_tui.model.hunks import unified_diff
from astra_tui.model.settings import EMULATOR
from astra_tui.model.timing import Timing

if TYPE_CHECKING:
    from astra_tui.sessions.comparison import Side, Sides


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
    return None if choices is None else show_comparison(sides, _timing_flags(options), choices)


def _timing_flags(options: Options) -> tuple[str, ...]:
    """What the screen passes on when it times both."""
    task = ("--task", str(options.task)) if options.task else ()
    trust = ("--trust",) if options.trust else ()
    return (*task, *trust, "--device", str(options.device))


def _print(options: Options, first: Side, second: Side) -> int:
    from astra_tui.cli.answers import CompareAnswer
    from astra_tui.present.comparison import comparison_blocks
    from astra_tui.present.timing import CaveatMarks, Names, timing_blocks

    for side in (first, second):
        if not side.trust.whole:
            plain.note(f"{side.folder.name} is {side.trust.describe()}")
    timing, why_not = _timing(options, first, second)
    answer = CompareAnswer(
        exit_code=int(ExitCode.OK),
        sides=(first.compared, second.compared),
        diff=unified_diff(first.source, second.source, first.name, second.name),
        timing=timing,
        not_timed=why_not,
        trust=(first.trust, second.trust),
    )
    blocks = comparison_blocks((first, second))
    if timing is not None:
        marks = CaveatMarks.of_timing(timing.workloads)
        blocks += timing_blocks(timing, Names(first.name, second.name), marks)
    plain.print_answer(answer, options.json, lambda: blocks)
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
    from astra_tui.sessions.reading import journal_path

    session, colon, choice = named.rpartition(":")
    if not colon or journal_path(Path(root or "sessions") / named).is_file():
        return named, ""
    if journal_path(Path(named)).is_file():
        return named, ""
    return session, choice


def _timing(options: Options, first: Side, second: Side) -> tuple[Timing | None, str]:
    """One timing, or why there is none."""
    import asyncio

    from astra_tui.lab.devices import choose_device

    if first.trust.altered or second.trust.altered:
        return None, "nothing of a session that was altered is run"
    if first.compared.task_hash != second.compared.task_hash:
        return None, "the sessions ran on different tasks"
    if first.compared.candidate == second.compared.candidate:
        return None, "both are the same source"
    device = choose_device(options.device).name
    if device == EMULATOR:
        return None, "there is no GPU, and the emulator gives no times"
    return asyncio.run(_time(options, first, second, device))


async def _time(
    options: Options, first: Side, second: Side, device: str
) -> tuple[Timing | None, str]:
    from astra_tui.cli.session_lookup import local_task
    from astra_tui.engine.lab import Lab, LabFailed
    from astra_tui.engine.rerun import check, named_source, time_pair

    _, task = local_task(first.state, first.folder, options.task, trust=options.trust)
    lab = Lab(task, device)
    base, candidate = (named_source(s.source, s.compared.candidate) for s in (first, second))
    try:
        for side, source in ((first, base), (second, candidate)):
            checked = await check(lab, source, side.state.cases)
            if not checked.passed:
                return None, f"{side.name} does not pass its check: {checked.report.message}"
        return await time_pair(lab, base, candidate), ""
    except (UserError, LabFailed) as error:
        return None, str(error)
    finally:
        lab.close()
