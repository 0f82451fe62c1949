"""`astra-tui replay`: shows a saved session again, with neither GPU nor model nor the task."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import click

from astra_tui import plain
from astra_tui.cli.click_command import Options, argument, command, flag, whole_number
from astra_tui.cli.exit_codes import ExitCode
from astra_tui.cli.flags import JSON, PLAIN

if TYPE_CHECKING:
    from astra_tui.cli.json_answers import ReplayAnswer
    from astra_tui.sessions.integrity import Session


SLOWEST, FASTEST = 0.5, 100.0
"""How many seconds of a session may pass in one of its replay."""


def replay_speed(text: str) -> float:
    """From 0.5 to 100 times as fast as it happened; infinity for "instant"."""
    if text == "instant":
        return math.inf
    try:
        speed = float(text)
    except ValueError:
        speed = math.nan
    if not SLOWEST <= speed <= FASTEST:
        message = f"'{text}' is no speed: a number from {SLOWEST:g} to {FASTEST:g}, or instant"
        raise click.BadParameter(message)
    return speed


@command(
    "show a saved session again",
    "It needs neither a GPU nor a model nor the task. In lines, the journal is folded again, "
    "and at the end compared with the digest that the engine wrote. Without SESSION, all "
    "sessions are listed, those that come with the program too.",
    argument("session", "SESSION", "a session's name or folder", required=False),
    flag("--sessions", metavar="DIR", help="where they are (default: ./sessions)"),
    flag("--headless", help="print the lines of the run instead of the screen"),
    flag(
        "--speed",
        metavar="X",
        type=replay_speed,
        help="play so many times as fast as it happened: 0.5 to 100, or instant; no event is "
        "waited for longer than 2 s (default: lines at once; the screen shows the end)",
    ),
    flag(
        "--to",
        metavar="SEQ",
        type=whole_number,
        help="stop after this event, by its number in the journal",
    ),
    PLAIN,
    JSON,
    example="astra-tui replay h100-playbook-silu --headless --to 40",
)
def run(options: Options) -> int:
    """Opens the screen, or prints lines; without a session it lists what can be replayed."""
    from astra_tui.cli.session_lookup import print_sessions, saved_session
    from astra_tui.model.task import bundled
    from astra_tui.sessions.store import DEFAULT_FOLDER

    if options.session is None:
        print_sessions(options, bundled(DEFAULT_FOLDER))
        return ExitCode.OK
    folder = saved_session(options.session, options.sessions)
    if not (options.headless or options.json) and (code := _on_screen(options, folder)) is not None:
        return code
    return _print(options, folder)


def _on_screen(options: Options, folder: Path) -> int | None:
    """None where there is no terminal, or lines are wanted."""
    from astra_tui.cli.screen import choices_for_screen, show_replay

    choices = choices_for_screen(options)
    return None if choices is None else show_replay(folder, choices, options)


def _print(options: Options, folder: Path) -> int:
    from astra_tui.plain.run import replay_lines
    from astra_tui.present.sessions import result_blocks
    from astra_tui.sessions.integrity import read_session
    from astra_tui.sessions.timeline import position_after

    session = read_session(folder)
    timeline = session.timeline
    end = position_after(timeline, options.to, folder)
    for damage in session.damage_words():
        plain.note(damage)
    replay_lines(timeline, end, options.speed or math.inf)
    answer = _answer(session, end)
    if options.json:
        plain.print_json(answer)
    else:
        if end == len(timeline) and timeline.final_state().opened is not None:
            plain.print_blocks(result_blocks(timeline.final_state(), folder))
        plain.note(answer.message)
    return answer.exit_code


def _answer(session: Session, end: int) -> ReplayAnswer:
    from astra_tui.cli.json_answers import ReplayAnswer
    from astra_tui.model.events import SessionClosed

    timeline, folder = session.timeline, session.folder
    state = timeline.state(end)
    last = timeline.event(end) if end else None
    stated = last.digest if isinstance(last, SessionClosed) else ""
    reached = timeline.state(end - 1).digest() if stated else state.digest()
    message, code = _judge(session, end, stated, reached)
    return ReplayAnswer(
        exit_code=int(code),
        session=state.opened.session if state.opened else folder.name,
        folder=str(folder),
        events=end,
        rounds=sum(r.closed for r in state.rounds if r.number > 0),
        best=state.best,
        status=state.status.value,
        recorded_digest=stated,
        digest=reached,
        message=message,
        damage=session.damage_words(),
        trust=session.trust,
    )


def _judge(session: Session, end: int, stated: str, reached: str) -> tuple[str, ExitCode]:
    from astra_tui.model.digest import short

    timeline, trust = session.timeline, session.trust
    broken = timeline.broken
    if broken is not None and end == len(timeline):
        text = f"the replay ends before event {broken.seq}, which makes no sense: {broken.message}"
        return text, ExitCode.FAILED
    if stated and stated != reached:
        text = (
            f"the replay reached the state {short(reached)}, and the engine wrote {short(stated)}"
        )
        return text, ExitCode.FAILED
    if timeline.damage and end == len(timeline):
        return "parts of the journal could not be read", ExitCode.FAILED
    if trust.altered:
        return f"the session is {trust.describe()}", ExitCode.FAILED
    if stated:
        return f"the replay reached the state that the engine had: {short(reached)}", ExitCode.OK
    where = "at event" if end < len(timeline) else "where the journal ends, at event"
    seq = timeline.records[end - 1].seq if end else 0
    if not trust.whole and end == len(timeline):
        return f"stopped {where} {seq}; the session is {trust.describe()}", ExitCode.OK
    return f"stopped {where} {seq}; no digest of the engine to compare with", ExitCode.OK
