"""From a source's events to views: all that came in meanwhile makes one view a tick.

Panes that would be redrawn for each event could not keep up with a busy engine. A first event
after a quiet time is shown at once, a stream of them four times a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable
from itertools import islice

from msgspec.structs import replace

from astra_tui.model.approval import Question
from astra_tui.model.check import Case, CaseResult
from astra_tui.model.errors import UserError
from astra_tui.model.events import (
    AnswerAwaited,
    CaseChecked,
    CheckStarted,
    CodeFailed,
    CodeWritten,
    DecisionTaken,
    DeviceOpened,
    Event,
    GpuSampled,
    Paused,
    PlanningFinished,
    PlanProposed,
    RejectionTakenBack,
    RoundsTimed,
    SessionClosed,
    StageBegan,
    SweepAdvanced,
    TextStreamed,
    VerdictReached,
    WorkersSeen,
    WorkloadTimed,
)
from astra_tui.model.fold import ImpossibleEvent, apply
from astra_tui.model.gpu import GpuSample
from astra_tui.model.state import SessionState
from astra_tui.model.workers import WorkersStatus
from astra_tui.sessions.journal_lines import Record
from astra_tui.sessions.journal_reader import recorded_cases
from astra_tui.tui.app_io import TICK
from astra_tui.tui.player import ReplayState
from astra_tui.tui.source import Item, Source
from astra_tui.tui.view import Choice, LogEntry, View, entry_of, newest_choice

MAX_HELD = 8
"""Candidates; more than are checked at a time."""


class Evicted:
    """Stands for results that were evicted; another one for each time."""

    problem: str = ""
    """Why they could not be read again, if they could not."""


class CaseCache:
    """Takes results out of the states of the screen, and puts them back."""

    def __init__(self) -> None:
        self._held: dict[str, None] = {}
        """The least recently used first."""
        self._evicted: dict[str, Evicted] = {}
        self._shared: dict[str, Case] = {}

    def shared(self, event: Event) -> Event:
        """Every candidate runs the same cases; each is held once, which halves the memory."""
        if not isinstance(event, CaseChecked):
            return event
        return replace(event, result=self._with_shared_case(event.result))

    def after(self, state: SessionState, event: Event) -> SessionState:
        """The state after an event, without the results that are held no longer."""
        if isinstance(event, CheckStarted):
            self._evicted.pop(event.candidate, None)
        if isinstance(event, DeviceOpened) and not any(c.cases for c in state.candidates.values()):
            self._evicted.clear()  # The state has left those of another device behind.
        return self._hold(state, event.candidate) if isinstance(event, CaseChecked) else state

    def evicted(self, candidate: str) -> Evicted | None:
        """Whether a candidate's results have to be read again; None where they do not."""
        return self._evicted.get(candidate)

    def restored(
        self,
        state: SessionState,
        candidate: str,
        results: tuple[CaseResult, ...],
        instead_of: Evicted,
    ) -> SessionState:
        """The state with results that were read again, unless others have come meanwhile."""
        if self._evicted.get(candidate) is not instead_of:
            return state
        del self._evicted[candidate]
        results = tuple(map(self._with_shared_case, results))
        return self._hold(_with_results(state, candidate, results), candidate)

    def _hold(self, state: SessionState, candidate: str) -> SessionState:
        self._held.pop(candidate, None)
        self._held[candidate] = None
        if len(self._held) <= MAX_HELD:
            return state
        oldest = next(iter(self._held))
        del self._held[oldest]
        self._evicted[oldest] = Evicted()
        return _with_results(state, oldest, ())

    def _with_shared_case(self, result: CaseResult) -> CaseResult:
        known = self._shared.setdefault(result.case.id, result.case)
        same = known is not result.case and known == result.case
        return replace(result, case=known) if same else result


def _with_results(
    state: SessionState, candidate: str, results: tuple[CaseResult, ...]
) -> SessionState:
    changed = replace(state.candidate(candidate), results=results)
    return replace(state, candidates={**state.candidates, candidate: changed})


GATHER_SECONDS = 0.02
"""Seconds in which events that come together are gathered before the first view."""

LOG_LENGTH = 2000
"""Entries that the log keeps; the journal keeps them all."""

STREAM_LENGTH = 8000
"""Characters at the end of a model's answer that are kept while it streams in."""

SAMPLES = 240
"""Readings of NVML that are kept for the strips: a minute of them."""

_BATCH = 200


