"""Opens a session, new or old, and puts an engine on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from astra_tui.engine.approvals import Policy
from astra_tui.engine.loop import Engine
from astra_tui.engine.policy import AutoPolicy, DecisionsFile
from astra_tui.engine.team_factory import JournaledCalls
from astra_tui.lab.devices import DeviceChoice
from astra_tui.model.environment import current_versions
from astra_tui.model.errors import UserError
from astra_tui.model.events import SCHEMA_VERSION, SessionOpened
from astra_tui.model.fold import apply
from astra_tui.model.settings import RunSettings
from astra_tui.model.state import SessionState
from astra_tui.model.task import KernelTask
from astra_tui.model.team_protocol import Team
from astra_tui.sessions.experience import ExperienceStore
from astra_tui.sessions.journal_reader import has_session, journal_path, state_of
from astra_tui.sessions.journal_writer import Journal, Redactor

if TYPE_CHECKING:
    from astra_tui.workers import Workers


@dataclass(frozen=True)
class OpenSession:
    """A session whose journal is ours to write."""

    journal: Journal
    state: SessionState
    settings: RunSettings


def open_session(
    folder: Path, task: KernelTask, settings: RunSettings, redactor: Redactor, seed: int = 0
) -> OpenSession:
    """A new session in a folder that has none. Drawn cases follow from `seed`."""
    is_empty = journal_path(folder).exists() and not has_session(folder)
    journal = (Journal.reopen if is_empty else Journal.create)(folder, redactor)
    baseline = journal.put_source(task.baseline_file.read_text(encoding="utf-8"))
    event = SessionOpened(
        schema=SCHEMA_VERSION,
        session=folder.name,
        task_hash=task.hash,
        baseline=baseline,
        settings=settings,
        versions=current_versions(),
        seed=seed,
    )
    kept = journal.append(event)
    return OpenSession(journal, apply(SessionState(), kept.event), settings)


def resume_session(folder: Path, task: KernelTask, redactor: Redactor) -> OpenSession:
    """A session that continues where its journal ends.

    Raises UserError when the journal is damaged, but for an end that is cut off, and when the task
    is no longer the one of the session.
    """
    journal = Journal.reopen(folder, redactor)
    try:
        state = state_of(journal.found, folder)
        if state.opened is None:
            raise UserError("the journal holds no session", file=str(folder))
        if state.opened.task_hash != task.hash:
            raise UserError(
                f"the task {task.name} has changed since this session began",
                file=str(task.folder),
                hint="start a new session; results of different task versions are not comparable",
            )
    except BaseException:
        journal.close()
        raise
    return OpenSession(journal, state, state.opened.settings)


def build_engine(
    session: OpenSession,
    task: KernelTask,
    settings: RunSettings,
    team: Team,
    *,
    wait_for_engineer: bool,
    calls: JournaledCalls | None = None,
    device: DeviceChoice | None = None,
    memory: ExperienceStore | None = None,
    workers: Workers | None = None,
) -> Engine:
    """An engine on a session. `settings` may differ from those that the session began with.

    `calls` is the one that the team was given for its calls of models; `memory` is that of this
    machine, and None remembers nothing.
    """
    engine = Engine(
        task,
        settings,
        session.journal,
        session.state,
        team,
        _policies(settings, session.state),
        wait_for_engineer=wait_for_engineer,
        device=device,
        memory=memory,
        workers=workers,
    )
    if calls is not None:
        calls.open(engine.record)
    return engine


def _policies(settings: RunSettings, state: SessionState) -> Sequence[Policy]:
    policies: list[Policy] = []
    if settings.approval.decisions:
        policies.append(DecisionsFile(Path(settings.approval.decisions), state))
    return [*policies, AutoPolicy(settings.approval)]
