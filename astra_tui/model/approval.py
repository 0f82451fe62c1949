"""Approvals: what is asked, what may be answered, what an answer decides, and which questions are
accepted without asking anyone, once an engineer has allowed it.

Nothing is compiled before its plan is decided, and nothing is launched before its diff is. A
decision names the hash of what was shown: an answer to anything else is refused.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from astra_tui.model.author import Author, AuthorKind
from astra_tui.model.compilation import Diagnostic
from astra_tui.model.digest import content_hash, short
from astra_tui.model.errors import UserError
from astra_tui.model.plan import Plan, Risk


class ApprovalGate(StrEnum):
    """The two places of a round at which an engineer decides."""

    PLAN = "plan"
    DIFF = "diff"


class ApprovalStatus(StrEnum):
    """The states of an approval; all but the first are final."""

    PENDING = "pending"
    ACCEPTED = "accepted"
    EDITED = "edited"
    REJECTED = "rejected"
    CANCELLED = "cancelled"

    @property
    def lets_pass(self) -> bool:
        """Whether the round continues past the gate."""
        return self in (ApprovalStatus.ACCEPTED, ApprovalStatus.EDITED)


class Question(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is to be decided: the plan or the code whose hash is `subject`.

    At the diff gate the diff is the one from the source `base` to the source `subject`, and
    `hunks` says how many parts it has.
    """

    id: str
    gate: ApprovalGate
    round: int
    proposal: int
    subject: str
    attempt: int = 0
    base: str = ""
    hunks: int = 0


def plan_question_id(round_: int, proposal: int) -> str:
    """What the question at the plan gate of a proposal is called."""
    return f"{round_}.{proposal}.plan"


def plan_question(round_: int, proposal: int, plan: Plan) -> Question:
    """The question at the plan gate of a proposal."""
    name = plan_question_id(round_, proposal)
    return Question(name, ApprovalGate.PLAN, round_, proposal, plan.hash)


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a reviewer says to a question.

    `plan` or `source` replace what was shown (status EDITED). `hunks`, counted from 0, are the
    accepted parts of a diff; None means all of them. `left_out` are lines of these that are
    refused even so: places in `line_changes`, counted from 0.
    """

    question: str
    subject: str
    status: ApprovalStatus
    by: Author
    reason: str = ""
    plan: Plan | None = None
    source: str | None = None
    hunks: tuple[int, ...] | None = None
    left_out: tuple[int, ...] = ()


class Decision(msgspec.Struct, frozen=True, omit_defaults=True):
    """An answer that was taken, as the journal keeps it: sources by their hash.

    `result` is the hash of what runs: of the plan or source as shown, or as edited. It is
    empty where nothing continues. `partial` lists the accepted hunks where some of the diff was
    refused, `left_out` the lines that were refused of these; the source that this makes is then
    asked about again.
    """

    question: str
    gate: ApprovalGate
    subject: str
    status: ApprovalStatus
    by: Author
    result: str = ""
    reason: str = ""
    plan: Plan | None = None
    partial: tuple[int, ...] | None = None
    left_out: tuple[int, ...] = ()

    def describe_partial(self) -> str:
        """As in "only hunks 1, 3 without 2 of their lines"; empty where all was accepted."""
        if self.partial is None:
            return ""
        text = f"only hunks {', '.join(str(h + 1) for h in self.partial)}"
        count = len(self.left_out)
        return f"{text} without {count} of their lines" if count else text


class AnswerRefused(UserError):
    """An answer that decides nothing; the question stays open.

    `errors` are the compiler's, at lines of the source that the answer would have made.
    """

    def __init__(self, message: str, *, hint: str = "", errors: tuple[Diagnostic, ...] = ()):
        super().__init__(message, hint=hint)
        self.errors = errors


NO_REASON = "-"
"""What is typed in place of a reason where there is none to give."""


def reason_of(typed: str) -> str:
    """The reason of a rejection, as it was typed. Raises AnswerRefused where nothing was."""
    if not typed.strip():
        hint = f"too large a step, or {NO_REASON} for no reason"
        raise AnswerRefused("a rejection needs a reason, which the team is told", hint=hint)
    return "" if typed.strip() == NO_REASON else typed.strip()


def decide(question: Question, answer: Answer) -> Decision:
    """The decision that an answer makes. Raises AnswerRefused when it fits the question badly."""
    _check_subject(question, answer)
    result, partial = "", None
    match answer.status:
        case ApprovalStatus.PENDING:
            raise AnswerRefused("an answer has to decide: accepted, edited, rejected or cancelled")
        case ApprovalStatus.ACCEPTED:
            _refuse_replacement(answer)
            partial = _partial(question, answer)
            result = question.subject if partial is None else ""
        case ApprovalStatus.EDITED:
            result = _edited_hash(question, answer)
        case ApprovalStatus.REJECTED | ApprovalStatus.CANCELLED:
            _refuse_replacement(answer)
            _refuse_hunks(answer)
    return Decision(
        question=question.id,
        gate=question.gate,
        subject=question.subject,
        status=answer.status,
        by=answer.by,
        result=result,
        reason=answer.reason,
        plan=answer.plan,
        partial=partial,
        left_out=tuple(sorted(set(answer.left_out))),
    )


def _check_subject(question: Question, answer: Answer) -> None:
    if answer.question != question.id:
        raise AnswerRefused(f"this answers {answer.question}, but the question is {question.id}")
    if answer.subject != question.subject:
        meant, shown = short(answer.subject), short(question.subject)
        raise AnswerRefused(
            f"this answers for {meant}, but what is shown is {shown}",
            hint="look at it again and decide again",
        )


def _refuse_replacement(answer: Answer) -> None:
    if answer.plan is not None or answer.source is not None:
        raise AnswerRefused(f"a replacement belongs to 'edited', not to '{answer.status.value}'")


def _partial(question: Question, answer: Answer) -> tuple[int, ...] | None:
    hunks = answer.hunks
    if hunks is None and not answer.left_out:
        return None
    if question.gate is not ApprovalGate.DIFF:
        raise AnswerRefused("only a diff has hunks to choose from")
    chosen = tuple(range(question.hunks)) if hunks is None else tuple(sorted(set(hunks)))
    unknown = [h for h in chosen if not 0 <= h < question.hunks]
    if unknown:
        count = question.hunks
        raise AnswerRefused(f"the diff has {count} hunks; there is no hunk {unknown[0] + 1}")
    if not chosen:
        raise AnswerRefused("no hunk is left", hint="reject the diff instead, and say why")
    return None if len(chosen) == question.hunks and not answer.left_out else chosen


def _refuse_hunks(answer: Answer) -> None:
    if answer.hunks is not None or answer.left_out:
        raise AnswerRefused(f"hunks belong to 'accepted', not to '{answer.status.value}'")


def _edited_hash(question: Question, answer: Answer) -> str:
    if answer.hunks is not None or answer.left_out:
        raise AnswerRefused("choose hunks or edit the code, one after the other")
    if question.gate is ApprovalGate.PLAN:
        if answer.plan is None or answer.source is not None:
            raise AnswerRefused("an edited plan, and no source, has to come with the answer")
        return answer.plan.hash
    if not answer.source or answer.plan is not None:
        raise AnswerRefused("an edited source, and no plan, has to come with the answer")
    return content_hash(answer.source)


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
