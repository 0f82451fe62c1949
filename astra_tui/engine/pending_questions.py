"""Where questions wait for their answers. The first good answer decides; later ones are told so."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from astra_tui.model.approval import Answer, AnswerRefused, Decision, Question

Take = Callable[[Answer], Awaitable[Decision]]
"""Decides by an answer and journals that. Raises AnswerRefused where it cannot be obeyed."""


@dataclass(frozen=True)
class _Waiting:
    question: Question
    take: Take
    decision: asyncio.Future[Decision] = field(default_factory=asyncio.Future)
    considering: asyncio.Lock = field(default_factory=asyncio.Lock)


class PendingQuestions:
    """Open questions. Front ends answer; the loop waits."""

    def __init__(self) -> None:
        self._waiting: dict[str, _Waiting] = {}
        self.clients = 0
        """How many front ends could answer."""

    @property
    def open(self) -> tuple[Question, ...]:
        """The questions that wait."""
        return tuple(waiting.question for waiting in self._waiting.values())

    async def ask(self, question: Question, take: Take) -> Decision:
        """Waits until someone decides, and returns the decision as `take` has journaled it."""
        waiting = _Waiting(question, take)
        self._waiting[question.id] = waiting
        try:
            return await waiting.decision
        finally:
            self._waiting.pop(question.id, None)

    async def answer(self, answer: Answer) -> Decision:
        """Decides an open question; the decision is in the journal when this returns.

        Raises AnswerRefused when it is decided, fits badly or cannot be obeyed, and UserError when
        the journal cannot be written; the question stays open then.
        """
        waiting = self._waiting.get(answer.question)
        if waiting is None:
            raise AnswerRefused(f"{answer.question} is not open")
        async with waiting.considering:
            if waiting.decision.cancelled():
                raise AnswerRefused(f"{answer.question} is not open")
            if waiting.decision.done():
                raise decided_before(waiting.decision.result())
            decision = await waiting.take(answer)
            waiting.decision.set_result(decision)
            return decision


def decided_before(decision: Decision) -> AnswerRefused:
    """What a later answer is told: who decided, and how."""
    who, how = decision.by.describe(), decision.status.value
    return AnswerRefused(f"{decision.question} was decided before: {who} {how} it")
