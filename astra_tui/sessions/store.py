"""Where sessions live, what they are called, and what a list of them shows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from astra_tui.model.errors import OutOfResources, UserError, nearest
from astra_tui.model.settings import RunSettings
from astra_tui.model.state import SessionState, SessionStatus
from astra_tui.sessions.folder import writer_of
from astra_tui.sessions.integrity import Session, Trust, read_session, read_unaltered
from astra_tui.sessions.journal_lines import JOURNAL_NAME
from astra_tui.sessions.journal_reader import PACKED_NAME, has_session, journal_path, state_of
from astra_tui.sessions.safe_open import (
    make_folder,
    place_of,
    refuse_links,
)

DEFAULT_FOLDER = "sessions"
INTERRUPTED = "interrupted"
"""Not closed, and no process writes it: it can be resumed."""
ALTERED = "altered"
UNREADABLE = "unreadable"
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]+")


class SessionSummary(msgspec.Struct, frozen=True):
    """One session of a list.

    `status` is one of SessionStatus, or "interrupted"; or "altered" or "unreadable", where `damage`
    says why. `trust` is the verdict on the journal, without the texts; None where it is unreadable.
    `rounds` counts the closed ones without the baseline; `best` is the hash of the best candidate.
    `started` and `ended` are times of the first and last event, UTC. `parent` is the session that
    it branched off, and `fork_seq` the event after which it did; "" and 0 where it is no branch.
    `result` says how good the best candidate is, and `tone` is "good" only where nothing speaks
    against it; a list fills them in.
    """

    name: str
    folder: str
    task: str
    team: str
    device: str
    status: str
    rounds: int
    best: str
    started: str
    ended: str
    damage: tuple[str, ...]
    parent: str = ""
    fork_seq: int = 0
    title: str = ""
    trust: Trust | None = None
    result: str = ""
    tone: str = "dim"


def sessions_folder(configured: str | None) -> Path:
    """The folder that holds sessions: the configured one, else `sessions` where we are."""
    return Path(configured).expanduser() if configured else Path(DEFAULT_FOLDER)


def new_session_folder(root: Path, task: str, now: datetime) -> Path:
    """Makes a folder named after the task and the time, as in silu_and_mul-20261121-142233."""
    stem = _NOT_IN_NAMES.sub("-", Path(task).name).strip("-.") or "session"
    name = f"{stem}-{now:%Y%m%d-%H%M%S}"
    number = 1
    while not _made(folder := root / (name if number == 1 else f"{name}-{number}")):
        number += 1
    return folder


def _made(folder: Path) -> bool:
    try:
        make_folder(folder, exist_ok=False)
    except FileExistsError:
        return False
    except OSError as error:
        raise OutOfResources.or_bad_input(error, "cannot be made", folder) from None
    return True


def find_session(name_or_path: str, root: Path) -> Path:
    """The folder of a session. Raises UserError, which offers the nearest name, if there is none.

    A name is looked up in `root`; anything else is a path to the folder or to its journal.
    """
    given = Path(name_or_path).expanduser()
    if given.name in (JOURNAL_NAME, PACKED_NAME):
        given = given.parent
    for folder in (root / name_or_path, given):
        if _is_session(folder):
            return folder
    names = [folder.name for folder in _session_folders(root)]
    hint = nearest(Path(name_or_path).name, names) if names else f"{root} holds no sessions"
    raise UserError(f"there is no session '{name_or_path}'", hint=hint)


def settings_of(folder: Path) -> RunSettings | None:
    """What a session was last run with; None where the folder has no session that can be resumed.

    Raises UserError when its journal cannot be read, or was altered.
    """
    if not has_session(folder):
        return None
    state = state_of(read_unaltered(folder), folder)
    if state.opened is None:
        raise UserError("the journal holds no session", file=str(folder))
    settings = state.opened.settings
    rounds = state.round_limit or settings.rounds
    return msgspec.structs.replace(settings, rounds=rounds, device=state.device_name)


def list_sessions(root: Path, read: Callable[[Path], SessionSummary]) -> list[SessionSummary]:
    """All sessions in a folder, as `read` says of each, the oldest first.

    One that cannot be read is listed as such.
    """
    summaries = [read(folder) for folder in _session_folders(root)]
    return sorted(summaries, key=lambda s: (s.started, s.name))


def summary_and_state(folder: Path) -> tuple[SessionSummary, SessionState | None]:
    """The line of one session, and its state, None where it cannot be read."""
    try:
        session = read_session(folder, texts=False)
        return _summary(session), session.state
    except UserError as error:
        return _unreadable(folder, str(error)), None


def _summary(session: Session) -> SessionSummary:
    state, folder = session.state, session.folder
    assert state.opened is not None
    contents, trust = session.contents, session.trust
    settings, origin = state.opened.settings, state.opened.forked_from
    return SessionSummary(
        name=folder.name,
        folder=str(folder),
        task=settings.task,
        team=settings.team.value,
        device=state.device_name,
        status=ALTERED if trust.altered else _status(state, folder),
        rounds=sum(r.closed for r in state.rounds if r.number > 0),
        best=state.best,
        started=contents.records[0].time,
        ended=contents.records[-1].time,
        damage=session.damage_words(),
        parent=origin.session if origin else "",
        fork_seq=origin.seq if origin else 0,
        title=settings.title,
        trust=trust,
    )


def _status(state: SessionState, folder: Path) -> str:
    if state.status is SessionStatus.CLOSED or writer_of(folder):
        return state.status.value
    return INTERRUPTED


def _unreadable(folder: Path, message: str) -> SessionSummary:
    return SessionSummary(
        folder.name, str(folder), "", "", "", UNREADABLE, 0, "", "", "", (message,)
    )


def place_for(path: Path) -> tuple[Path, str]:
    """Where a file that a user names is to be written: a folder, and its name below it.

    Raises UserError where the way there leads through a link inside of a session's folder.
    """
    folder, name = place_of(path, (JOURNAL_NAME, PACKED_NAME))
    refuse_links(folder, str(Path(name).parent))
    return folder, name


def in_tree_order(sessions: Sequence[SessionSummary]) -> Iterator[tuple[int, SessionSummary]]:
    """Each session with how many parents it has in the list, after its parent."""
    names = {s.name for s in sessions}
    children: dict[str, list[SessionSummary]] = {}
    for s in sessions:
        children.setdefault(s.parent if s.parent in names else "", []).append(s)
    stack = [(0, s) for s in reversed(children.pop("", []))]
    while stack:
        depth, s = stack.pop()
        yield depth, s
        stack += [(depth + 1, child) for child in reversed(children.pop(s.name, []))]
    for circle in children.values():  # Names that go round: no engine wrote these.
        yield from ((0, s) for s in circle)


def _is_session(folder: Path) -> bool:
    return journal_path(folder).is_file()


def _session_folders(root: Path) -> list[Path]:
    if not root.is_dir():
        return []
    return sorted(folder for folder in root.iterdir() if _is_session(folder))
