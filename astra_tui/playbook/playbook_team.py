"""The team with no model: every role is a rule, and the same brief has the same answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from msgspec.structs import replace

from astra_tui.model.author import Author, AuthorKind
from astra_tui.model.check import Case
from astra_tui.model.constraints import Ruling
from astra_tui.model.errors import UserError
from astra_tui.model.plan import Plan
from astra_tui.model.roles import Role
from astra_tui.model.team_protocol import (
    Brief,
    CodeDraft,
    Failure,
    NotWritten,
    OnText,
    PlanAnswer,
    PlanDraft,
)
from astra_tui.model.verdict import Outcome
from astra_tui.playbook import Evidence, NotApplicable, Proposal, propose_all
from astra_tui.playbook.propose import (
    Base,
    not_followed,
    plan_as_set,
    propose_as_set,
    withdrawn_by,
    withdrawn_moves,
)
from astra_tui.playbook.space import varied_moves

_WORDS = ("move", "title", "bottleneck", "evidence", "change", "places")
"""Fields of a plan that say what its move does, and do not steer it."""


class PlaybookTeam:
    """Moves of the playbook, best first."""

    def author_of(self, role: Role) -> Author:  # noqa: ARG002
        """The playbook, in every role."""
        return Author(AuthorKind.PLAYBOOK)

    async def plan(self, brief: Brief, count: int, on_text: OnText) -> PlanAnswer:  # noqa: ARG002
        """The moves that apply to the base and were not tried on it yet."""
        proposals, refused = await _propose(brief)
        plans = tuple(PlanDraft(p.plan, self._named(p.plan)) for p in proposals[:count])
        reason = "" if plans else "no move of the playbook applies any more"
        return PlanAnswer(plans, reason, refused)

    async def code(
        self,
        brief: Brief,
        plan: Plan,
        failure: Failure | None,
        on_text: OnText,  # noqa: ARG002
    ) -> CodeDraft:
        """The rewrite of the plan's move. A move has one rewrite, so that a failure ends it."""
        if failure is not None:
            raise NotWritten(f"the playbook withdraws {plan.move or 'the plan'}: {failure.message}")
        evidence = Evidence.of(brief)
        try:
            answer = await asyncio.to_thread(propose_as_set, brief.source, plan, evidence)
        except UserError as error:
            raise NotWritten(error.message) from None
        if isinstance(answer, NotApplicable):
            raise NotWritten(f"the playbook can only do its own moves: {answer.reason}")
        return CodeDraft(answer.source, self._named(plan), answer.plan.change)

    async def follow(self, brief: Brief, shown: Plan, edited: Plan) -> Plan:
        """The plan that its move has with the edited parameters; prediction and risk as edited.

        A move writes its other words itself, so that they say what it does. Raises CannotFollow
        where they were edited, and for parameters that the move cannot have.
        """
        changed = next((n for n in _WORDS if getattr(edited, n) != getattr(shown, n)), None)
        if changed is not None:
            raise not_followed(shown, changed)
        plan = await asyncio.to_thread(plan_as_set, brief.source, shown, edited, Evidence.of(brief))
        if edited.prediction != shown.prediction:
            plan = replace(plan, prediction=edited.prediction)
        plan = plan.for_device(shown.prediction.speedup is not None)
        return replace(plan, risk=edited.risk)

    async def reflect(
        self,
        brief: Brief,  # noqa: ARG002
        plan: Plan,  # noqa: ARG002
        failure: Failure,  # noqa: ARG002
        on_text: OnText,  # noqa: ARG002
    ) -> CodeDraft | str:
        """Nothing: a move has one rewrite."""
        return ""

    async def review(
        self,
        brief: Brief,  # noqa: ARG002
        plan: Plan,  # noqa: ARG002
        source: str,  # noqa: ARG002
        undecided: tuple[Ruling, ...],  # noqa: ARG002
    ) -> tuple[Ruling, ...]:
        """Nothing: there is no reader here but the engineer."""
        return ()

    async def cases(self, brief: Brief, plan: Plan, source: str) -> tuple[Case, ...]:  # noqa: ARG002
        """None: the floor suite is derived from the contract already."""
        return ()

    async def explain(self, brief: Brief, source: str, failure: Failure) -> str:  # noqa: ARG002
        """Nothing: the findings of the check name line, block and thread themselves."""
        return ""

    async def read_profile(self, brief: Brief, on_text: OnText) -> None:
        """Nothing: the moves read the counters themselves."""

    async def close(self) -> None:
        """Nothing is open."""

    def _named(self, plan: Plan) -> Author:
        return Author(AuthorKind.PLAYBOOK, plan.move)


async def _propose(brief: Brief) -> tuple[list[Proposal], tuple[str, ...]]:
    """What is worth a round, and why nothing else is."""
    evidence = Evidence.of(brief)
    settled = frozenset(_settled(brief, evidence))
    # In a thread: parsing takes milliseconds, and an interrupt need not wait for it.
    varied = await asyncio.to_thread(varied_moves, brief.swept, evidence) if brief.swept else ()
    reason = "the sweep of this source had it among its choices"
    withdrawn = {(move, brief.base): reason for move in varied} | withdrawn_moves(brief)
    proposals, refused = await asyncio.to_thread(
        propose_all, brief.source, evidence, withdrawn, settled
    )
    reasons = [f"{r.move}: {r.reason}" for r in refused]
    shown = []
    tried = {t.code: f"its code was judged in round {t.round}" for t in brief.tried if t.code}
    base = await asyncio.to_thread(Base.of, brief.source, evidence)
    for proposal in proposals:
        why = tried.get(proposal.source) or base.why_unmeasured(proposal)
        if why:
            reasons.append(f"{proposal.plan.move}: {why}")
        else:
            shown.append(proposal)
    return shown, tuple(reasons)


_SETTLED = (Outcome.SAME, Outcome.WORSE, Outcome.WRONG, Outcome.NOT_COMPILED)


def _settled(brief: Brief, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """Moves that gained nothing or were wrong, each with the code that they would have changed."""
    for tried in brief.tried:
        is_settled = tried.outcome in _SETTLED and not tried.edited
        if is_settled and tried.plan.move and tried.plan.move in withdrawn_by(tried):
            yield tried.plan.move, Base.of(tried.source, evidence).region(tried.plan)
