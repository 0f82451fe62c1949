"""How a run ends at the command line: its result, what to do next, and the exit code."""

from __future__ import annotations

import shlex
from pathlib import Path

from astra_tui import plain
from astra_tui.cli.attending.follow import Followed, LeaveReason
from astra_tui.cli.exit_codes import ExitCode
from astra_tui.model.events import StopReason
from astra_tui.model.settings import RunSettings, TeamKind
from astra_tui.model.state import SessionState
from astra_tui.sessions.engines import LOG_NAME
from astra_tui.sessions.store import DEFAULT_FOLDER
from astra_tui.sessions.wire import Welcome

EXIT_CODE_OF = {
    StopReason.ROUNDS: ExitCode.OK,
    StopReason.NO_PLAN: ExitCode.OK,
    StopReason.BUDGET: ExitCode.OK,
    StopReason.ROOFLINE: ExitCode.OK,
    StopReason.BASELINE: ExitCode.FAILED,
    StopReason.CANCELLED: ExitCode.INTERRUPTED,
    StopReason.UNATTENDED: ExitCode.NEEDS_DECISION,
    StopReason.TROUBLE: ExitCode.TROUBLE,
}


def end_session(
    state: SessionState, folder: Path, *, as_json: bool, settings: RunSettings | None = None
) -> ExitCode:
    """Prints the result of a session that was closed; returns the exit code for it.

    `settings` are those of the last run, where they are not those that the session began with.
    """
    _print_result(state, folder, as_json)
    assert state.opened is not None
    assert state.closed is not None
    print_next_step(state.closed.reason, settings or state.opened.settings, folder)
    return EXIT_CODE_OF[state.closed.reason]


def leave_engine(
    followed: Followed,
    welcome: Welcome,
    folder: Path,
    *,
    as_json: bool,
    settings: RunSettings | None = None,
) -> ExitCode:
    """Ends a front end, which may keep running; returns the exit code."""
    if followed.reason is LeaveReason.ENDED:
        return end_session(followed.state, folder, as_json=as_json, settings=settings)
    if as_json:
        _print_result(followed.state, folder, as_json)
    name = shlex.quote(welcome.session)
    plain.note(
        f"the engine (process {welcome.pid}) keeps running; "
        f"reattach with: astra-tui attach {name}\n"
        f"  or end it: astra-tui stop {name}"
    )
    return ExitCode.OK if followed.reason is LeaveReason.DETACHED else ExitCode.INTERRUPTED


def print_next_step(reason: StopReason, settings: RunSettings, folder: Path) -> None:
    """What to do about a session that was closed for this reason, if it can be resumed."""
    command = resume_command(settings, folder)
    if reason is StopReason.UNATTENDED:
        plain.note(f"decide at a terminal, or by a policy or a file, and resume:\n  {command}")
        plain.note(f"  {command} --approve auto|FILE")
    elif reason is StopReason.CANCELLED:
        plain.note(f"resume with: {command}")
    elif reason is StopReason.TROUBLE and (folder / LOG_NAME).exists():
        plain.note(f"what the engine wrote of itself: {folder / LOG_NAME}\nresume with: {command}")


def resume_command(settings: RunSettings, folder: Path) -> str:
    """The command that resumes a session; it says again what a session alone may not say."""
    has_name = folder.resolve().parent == Path(DEFAULT_FOLDER).resolve()
    words = ["astra-tui", "resume", folder.name if has_name else str(folder)]
    if Path(settings.task).name != settings.task:
        words += ["--task", settings.task]  # It has no name by which it would be found.
    if settings.base_url and settings.team is not TeamKind.PLAYBOOK:
        words += ["--base-url", settings.base_url]
    return shlex.join(words)


def _print_result(state: SessionState, folder: Path, as_json: bool) -> None:
    from astra_tui.present.sessions import result_blocks
    from astra_tui.sessions.summary import run_report

    plain.print_answer(run_report(state, folder), as_json, lambda: result_blocks(state, folder))
