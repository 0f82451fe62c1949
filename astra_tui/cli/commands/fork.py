"""`astra-tui fork`: a new session that begins with the past of another one."""

from __future__ import annotations

import json
import shutil
import tomllib
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from astra_tui import plain
from astra_tui.cli.click_command import Options, argument, command, flag
from astra_tui.cli.exit_codes import ExitCode
from astra_tui.cli.flags import RUN, SESSION_TASK
from astra_tui.cli.read_file import read_user_file
from astra_tui.model.errors import UserError, nearest, value_words
from astra_tui.model.plan import Plan, edited_plan

if TYPE_CHECKING:
    from astra_tui.model.task import KernelTask
    from astra_tui.model.team_protocol import Brief
    from astra_tui.sessions.branches import ForkPlace
    from astra_tui.sessions.timeline import Timeline


@command(
    "branch a session at a given point",
    "The new session holds all that happened up to the place, and runs on from there; the other "
    "one stays as it is. docs/sessions.md names the places.",
    argument("parent", "SESSION", "the other session's name or folder"),
    flag(
        "--at",
        metavar="PLACE",
        required=True,
        help="after a round (r3), before a decision (3.0.plan), or after a candidate's round "
        "with the candidate as the best (its hash)",
    ),
    flag(
        "--plan",
        metavar="FILE",
        help="your plan, as JSON or TOML: the fields that change at a plan's decision, else a "
        "whole plan for the next round",
    ),
    flag("--note", metavar="TEXT", help="what the team should know"),
    flag("--session", metavar="DIR", help="the new session's folder"),
    flag("--sessions", metavar="DIR", help="where sessions are (default: ./sessions)"),
    flag("--no-run", help="write the branch only; run it later with: resume"),
    *SESSION_TASK,
    *RUN,
    example="astra-tui fork h100-playbook-silu --at 2",
)
def run(options: Options) -> int:
    """Writes the branch, then runs on with it like `run`; the parent is only read."""
    from astra_tui.cli.commands.resume import prepare
    from astra_tui.cli.json_answers import ForkAnswer
    from astra_tui.cli.session_lookup import local_task, saved_session
    from astra_tui.cli.settings import read_choices
    from astra_tui.sessions.branches import find_intact_place, fork_session
    from astra_tui.sessions.client import user_at_terminal
    from astra_tui.sessions.journal_writer import Redactor
    from astra_tui.sessions.store import sessions_folder

    choices = read_choices(options)
    parent = saved_session(options.parent, choices.sessions)
    timeline, place = find_intact_place(parent, options.at)
    named, task = local_task(timeline.final_state(), parent, options.task, trust=options.trust)
    plan = _plan(Path(options.plan), parent, timeline, place, task) if options.plan else None
    folder = _folder(options.session, sessions_folder(choices.sessions), named)
    try:
        fork_session(
            parent, timeline, place, folder, Redactor(), user_at_terminal(),
            plan=plan, note=options.note or "",
        )  # fmt: skip
        going = None if options.no_run else prepare(folder, options, choices)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    seq = timeline.records[place.position - 1].seq
    plain.note(f"session {folder}, from {parent} after event {seq}")
    if going is not None:
        return going.carry_out(options)
    if options.json:
        plain.print_json(ForkAnswer(folder.name, str(folder), parent.resolve().name, seq))
    return ExitCode.OK


def _folder(given: str | None, root: Path, task: str) -> Path:
    """A folder that was not there before: it is removed if the branch cannot be written."""
    from astra_tui.sessions.store import new_session_folder

    if given is None:
        return new_session_folder(root, task, datetime.now())
    folder = Path(given)
    if folder.exists():
        raise UserError("this folder already exists", file=given, hint="name one that is not")
    return folder


def _plan(file: Path, parent: Path, timeline: Timeline, place: ForkPlace, task: KernelTask) -> Plan:
    """The plan that a file makes of the one at a decision, or for the next round, as the session's
    team will code it. Raises UserError where it would not.
    """
    import asyncio

    from astra_tui.engine.briefing import brief_on
    from astra_tui.engine.team_factory import follow_edit
    from astra_tui.model.settings import TeamKind
    from astra_tui.sessions.folder import read_blob

    given, state = _read(file), timeline.state(place.position)
    assert state.opened is not None
    kind = state.opened.settings.team
    question = state.questions.get(place.question)
    number = question.round if question else place.round + 1
    base = state.round(number).base if question else place.best or state.best
    brief = brief_on(state, partial(read_blob, parent), task, number, base)
    try:
        if question:
            shown = state.round(number).proposals[question.proposal].plan
        elif kind is TeamKind.PLAYBOOK:
            shown = _own_plan(brief, str(given.get("move", "")))
        else:
            return msgspec.convert(given, Plan)
        return asyncio.run(follow_edit(kind, brief, shown, edited_plan(shown, given)))
    except msgspec.ValidationError as error:
        raise UserError(f"the plan: {value_words(error)}", file=str(file), hint=_FIELDS) from None
    except UserError as error:
        raise UserError(error.message, file=str(file), hint=error.hint) from None


_FIELDS = f"a plan has: {', '.join(Plan.__struct_fields__)}"


def _own_plan(brief: Brief, move: str) -> Plan:
    """The plan that a move has for a source. Raises UserError where it has none."""
    from astra_tui.playbook import Evidence, NotApplicable
    from astra_tui.playbook.propose import Base, moves_by_name

    moves = moves_by_name()
    if move not in moves:
        raise UserError(
            "a plan for the playbook names a move and its parameters",
            hint=nearest(move, moves),
        )
    answer = Base.of(brief.source, Evidence.of(brief)).ask(moves[move])
    if isinstance(answer, NotApplicable):
        raise UserError(f"{move} cannot be done here: {answer.reason}")
    return answer.plan


def _read(file: Path) -> dict[str, Any]:
    """The table of a TOML file, or the object of a JSON file."""
    try:
        text = read_user_file(file).decode()
        found = tomllib.loads(text) if file.suffix == ".toml" else json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"cannot be read: {error}", file=str(file)) from None
    if not isinstance(found, dict):
        raise UserError("this is no plan", file=str(file), hint=_FIELDS)
    return found
