"""The optimisation loop: rounds of plan, approval, code, approval, check, profile, verdict.

Source: Astra, algorithm 1 (arXiv 2509.07506), with an engineer at two gates of every round, and
with the rule that only a candidate that is correct and better becomes the base.
"""

from __future__ import annotations

import asyncio
import os
import platform
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from msgspec.structs import replace

from astra_tui.engine.approvals import Approvals, Policy
from astra_tui.engine.candidate_steps import (
    ProposalId,
    check_candidate,
    compile_candidate,
    describe_failures,
    errors_in,
    profile_candidate,
    read_hardware_counters,
    sanitize_candidate,
    time_candidate,
)
from astra_tui.engine.concurrency import FirstErrorGroup
from astra_tui.engine.control import Control
from astra_tui.engine.experience import Recollection
from astra_tui.engine.gpu_watch import GpuWatch
from astra_tui.engine.judging import judge_counters, judge_timed
from astra_tui.engine.lab import Lab, LabFailed
from astra_tui.engine.other_kinds import OtherKinds
from astra_tui.engine.pending_questions import PendingQuestions
from astra_tui.engine.proposal import Proposal, RoundContext
from astra_tui.engine.record import Record, Store
from astra_tui.engine.search import choose_parents, fit_candidates
from astra_tui.engine.stops import (
    FINISHED,
    Stop,
    check_budget,
    check_gpu_budget,
    check_roofline,
    check_rounds,
)
from astra_tui.engine.winner import measure_winner, time_base_shipped
from astra_tui.engine.workbench import DraftLabs
from astra_tui.lab.check.suite import build_suite
from astra_tui.lab.devices import DeviceChoice
from astra_tui.lab.on_gpu.opening import completed
from astra_tui.model.added_cases import check_added_case
from astra_tui.model.author import Author, AuthorKind
from astra_tui.model.check import CheckVerdict
from astra_tui.model.compilation import describe_errors
from astra_tui.model.digest import short
from astra_tui.model.environment import current_versions
from astra_tui.model.errors import UserError
from astra_tui.model.events import (
    AnalysisGiven,
    AutoApprovalSet,
    BestChanged,
    CaseAdded,
    DeviceOpened,
    EngineStarted,
    ErrorOccurred,
    Event,
    NoteAdded,
    ParentChoice,
    ParentChosen,
    PlanningFinished,
    PlanProposed,
    RejectionTakenBack,
    RoundClosed,
    RoundOpened,
    SessionClosed,
    StageBegan,
    StopReason,
    TextStreamed,
    WorkersSeen,
)
from astra_tui.model.roles import Role
from astra_tui.model.settings import EMULATOR, RunSettings
from astra_tui.model.state import RoundState, SessionState
from astra_tui.model.task import KernelTask
from astra_tui.model.team_protocol import BudgetSpent, Team, TeamUnavailable
from astra_tui.model.verdict import Outcome
from astra_tui.model.workers import WorkersStatus
from astra_tui.sessions.client import user_at_terminal
from astra_tui.sessions.experience import ExperienceStore

if TYPE_CHECKING:
    from astra_tui.workers import Workers

_WORKERS_SECONDS = 0.25
"""How often it is looked what workers are at."""

MAX_LOST = 2
"""Rounds in a row that may be lost to failures of the model's server."""


