"""Which questions are accepted without asking anyone, once an engineer has allowed it."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from astra_tui.model.approval import Question
from astra_tui.model.author import Author, AuthorKind
from astra_tui.model.plan import Plan, Risk


class AutoMode(StrEnum):
    """The riskiest plans that are accepted, with the code written for them."""

    ASK = "ask"
    """None: everything is asked."""
    LOW = "low"
    MEDIUM = "medium"
    ALL = "all"

    @property
    def bound(self) -> Risk | None:
        """The riskiest plan that is accepted; None for none at all."""
        return _BOUNDS.get(self)

    @property
    def words(self) -> str:
        """What front ends call it; empty where everything is asked."""
        return _WORDS.get(self, "")


_BOUNDS = {AutoMode.LOW: Risk.LOW, AutoMode.MEDIUM: Risk.MEDIUM, AutoMode.ALL: Risk.HIGH}
_WORDS = {
    AutoMode.LOW: "auto: low risk",
    AutoMode.MEDIUM: "auto: up to medium risk",
    AutoMode.ALL: "auto: everything",
}


class AutoApproval(msgspec.Struct, frozen=True):
    """What an engineer has set last.

    `left` more questions are accepted whatever their risk. `spared` are those that were open when
    it was set: someone may be looking at them, so that they stay the engineer's.
    """

    mode: AutoMode = AutoMode.ASK
    left: int = 0
    by: Author | None = None
    """None until someone sets it."""
    spared: tuple[str, ...] = ()
    replaces: bool = False
    """Whether it holds in place of the policy that the engine was started with: it was set later.
    Of a mode that a resumed session brings along, and such a policy, either may accept.
    """

    @property
    def is_on(self) -> bool:
        """Whether there is anything that it would accept."""
        return self.mode is not AutoMode.ASK or self.left > 0

    @property
    def author(self) -> Author:
        """Who takes the decisions that it takes."""
        name = self.by.name if self.by else ""
        return Author(AuthorKind.POLICY, f"auto, set by {name or 'an engineer'}")

    def covers(self, question: Question, plan: Plan) -> bool:
        """Whether it accepts a question about this plan, or about the code written for it."""
        if question.id in self.spared:
            return False
        bound = self.mode.bound
        return self.left > 0 or (bound is not None and plan.risk.rank <= bound.rank)

    def describe(self) -> str:
        """As in "auto: low risk" or "auto: next 3"; empty where everything is asked."""
        return f"auto: next {self.left}" if self.left > 0 else self.mode.words
