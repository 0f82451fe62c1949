"""Answers that need nobody at the keyboard: a policy that was set, or a file of decisions."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import msgspec

from astra_tui.model.approval import Answer, ApprovalStatus, Gate, Question
from astra_tui.model.author import Author, AuthorKind
from astra_tui.model.errors import UserError
from astra_tui.model.plan import Plan
from astra_tui.model.settings import Approval, GatePolicy


class ScriptedDecision(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One `[[decision]]` of a decisions file; what it leaves out matches anything."""

    status: ApprovalStatus
    gate: Gate | None = None
    round: int | None = None
    proposal: int | None = None
    reason: str = ""
    hunks: tuple[int, ...] | None = None
    source: str = ""
    """At the diff gate with status "edited": the file that holds the edited source."""
    plan: dict[str, Any] | None = None
    """At the plan gate with status "edited": the fields of the plan that change."""
    times: int = 1
    """For how many questions it holds; 0 means all that are left."""

    def matches(self, question: Question) -> bool:
        """Whether this decision is meant for that question."""
        return (
            self.gate in (None, question.gate)
            and self.round in (None, question.round)
            and self.proposal in (None, question.proposal)
        )


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    decision: tuple[ScriptedDecision, ...]


class DecisionsFile:
    """Decisions taken in order; each question takes the first unused one that matches it."""

    def __init__(self, path: Path):
        self.path = path
        self._left = [[d, d.times] for d in _read(path)]

    def answer(self, question: Question, plan: Plan) -> Answer | None:
        """The answer to a question; None when no decision is left for it. Raises UserError."""
        for entry in self._left:
            decision: ScriptedDecision = entry[0]  # type: ignore[assignment]
            if decision.matches(question):
                if decision.times:
                    entry[1] -= 1  # type: ignore[operator]
                    if not entry[1]:
                        self._left.remove(entry)
                return self._answer(decision, question, plan)
        return None

    def _answer(self, decision: ScriptedDecision, question: Question, plan: Plan) -> Answer:
        return Answer(
            question=question.id,
            subject=question.subject,
            status=decision.status,
            by=Author(AuthorKind.ENGINEER, self.path.name),
            reason=decision.reason,
            plan=_edited_plan(plan, decision.plan, self.path) if decision.plan else None,
            source=self._source(decision.source) if decision.source else None,
            hunks=decision.hunks,
        )

    def _source(self, name: str) -> str:
        file = self.path.parent / name
        try:
            return file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"cannot be read: {error}", file=str(file)) from None


def _read(path: Path) -> tuple[ScriptedDecision, ...]:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        return msgspec.convert(table, _File).decision
    except FileNotFoundError:
        raise UserError("there is no such file of decisions", file=str(path)) from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UserError(f"cannot be read: {error}", file=str(path)) from None
    except msgspec.ValidationError as error:
        raise UserError(
            f"not a file of decisions: {error}",
            file=str(path),
            hint='it holds tables such as: [[decision]] gate = "plan" status = "accepted"',
        ) from None


def _edited_plan(plan: Plan, changes: dict[str, Any], path: Path) -> Plan:
    try:
        return msgspec.convert({**msgspec.to_builtins(plan), **changes}, Plan)
    except msgspec.ValidationError as error:
        raise UserError(f"the edited plan: {error}", file=str(path)) from None


class AutoPolicy:
    """`--approve auto`: accepts diffs, and plans of at most a given risk."""

    def __init__(self, approval: Approval):
        self.approval = approval

    def answer(self, question: Question, plan: Plan) -> Answer | None:
        """The answer to a question; None when somebody has to be asked."""
        if self._policy(question.gate) is not GatePolicy.AUTO:
            return None
        if question.gate is Gate.PLAN and plan.risk.rank > self.approval.max_risk.rank:
            return None
        return Answer(
            question=question.id,
            subject=question.subject,
            status=ApprovalStatus.ACCEPTED,
            by=Author(AuthorKind.POLICY, "auto"),
        )

    def _policy(self, gate: Gate) -> GatePolicy:
        return self.approval.plan if gate is Gate.PLAN else self.approval.diff
