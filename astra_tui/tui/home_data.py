"""What home lists: kernel tasks, saved sessions with the result of them, and running engines."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from astra_tui.model.state import SessionState
from astra_tui.model.task_folders import list_tasks
from astra_tui.present.tones import Phrase, Tone
from astra_tui.present.words import NOTHING_BETTER, timing_verdict
from astra_tui.present.words import best_of as words_of_best
from astra_tui.sessions.client import running_engines
from astra_tui.sessions.engines import Running, runtime_folder
from astra_tui.sessions.journal_reader import is_packed, journal_path
from astra_tui.sessions.store import ALTERED, SessionSummary, summary_and_state
from astra_tui.sessions.summary import BASELINE, TUNED, final_timings

MAX_SESSIONS = 200
"""How many of the latest sessions home lists."""


class Kernel(msgspec.Struct, frozen=True):
    """A kernel task that can be named."""

    name: str
    folder: Path
    summary: str


class ListedSession(msgspec.Struct, frozen=True):
    """A session, how good its best candidate is, at length and briefly, and where its engine
    listens.

    `rank` orders the best candidates of one task, less is better: first those that were timed at
    their end, against tuned.cu before against the baseline, without a doubt before with one, by the
    speedup; then the others, by their counters. None where nothing is better than the baseline.
    """

    summary: SessionSummary
    best: Phrase = NOTHING_BETTER
    brief: Phrase = NOTHING_BETTER
    rank: tuple[float, ...] | None = None
    socket: Path | None = None

    @property
    def status(self) -> str:
        """As the list says it."""
        return self.summary.status if self.socket is None else f"{self.summary.status}, running"

    @property
    def can_resume(self) -> bool:
        """Whether an engine can resume it: no one does, and its journal can be read and added
        to, as a packed one cannot.
        """
        is_free = self.socket is None and bool(self.summary.task)
        return is_free and not is_packed(Path(self.summary.folder))


def kernels() -> list[Kernel]:
    """Every task with its summary, without the cost of reading tasks in full."""
    return [Kernel(t.name, t.folder, _summary(t.folder / "task.toml")) for t in list_tasks()]


def _summary(file: Path) -> str:
    try:
        told = tomllib.loads(file.read_text(encoding="utf-8")).get("summary", "")
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        return f"cannot be read: {error}"
    return told if isinstance(told, str) else ""


def session_folders(root: Path) -> list[Path]:
    """The folders of the latest sessions, newest first."""
    if not root.is_dir():
        return []
    found = [(_changed(folder), folder) for folder in root.iterdir()]
    return [folder for time, folder in sorted(found, reverse=True) if time][:MAX_SESSIONS]


def _changed(folder: Path) -> float:
    try:
        return journal_path(folder).stat().st_mtime
    except OSError:
        return 0.0


def list_session(folder: Path, engines: Mapping[str, Running]) -> ListedSession:
    """One session; a damaged one is listed as such. `engines` are by session folder."""
    summary, state = summary_and_state(folder)
    running = engines.get(str(folder.resolve()))
    socket = running[0] if running else None
    if state is None or summary.status == ALTERED:  # Figures that were altered are no results.
        return ListedSession(summary, socket=socket)
    rank = _rank(state)
    if rank is None:
        return ListedSession(summary, socket=socket)
    best, brief = words_of_best(state), words_of_best(state, is_brief=True)
    return ListedSession(summary, best, brief, rank, socket)


def _rank(state: SessionState) -> tuple[float, ...] | None:
    opened = state.opened
    if opened is None or not state.has_better:
        return None
    best = state.candidate(state.best)
    timed = {found.against: found.timing for found in final_timings(state)}
    for place, file in enumerate((TUNED, BASELINE)):
        if final := timed.get(file):
            doubt = timing_verdict(final).tone is not Tone.GOOD
            return _TIMED, place, doubt, -final.speedup.value
    if state.candidate(opened.baseline).profile is None or best.profile is None:
        return None
    return _COUNTED, *best.profile.ranking_key()


_TIMED, _COUNTED = 0.0, 1.0


async def engines_by_folder() -> dict[str, Running]:
    """The running engines of this user, by the folder of their session, wherever it is."""
    engines, _ = await running_engines(runtime_folder())
    return {running[1].folder: running for running in engines}


def waiting(engines: Mapping[str, Running]) -> tuple[Running, ...]:
    """Those that wait for someone to decide."""
    return tuple(running for running in engines.values() if running[1].question)


def best_of(task: str, listed: list[ListedSession]) -> ListedSession | None:
    """The session with the best known result for a task; None where nothing is known."""
    known = [(s.rank, n) for n, s in enumerate(listed) if s.summary.task == task and s.rank]
    return listed[min(known)[1]] if known else None
