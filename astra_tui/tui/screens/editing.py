"""Edits of what is asked about: as fields, in the app, or in the engineer's own editor.

What an engineer wrote stays on the disk until an engine has taken it: an answer may be refused, or
the question be decided by someone else meanwhile.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

from astra_tui.model.approval import Answer, ApprovalGate, Question
from astra_tui.model.digest import short
from astra_tui.model.errors import UserError
from astra_tui.model.plan import Plan, editable_text, read_edited_plan
from astra_tui.model.settings import TeamKind
from astra_tui.model.visible import is_harmless
from astra_tui.sessions.client import Edit, editor_command
from astra_tui.tui.approval import ApprovalState
from astra_tui.tui.editor import edit_outside
from astra_tui.tui.screens.session_panes import SessionPanes


class AnswerSender(Protocol):
    """Gives answers to the engine."""

    def send(
        self,
        answer: Answer,
        taken: Callable[[], None],
        explain: Callable[[UserError], UserError],
    ) -> None:
        """Gives an answer; `taken` is called, or the reason is reported, later."""
        ...

    async def offer(self, answer: Answer) -> None:
        """Gives an answer. Raises UserError where it is refused; the question stays open then."""
        ...


MEANWHILE = "the question was decided meanwhile; nothing was sent"


class Editing:
    """Works for one session screen."""

    def __init__(self, screen: SessionPanes, deciding: ApprovalState, answering: AnswerSender):
        self._screen = screen
        self._answering = answering
        self._app = screen.app
        self._deciding = deciding
        self._kept: dict[Question, Edit] = {}
        """What was written for questions, and not taken; edits of them continue with it."""
        self.is_open = False
        """Whether the engineer's editor is open, or about to be."""

    # -- in the engineer's editor ----------------------------------------------------------------

    def edit_outside(self, question: Question, plan: Plan) -> None:
        """Edits the plan, as JSON, or the code in $VISUAL or $EDITOR."""
        try:
            shown = self._shown(question, plan)
            kept = self._kept.pop(question, None)
            edit = kept if kept and kept.file.exists() else self._begin(question, shown)
        except UserError as error:
            self._app.report(error)
            return
        self.is_open = True
        self._screen.run_worker(self._run_editor(question, edit, shown), name="editor")

    async def _run_editor(self, question: Question, edit: Edit, shown: str) -> None:
        try:
            await edit_outside(self._app, edit.file)
            text = edit.read()
        except UserError as error:
            self._come_back()
            self._not_sent(question, edit, shown, error)
        else:
            self._come_back()
            self._take(question, edit, shown, text)
        finally:
            self.is_open = False

    def _come_back(self) -> None:
        """Shows what happened meanwhile; keys that follow may still be meant for the editor."""
        self._expect_text()
        self._screen.catch_up()

    def _not_sent(self, question: Question, edit: Edit, shown: str, error: UserError) -> None:
        """Says why there is nothing to send; keeps what was written, if anything was."""
        if edit.is_still(shown):
            edit.drop()
        else:
            error = self._keep(question, edit, error)
        self._app.report(error)

    # -- in the app ------------------------------------------------------------------------------

    def edit_here(self, question: Question, plan: Plan) -> None:
        """Edits the plan as fields; the code in $VISUAL or $EDITOR, or here where there is none."""
        if question.gate is ApprovalGate.PLAN:
            self._edit_fields(question, plan)
        elif editor_command():
            self.edit_outside(question, plan)
        else:
            self._edit_code(question, plan)

    def _edit_fields(self, question: Question, plan: Plan) -> None:
        from astra_tui.tui.forms import plan_fields, plan_note, plan_of
        from astra_tui.tui.screens.form import FormScreen

        team = self._team()
        self._expect_text()

        def check(values: Mapping[str, str]) -> None:
            plan_of(values, plan)

        async def send(values: Mapping[str, str]) -> None:
            await self._offer(question, plan, plan_of(values, plan))

        fields, note = plan_fields(plan, team, timed=self._is_timed()), plan_note(plan)
        self._app.push_screen(FormScreen("Edit the plan", fields, check, send=send, note=note))

    async def _offer(self, question: Question, shown: Plan, plan: Plan) -> None:
        if plan == shown:
            raise UserError("nothing is changed", hint="esc goes back, and a accepts the plan")
        if question != self._deciding.question:
            raise UserError(MEANWHILE)
        await self._answering.offer(self._deciding.edited(plan))

    def _edit_code(self, question: Question, plan: Plan) -> None:
        from astra_tui.tui.screens.form import CodeEditor

        try:
            kept = self._kept.get(question)
            source = kept.read() if kept else self._shown(question, plan)
            _refuse_hidden(source)
        except UserError as error:
            self._app.report(error)
            return
        self._expect_text()

        def take(edited: str | None) -> None:
            if edited is not None:
                self._take_typed(question, plan, edited)

        errors = self._screen.diff.errors_of_edit if kept else ()
        self._app.push_screen(CodeEditor(f"{short(question.subject)}.cu", source, errors), take)

    def _take_typed(self, question: Question, plan: Plan, text: str) -> None:
        """Gives what was written in the app to the engine."""
        edit = None
        with contextlib.suppress(UserError):  # Where nothing can be written it is only sent.
            edit = self._begin(question, text)
        self._take(question, edit, self._shown(question, plan), text)

    def _expect_text(self) -> None:
        """What is typed from now on is meant for a field, also before the field is there."""
        self._app.guard.key_pressed(into_text=True)

    def _is_timed(self) -> bool:
        view = self._screen.view
        return view is not None and view.base is not None and view.base.is_timed

    def _team(self) -> TeamKind:
        view = self._screen.view
        opened = view.state.opened if view else None
        return opened.settings.team if opened else TeamKind.LLM

    # -- what was written ------------------------------------------------------------------------

    def _shown(self, question: Question, plan: Plan) -> str:
        """The text that is asked about."""
        if question.gate is ApprovalGate.PLAN:
            return editable_text(plan)
        return self._screen.read_text(question.subject)

    def _begin(self, question: Question, text: str) -> Edit:
        folder = self._screen.folder
        name = f"{folder.name}-{question.id}" if folder else question.id
        return Edit.begin(text, name, ".json" if question.gate is ApprovalGate.PLAN else ".cu")

    def _take(self, question: Question, edit: Edit | None, shown: str, text: str) -> None:
        """Gives a text to the engine, unless it is empty or what is asked about."""
        try:
            changed = _changed(question, shown, text)
            if changed is not None:
                self._send(question, edit, changed)
                return
        except UserError as error:
            self._app.report(self._keep(question, edit, error))
            return
        if edit is not None:
            edit.drop()
        subject = "the plan" if question.gate is ApprovalGate.PLAN else "the code"
        self._app.say(f"{subject} is as it was; nothing is decided")

    def _send(self, question: Question, edit: Edit | None, changed: Plan | str) -> None:
        view = self._screen.view
        is_decided = view is not None and question.id in view.state.decisions
        if self._screen.engine is None and not is_decided:
            raise UserError("the engine is gone; nothing was sent")
        if question != self._deciding.question:
            raise UserError(MEANWHILE)

        def taken() -> None:
            if edit is not None:
                edit.drop()

        answer = self._deciding.edited(changed)
        self._answering.send(answer, taken, lambda error: self._keep(question, edit, error))

    def _keep(self, question: Question, edit: Edit | None, error: UserError) -> UserError:
        """The error, which also says where what was written is."""
        if edit is None:
            return error
        self._kept[question] = edit
        hint = f"what you wrote is in {edit.file}"
        if question == self._deciding.question and self._screen.engine is not None:
            hint += _how_to_continue(question)
        return UserError(error.message, hint=f"{hint}; {error.hint}" if error.hint else hint)


def _how_to_continue(question: Question) -> str:
    if question.gate is ApprovalGate.DIFF:
        return "; e continues with it"
    return "; ctrl+g continues with it" if editor_command() else ""


def _changed(question: Question, shown: str, text: str) -> Plan | str | None:
    """The plan or the source that a text is, if it is another one than what is shown."""
    if not text.strip() or text == shown:
        return None
    if question.gate is ApprovalGate.DIFF:
        return text
    before = msgspec.json.decode(shown, type=Plan)
    plan = read_edited_plan(before, text)
    return None if plan == before else plan


def _refuse_hidden(source: str) -> None:
    """A text area would draw characters that cannot be seen, or that act on the terminal."""
    if not all(is_harmless(character) or character in "\n\t" for character in source):
        raise UserError(
            "this source holds characters that cannot be edited here",
            hint="the diff shows them; set $EDITOR and press ctrl+g",
        )
