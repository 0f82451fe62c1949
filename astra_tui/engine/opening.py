"""From what a front end asks for to an engine on an open session."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from astra_tui.engine.host import OpenSession, build_engine, open_session, resume_session
from astra_tui.engine.loop import Engine
from astra_tui.engine.policy import read_decisions
from astra_tui.engine.team_factory import JournaledCalls, ModelAccess, build_team, remembered_steps
from astra_tui.lab.devices import DeviceChoice, choose_device
from astra_tui.lab.upstream import task_headers
from astra_tui.model.errors import UserError
from astra_tui.model.events import RejectionTakenBack
from astra_tui.model.settings import EMULATOR, TeamKind, api_key
from astra_tui.model.task import KernelTask, find_task
from astra_tui.model.team_protocol import Team
from astra_tui.sessions.branches import has_run_since
from astra_tui.sessions.client import user_at_terminal
from astra_tui.sessions.engines import RunRequest
from astra_tui.sessions.experience import ExperienceStore, memory_file
from astra_tui.sessions.journal_reader import has_session
from astra_tui.sessions.journal_writer import Redactor
from astra_tui.sessions.store import new_session_folder

if TYPE_CHECKING:
    from astra_tui.workers import Workers


@dataclass(frozen=True)
class OpenRun(AbstractContextManager["OpenRun"]):
    """An engine on a session that is ours to write; leaving the block closes the journal."""

    engine: Engine
    folder: Path
    redactor: Redactor
    first: int
    """The number of the first record of this run."""
    _session: OpenSession
    _workers: ExitStack
    """Workers that were opened for it."""

    def __exit__(self, *_: object) -> None:
        self._session.journal.close()
        self._workers.close()


async def open_run(
    request: RunRequest,
    environment: Mapping[str, str],
    *,
    wait_for_engineer: bool,
    workers: Workers | None = None,
) -> OpenRun:
    """Opens or resumes the session of a request. The key of a model is in the environment.

    Its lab's jobs are done by `workers`, else by those that the request asks for, if any.

    Raises UserError; a request that is refused leaves no new folder.
    """
    task = find_task(request.task)
    await asyncio.to_thread(task_headers, task)  # Fetched here, and not by each lab process.
    if request.settings.approval.decisions:
        read_decisions(Path(request.settings.approval.decisions))
    redactor = Redactor([api_key(environment)], environment)
    access, earlier = _model_access(request, environment), _remembered(request)
    calls = JournaledCalls(request.settings.budget, access.prices)
    own, team = ExitStack(), None
    try:
        if workers is None:
            workers = await asyncio.to_thread(_asked_workers, request, own)
        choose = choose_device if workers is None else workers.device
        device = await asyncio.to_thread(choose, request.settings.device)
        request = _on_device(request, device)
        team = await build_team(request.settings, access, calls, earlier)
        session = _session(request, task, redactor)
        engine = _engine(session, task, request, team, wait_for_engineer, calls, device, workers)
    except BaseException:
        own.close()
        if team is not None:
            await team.close()
        raise
    records = session.journal.found.records
    first = records[-1].seq + 1 if records else 0
    return OpenRun(engine, session.journal.folder, redactor, first, session, own)


def _asked_workers(request: RunRequest, stack: ExitStack) -> Workers | None:
    if not (request.workers or request.scheduler):
        return None
    from astra_tui.workers import WorkersAsked, open_workers

    asked = WorkersAsked.read(request.workers, request.scheduler)
    return stack.enter_context(open_workers(asked)) if asked is not None else None


def _session(request: RunRequest, task: KernelTask, redactor: Redactor) -> OpenSession:
    folder = Path(request.folder)
    if not request.folder:
        folder = new_session_folder(Path(request.sessions), task.name, datetime.now())
    elif has_session(folder):
        return resume_session(folder, task, redactor)
    return open_session(folder, task, request.settings, redactor, request.seed)


def _engine(
    session: OpenSession,
    task: KernelTask,
    request: RunRequest,
    team: Team,
    wait_for_engineer: bool,
    calls: JournaledCalls,
    device: DeviceChoice,
    workers: Workers | None,
) -> Engine:
    before = session.state.device
    try:
        check_same_device(session, device)
        if workers is not None and before is not None and before.gpu is not None:
            device = workers.device(device.name, before.gpu.name or "")
        engine = build_engine(
            session,
            task,
            request.settings,
            team,
            wait_for_engineer=wait_for_engineer,
            calls=calls,
            device=device,
            memory=ExperienceStore(file) if (file := memory_file()) is not None else None,
            workers=workers,
        )
        if request.take_back:
            engine.take_back(RejectionTakenBack(request.take_back, user_at_terminal()))
        return engine
    except BaseException:
        session.journal.close()
        raise


def _on_device(request: RunRequest, device: DeviceChoice) -> RunRequest:
    return replace(request, settings=replace(request.settings, device=device.name))


def check_same_device(session: OpenSession, device: DeviceChoice) -> None:
    """Counters and times are not comparable; a branch that has not run yet may take another kind
    of device, and leaves the results of the first behind. Raises UserError.
    """
    state, folder = session.state, session.journal.folder
    before, opened = state.device_name, state.opened
    if (before == EMULATOR) == (device.name == EMULATOR) or not state.rounds or opened is None:
        return
    if has_run_since(session.journal.found.records, opened):
        raise UserError(
            f"this session ran on {before}, whose results are not comparable with those of "
            f"{device.name}",
            file=str(folder),
            hint=f"say --device {before}, or branch it: "
            f"astra-tui fork {folder.name} --at PLACE --device {device.name}",
        )


def _remembered(request: RunRequest) -> tuple[tuple[str, str], ...]:
    if not request.folder or request.settings.team is not TeamKind.LLM_SINGLE:
        return ()
    return remembered_steps(Path(request.folder))


def _model_access(request: RunRequest, environment: Mapping[str, str]) -> ModelAccess:
    given = (
        request.price_input_per_million,
        request.price_output_per_million,
        request.price_cached_per_million,
    )
    if given == (None, None, None):
        return ModelAccess(api_key(environment))
    from astra_tui.llm import Prices

    return ModelAccess(api_key(environment), Prices(*given))