class Engine:
    """One run of a session. `run` yields its events; answers and orders may come at any time."""

    def __init__(
        self,
        task: KernelTask,
        settings: RunSettings,
        store: Store,
        state: SessionState,
        team: Team,
        policies: Sequence[Policy] = (),
        *,
        wait_for_engineer: bool = False,
        device: DeviceChoice | None = None,
        memory: ExperienceStore | None = None,
        workers: Workers | None = None,
    ):
        """With `workers` these do the lab's jobs."""
        device = device or DeviceChoice()
        self._device = device
        self._watch: GpuWatch | None = None
        self._workers = workers
        self._events: asyncio.Queue[Event | None] = asyncio.Queue()
        self.record = Record(store, state, self._events.put_nowait)
        self.desk = PendingQuestions()
        self.control = Control(self.record)
        self._settings = settings
        self._recollection = Recollection(self.record, task, memory)
        processes = max(1, min(settings.candidates, os.cpu_count() or 1))
        of_kind = workers.of_kind(device.kind) if workers is not None else None
        lab = Lab(task, device.name, processes, self._quiet, seed=state.seed, workers=of_kind)
        drafts = DraftLabs(lab)
        if lab.has_times:
            emulator = Lab(task, EMULATOR, processes, seed=state.seed, workers=workers)
            drafts = DraftLabs(emulator, lab if settings.tools.drafts else None, lab)
        self._context = RoundContext(
            task=task,
            settings=settings,
            record=self.record,
            team=team,
            lab=lab,
            approvals=Approvals(self.record, self.desk, policies, wait_for_engineer),
            control=self.control,
            drafts=drafts,
            kinds=OtherKinds(self.record, task, settings.budget, workers, device.kind),
            memory=self._recollection,
        )

    @property
    def state(self) -> SessionState:
        """The session as it stands."""
        return self.record.state

    async def run(self) -> AsyncIterator[Event]:
        """Works until a stop rule holds; yields every event, the last a SessionClosed.

        Raises UserError when the journal takes no more events.
        """
        main = asyncio.ensure_future(self._main())
        try:
            while (event := await self._events.get()) is not None:
                yield event
            await main
        finally:
            if not main.done():
                main.cancel()
                await asyncio.wait([main])

    def add_note(self, text: str, by: Author) -> None:
        """Something that the team should know from its next prompt on."""
        self.record.emit(NoteAdded(text, by))

    def choose_parent(self, event: ParentChosen) -> None:
        """Has the next round stand on a candidate. Raises UserError for one that was not measured
        or is not correct.
        """
        original = self.state.candidate(event.candidate).copy_of or event.candidate
        if original not in fit_candidates(self.state):
            message = f"no round can stand on {short(event.candidate)}"
            raise UserError(message, hint="choose a candidate that passed its check here")
        self.record.emit(ParentChosen(original, event.by))

    def set_auto_approval(self, event: AutoApprovalSet) -> None:
        """Which questions of those to come are accepted without asking."""
        self._context.approvals.set_auto(event)

    def take_back(self, event: RejectionTakenBack) -> None:
        """Has the rejected question asked again. Raises UserError once anything else was decided,
        or another plan of the round became the best.
        """
        revocable = self.state.revocable
        if revocable is None or revocable.question != event.question:
            message = f"the rejection of {event.question} cannot be taken back any more"
            raise UserError(message, hint="only the latest decision can; branch off before it")
        self.control.take_back(event)

    def add_case(self, event: CaseAdded) -> None:
        """A case more for every candidate that is checked from now on.

        Raises UserError when it cannot be one of the task's, or when there is one of its name.
        """
        case, task = event.case, self._context.task
        try:
            check_added_case(case, task)
        except UserError as error:
            raise UserError(f"case {case.name}: {error.message}", hint=error.hint) from None
        suite = build_suite(task, self.state.seed)
        if any(case.id == known.id for known in (*suite, *self.state.cases)):
            raise UserError(f"there is a case {case.id} already", hint="give it another name")
        self.record.emit(event)

    async def _main(self) -> None:
        stop = Stop(StopReason.CANCELLED, "cancelled")
        showing = asyncio.ensure_future(self._show_workers())
        try:
            self._begin()
            await self.control.supervise(self._session)
        except Stop as reached:
            stop = reached
        except BudgetSpent as spent:
            stop = Stop(StopReason.BUDGET, str(spent))
        except asyncio.CancelledError:
            if self.control.cancelled is not None:
                stop = Stop(
                    StopReason.CANCELLED, f"cancelled by {self.control.cancelled.describe()}"
                )
        except (TeamUnavailable, LabFailed, UserError) as error:
            stop = Stop(StopReason.TROUBLE, str(error))
            places = {TeamUnavailable: "the team", LabFailed: "the lab"}
            where = next((w for kind, w in places.items() if isinstance(error, kind)), "the run")
            self.record.emit(ErrorOccurred(where, str(error)))
        except BaseException as error:
            stop = Stop(StopReason.TROUBLE, f"{type(error).__name__}: {error}")
            raise
        finally:
            showing.cancel()
            try:
                await self._end(stop)
            finally:  # On a full disk nothing more is kept, and `run` has to end all the same.
                self._events.put_nowait(None)

    def _begin(self) -> None:
        rounds, versions = self._settings.rounds, current_versions()
        self._context.approvals.begin(user_at_terminal())
        self.record.emit(EngineStarted(platform.node(), os.getpid(), rounds, versions))
        self._open_device()

    async def _end(self, stop: Stop) -> None:
        if self._watch is not None:
            self._watch.close()
        self._context.lab.close()
        self._context.drafts.emulator.close()
        self._context.kinds.close()
        await self._context.team.close()
        self.record.emit(SessionClosed(stop.reason, stop.message, self.state.digest()))

    def _open_device(self) -> None:
        identity, facts = self._device.far, self._device.facts
        if facts is not None:
            self._watch = GpuWatch(facts.uuid, self.record.emit)
            identity = completed(self._watch.start(), facts)
        self.record.emit(DeviceOpened(self._device.name, identity))

    async def _show_workers(self) -> None:
        shown: WorkersStatus | None = None
        while self._workers is not None:
            status = self._workers.status
            if status != shown:
                self.record.emit(WorkersSeen(status))
                shown = status
            await asyncio.sleep(_WORKERS_SECONDS)

    def _quiet(self) -> AbstractContextManager[None]:
        return self._watch.paused() if self._watch is not None else nullcontext()

    async def _session(self) -> None:
        try:
            await self._rounds()
        except Stop as reached:
            if reached.reason in FINISHED:
                await self._read_hardware(self.state.best, self.state.rounds[-1].number)
                await measure_winner(self.record, self._context.lab, self._context.task)
                await self._context.kinds.choose_winners()
            raise

    async def _rounds(self) -> None:
        await self._baseline()
        while True:
            number = self._next_round()
            await self.control.checkpoint()
            await self._measure_base(number)
            check_budget(self.state, self._settings.budget)
            check_roofline(self.state, self._settings.roofline)
            await self._round(number)

    def _next_round(self) -> int:
        last = self.state.rounds[-1]
        if not last.closed:
            return last.number
        check_rounds(self.state)
        return last.number + 1

    async def _baseline(self) -> None:
        """Round 0: nothing can be built on a baseline that is wrong."""
        baseline = self._baseline_hash
        if not self.state.rounds:
            self.record.emit(RoundOpened(0, 0, baseline))
        if self.state.round(0).closed:
            return
        if self._plans_are_free and self.state.round_limit:
            await self._first_plan(baseline)
        await self._measure(baseline, "the baseline", ProposalId(0))
        self.record.emit(RoundClosed(0))

    @property
    def _plans_are_free(self) -> bool:
        """Whether a plan needs no call of a model and no times."""
        return not self._planner() and not self._context.lab.has_times

    async def _first_plan(self, baseline: str) -> None:
        """A plan needs counts alone, and they are there long before the check has ended: meanwhile
        the engineer reads it. It is asked about once the baseline has passed.
        """
        compiled = await compile_candidate(self.record, self._context.lab, baseline, ProposalId(0))
        try:
            if compiled.ok:
                await profile_candidate(self.record, self._context.lab, baseline, ProposalId(0))
        except UserError:  # Its check will say what is wrong with it.
            return
        if compiled.ok:
            await self._begin_round(1)

    @property
    def _baseline_hash(self) -> str:
        assert self.state.opened is not None
        return self.state.opened.baseline

    async def _measure_base(self, number: int) -> None:
        """A branch of a session on another kind of device has no results of the sources that it
        continues with.
        """
        last = self.state.rounds[-1]
        base = self.state.best if last.closed else last.base
        for source in dict.fromkeys((self._baseline_hash, self.state.best, base)):
            if self.state.candidate(source).profile is None:
                await self._measure(source, f"the source {short(source)}", ProposalId(number))

    async def _measure(self, source: str, name: str, place: ProposalId) -> None:
        """Compiles, checks, profiles and times what others are built on. Raises Stop where that
        shows that nothing can be.
        """
        record, lab = self.record, self._context.lab
        compiled = await compile_candidate(record, lab, source, place)
        if not compiled.ok:
            why = describe_errors(errors_in(compiled.diagnostics))
            raise Stop(StopReason.BASELINE, f"{name} does not compile: {why}")
        check = await check_candidate(record, lab, source, place)
        if self._settings.sanitize and check.verdict is CheckVerdict.PASSED:
            await sanitize_candidate(record, lab, source, place)
        if not self.state.candidate(source).correct:
            why = describe_failures(record, source)
            raise Stop(StopReason.BASELINE, f"{name} fails its own check: {why}")
        try:
            await profile_candidate(record, lab, source, place)
            if lab.has_times:
                await time_candidate(record, lab, source, self._baseline_hash, place)
        except UserError as error:
            raise Stop(StopReason.BASELINE, f"{name}: {error.describe()}") from None

    async def _round(self, number: int) -> None:
        await self._begin_round(number)
        round_ = self.state.round(number)
        proposals = round_.proposals
        if not proposals:
            self.record.emit(RoundClosed(number, lost=round_.unanswered))
            if round_.why is ParentChoice.BEST and not round_.no_answer:
                raise Stop(StopReason.NO_PLAN, round_.no_plan or "the team has no plan left")
            self._require_answers()
            return
        async with FirstErrorGroup() as group:
            for proposal in proposals:
                group.create_task(Proposal(self._context, number, proposal.index).run())
        await self._choose_best(self.state.round(number))
        self.record.emit(RoundClosed(number, lost=self.state.round(number).unanswered))
        self._recollection.remember(number)
        self._require_answers()

    async def _begin_round(self, number: int) -> None:
        if number == len(self.state.rounds):
            self._open_round(number)
        if not self.state.round(number).planned:
            await self._plan(number)

    def _require_answers(self) -> None:
        """Ends the run when one round after the other is lost to the model's server."""
        last = self.state.rounds[-MAX_LOST:]
        if len(last) == MAX_LOST and all(r.lost for r in last):
            said = f"{MAX_LOST} rounds in a row brought no answer of a model"
            raise TeamUnavailable(f"{said}: {last[-1].loss}")

    def _open_round(self, number: int) -> None:
        state, search = self.state, self._settings.search
        chosen = choose_parents(state, search, self.record.store.get)
        if chosen is None:
            last = state.rounds[-1].no_plan
            reason = f"for all correct candidates: {last}" if last else "the team has no plan left"
            raise Stop(StopReason.NO_PLAN, reason)
        parent, _ = state.place_of(chosen.base)
        parts = chosen.base, chosen.other, chosen.why, chosen.among
        self.record.emit(RoundOpened(number, parent, *parts))

    async def _plan(self, number: int) -> None:
        state = self.state.round(number)
        if state.proposals:  # The journal ends between a plan and the end of planning.
            self.record.emit(PlanningFinished(number))
            return
        await self._read_hardware(self.state.round(number).base, number)
        if self._planner():
            budget = self._settings.budget
            await time_base_shipped(
                self.record, self._context.lab, self._context.task, number, budget
            )
        self.record.emit(StageBegan("plan", number))
        await self._read_profile(number)
        self._recollection.recall(number, self._bottleneck(number), self._planner())
        brief = self._context.brief(ProposalId(number))
        answer = await self._context.team.plan(brief, self._settings.candidates, self._stream)
        for index, draft in enumerate(answer.plans):
            plan = draft.plan.for_device(self.state.candidate(brief.base).is_timed)
            self.record.emit(PlanProposed(number, index, plan, draft.author))
        lost = answer.lost and not answer.plans
        answered = lost and answer.answered
        self.record.emit(PlanningFinished(number, answer.reason, answer.refused, lost, answered))

    def _bottleneck(self, number: int) -> str:
        """What the profiling agent said of the base, else what the latest plan saw."""
        known = self.state.candidate(self.state.round(number).base)
        said = [a.text for a in known.analyses if a.role == Role.PROFILING]
        plans = [p.plan.bottleneck for r in self.state.rounds for p in r.proposals]
        return (said or plans or [""])[-1]

    def _planner(self) -> str:
        author = self._context.team.author_of(Role.PLANNING)
        return author.name if author.kind is AuthorKind.MODEL else ""

    async def _read_hardware(self, candidate: str, round_: int) -> None:
        if not self._settings.ncu:
            return
        try:
            check_gpu_budget(self.state, self._settings.budget)
        except Stop:  # It decides nothing; the next timing ends the run.
            return
        lab, task = self._context.lab, self._context.task
        await read_hardware_counters(self.record, lab, task, candidate, ProposalId(round_))

    async def _read_profile(self, number: int) -> None:
        base = self.state.round(number).base
        known = self.state.reading(base, number)
        if known is not None and not self._has_news(known):
            return
        brief = self._context.brief(ProposalId(number))
        found = await self._context.team.read_profile(brief, self._stream)
        if found is not None:
            author = self._context.team.author_of(Role.PROFILING)
            put, selection = self.record.store.put, found.selection
            kept = tuple(replace(one, answer=put(one.answer)) for one in selection.measured)
            selection = replace(selection, measured=kept)
            parts = base, Role.PROFILING.value, found.text, author, selection
            self.record.emit(AnalysisGiven(*parts))

    def _has_news(self, reading: AnalysisGiven) -> bool:
        """Whether candidates were measured since, which the agent can compare with its tools."""
        if reading.selection is None or not self._settings.tools.calls:
            return False
        since = self.state.rounds[reading.selection.round :]
        written = (p.verdict.candidate for r in since for p in r.proposals if p.verdict is not None)
        return any(hash_ and self.state.candidate(hash_).profile is not None for hash_ in written)

    def _stream(self, role: str, text: str, restart: bool) -> None:
        self.record.emit(TextStreamed(role, text, restart))

    async def _choose_best(self, round_: RoundState) -> None:
        """Makes the round's winner the best, where it is better than the best as well."""
        if not round_.winner or round_.best:
            return
        known = self.state.candidate(round_.winner)
        winner = known.copy_of or known.hash
        if round_.base == self.state.best or await self._beats_best(winner, round_.number):
            self.record.emit(BestChanged(round_.number, winner))

    async def _beats_best(self, winner: str, round_: int) -> bool:
        """Whether a candidate that was made from another one is better than the best."""
        best, lab = self.state.best, self._context.lab
        old, new = (self.state.candidate(hash_).profile for hash_ in (best, winner))
        if winner == best or old is None or new is None:
            return False
        if not lab.has_times:
            return judge_counters(best, old, winner, new).outcome is Outcome.BETTER
        check_gpu_budget(self.state, self._settings.budget)
        try:
            timing = await time_candidate(self.record, lab, best, winner, ProposalId(round_))
        except UserError as error:
            self.record.emit(ErrorOccurred("timing", error.describe()))
            return False
        return judge_timed(old, new, timing).outcome is Outcome.BETTER
