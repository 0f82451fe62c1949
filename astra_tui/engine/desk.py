"""Where questions wait for their answers. The first good answer decides; later ones are told so."""

from __future__ import annotations

import asyncio

from astra_tui.model.approval import Answer, AnswerRefused, Decision, Question, decide


class Desk:
    """Open questions. Front ends answer; the loop waits."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[Question, asyncio.Future[tuple[Answer, Decision]]]] = {}
        self.attendants = 0
        """How many front ends could answer."""

    @property
    def open(self) -> tuple[Question, ...]:
        """The questions that wait."""
        return tuple(question for question, _ in self._waiting.values())

    async def ask(self, question: Question) -> tuple[Answer, Decision]:
        """Waits until somebody decides."""
        future: asyncio.Future[tuple[Answer, Decision]] = asyncio.Future()
        self._waiting[question.id] = question, future
        try:
            return await future
        finally:
            self._waiting.pop(question.id, None)

    def answer(self, answer: Answer) -> Decision:
        """Decides an open question. Raises AnswerRefused when it is decided or fits badly."""
        waiting = self._waiting.get(answer.question)
        if waiting is None or waiting[1].cancelled():
            raise AnswerRefused(f"{answer.question} is not open")
        if waiting[1].done():
            raise decided_before(waiting[1].result()[1])
        decision = decide(waiting[0], answer)
        waiting[1].set_result((answer, decision))
        return decision


def decided_before(decision: Decision) -> AnswerRefused:
    """What a later answer is told: who decided, and how."""
    who, how = decision.by.describe(), decision.status.value
    return AnswerRefused(f"{decision.question} was decided before: {who} {how} it")
