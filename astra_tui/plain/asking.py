"""Takes an engine's open questions to the engineer at the terminal, one at a time."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable
from pathlib import Path

from astra_tui.model import events
from astra_tui.model.approval import Answer, AnswerRefused, ApprovalGate, Question
from astra_tui.model.errors import UserError
from astra_tui.model.plan import Plan
from astra_tui.model.state import SessionState
from astra_tui.plain import ask
from astra_tui.plain.terminal import EndOfInput, HungUp, TerminalLine
from astra_tui.sessions.client import Edit, EngineClient, RequestRefused, user_at_terminal
from astra_tui.sessions.folder import read_blob

Read = Answer | ask.Edited | ask.Auto | ask.TerminalCommand


class Asking:
    """Shows each question that waits and reads the answer. It is told of every event.

    `hold` is called before an editor takes the terminal, and `release` after it.
    """

    def __init__(self, client: EngineClient, hold: Callable[[], None], release: Callable[[], None]):
        self._client = client
        self._folder = Path(client.welcome.folder)
        self._hold, self._release = hold, release
        self._state = SessionState()
        self._waiting: dict[str, Question] = {}
        self._asked = ""
        self._news = asyncio.Event()
        self._line = TerminalLine(sys.stdin.fileno())
        self.is_reading = False
        """Whether a line is being read that may have started an editor."""

    def notice(self, event: events.Event, state: SessionState) -> None:
        """Takes note of a question that waits, and of one that someone else has decided."""
        self._state = state
        if isinstance(event, events.AnswerAwaited):
            self._waiting[event.question.id] = event.question
            self._news.set()
        elif isinstance(event, events.DecisionTaken):
            self._withdraw(event.decision.question)
        elif isinstance(event, events.RejectionTakenBack) or (
            isinstance(event, events.Paused) and event.interrupted
        ):
            for question in tuple(self._waiting):
                self._withdraw(question)

    async def run(self) -> None:
        """Asks until the engineer detaches, or the terminal hangs up."""
        while True:
            while not self._waiting:
                self._news.clear()
                await self._news.wait()
            question = next(iter(self._waiting.values()))
            self._asked = question.id
            try:
                wish = await self._ask(question)
            except EndOfInput:
                wish = ask.TerminalCommand.QUIT
            except HungUp:
                return
            if wish is ask.TerminalCommand.DETACH:
                return
            if wish is ask.TerminalCommand.QUIT:
                with contextlib.suppress(UserError):  # It has ended, of which all will be told.
                    await self._client.cancel()
            self._waiting.pop(question.id, None)

    def _withdraw(self, question: str) -> None:
        self._waiting.pop(question, None)
        if question == self._asked:
            self._line.give_up()

    async def _ask(self, question: Question) -> ask.TerminalCommand | None:
        """Asks until the question is decided, by anyone (None), or the engineer wants to go."""
        self._line.drop_typed()  # It cannot be meant for a question that was not shown yet.
        shown = self._show(question)
        kept: Edit | None = None
        while question.id in self._waiting:
            ask.show(ask.PLAN_KEYS if question.gate is ApprovalGate.PLAN else ask.DIFF_KEYS)
            line = await self._line.read()
            if line is None:
                return None
            try:
                read = await self._read(line, question, shown, kept)
                match read:
                    case ask.TerminalCommand():
                        if read is not ask.TerminalCommand.UNDO:
                            return read
                        await self._take_back()
                    case ask.Auto():
                        await self._client.auto(read.mode or self._state.auto.mode, read.left)
                    case Answer():
                        await self._client.answer(read)
                        return None
                    case ask.Edited(answer, edit):
                        kept = edit
                        await self._give(answer, edit)
                        return None
            except ask.NotTaken as error:
                kept = error.edit
                ask.show(str(error))
            except (ask.NotUnderstood, AnswerRefused, RequestRefused) as error:
                ask.show(str(error))
        return None

    async def _take_back(self) -> None:
        revocable = self._state.revocable
        if revocable is None:
            raise ask.NotUnderstood("there is no rejection that can be taken back")
        await self._client.take_back(revocable.question)

    async def _give(self, answer: Answer, edit: Edit) -> None:
        """Gives what was edited to the engine; says where it is if it is not taken."""
        try:
            await self._client.answer(answer)
        except UserError:
            ask.show(_where(edit))
            raise
        edit.drop()

    def _show(self, question: Question) -> Plan | str:
        """Puts the question before the engineer; returns the plan or the source it is about."""
        if question.gate is ApprovalGate.PLAN:
            round_ = self._state.round(question.round)
            proposal = round_.proposals[question.proposal]
            base = self._state.candidate(round_.base)
            ask.show(ask.describe_plan(proposal.plan, proposal.author, base))
            return proposal.plan
        source = read_blob(self._folder, question.subject)
        old = read_blob(self._folder, question.base)
        ask.show(ask.describe_diff(old, source, question, ask.terminal_columns()))
        proposal = self._state.round(question.round).proposals[question.proposal]
        if rulings := proposal.rulings(question.subject):
            ask.show(ask.describe_rulings(rulings))
        return source

    async def _read(
        self, line: str, question: Question, shown: Plan | str, kept: Edit | None
    ) -> Read:
        """What a line says. It may start an editor, and the engine continues telling meanwhile."""
        self._hold()
        self.is_reading = True
        by = user_at_terminal()
        reading = asyncio.ensure_future(
            asyncio.to_thread(ask.read_answer, line, question, by, shown, kept)
        )
        try:
            return await asyncio.shield(reading)
        except asyncio.CancelledError:
            # An editor cannot be called back; until it ends the terminal is not ours.
            (read,) = await asyncio.gather(reading, return_exceptions=True)
            if isinstance(read, ask.Edited | ask.NotTaken):
                ask.show(_where(read.edit))
            raise
        finally:
            self.is_reading = False
            self._release()


def _where(edit: Edit) -> str:
    return f"what you wrote is in {edit.file}"
