"""Saved sessions as commands take them: by name, with the local task that they ran on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from astra_tui import plain
from astra_tui.cli.click_command import Options
from astra_tui.model.digest import short
from astra_tui.model.errors import UserError
from astra_tui.model.state import SessionState
from astra_tui.model.task import KernelTask, bundled, find_task, list_tasks, load_task
from astra_tui.model.task.table import TaskError
from astra_tui.sessions.journal_reader import journal_path
from astra_tui.sessions.store import DEFAULT_FOLDER, find_session, list_sessions, sessions_folder

if TYPE_CHECKING:
    from astra_tui.export import Winner
    from astra_tui.sessions.integrity import Session


def saved_session(name: str | None, configured: str | None = None) -> Path:
    """The folder of a session by its name or folder, also of one that comes with the program.

    Without a name, the session that was written last. Raises UserError where there is none.
    """
    root = sessions_folder(configured)
    if name is None:
        return _newest(root)
    shipped = bundled(DEFAULT_FOLDER)
    if journal_path(shipped / name).is_file() and not journal_path(root / name).is_file():
        return shipped / name
    return find_session(name, root)


def print_sessions(options: Options, *others: Path) -> None:
    """A table of the sessions in the folder of `--sessions` and in others, or JSON.

    Damage of a journal is reported on stderr.
    """
    from astra_tui.cli.json_answers import SessionsAnswer
    from astra_tui.present.sessions import session_entry, sessions_blocks

    root = sessions_folder(options.sessions)
    found = [s for folder in (*others, root) for s in list_sessions(folder, session_entry)]
    unique = tuple({Path(s.folder).resolve(): s for s in found}.values())
    if options.json:
        plain.print_json(SessionsAnswer(str(root), unique))
    elif unique:
        plain.print_blocks(sessions_blocks(unique))
        for entry in unique:
            for damage in entry.damage:
                plain.note(f"{entry.name}: {damage}")
    else:
        plain.note(f"{root} holds no sessions; begin one with: astra-tui run TASK")


def open_winner(options: Options, what: str) -> tuple[Session, Winner, KernelTask]:
    """A saved session, its best candidate and its task on this machine, as flags name them.

    `what` is made of it, and has to say so where the session is not whole. Raises UserError.
    """
    from astra_tui.export import find_winner
    from astra_tui.sessions.integrity import read_session

    folder = saved_session(options.session, options.sessions)
    session = read_session(folder)
    winner = find_winner(session, options.candidate, allow_altered=options.allow_altered)
    if not session.trust.whole:
        plain.note(f"the session is {session.trust.describe()}; the {what} says so")
    _, task = local_task(session.state, folder, options.task, trust=options.trust)
    return session, winner, task


def _newest(root: Path) -> Path:
    found = [journal_path(folder) for folder in root.iterdir()] if root.is_dir() else []
    journals = [j for j in found if j.is_file()]
    if not journals:
        hint = "begin one with: astra-tui run TASK"
        raise UserError(f"{root} holds no sessions", hint=hint)
    return max(journals, key=lambda j: j.stat().st_mtime).parent


def local_task(
    state: SessionState, folder: Path, given: str | None, *, trust: bool
) -> tuple[str, KernelTask]:
    """The task of this machine on which a session ran, told by its hash, and how to name it.

    It is the given one, else one that has a name here, else a folder of that name in the current
    one, as `run` takes it too. Another folder that only the session names is taken with `trust`,
    since its reference.py will be run. Raises UserError where there is none.
    """
    if state.opened is None:
        raise UserError(
            "the journal does not begin with the opening of a session", file=str(folder)
        )
    wanted, named = state.opened.task_hash, state.opened.settings.task
    if given is not None:
        task = find_task(given)
        if task.hash != wanted:
            raise _other_version(task, wanted)
        return given, task
    same_name: KernelTask | None = None
    for name, task in _named_tasks():
        if task.hash == wanted:
            return name, task
        if name == Path(named).name:
            same_name = task
    if (here := _task_here(named, folder)) is not None:
        if here.hash == wanted:
            return named, here
        same_name = here
    elif trust or _is_path(named):
        return _trusted(named, wanted, folder, trust)
    if same_name is not None:
        raise _other_version(same_name, wanted)
    raise UserError(
        f"the task of this session, {named}, is not on this machine",
        file=str(folder),
        hint="say where it is: --task FOLDER",
    )


def _named_tasks() -> Iterator[tuple[str, KernelTask]]:
    for found in list_tasks():
        try:
            yield found.name, load_task(found.folder)
        except TaskError:
            continue  # It is not the one: what has this hash can be read.


def _task_here(named: str, session: Path) -> KernelTask | None:
    """The task in a folder right here that has this name, unless that is a session's own."""
    place = Path(named)
    if place.is_absolute() or len(place.parts) != 1 or ".." in place.parts:
        return None
    inside = place.resolve().is_relative_to(session.resolve())
    if inside or not (place / "task.toml").is_file() or journal_path(place).exists():
        return None
    return load_task(place)


def _is_path(named: str) -> bool:
    return Path(named).name != named and (Path(named) / "task.toml").is_file()


def _trusted(named: str, wanted: str, folder: Path, trust: bool) -> tuple[str, KernelTask]:
    if not trust:
        raise UserError(
            f"the session names the folder of its task, {named}, whose reference.py would be run",
            file=str(folder),
            hint=f"if it is yours, say: --task {named}",
        )
    task = find_task(named)
    if task.hash != wanted:
        raise _other_version(task, wanted)
    return named, task


def _other_version(task: KernelTask, wanted: str) -> UserError:
    return UserError(
        f"the task {task.name} here is not the one of this session: its hash is "
        f"{short(task.hash)}, and the session ran on {short(wanted)}",
        file=str(task.folder),
        hint="results of different task versions are not comparable; name the folder of the "
        "right one: --task FOLDER",
    )
