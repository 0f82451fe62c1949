"""Decides questions in the engineer's place, within bounds that the engineer set on the screen."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from astra_tui.model.approval import Gate, Question
from astra_tui.model.plan import Plan, Risk

SETTLE_SECONDS = 1.0
"""A mode acts once it has stood for so long, so that cycling past one decides nothing."""


class Mode(Enum):
    """Which questions are accepted without asking; the value is what the screen calls it."""

    ASK = ""
    LOW = "auto: low risk"
    MEDIUM = "auto: up to medium risk"
    ALL = "auto: everything"

    @property
    def bound(self) -> Risk | None:
        """The riskiest plan that is accepted."""
        risks = {Mode.LOW: Risk.LOW, Mode.MEDIUM: Risk.MEDIUM, Mode.ALL: Risk.HIGH}
        return risks.get(self)


class Autopilot:
    """A mode that holds for questions asked from now on, and a number of them to accept."""

    def __init__(self, clock: Callable[[], float]):
        self._clock = clock
        self._since = 0.0
        self._spared = ""
        self.mode = Mode.ASK
        self.left = 0
        """How many more questions are accepted, whatever their risk."""

    def cycle(self, open_question: Question | None) -> None:
        """The next mode. A question that is open already stays the engineer's."""
        modes = list(Mode)
        self.mode = modes[(modes.index(self.mode) + 1) % len(modes)]
        self._change(open_question)

    def accept_next(self, count: int, open_question: Question | None) -> None:
        """Accepts so many of the questions to come."""
        self.left = count
        self._change(open_question)

    def stop(self) -> None:
        """Everything is asked again."""
        self.mode, self.left = Mode.ASK, 0

    @property
    def words(self) -> str:
        """What the status line says; empty where everything is asked."""
        if self.left:
            return f"auto: next {self.left}"
        return self.mode.value

    @property
    def settled(self) -> bool:
        """Whether the mode has stood long enough to act."""
        return self._clock() - self._since >= SETTLE_SECONDS

    @property
    def active(self) -> bool:
        """Whether there is anything that it would decide."""
        return self.mode is not Mode.ASK or self.left > 0

    def covers(self, question: Question, plan: Plan) -> bool:
        """Whether it would accept a question about this plan, or about the code that came of it."""
        if question.id == self._spared:
            return False
        bound = self.mode.bound
        return self.left > 0 or (bound is not None and plan.risk.rank <= bound.rank)

    def count(self) -> None:
        """It accepted a question; a plan and its diff count as one each."""
        self.left = max(self.left - 1, 0)

    def _change(self, open_question: Question | None) -> None:
        self._since = self._clock()
        self._spared = open_question.id if open_question else ""


def gate_words(question: Question) -> str:
    """As in "plan of round 2" or "diff of round 2"."""
    what = "plan" if question.gate is Gate.PLAN else "diff"
    return f"{what} of round {question.round}"
