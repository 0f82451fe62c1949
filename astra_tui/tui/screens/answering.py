"""What a session screen does about the open question: shows it, and makes answers of keys."""

from __future__ import annotations

from collections.abc import Callable

from astra_tui.model.approval import (
    NO_REASON,
    Answer,
    AnswerRefused,
    ApprovalGate,
    Question,
    reason_of,
)
from astra_tui.model.errors import UserError
from astra_tui.model.plan import Plan
from astra_tui.present.layout import Line, Span
from astra_tui.present.numbers import pluralised
from astra_tui.present.tones import Phrase, Tone
from astra_tui.present.words import question_words, review_words
from astra_tui.sessions.client import user_at_terminal
from astra_tui.sessions.wire import MAX_QUESTIONS
from astra_tui.tui.approval import CONFIRM, ApprovalState, BarAction
from astra_tui.tui.screens.editing import MEANWHILE, Editing
from astra_tui.tui.screens.engine_requests import EngineRequests
from astra_tui.tui.screens.session_panes import SessionPanes
from astra_tui.tui.view import View
from astra_tui.tui.widgets.approval_bar import ApprovalBar
from astra_tui.tui.widgets.prompt_line import PromptLine, whole_number
from astra_tui.tui.widgets.session_code import RefusedCode, error_marks

LOOKS_PER_TICK = 2.5
"""How often in a tick it is looked again whether typing has paused."""

SHORTEST_LOOK = 0.01

ANSWERS = {
    "accept": "accept",
    "edit": "edit",
    "reject": "reject",
    "next_pane": "plan/code",
    "edit_outside": "$EDITOR",
    "accept_next": "accept next",
    "mode": "auto",
    "take_back": "undo the rejection",
}
"""Actions of the bar in their order, and what it calls them."""


