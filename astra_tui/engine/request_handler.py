"""Carries out what front ends ask for, or says why not."""

from __future__ import annotations

from astra_tui.engine.loop import Engine
from astra_tui.engine.pending_questions import decided_before
from astra_tui.model.approval import Answer, AnswerRefused
from astra_tui.model.author import Author
from astra_tui.model.errors import UserError
from astra_tui.model.events import AutoApprovalSet, CaseAdded, ParentChosen, RejectionTakenBack
from astra_tui.model.fold import ImpossibleEvent
from astra_tui.sessions.wire import (
    AddCase,
    AddNote,
    Cancel,
    ChooseParent,
    Done,
    FromFrontEnd,
    GiveAnswer,
    Greeting,
    Interrupt,
    Pause,
    Refused,
    Request,
    Resume,
    SetAutoApproval,
    TakeBack,
)


class RequestHandler:
    """Requests of front ends to one engine."""

    def __init__(self, engine: Engine):
        self._engine = engine

    async def carry_out(self, message: FromFrontEnd, by: Author) -> Done | Refused:
        """Does it, for the user of the front end; the reply to be sent."""
        if isinstance(message, Greeting):
            return Refused(0, "the greeting was given before")
        if self._engine.state.closed is not None:
            return Refused(message.id, "the session is closed")
        try:
            await self._do(message, by)
        except AnswerRefused as error:
            return Refused(message.id, error.message, error.hint, error.errors)
        except UserError as error:
            return Refused(message.id, error.message, error.hint)
        except ImpossibleEvent as error:
            return Refused(message.id, str(error))
        return Done(message.id)

    async def _do(self, request: Request, by: Author) -> None:
        control = self._engine.control
        match request:
            case GiveAnswer(answer=answer):
                await self._answer(answer)
            case AddNote(text=text):
                self._engine.add_note(text, by)
            case ChooseParent(candidate=candidate):
                self._engine.choose_parent(ParentChosen(candidate, by))
            case AddCase(case=case):
                self._engine.add_case(CaseAdded(case, by))
            case SetAutoApproval(mode=mode, left=left):
                self._engine.set_auto_approval(AutoApprovalSet(mode, by, left))
            case TakeBack(question=question):
                self._engine.take_back(RejectionTakenBack(question, by))
            case Pause():
                control.pause(by)
            case Resume():
                control.resume(by)
            case Interrupt():
                control.interrupt(by)
            case Cancel():
                control.cancel(by)

    async def _answer(self, answer: Answer) -> None:
        decision = self._engine.state.decisions.get(answer.question)
        if decision is not None:
            raise decided_before(decision)
        await self._engine.desk.answer(answer)
