"""One proposal of a round, from its plan to its verdict.

Every step looks at the state first: what the journal holds is not done again, so that a session
continues where it stopped.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from astra_tui.engine.approvals import Approvals
from astra_tui.engine.attempts import SWEEP, Attempts, by_engineer, verdict_words
from astra_tui.engine.briefing import binding_on, brief_for
from astra_tui.engine.candidate_steps import (
    ProposalId,
    check_candidate,
    check_diff,
    compile_candidate,
    compile_errors,
    describe_failures,
    errors_in,
    find_copy,
    profile_candidate,
    profile_refused,
    sanitize_candidate,
    time_candidate,
)
from astra_tui.engine.concurrency import FirstErrorGroup
from astra_tui.engine.control import Control
from astra_tui.engine.experience import Recollection
from astra_tui.engine.lab import Lab, LabFailed
from astra_tui.engine.other_kinds import OtherKinds
from astra_tui.engine.record import Record
from astra_tui.engine.stops import Stop, check_gpu_budget
from astra_tui.engine.sweeping import sweep_candidate
from astra_tui.engine.workbench import DraftBench, DraftLabs
from astra_tui.model.approval import (
    Answer,
    AnswerRefused,
    ApprovalGate,
    ApprovalStatus,
    Decision,
    Question,
    plan_question,
)
from astra_tui.model.author import AuthorKind
from astra_tui.model.check import CheckVerdict
from astra_tui.model.compilation import describe_errors
from astra_tui.model.constraints import Constraint, Origin
from astra_tui.model.errors import UserError
from astra_tui.model.events import (
    AnalysisGiven,
    CaseAdded,
    CodeFailed,
    CodeWritten,
    DiffReviewed,
    StageBegan,
    TextStreamed,
    VerdictReached,
)
from astra_tui.model.hunks import apply_hunks, hunk_needs, hunks_of
from astra_tui.model.plan import Plan, unedited_words
from astra_tui.model.roles import Role
from astra_tui.model.settings import RunSettings
from astra_tui.model.state import ProposalState
from astra_tui.model.task import KernelTask
from astra_tui.model.team_protocol import (
    AnswerLost,
    Brief,
    CannotFollow,
    CodeDraft,
    Failure,
    NotWritten,
    Team,
)
from astra_tui.model.verdict import Outcome, RoundVerdict


@dataclass(frozen=True)
class RoundContext:
    """Everything that a round works with."""

    task: KernelTask
    settings: RunSettings
    record: Record
    team: Team
    lab: Lab
    approvals: Approvals
    control: Control
    drafts: DraftLabs
    kinds: OtherKinds
    memory: Recollection
    one_at_a_time: defaultdict[str, asyncio.Lock] = field(
        default_factory=lambda: defaultdict(asyncio.Lock)
    )
    """By the hash of the code that candidates run: copies wait for the results of the first."""

    def brief(self, place: ProposalId) -> Brief:
        """What an agent gets to know at a place, and where it may try what it thinks of."""
        brief = brief_for(self.record, self.task, place.round)
        parts = self.record, self.task, self.settings, self.drafts, place, brief.base
        bench = DraftBench(*parts, self.memory)
        brief = dataclasses.replace(brief, suite=bench.known_cases)
        return dataclasses.replace(brief, bench=bench) if self.settings.tools.calls else brief


@dataclass(frozen=True)
class _Failed:
    """A candidate that did not do, and the verdict if it is not repaired."""

    failure: Failure
    outcome: Outcome

    def verdict(self, candidate: str, base: str) -> RoundVerdict:
        lines = tuple(line for line in self.failure.message.splitlines() if line)
        return RoundVerdict(self.outcome, lines, candidate, base)


class Proposal:
    """Works on one plan of one round."""

    def __init__(self, context: RoundContext, round_: int, index: int):
        self.context = context
        self.record = context.record
        self.place = ProposalId(round_, index)
        self._attempts = Attempts(self.record, self.place, context.lab.has_times)

    @property
    def _state(self) -> ProposalState:
        return self.record.state.round(self.place.round).proposals[self.place.proposal]

    @property
    def _base(self) -> str:
        return self.record.state.round(self.place.round).base

    @property
    def _plan(self) -> Plan:
        return self.record.state.plan_of(self.place.round, self.place.proposal)

    async def run(self) -> None:
        """Ends with a verdict in the journal."""
        if self._state.verdict is None:
            verdict = await self._work()
            self.record.emit(VerdictReached(self.place.round, self.place.proposal, verdict))

    async def _work(self) -> RoundVerdict:
        decision = await self._decide_plan()
        if not decision.status.lets_pass:
            return self._rejected(decision, "the plan")
        attempt = self._state.attempts[-1] if self._state.attempts else await self._write(None)
        while True:
            if isinstance(attempt, CodeFailed):
                failed = RoundVerdict(Outcome.NOT_WRITTEN, (attempt.reason,), "", self._base)
                return self._attempts.best_of(failed)
            result = await self._try(attempt)
            if isinstance(result, CodeWritten):
                attempt = result
            elif isinstance(result, RoundVerdict):
                following = await self._reflect(attempt, result) or await self._sweep(result)
                if following is None:
                    return self._attempts.best_of(result)
                attempt = following
            elif self._repairs_left() and not self._attempts.is_swept(attempt):
                last = attempt.candidate
                failure = await self._with_profile(last, result.failure)
                attempt = await self._write(self._attempts.with_earlier(failure))
                if isinstance(attempt, CodeFailed):
                    return self._attempts.best_of(result.verdict(last, self._base))
            else:
                return self._attempts.best_of(result.verdict(attempt.candidate, self._base))

    def _repairs_left(self) -> bool:
        written = [a for a in self._state.attempts if not by_engineer(a)]
        return len(written) <= self.context.settings.repairs + self._attempts.reflections()

    async def _with_profile(self, candidate: str, failure: Failure) -> Failure:
        """A failure of code that ran, with its own profile as far as it can be counted."""
        if failure.stage not in ("check", "verdict"):
            return failure
        known = self.record.state.candidate(candidate)
        profile = known.profile
        if profile is None:
            await self.context.control.checkpoint()
            parts = self.record, self.context.lab, candidate, self.place
            profile = await profile_refused(*parts)
        timing = known.timing(self._base)
        return dataclasses.replace(failure, profile=profile, timing=timing)

    # -- reflection --------------------------------------------------------------------------------

    async def _reflect(self, code: CodeWritten, verdict: RoundVerdict) -> CodeWritten | None:
        """Other code in the place of some that is not better, where the team has it."""
        if verdict.outcome not in _TO_REFLECT_ON or self._not_by_team(code):
            return None
        known = self.record.state.candidate(code.candidate)
        answered = any(a.role == Role.CODING for a in known.analyses)
        if answered or self._attempts.reflections() >= self.context.settings.reflections:
            return None
        await self.context.control.checkpoint()
        self.record.emit(StageBegan("code", self.place.round, self.place.proposal))
        brief = self.context.brief(self.place)
        text = self.record.store.get(code.candidate)
        failure = Failure(text, "verdict", verdict_words(verdict))
        failure = self._attempts.with_earlier(await self._with_profile(code.candidate, failure))
        answer = await self.context.team.reflect(brief, self._plan, failure, self._stream)
        if isinstance(answer, CodeDraft):
            return self._keep_draft(answer)
        if answer:
            author = self.context.team.author_of(Role.CODING)
            self.record.emit(AnalysisGiven(code.candidate, Role.CODING.value, answer, author))
        return None

    def _not_by_team(self, code: CodeWritten) -> bool:
        return by_engineer(code) or self._attempts.is_swept(code)

    async def _sweep(self, verdict: RoundVerdict) -> CodeWritten | None:
        """The best of the attempts with its open numbers swept, where that finds other code."""
        share, lab = self.context.settings.sweep, self.context.lab
        best = self._attempts.best_of(verdict)
        if not share or not lab.has_times or best.comparison is None or self._attempts.swept:
            return None
        await self.context.control.checkpoint()
        try:
            check_gpu_budget(self.record.state, self.context.settings.budget)
        except Stop:  # What was judged counts; the next timing ends the run.
            return None
        swept = await sweep_candidate(
            self.record, lab, self.context.task, self._base, best.candidate, share, self.place
        )
        if not swept.result:
            return None
        return self._keep_draft(
            CodeDraft(self.record.store.get(swept.result), SWEEP, swept.summary)
        )

    def _rejected(self, decision: Decision, what: str, candidate: str = "") -> RoundVerdict:
        reason = decision.reason or "no reason was given"
        by = decision.by.describe()
        return RoundVerdict(
            Outcome.REJECTED, (f"{by} {decision.status.value} {what}: {reason}",),
            candidate, self._base,
        )  # fmt: skip

    # -- gates -----------------------------------------------------------------------------------

    async def _decide_plan(self) -> Decision:
        plan = self._state.plan
        question = plan_question(self.place.round, self.place.proposal, plan)
        await self.context.control.checkpoint()
        return await self.context.approvals.decide(question, plan, self._follow)

    async def _follow(self, answer: Answer) -> Answer:
        """An edited plan as the team will code it. Raises CannotFollow."""
        if answer.plan is None:
            return answer
        try:
            answer.plan.prediction.require_possible()
        except UserError as error:
            raise CannotFollow(error.message) from None
        brief = self.context.brief(self.place)
        plan = await self.context.team.follow(brief, self._state.plan, answer.plan)
        return replace(answer, plan=plan)

    async def _decide_diff(self, code: CodeWritten) -> Decision:
        old, new = self.record.store.get(self._base), self.record.store.get(code.candidate)
        question = Question(
            id=f"{self.place.round}.{self.place.proposal}.diff.{code.attempt}",
            gate=ApprovalGate.DIFF,
            round=self.place.round,
            proposal=self.place.proposal,
            subject=code.candidate,
            attempt=code.attempt,
            base=self._base,
            hunks=len(hunks_of(old, new)),
        )
        await self.context.control.checkpoint()
        return await self.context.approvals.decide(question, self._plan, self._compiles)

    async def _compiles(self, answer: Answer) -> Answer:
        """An answer whose code compiles, where it makes code of its own.

        Raises AnswerRefused with the compiler's errors otherwise: a slip costs no round.
        """
        text, what, hint = answer.source, "your code", "edit it again"
        base = self.record.store.get(self._base)
        if answer.hunks is not None or answer.left_out:
            shown = self.record.store.get(answer.subject)
            needs = hunk_needs(base, shown, hunks_of(base, shown))
            chosen = range(len(needs)) if answer.hunks is None else answer.hunks
            try:
                text = apply_hunks(base, shown, frozenset(chosen), answer.left_out)
            except IndexError as error:
                raise AnswerRefused(str(error)) from None
            what, hint = "what you chose", _needed_words(chosen, needs)
        if text is None:
            return answer
        if text == base:
            message = f"{what} is the source that the round starts from"
            raise AnswerRefused(message, hint="reject the diff, and say why")
        try:
            errors = await compile_errors(self.context.lab, text)
        except LabFailed as error:
            raise AnswerRefused(f"{what} could not be compiled: {error}") from None
        if errors:
            message = f"{what} does not compile: {describe_errors(errors)}"
            raise AnswerRefused(message, hint=hint, errors=errors)
        return answer

    def _is_approved(self, candidate: str) -> bool:
        """Whether some decision of this proposal let exactly these bytes pass."""
        state = self.record.state
        return any(
            decision.gate is ApprovalGate.DIFF
            and decision.result == candidate
            and (state.questions[key].round, state.questions[key].proposal)
            == (self.place.round, self.place.proposal)
            for key, decision in state.decisions.items()
        )

    # -- code ------------------------------------------------------------------------------------

    async def _write(self, failure: Failure | None) -> CodeWritten | CodeFailed:
        await self.context.control.checkpoint()
        self.record.emit(StageBegan("code", self.place.round, self.place.proposal))
        brief = self.context.brief(self.place)
        number = len(self._state.attempts)
        try:
            draft = await self.context.team.code(brief, self._plan, failure, self._stream)
        except NotWritten as error:
            event = CodeFailed(self.place.round, self.place.proposal, number, str(error))
            if isinstance(error, AnswerLost):
                event = replace(event, lost=True, answered=error.answered)
        else:
            return self._keep_draft(draft)
        self.record.emit(event)
        return event

    def _keep_draft(self, draft: CodeDraft) -> CodeWritten:
        candidate = self.record.store.put_source(draft.source)
        event = CodeWritten(
            self.place.round, self.place.proposal, len(self._state.attempts), candidate,
            self._base, draft.author, draft.summary,
        )  # fmt: skip
        self.record.emit(event)
        return event

    def _stream(self, role: str, text: str, restart: bool) -> None:
        self.record.emit(TextStreamed(role, text, restart))

    def _write_as_engineer(self, decision: Decision, text: str, what: str) -> CodeWritten:
        candidate = self.record.store.put_source(text)
        event = CodeWritten(
            self.place.round, self.place.proposal, len(self._state.attempts), candidate,
            self._base, decision.by, what,
        )  # fmt: skip
        self.record.emit(event)
        return event

    # -- trial -----------------------------------------------------------------------------------

    async def _try(self, code: CodeWritten) -> RoundVerdict | CodeWritten | _Failed:
        """A verdict, or what stands in its way, or other code that the engineer made of it."""
        candidate = code.candidate
        text = self.record.store.get(candidate)
        if candidate == self._base:
            return _Failed(
                Failure(text, "review", "the source is the same as before"), Outcome.NOT_WRITTEN
            )
        await self.context.control.checkpoint()
        compiled = await compile_candidate(self.record, self.context.lab, candidate, self.place)
        if not compiled.ok:
            failure = Failure(text, "compile", describe_errors(errors_in(compiled.diagnostics)))
            return _Failed(failure, Outcome.NOT_COMPILED)
        if not self._is_approved(candidate):
            await self._review(code, text)
            decision = await self._decide_diff(code)
            if decision.status is ApprovalStatus.EDITED:
                edited = self.record.store.get(decision.result)
                return self._write_as_engineer(decision, edited, "edited by the engineer")
            if not decision.status.lets_pass and decision.by.kind is AuthorKind.POLICY:
                return _Failed(Failure(text, "review", decision.reason), Outcome.NOT_WRITTEN)
            if not decision.status.lets_pass:
                return self._rejected(decision, "the code", candidate)
            if decision.partial is not None:
                return self._take_hunks(decision, text)
        async with self.context.one_at_a_time[compiled.code or candidate]:
            find_copy(self.record, candidate)
            return await self._check(code, text)

    async def _review(self, code: CodeWritten, text: str) -> None:
        """Holds code against its plan and what the engineer said, by rule where a rule can tell.

        What rules leave open a model reads, unless the engineer wrote the code.
        """
        round_, index = self.place.round, self.place.proposal
        brief = brief_for(self.record, self.context.task, round_)
        said = tuple(filter(binding_on(self.record.state, round_, index), brief.constraints))
        if not said:
            return
        await self.context.control.checkpoint()
        own = unedited_words(self._state.plan, self._plan)
        if code.author.kind is AuthorKind.PLAYBOOK:  # Its words are all the move's, edited or not.
            own = self._plan.change
        if own:
            said = (Constraint(Origin.PLAN, own, self._plan.title, round_), *said)
        rulings = await check_diff(self.context.lab, brief, code, text, said)
        known = self._state.rulings(code.candidate)
        if [(r.constraint, r.text) for r in known] == [(r.constraint, r.text) for r in rulings]:
            return
        undecided = tuple(r for r in rulings if r.judge is None)
        if undecided and not by_engineer(code):
            read = await self.context.team.review(brief, self._plan, text, undecided)
            by_part = {(r.constraint, r.text): r for r in read}
            rulings = tuple(by_part.get((r.constraint, r.text), r) for r in rulings)
        self.record.emit(DiffReviewed(round_, index, code.candidate, rulings))

    def _take_hunks(self, decision: Decision, text: str) -> CodeWritten:
        assert decision.partial is not None
        base = self.record.store.get(self._base)
        chosen = apply_hunks(base, text, decision.partial, decision.left_out)
        what = f"{decision.describe_partial()} of the diff"
        return self._write_as_engineer(decision, chosen, what)

    async def _check(self, code: CodeWritten, text: str) -> RoundVerdict | _Failed:
        candidate = code.candidate
        if self.record.state.candidate(candidate).check is None:
            await self._add_cases(text)
        await self.context.control.checkpoint()
        try:
            check = await check_candidate(self.record, self.context.lab, candidate, self.place)
        except UserError as error:
            return _Failed(Failure(text, "check", error.describe()), Outcome.WRONG)
        if check.verdict is CheckVerdict.UNSUPPORTED:
            return RoundVerdict(Outcome.UNSUPPORTED, (check.message,), candidate, self._base)
        if check.verdict is CheckVerdict.INCONCLUSIVE:
            reasons = (check.message,)
            return RoundVerdict(Outcome.INCONCLUSIVE, reasons, candidate, self._base)
        if check.verdict is not CheckVerdict.PASSED:
            return await self._explain(candidate, text)
        await self.context.control.checkpoint()
        if self.context.settings.sanitize:
            await sanitize_candidate(self.record, self.context.lab, candidate, self.place)
            if not self.record.state.candidate(candidate).correct:
                return await self._explain(candidate, text)
            await self.context.control.checkpoint()
        try:
            if not self._attempts.is_base(candidate):
                await self._measure(candidate)
        except UserError as error:
            return _Failed(Failure(text, "check", error.describe()), Outcome.WRONG)
        verdict = self._attempts.judge(candidate)
        if verdict.outcome is Outcome.WRONG:
            return _Failed(Failure(text, "check", "\n".join(verdict.reasons)), Outcome.WRONG)
        return verdict

    async def _measure(self, candidate: str) -> None:
        """Counts a candidate, and times it against its base where the device can."""
        lab = self.context.lab
        async with FirstErrorGroup() as group:
            group.create_task(profile_candidate(self.record, lab, candidate, self.place))
            if lab.has_times:
                check_gpu_budget(self.record.state, self.context.settings.budget)
                group.create_task(
                    time_candidate(self.record, lab, self._base, candidate, self.place)
                )
                group.create_task(self.context.kinds.measure(candidate))

    async def _add_cases(self, text: str) -> None:
        """Lets the testing agent add cases before code is checked, an engineer's too."""
        brief = self.context.brief(self.place)
        for case in await self.context.team.cases(brief, self._plan, text):
            # Looked up now: another plan of the round may have added it while the agent wrote.
            if case.id not in {known.id for known in self.record.state.cases}:
                self.record.emit(CaseAdded(case, self.context.team.author_of(Role.TESTING)))

    async def _explain(self, candidate: str, text: str) -> _Failed:
        failure = Failure(text, "check", describe_failures(self.record, candidate))
        brief = self.context.brief(self.place)
        words = await self.context.team.explain(brief, text, failure)
        if words:
            author = self.context.team.author_of(Role.TESTING)
            self.record.emit(AnalysisGiven(candidate, Role.TESTING.value, words, author))
            failure = Failure(text, "check", f"{failure.message}\n{words}")
        return _Failed(failure, Outcome.WRONG)


_TO_REFLECT_ON = (Outcome.SAME, Outcome.WORSE, Outcome.INCONCLUSIVE, Outcome.UNSUPPORTED)


def _needed_words(chosen: Collection[int], needs: Sequence[Mapping[int, str]]) -> str:
    """Which other hunks the chosen ones need, by name."""
    missing = [
        f"hunk {hunk + 1} needs hunk {other + 1} ({name})"
        for hunk in sorted(chosen)
        for other, name in needs[hunk].items()
        if other not in chosen
    ]
    return "; ".join(missing) or "choose again, or edit the code"
