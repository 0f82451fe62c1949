"""Answers that need no one at the keyboard: a policy that was set, or a file of decisions."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec

from astra_tui.model.approval import Answer, ApprovalGate, ApprovalStatus, Question
from astra_tui.model.author import Author, AuthorKind
from astra_tui.model.constraints import Ruling, broken_words
from astra_tui.model.errors import UserError, nearest, value_words
from astra_tui.model.plan import Plan, edited_plan
from astra_tui.model.settings import Approval, GatePolicy
from astra_tui.model.state import SessionState

_FromOne = Annotated[int, msgspec.Meta(ge=1)]


class ScriptedDecision(msgspec.Struct, frozen=True):
    """One `[[decision]]` of a decisions file; what it leaves out matches anything."""

    status: ApprovalStatus
    gate: ApprovalGate | None = None
    round: _FromOne | None = None
    proposal: _FromOne | None = None
    """Counted from 1, as plans are shown."""
    reason: str = ""
    hunks: tuple[_FromOne, ...] | None = None
    """Counted from 1, as diffs show them."""
    source: str = ""
    """At the diff gate with status "edited": the file that holds the edited source."""
    plan: dict[str, Any] | None = None
    """At the plan gate with status "edited": the fields of the plan that change."""
    times: Annotated[int, msgspec.Meta(ge=0)] = 1
    """For how many questions it holds; 0 means all that are left."""

    def matches(self, question: Question) -> bool:
        """Whether this decision is meant for that question."""
        return (
            self.gate in (None, question.gate)
            and self.round in (None, question.round)
            and self.proposal in (None, question.proposal + 1)
        )


class DecisionsFile:
    """Decisions taken in order; each question takes the first unused one that matches it.

    `state` is the session's: the decisions of this file that it holds are used up already, so that
    a session continues in the file where it stopped. Raises UserError for a file that is no use.
    """

    def __init__(self, path: Path, state: SessionState | None = None):
        self.path = path
        self.author = Author(AuthorKind.ENGINEER, path.name)
        self._decisions = read_decisions(path)
        self._used = [0] * len(self._decisions)
        taken = state.decisions.values() if state is not None else ()
        for decision in taken:
            if state is not None and decision.by == self.author:
                self._take(state.questions[decision.question])

    def answer(
        self,
        question: Question,
        plan: Plan,
        state: SessionState | None = None,  # noqa: ARG002 - a file says the same in any state
    ) -> Answer | None:
        """The answer to a question; None when no decision is left for it. Raises UserError."""
        decision = self._take(question)
        if decision is None:
            return None
        return Answer(
            question=question.id,
            subject=question.subject,
            status=decision.status,
            by=self.author,
            reason=decision.reason,
            plan=_edited_plan(plan, decision.plan, self.path) if decision.plan else None,
            source=self._source(decision.source) if decision.source else None,
            hunks=self._hunks(decision.hunks, question),
        )

    def _take(self, question: Question) -> ScriptedDecision | None:
        for index, decision in enumerate(self._decisions):
            is_left = not decision.times or self._used[index] < decision.times
            if is_left and decision.matches(question):
                self._used[index] += 1
                return decision
        return None

    def _hunks(self, shown: tuple[int, ...] | None, question: Question) -> tuple[int, ...] | None:
        if shown is None:
            return None
        for number in shown:
            if question.gate is ApprovalGate.DIFF and not 1 <= number <= question.hunks:
                raise UserError(
                    f"there is no hunk {number}: the diff {question.id} has {question.hunks}",
                    file=str(self.path),
                    hint="hunks count from 1",
                )
        return tuple(number - 1 for number in shown)

    def _source(self, name: str) -> str:
        file = self.path.parent / name
        try:
            return file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"cannot be read: {error}", file=str(file)) from None


def read_decisions(path: Path) -> tuple[ScriptedDecision, ...]:
    """The decisions of a file, in order. Raises UserError, which names the file and the key."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError("there is no such file of decisions", file=str(path)) from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UserError(f"cannot be read: {error}", file=str(path)) from None
    _refuse_unknown(table, ("decision",), "", path)
    entries = table.get("decision")
    if not isinstance(entries, list) or not entries:
        raise UserError("not a file of decisions", file=str(path), hint=_EXAMPLE)
    return tuple(_decision(entry, number, path) for number, entry in enumerate(entries, start=1))


