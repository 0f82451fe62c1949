"""Takes an engine's open questions to the engineer at the terminal, one at a time."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from astra_tui.model.approval import AnswerRefused, Gate, Question
from astra_tui.model.events import AnswerAwaited, DecisionTaken, Event
from astra_tui.model.plan import Plan
from astra_tui.plain import ask

if TYPE_CHECKING:
    from astra_tui.engine.loop import Engine


class Asking:
    """Shows each question that waits and reads the answer. It is told of every event."""

    def __init__(self, engine: Engine):
        self._engine = engine
        self._questions: asyncio.Queue[Question] = asyncio.Queue()
        self._reading: asyncio.Task[str] | None = None
        self._asked = ""

    def notice(self, event: Event) -> None:
        """Queues a question that waits; drops the one that another front end decided."""
        if isinstance(event, AnswerAwaited):
            self._questions.put_nowait(event.question)
        elif (
            isinstance(event, DecisionTaken)
            and event.decision.question == self._asked
            and self._reading is not None
        ):
            self._reading.cancel()

    async def run(self) -> None:
        """Asks until it is cancelled. The end of the input, or `quit`, cancels the run."""
        while True:
            question = await self._questions.get()
            self._asked = question.id
            if question in self._engine.desk.open:
                shown = self._show(question)
                while not await self._is_done(question, shown):
                    pass

    def _show(self, question: Question) -> Plan | str:
        """Puts the question before the engineer; returns the plan or the source it is about."""
        if question.gate is Gate.PLAN:
            proposal = self._engine.state.round(question.round).proposals[question.proposal]
            ask.show(ask.describe_plan(proposal.plan, proposal.author))
            return proposal.plan
        get = self._engine.record.store.get
        source = get(question.subject)
        ask.show(ask.describe_diff(get(question.base), source, question))
        return source

    async def _is_done(self, question: Question, shown: Plan | str) -> bool:
        """Reads one line; False where it decided nothing."""
        ask.show(ask.PLAN_KEYS if question.gate is Gate.PLAN else ask.DIFF_KEYS)
        line = await self._line()
        if line is None:
            return True
        by = ask.engineer()
        try:
            answer = ask.read_answer(line, question, by, shown) if line else None
            if answer is None:
                self._engine.control.cancel(by)
            else:
                self._engine.desk.answer(answer)
        except (ask.NotUnderstood, AnswerRefused) as error:
            ask.show(str(error))
            return False
        return True

    async def _line(self) -> str | None:
        """The next line; empty at the end of the input, None where it is no longer wanted."""
        self._reading = asyncio.create_task(_read_line())
        await asyncio.wait([self._reading])
        return None if self._reading.cancelled() else self._reading.result()


async def _read_line() -> str:
    """A line from the terminal, without a thread that would keep the process alive."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(sys.stdin, ready.set)
    try:
        await ready.wait()
        return sys.stdin.readline()
    finally:
        loop.remove_reader(sys.stdin)
