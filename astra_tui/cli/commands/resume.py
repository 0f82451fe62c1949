"""`astra-tui resume`: continues a session, wherever and however it ended."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec.structs import replace

from astra_tui import plain
from astra_tui.cli.click_command import Options, argument, command, flag, switch
from astra_tui.cli.flags import RUN, SESSION_TASK
from astra_tui.model.errors import UserError
from astra_tui.model.settings import RunSettings

if TYPE_CHECKING:
    from astra_tui.cli.settings import Choices
    from astra_tui.model.environment import Difference
    from astra_tui.model.state import SessionState
    from astra_tui.sessions.engines import RunRequest


class Resumption(NamedTuple):
    """A session that can be resumed here, and what differs from when it ran."""

    request: RunRequest
    differences: tuple[Difference, ...]

    def carry_out(self, options: Options) -> int:
        """Says what differs, then runs the session on; returns the exit code."""
        from astra_tui.cli.commands.run import carry_out

        _say(Path(self.request.folder), self.differences)
        return carry_out(self.request, options, self.differences)


def prepare(folder: Path, options: Options, choices: Choices) -> Resumption:
    """Finds out how a session continues here; nothing is run.

    Raises UserError for a session that was altered, and where its task or its device is not on
    this machine.
    """
    from astra_tui.cli.session_lookup import local_task
    from astra_tui.cli.settings import refuse_foreign_server, request_for
    from astra_tui.sessions.engines import environment_differences
    from astra_tui.sessions.store import settings_of

    state = intact_state(folder)
    before = settings_of(folder)
    assert before is not None
    named, _ = local_task(state, folder, options.task, trust=options.trust)
    refuse_foreign_server(before, choices, folder, trust=options.trust)
    request = replace(request_for(choices, named, before), folder=str(folder))
    here = environment_differences(folder, request.settings.device)
    return Resumption(request, (*here, *_changed(before, request.settings)))


def intact_state(folder: Path) -> SessionState:
    """The state of a session of which nothing was altered; its end may be missing.

    Raises UserError, which names the first place.
    """
    from astra_tui.sessions.integrity import cannot_be_resumed, read_session

    session = read_session(folder)
    if session.integrity.altered:
        flaw = session.integrity.altered[0]
        raise cannot_be_resumed(flaw, folder, session.contents.records)
    return session.state


def _rejected_last(state: SessionState, folder: Path) -> str:
    """The question of the last decision. Raises UserError unless that was a rejection that can
    still be taken back.
    """
    if state.revocable is None:
        message = "there is no rejection that can be taken back"
        hint = "only the latest decision can; branch off before it: astra-tui fork --help"
        raise UserError(message, file=str(folder), hint=hint)
    return state.revocable.question


def _changed(before: RunSettings, now: RunSettings) -> tuple[Difference, ...]:
    from astra_tui.model.environment import Difference

    old, new = msgspec.to_builtins(before), msgspec.to_builtins(now)
    return tuple(
        Difference(f"setting {name.replace('_', ' ')}", _words(old[name]), _words(new[name]))
        for name in old
        if old[name] != new[name]
    )


def _words(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{k} {v}" for k, v in value.items() if v not in (None, ""))
    return str(value)


def _say(folder: Path, found: tuple[Difference, ...]) -> None:
    from astra_tui.sessions.engines import difference_words

    plain.note(f"resuming {folder}")
    for difference in found:
        plain.note(f"  {difference_words(difference)}")
    if not found:
        plain.note("  nothing differs from when it ran")


@command(
    "resume a session",
    "However it ended, on this machine or another. What differs from when it ran is shown first. "
    "Settings that are not given are those of the session; --rounds counts all its rounds.",
    argument(
        "session",
        "SESSION",
        "a session's name or folder; by default the one written last",
        required=False,
    ),
    flag("--sessions", metavar="DIR", help="where they are (default: ./sessions)"),
    switch("--take-back", help="ask about what was rejected last again first"),
    *SESSION_TASK,
    *RUN,
    example="astra-tui resume",
)
def run(options: Options) -> int:
    """Says what differs, then runs on, like `run`."""
    from astra_tui.cli.session_lookup import saved_session
    from astra_tui.cli.settings import read_choices

    choices = read_choices(options)
    folder = saved_session(options.session, choices.sessions)
    going = prepare(folder, options, choices)
    if options.take_back:
        asked = _rejected_last(intact_state(folder), folder)
        going = going._replace(request=replace(going.request, take_back=asked))
    return going.carry_out(options)