_STATUSES = [s.value for s in ApprovalStatus if s is not ApprovalStatus.PENDING]
_NAMES = {"status": _STATUSES, "gate": [gate.value for gate in ApprovalGate]}
_EXAMPLE = 'it holds tables such as: [[decision]] gate = "plan" status = "accepted"'


def _decision(entry: Any, number: int, path: Path) -> ScriptedDecision:
    if isinstance(entry, dict):
        fields = ScriptedDecision.__struct_fields__
        _refuse_unknown(entry, fields, f" in decision {number}", path)
        _check_names(entry, number, path)
    try:
        return msgspec.convert(entry, ScriptedDecision)
    except msgspec.ValidationError as error:
        what, _, key = value_words(error).partition(" - at `$.")
        message = f"{key.rstrip('`')}: {what}" if key else what
        raise UserError(f"decision {number}: {message}", file=str(path), hint=_EXAMPLE) from None


def _check_names(entry: Mapping[str, Any], number: int, path: Path) -> None:
    for key, names in _NAMES.items():
        if key in entry and entry[key] not in names:
            *first, last = names
            raise UserError(
                f"decision {number}: {entry[key]!r} is no {key}",
                file=str(path),
                hint=f"a {key} is {', '.join(first)} or {last}",
            )


def _refuse_unknown(
    table: Mapping[str, Any], known: tuple[str, ...], where: str, path: Path
) -> None:
    for name in table:
        if name not in known:
            raise UserError(
                f"unknown key '{name}'{where}", file=str(path), hint=nearest(name, known)
            )


def _edited_plan(plan: Plan, changes: dict[str, Any], path: Path) -> Plan:
    try:
        return edited_plan(plan, changes)
    except UserError as error:
        raise UserError(error.message, file=str(path), hint=error.hint) from None


class AutoPolicy:
    """Accepts without asking: as an engineer has set it, and, unless that was set since the engine
    began, as the settings say.

    The settings are those of `--approve auto`: they accept diffs, and plans of at most a given
    risk. Code that breaks what the engineer said is never accepted without asking: where the
    settings would, they send it back.
    """

    def __init__(self, approval: Approval):
        self.approval = approval

    def answer(self, question: Question, plan: Plan, state: SessionState) -> Answer | None:
        """The answer to a question; None when someone has to be asked."""
        breaks = broken_words(_rulings(question, state))
        if state.auto.covers(question, plan) and not breaks:
            by = state.auto.author
        elif not state.auto.replaces and self._accepts(question, plan):
            by = Author(AuthorKind.POLICY, "auto")
        else:
            return None
        status = ApprovalStatus.REJECTED if breaks else ApprovalStatus.ACCEPTED
        return Answer(question.id, question.subject, status, by, reason=breaks)

    def _accepts(self, question: Question, plan: Plan) -> bool:
        if question.gate is ApprovalGate.DIFF:
            return self.approval.diff is GatePolicy.AUTO
        within = plan.risk.rank <= self.approval.max_risk.rank
        return self.approval.plan is GatePolicy.AUTO and within


def _rulings(question: Question, state: SessionState) -> tuple[Ruling, ...]:
    """What is known of the code that a question is about."""
    found = (
        proposal.rulings(question.subject)
        for round_ in state.rounds
        for proposal in round_.proposals
        if question.gate is ApprovalGate.DIFF
        and (round_.number, proposal.index) == (question.round, question.proposal)
    )
    return next(found, ())