class Answering:
    """Works for one session screen. `changed` is called where other keys may apply from then on."""

    def __init__(self, screen: SessionPanes, requests: EngineRequests, changed: Callable[[], None]):
        self._screen = screen
        self._requests = requests
        self._changed = changed
        self._app = screen.app
        self.deciding = ApprovalState(self._app.guard, user_at_terminal())
        self._accepting: tuple[Question, int] | None = None
        """What a key has just accepted, unless another one follows it at once."""
        self._editing = Editing(screen, self.deciding, self)

    # -- showing ---------------------------------------------------------------------------------

    def consider(self) -> None:
        """Shows the open question, or not yet, or no longer."""
        view = self._screen.view
        if view is None or not self._screen.is_live:
            return
        if self.deciding.is_new(view):
            self._announce(view)
        bar = self._screen.query_one(ApprovalBar)
        match self.deciding.step(view, readable=self._screen.is_readable(view)):
            case BarAction.HIDE:
                bar.hide()
                self._app.set_title("")
            case BarAction.WAIT:
                bar.hide()
                again = max(self._app.tick / LOOKS_PER_TICK, SHORTEST_LOOK)
                self._screen.set_timer(again, self.look_again)
            case BarAction.SHOW:
                self._draw()
                self._screen.call_after_refresh(self._app.guard.drawn)

    def look_again(self) -> None:
        """Does what waited until no key was pressed for a while."""
        self._confirm()
        self.consider()
        self._changed()

    def hunks_changed(self) -> None:
        """Other hunks are chosen: the bar says which."""
        if self.deciding.is_shown:
            self._draw()

    def _draw(self) -> None:
        question, plan = self.deciding.question, self.deciding.plan
        if question is not None and plan is not None:
            self._screen.query_one(ApprovalBar).ask(
                question, plan, self._title(question, plan), self._hunk_words(),
                self._said(question), self._keys(),
            )  # fmt: skip

    def _title(self, question: Question, plan: Plan) -> str:
        """The plan's, or what a sweep of its code found."""
        sweeps = self._screen.view.sweeps if self._screen.view else ()
        found = (f"swept, {s.summary}" for s in sweeps if s.result == question.subject)
        return next(found, plan.title)

    def _said(self, question: Question) -> Phrase:
        """Whether the code does as the engineer said."""
        view = self._screen.view
        if view is None or question.gate is ApprovalGate.PLAN:
            return Phrase("")
        proposal = view.state.round(question.round).proposals[question.proposal]
        return review_words(proposal.rulings(question.subject))

    def _announce(self, view: View) -> None:
        assert view.awaiting is not None
        asked, folder = view.awaiting, self._screen.folder
        words = question_words(view.state, asked)
        self._app.announce(str(folder), asked.id, words)
        self._app.set_title(f"{asked.gate.value} to decide")

    def _keys(self) -> Line:
        """The answers with the keys that they have in this key map."""
        keys = {
            active.binding.action: self._app.get_key_display(active.binding)
            for active in self._screen.active_bindings.values()
        }
        line: list[Span] = [Span("  ")]
        for action, words in ANSWERS.items():
            if action in keys:
                line += (Span(f" {keys[action]}", Tone.ACCENT), Span(f" {words}  "))
        return tuple(line)

    def _hunk_words(self) -> str:
        question, diff = self.deciding.question, self._screen.diff
        if question is None or question.gate is not ApprovalGate.DIFF:
            return ""
        chosen, lines = diff.accepted_hunks, len(diff.left_out)
        if chosen is None and not lines:
            return ""
        count = question.hunks if chosen is None else len(chosen)
        without = f" without {pluralised(lines, 'line')}" if lines else ""
        return f"{count} of {question.hunks} hunks chosen{without}"

    # -- answering -------------------------------------------------------------------------------

    def is_meant(self, *, of_edit: bool = False) -> bool:
        """Whether the key that was just pressed may answer; brings the subject up if it was not.

        No one accepts what is not on the screen. `of_edit` says that it may also be about the
        engineer's own text, which stands where the diff was after it was not taken.
        """
        view, question = self._screen.view, self.deciding.question
        if self._editing.is_open or view is None or question is None:
            return False
        if not self.deciding.is_shown:
            return False
        refusal = self._app.guard.refusal
        if refusal:
            self.say_not_taken(refusal)
            return False
        shows_edit = question.gate is ApprovalGate.DIFF and self._screen.diff.shows_edit
        if self.deciding.is_viewed(view, self._screen.shown) and (of_edit or not shows_edit):
            return question.gate is ApprovalGate.PLAN or self._diff_is_readable()
        self._screen.look_at(question)
        self._screen.call_after_refresh(self._app.guard.drawn)
        self.say_not_taken("this is what you are asked about; press it again")
        return False

    def say_not_taken(self, why: str) -> None:
        """Says in the bar that a key was not taken, and what to do."""
        self._screen.query_one(ApprovalBar).remark(f"not taken: {why}")

    def _diff_is_readable(self) -> bool:
        """Whether the diff is on the screen; a long one takes a moment, a missing text for ever."""
        if self._screen.diff.problem is not None:
            self._app.report(self._screen.diff.problem)
            return False
        if not self._screen.diff.is_ready:
            self.say_not_taken("the diff is still being made")
            return False
        return True

    def accept(self) -> None:
        """Accepts what is shown, or the chosen hunks of it, once the key has stood alone."""
        question = self.deciding.question
        if not self.is_meant() or question is None:
            return
        self._accepting = question, self._app.guard.presses
        self._screen.set_timer(CONFIRM, self.look_again)

    def _confirm(self) -> None:
        """Accepts what was asked about when the key was pressed, if it stood alone."""
        if self._accepting is None:
            return
        question, presses = self._accepting
        alone = self._app.guard.presses == presses
        if alone and (left := self._app.guard.confirmed_in) > 0:
            self._screen.set_timer(max(left, SHORTEST_LOOK), self.look_again)
            return
        self._accepting = None
        if question != self.deciding.question or not self.deciding.is_shown:
            return
        if alone:
            self._accept(question)
        else:
            self.say_not_taken("something else came with it; press it again")

    def _accept(self, question: Question) -> None:
        if question.gate is ApprovalGate.PLAN:
            self.send(self.deciding.accept())
            return
        hunks, left_out = self._screen.diff.accepted_hunks, self._screen.diff.left_out
        if hunks == ():
            self._app.say("no hunk is chosen: choose some with space, or reject the diff")
        else:
            self.send(self.deciding.accept(hunks, left_out))

    def reject(self) -> None:
        """Asks for the reason, until there is one, and rejects."""
        question = self.deciding.question
        if not self.is_meant() or question is None:
            return
        label = f"reject, because ({NO_REASON} for no reason):"

        def reject(typed: str) -> None:
            try:
                reason = reason_of(typed)
            except AnswerRefused as error:
                self._app.report(error)
                self._screen.query_one(PromptLine).ask(label, reject)
                return
            if self._still_asks(question):
                self.send(self.deciding.reject(reason))

        self._screen.query_one(PromptLine).ask(label, reject)

    def take_back(self) -> None:
        """Has the plan or the code that was rejected last asked about again; where the run has
        ended since, another engine asks.
        """
        view, refusal = self._screen.view, self._app.guard.refusal
        revocable = view.state.revocable if view else None
        if self.deciding.is_shown and refusal:
            self.say_not_taken(refusal)
        elif revocable is not None and not self._screen.works:
            self._requests.start_engine(take_back=revocable.question)
        elif revocable is not None:
            self._requests.send(lambda engine: engine.take_back(revocable.question))
            self._app.say(f"the rejection of {revocable.question} is taken back")

    def accept_next(self) -> None:
        """Asks how many questions after this one are accepted without asking."""
        if not self.is_meant():
            return

        def accept(text: str) -> None:
            count = whole_number(text)
            if count is None or not 0 < count <= MAX_QUESTIONS:
                self._app.say("how many? For example 4: a plan and its diff count as one each")
                return
            self._requests.accept_next(count)

        self._screen.query_one(PromptLine).ask("accept how many after this one:", accept)

    def edit(self) -> None:
        """Edits the plan as fields; the code in $EDITOR, or here where there is none."""
        question, plan = self.deciding.question, self.deciding.plan
        if self.is_meant(of_edit=True) and question is not None and plan is not None:
            self._editing.edit_here(question, plan)

    def edit_outside(self) -> None:
        """Edits the plan, as JSON, or the code in $VISUAL or $EDITOR."""
        question, plan = self.deciding.question, self.deciding.plan
        if self.is_meant(of_edit=True) and question is not None and plan is not None:
            self._editing.edit_outside(question, plan)

    def send(
        self,
        answer: Answer,
        taken: Callable[[], None] = lambda: None,
        explain: Callable[[UserError], UserError] = lambda error: error,
    ) -> None:
        """Gives an answer to the engine; the bar is gone until the engine says otherwise.

        `taken` is told of its success; `explain` may add to the notice where it is refused.
        """
        self._screen.query_one(ApprovalBar).hide()
        self._changed()

        def refused(error: UserError) -> None:
            if isinstance(error, AnswerRefused) and error.errors:
                self._show_errors(answer, error)
                error = _first_of(error)
            self._app.report(explain(error))
            self._reopen()
            self._changed()

        self._requests.answer(answer, taken, refused)

    async def offer(self, answer: Answer) -> None:
        """Gives an answer to the engine, for a form that stays open until it is taken.

        Raises UserError where it is refused; the question is open as before then.
        """
        engine = self._screen.engine
        try:
            if engine is None:
                raise UserError("the engine is gone; nothing was sent")
            await engine.answer(answer)
        except UserError:
            self._reopen()
            raise
        self._changed()

    def _show_errors(self, answer: Answer, error: AnswerRefused) -> None:
        """Shows the compiler's errors at the lines of what was written, or of the diff."""
        question, view = self.deciding.question, self._screen.view
        if question is None or view is None or question.subject != answer.subject:
            return
        errors = error.errors
        if answer.source is None:
            errors = self._screen.diff.at_shown_lines(errors)
        refused = RefusedCode(answer.subject, answer.source, error_marks(errors))
        self._screen.diff.show_refused(refused)
        self._screen.bring("diff")
        self._screen.diff.show_view(view)

    def _still_asks(self, question: Question) -> bool:
        """Whether the question was not decided elsewhere meanwhile."""
        if question == self.deciding.question:
            return True
        self._app.say(MEANWHILE)
        return False

    def _reopen(self) -> None:
        """The question waits as before."""
        if self.deciding.refused():
            self._draw()
            self._screen.call_after_refresh(self._app.guard.drawn)


def _first_of(error: AnswerRefused) -> AnswerRefused:
    """What a notice says of errors that stand at their lines: the first, and how many there are."""
    first, more = error.message.split("\n", maxsplit=1)[0], len(error.errors) - 1
    others = f", and {pluralised(more, 'more error')}" if more else ""
    return AnswerRefused(f"{first}{others}", hint=error.hint)