class Presenter:
    """Folds a source's events, and shows views of what they make.

    `clock` gives seconds; `tick` is how many pass between two views at least.
    """

    def __init__(
        self,
        source: Source,
        show: Callable[[View], None],
        clock: Callable[[], float] = time.monotonic,
        tick: float = TICK,
    ):
        self._tick = tick
        self._source = source
        self._show = show
        self._clock = clock
        self._changed = asyncio.Event()
        self._ended = False
        self._shown_at = float("-inf")
        self._chosen: Choice | None = None
        self._position = 0
        self.error: UserError | None = None
        """Why the source broke off, if it did."""
        self._state = SessionState()
        self._held = CaseCache()
        self._seq = -1
        self._recalls: dict[Evicted, asyncio.Task[None]] = {}
        self._stage: StageBegan | None = None
        self._since = 0.0
        self._awaited: dict[str, Question] = {}
        self._urgent = asyncio.Event()
        """Something came that is to be shown without waiting for more."""
        self._streams: dict[str, str] = {}
        self._log: deque[LogEntry] = deque(maxlen=LOG_LENGTH)
        self._rounds_timed: dict[str, RoundsTimed] = {}
        self._sweep = ""
        self._samples: deque[GpuSample] = deque(maxlen=SAMPLES)
        self._workers = WorkersStatus()

    async def run(self) -> None:
        """Shows views until the source ends."""
        reading = asyncio.ensure_future(self._read())
        try:
            while not self._ended or self._changed.is_set():
                await self._changed.wait()
                wait = self._shown_at + self._tick - self._clock()
                await self._gather(max(GATHER_SECONDS, min(wait, self._tick)))
                self._changed.clear()
                self.refresh()
        finally:
            reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reading

    async def _gather(self, seconds: float) -> None:
        """Waits while more may come; a plan or a question is waited for by someone."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._urgent.wait()
                await asyncio.sleep(GATHER_SECONDS)
        self._urgent.clear()

    @property
    def ended(self) -> bool:
        """Whether no event will come any more."""
        return self._ended

    def choose(self, choice: Choice | None) -> None:
        """What all panes are about; None follows the work. Shown at once."""
        self._chosen = choice
        self.refresh()

    def refresh(self) -> None:
        """Shows a view now."""
        self._shown_at = self._clock()
        self._show(self.view())

    def view(self) -> View:
        """The session as it is now."""
        awaiting = next(iter(self._awaited.values()), None)
        view = View(
            state=self._state,
            choice=self._chosen or newest_choice(self._state, awaiting),
            following=self._chosen is None,
            stage=self._stage,
            since=self._since,
            awaiting=awaiting,
            streams=dict(self._streams),
            log=tuple(self._log),
            rounds_timed=tuple(self._rounds_timed.values()),
            sweep=self._sweep,
            samples=tuple(self._samples),
            workers=self._workers,
        )
        return self._with_cases(view)

    def _with_cases(self, view: View) -> View:
        """The view; where the cases of its candidate were evicted, they are read again."""
        known = view.candidate
        gone = self._held.evicted(known.hash) if known else None
        if known is None or gone is None:
            return view
        if gone not in self._recalls:
            self._recalls[gone] = asyncio.create_task(self._recall(known.hash, gone))
        return replace(view, without_cases=gone.problem or "Reading the cases again.")

    async def _recall(self, candidate: str, gone: Evicted) -> None:
        folder, last = self._source.folder, self._seq
        try:
            results = await asyncio.to_thread(recorded_cases, folder, candidate, last)
        except UserError as error:
            gone.problem = error.describe()
        else:
            self._state = self._held.restored(self._state, candidate, results, gone)
            del self._recalls[gone]
        self.refresh()

    async def _read(self) -> None:
        count = 0
        try:
            async for item in self._source.items():
                self._take(item)
                self._changed.set()
                count += 1
                if count % _BATCH == 0:  # A long journal comes in one piece.
                    await asyncio.sleep(0)
        except UserError as error:
            self.error = error
        except ImpossibleEvent as error:
            message = f"this session tells of something that cannot be: {error}"
            self.error = UserError(message, file=str(self._source.folder))
        self._ended = True
        self._awaited.clear()
        self._stage = None
        self._changed.set()

    def _take(self, item: Item) -> None:
        match item:
            case ReplayState():
                self._enter(item)
            case Record():
                event = self._held.shared(item.event)
                self._state = self._held.after(apply(self._state, event), event)
                self._seq = item.seq
                self._note(item)
                self._follow(event)
            case Event():
                self._follow(item)

    def _enter(self, scene: ReplayState) -> None:
        """Takes the state of a scene, and the latest of its records into the log.

        Where it continues from the scene before, only what is new is put into words.
        """
        new = scene.position - self._position
        if not 0 <= new <= LOG_LENGTH:
            self._log.clear()
            past = map(entry_of, reversed(scene.records[: scene.position]))
            self._log.extendleft(islice(filter(None, past), LOG_LENGTH))
        else:
            for record in scene.records[self._position : scene.position]:
                self._note(record)
        self._state, self._position = scene.state, scene.position

    def _note(self, record: Record) -> None:
        entry = entry_of(record)
        if entry is not None:
            self._log.append(entry)

    def _follow(self, event: Event) -> None:
        """Keeps what the state does not hold: who writes what, and who is waited for."""
        if isinstance(event, PlanProposed | AnswerAwaited):
            self._urgent.set()
        match event:
            case StageBegan():
                self._stage, self._since, self._sweep = event, self._clock(), ""
            case TextStreamed():
                before = "" if event.restart else self._streams.get(event.role, "")
                self._streams[event.role] = (before + event.text)[-STREAM_LENGTH:]
            case PlanProposed() | PlanningFinished() | CodeWritten() | CodeFailed():
                self._streams.clear()
            case AnswerAwaited(question=question):
                if question.id not in self._state.decisions:
                    self._awaited[question.id] = question
            case DecisionTaken(decision=decision):
                self._awaited.pop(decision.question, None)
            case Paused(interrupted=True) | SessionClosed() | RejectionTakenBack():
                self._awaited.clear()
                self._stage = None
            case VerdictReached():
                self._stage = None
                self._rounds_timed.clear()
            case SweepAdvanced(progress=progress):
                self._sweep = progress
            case RoundsTimed():
                self._rounds_timed[event.workload] = event
            case WorkloadTimed(timing=timing):
                self._rounds_timed.pop(timing.workload, None)
            case GpuSampled(sample=sample):
                self._samples.append(sample)
            case WorkersSeen(status=status):
                self._workers = status
