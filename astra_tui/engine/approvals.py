"""The gates: a question goes to the policies first, then to the clients."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from msgspec.structs import replace

from astra_tui.engine.pending_questions import PendingQuestions
from astra_tui.engine.record import Record
from astra_tui.engine.stops import Stop
from astra_tui.model.approval import Answer, AnswerRefused, AutoMode, Decision, Question, decide
from astra_tui.model.author import Author
from astra_tui.model.errors import UserError
from astra_tui.model.events import (
    AnswerAwaited,
    ApprovalAsked,
    AutoApprovalSet,
    DecisionTaken,
    StopReason,
)
from astra_tui.model.plan import Plan
from astra_tui.model.state import SessionState
from astra_tui.model.team_protocol import CannotFollow


class Policy(Protocol):
    """Answers that need no one."""

    def answer(self, question: Question, plan: Plan, state: SessionState) -> Answer | None:
        """An answer, or None when it is not for this policy to decide."""
        ...


Review = Callable[[Answer], Awaitable[Answer]]
"""Says what an answer is obeyed as. Raises AnswerRefused, or CannotFollow, for one that is not."""


async def obey(answer: Answer) -> Answer:
    """The review of answers that change nothing of what was shown."""
    return answer


SETTLE_SECONDS = 1.0
"""A mode acts once it has stood for so long, so that cycling past one decides nothing."""


class Approvals:
    """Gets questions decided, once each."""

    def __init__(
        self,
        record: Record,
        desk: PendingQuestions,
        policies: Sequence[Policy],
        wait: bool,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._record = record
        self._desk = desk
        self._policies = policies
        self._wait = wait
        """Whether to wait for a front end when none is connected."""
        self._clock = clock
        self._auto_set = float("-inf")
        self._settling = asyncio.Lock()

    def begin(self, engineer: Author) -> None:
        """Keeps the mode that a resumed session has only where this engineer set it.

        The session, with the mode in it, may come from someone else; so may one that was set by
        an engineer without a name. To be called before EngineStarted, after which nothing that
        was set stands in the way of the policy that this engine was started with.
        """
        auto = self._record.state.auto
        if auto.is_on and (auto.by != engineer or not engineer.name):
            self._record.emit(AutoApprovalSet(AutoMode.ASK, engineer))

    def set_auto(self, event: AutoApprovalSet) -> None:
        """Says which questions are accepted without asking. Those that are open are spared."""
        self._record.emit(event)
        self._auto_set = self._clock()

    async def decide(self, question: Question, plan: Plan, review: Review = obey) -> Decision:
        """The decision on a question: the one of the journal, else a new one.

        Every answer, wherever it comes from, is reviewed before it decides. Raises Stop when no
        one is there to ask, and when the answer of a policy is refused.
        """
        taken = self._record.state.decisions.get(question.id)
        if taken is not None and taken.subject == question.subject:
            return taken
        if question.id not in self._record.state.questions:
            self._record.emit(ApprovalAsked(question))
        await self._settled()
        answer = self._by_policy(question, plan)
        if answer is not None:
            return await self._take_policy(question, answer, review)
        if not self._desk.clients and not self._wait:
            raise Stop(
                StopReason.UNATTENDED,
                f"the {question.gate.value} of round {question.round} waits for a decision, "
                "and there is no one to take it",
            )
        self._record.emit(AnswerAwaited(question))
        return await self._desk.ask(question, lambda answer: self._take(question, answer, review))

    async def _settled(self) -> None:
        """Waits until a mode that was just set would act; it may be another one by then.

        Questions leave in the order in which they came: of so many, the first are accepted.
        """
        if not self._record.state.auto.is_on:
            return
        async with self._settling:
            while self._record.state.auto.is_on:
                left = self._auto_set + SETTLE_SECONDS - self._clock()
                if left <= 0:
                    return
                await asyncio.sleep(left)

    def _by_policy(self, question: Question, plan: Plan) -> Answer | None:
        state = self._record.state
        answers = (policy.answer(question, plan, state) for policy in self._policies)
        try:
            return next((answer for answer in answers if answer is not None), None)
        except UserError as error:  # In a file of decisions, which can be corrected.
            hint = f" ({error.hint})" if error.hint else ""
            raise Stop(StopReason.TROUBLE, f"{error.file}: {error.message}{hint}") from None

    async def _take_policy(self, question: Question, answer: Answer, review: Review) -> Decision:
        try:
            return await self._take(question, answer, review)
        except (AnswerRefused, CannotFollow) as error:
            hint = f" ({error.hint})" if error.hint else ""
            message = f"{answer.by.describe()}: {error.message}{hint}"
            raise Stop(StopReason.TROUBLE, message) from None

    async def _take(self, question: Question, answer: Answer, review: Review) -> Decision:
        decide(question, answer)  # What fits badly is not reviewed.
        answer = await review(answer)
        decision = decide(question, answer)
        if answer.source is not None:
            # What is stored may be less than what was written: secrets are taken out.
            decision = replace(decision, result=self._record.store.put_source(answer.source))
        self._record.emit(DecisionTaken(decision))
        return decision
