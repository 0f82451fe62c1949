"""What a session tells the memory of this machine, and what it is told by it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from astra_tui.engine.record import Record
from astra_tui.model.errors import UserError
from astra_tui.model.events import ErrorOccurred, MemoryRecalled
from astra_tui.model.experience import Experience, predictions_of, retrieve
from astra_tui.model.ledger import owner_of
from astra_tui.model.settings import EMULATOR
from astra_tui.model.state import SessionState
from astra_tui.model.task import KernelTask
from astra_tui.model.verdict import Outcome
from astra_tui.sessions.experience import ExperienceStore

MAX_TEXT = 400
"""Characters of a text that is kept of a plan or its result."""
MOST_RECALLED = 8


class Recollection:
    """The memory as the loop uses it: a file that fails costs itself, and is told once."""

    def __init__(self, record: Record, task: KernelTask, store: ExperienceStore | None):
        self._record = record
        self._task = task
        self._store = store

    @property
    def is_on(self) -> bool:
        """Whether there is a memory that can be asked."""
        return self._store is not None

    def search(self, operator: str, about: str) -> tuple[Experience, ...]:
        """What other sessions tried of an operator, about something; either may be "".

        Raises UserError where the file cannot be read.
        """
        return retrieve(self._others(), operator, _gpu_of(self._record.state), about, MOST_RECALLED)

    def _others(self) -> list[Experience]:
        """All but this session's own. Raises UserError."""
        state = self._record.state
        known = self._store.read() if self._store is not None else ()
        own = state.opened.session if state.opened else ""
        return [one for one in known if one.session != own]

    def recall(self, round_: int, bottleneck: str, author: str) -> None:
        """Journals what earlier sessions tell the planning of a round."""
        state = self._record.state
        if self._store is None or state.opened is None or state.round(round_).recalled is not None:
            return
        try:
            fitting = self.search(self._task.name, bottleneck)
            known = self._store.read()
        except UserError as error:
            self._fail(error)
            return
        team = state.opened.settings.team.value
        predictions = predictions_of(known, team, author, _gpu_of(state))
        if fitting or predictions:
            self._record.emit(MemoryRecalled(round_, fitting, predictions))

    def remember(self, round_: int) -> None:
        """Keeps what the plans of a round brought."""
        if self._store is None:
            return
        now = datetime.now(UTC).isoformat(timespec="seconds")
        try:
            self._store.add(experiences_of(self._record.state, self._task.name, round_, now))
        except UserError as error:
            self._fail(error)

    def _fail(self, error: UserError) -> None:
        self._store = None
        self._record.emit(ErrorOccurred("memory", error.describe()))


def experiences_of(
    state: SessionState, operator: str, round_: int, time: str
) -> Iterator[Experience]:
    """What a round of a session tells; nothing of plans that no one has tried."""
    assert state.opened is not None
    for proposal in state.round(round_).proposals:
        verdict = proposal.verdict
        if verdict is None or proposal.lost or verdict.outcome is Outcome.REJECTED:
            continue
        plan = state.plan_of(round_, proposal.index)
        team, model = owner_of(state, proposal, plan)
        compared = verdict.comparison
        yield Experience(
            session=state.opened.session,
            round=round_,
            proposal=proposal.index,
            time=time,
            gpu=_gpu_of(state),
            operator=operator,
            team=team,
            model=model,
            title=plan.title[:MAX_TEXT],
            bottleneck=plan.bottleneck[:MAX_TEXT],
            change=plan.change[:MAX_TEXT],
            move=plan.move,
            prediction=plan.prediction,
            outcome=verdict.outcome,
            reason=(verdict.reasons[0] if verdict.reasons else "")[:MAX_TEXT],
            ratios=compared.ratios if compared else {},
            speedup=compared.speedup if compared else None,
        )


def _gpu_of(state: SessionState) -> str:
    gpu = state.device.gpu if state.device else None
    return (gpu.name if gpu else "") or EMULATOR
