"""The question before the engineer: when it is shown, and which answers are taken.

An answer is only made of a question that is on the screen together with what it is about, by a
key that was pressed for it (see guard.py). The engine decides whether it counts.
"""

from __future__ import annotations

from enum import Enum, auto

from astra_tui.model.approval import Answer, ApprovalGate, ApprovalStatus, Question
from astra_tui.model.author import Author
from astra_tui.model.plan import Plan
from astra_tui.tui.key_guard import KeyGuard
from astra_tui.tui.view import Choice, View


class BarAction(Enum):
    """What the screen has to do about the open question."""

    NOTHING = auto()
    HIDE = auto()
    SHOW = auto()
    WAIT = auto()
    """Someone types, or what is asked about has no place yet: look again in a moment."""


class ApprovalState:
    """Follows which question is open. `by` is the engineer."""

    def __init__(self, guard: KeyGuard, by: Author):
        self.guard = guard
        self.question: Question | None = None
        self.plan: Plan | None = None
        self._by = by
        self._shown = ""
        self._answered = ""

    @property
    def is_shown(self) -> bool:
        """Whether the open question is on the screen and has no answer yet."""
        question = self.question
        return question is not None and self._shown == question.id != self._answered

    @property
    def may_answer(self) -> bool:
        """Whether a key pressed now answers it."""
        return self.is_shown and self.guard.may_answer

    def is_new(self, view: View) -> bool:
        """Whether a view asks something else than the last one did."""
        return view.awaiting is not None and view.awaiting != self.question

    def step(self, view: View, *, readable: bool = True) -> BarAction:
        """Takes a view; says what to do. `readable` where what it asks about can be read."""
        if view.awaiting is None:
            self.question = self.plan = None
            self._shown = self._answered = ""
            self.guard.hidden()
            return BarAction.HIDE
        if view.awaiting != self.question:
            self._open(view, view.awaiting)
        if self._answered == view.awaiting.id:
            return BarAction.HIDE
        if self._shown == view.awaiting.id:
            return BarAction.NOTHING
        if not self.guard.may_draw or not readable:
            return BarAction.WAIT
        self._shown = view.awaiting.id
        return BarAction.SHOW

    def is_viewed(self, view: View, shown: frozenset[str]) -> bool:
        """Whether what is asked about is what the engineer sees."""
        question = self.question
        if question is None:
            return False
        pane = "plan" if question.gate is ApprovalGate.PLAN else "diff"
        return pane in shown and view.choice == Choice(question.round, question.proposal)

    def accept(
        self, hunks: tuple[int, ...] | None = None, left_out: tuple[int, ...] = ()
    ) -> Answer:
        """Accepted, or accepted in part: some hunks, without some of their lines."""
        return self._answer(ApprovalStatus.ACCEPTED, hunks=hunks, left_out=left_out)

    def reject(self, reason: str) -> Answer:
        """Rejected, and why."""
        return self._answer(ApprovalStatus.REJECTED, reason=reason)

    def edited(self, instead: Plan | str) -> Answer:
        """Another plan or source instead."""
        if isinstance(instead, Plan):
            return self._answer(ApprovalStatus.EDITED, plan=instead)
        return self._answer(ApprovalStatus.EDITED, source=instead)

    def refused(self) -> bool:
        """The engine did not take the answer; returns whether the question is open as before."""
        self._answered = ""
        return self.is_shown

    def _open(self, view: View, question: Question) -> None:
        self.question = question
        self._shown = self._answered = ""
        self.guard.hidden()
        if question.gate is ApprovalGate.PLAN:
            self.plan = view.state.round(question.round).proposals[question.proposal].plan
        else:
            self.plan = view.state.plan_of(question.round, question.proposal)

    def _answer(
        self,
        status: ApprovalStatus,
        *,
        reason: str = "",
        plan: Plan | None = None,
        source: str | None = None,
        hunks: tuple[int, ...] | None = None,
        left_out: tuple[int, ...] = (),
    ) -> Answer:
        question = self.question
        assert question is not None
        self._answered = question.id
        return Answer(
            question.id, question.subject, status, self._by, reason, plan, source, hunks, left_out
        )
