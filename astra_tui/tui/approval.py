"""The question before the engineer: when it is shown, and which keys answer it.

An answer is only made of a question that is on the screen together with what it is about, by a
key that was pressed for it. People type on while a question appears. So a question is not drawn
before typing has paused, and once it is drawn no key answers it for a moment, nor while someone
still types into a field, nor a key that comes together with others, as from a key that is held or
a text that is pasted. The engine decides whether an answer counts.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto

from astra_tui.model.approval import Answer, ApprovalGate, ApprovalStatus, Question
from astra_tui.model.author import Author
from astra_tui.model.plan import Plan
from astra_tui.tui.view import Choice, View

TYPING_PAUSE = 1.0
"""Seconds without a key before a question may be drawn."""

ANSWER_DELAY = 0.5
"""Seconds after a question was drawn in which nothing answers it."""


QUIET = 0.3
"""Seconds without another key before a key that answers."""

CONFIRM = 0.15
"""Seconds without another key after a key that accepts; held keys repeat more quickly."""

FASTEST_TYPING = 0.05
"""Seconds between keys below which no one typed them."""

LETTER_GAP = 0.5
"""Letters that follow each other more quickly than this are one piece of typing."""


class KeyGuard:
    """Knows when keys were pressed and when the question was drawn. `clock` gives seconds.

    A busy app takes a key late: `at` says when it was pressed, where that is known.
    """

    def __init__(self, clock: Callable[[], float]):
        self._clock = clock
        self._before = self._key = self._taken = self._text = float("-inf")
        self._drawn: float | None = None
        self.presses = 0
        """Counts keys, and what else may make a key mean something else."""

    def key_pressed(self, *, into_text: bool, at: float | None = None) -> None:
        """A key was pressed; `into_text` when a field took it or may have."""
        self._press(at)
        if into_text:
            self._text = self._key

    def _press(self, at: float | None) -> None:
        self._taken = self._clock()
        self._before, self._key = self._key, self._taken if at is None else at
        self.presses += 1

    def unknown_letter(self) -> None:
        """That was a letter that is no key here: those that follow at once are text as well."""
        self._text = self._key

    def is_stray(self, at: float | None = None) -> bool:
        """Whether a letter was pressed too soon after a field was closed to be meant for anything
        else; it is taken note of.
        """
        pressed = self._clock() if at is None else at
        if pressed - self._text >= TYPING_PAUSE:
            return False
        if pressed - self._key < LETTER_GAP:
            self._text = pressed
        self._press(at)
        return True

    def moved(self) -> None:
        """What is on the screen has another place, or the window has only now come to the front."""
        self.presses += 1
        if self._drawn is not None:
            self._drawn = self._clock()

    def drawn(self) -> None:
        """The question is on the screen, as it is now, from this moment on."""
        self._drawn = self._clock()

    def hidden(self) -> None:
        """No question is on the screen."""
        self._drawn = None

    @property
    def may_draw(self) -> bool:
        """Whether no one is in the middle of typing."""
        return self._clock() - self._key >= TYPING_PAUSE

    @property
    def may_answer(self) -> bool:
        """Whether a key that came now, and alone, would answer what is on the screen."""
        return not self._refusal_at(self._clock())

    @property
    def refusal(self) -> str:
        """Why the key that was pressed last is no answer; empty where it is."""
        if why := self._refusal_at(self._key):
            return why
        if self._key - self._before < QUIET:
            return "it came together with another key; press it again"
        return ""

    def _refusal_at(self, pressed: float) -> str:
        if self._drawn is None or pressed - self._drawn < ANSWER_DELAY:
            return "the question has only just been drawn; press it again"
        if pressed - self._text < TYPING_PAUSE:
            return "it may belong to the text before it; press it again"
        return ""

    @property
    def is_pasted(self) -> bool:
        """Whether the last key came so soon after the one before it that no one typed it."""
        return self._key - self._before < FASTEST_TYPING

    @property
    def confirmed_in(self) -> float:
        """Seconds until the last key has stood alone for long enough."""
        return self._taken + CONFIRM - self._clock()


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
