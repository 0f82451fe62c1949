"""The playbook for the planning agent: what applies, and what it would do."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from astra_tui.llm.asking.prompts import clipped
from astra_tui.model.errors import UserError, nearest
from astra_tui.model.hunks import unified_diff
from astra_tui.model.team_protocol import Brief
from astra_tui.playbook import Evidence, Proposal, propose_all
from astra_tui.playbook.propose import withdrawn_moves

MAX_DIFF = 8_000
"""Characters of a diff that a preview shows."""


@dataclass(frozen=True)
class OfferedMoves:
    """The rewrites that the playbook has for one source, and why its other moves do not apply."""

    source: str
    proposals: tuple[Proposal, ...]
    refused: tuple[str, ...]

    def get(self, name: str) -> Proposal | None:
        """A move's rewrite, None where it does not apply."""
        return next((p for p in self.proposals if p.plan.move == name), None)

    def listing(self) -> str:
        """One line a move."""
        return "\n".join(f"{p.plan.move}: {p.plan.change}" for p in self.proposals)

    def preview(self, name: str) -> str:
        """Why, what and the diff. Raises UserError for a move that does not apply."""
        proposal = self.get(name)
        if proposal is None:
            known = [p.plan.move for p in self.proposals]
            raise UserError(f"no move '{name}' applies here", hint=nearest(name, known))
        plan = proposal.plan
        diff = unified_diff(self.source, proposal.source, "before", "after")
        evidence = (observed.sentence for observed in plan.observations)
        lines = [plan.title, plan.bottleneck, *evidence, plan.change]
        return "\n".join([*lines, clipped(diff, MAX_DIFF)])


async def offered_moves(brief: Brief) -> OfferedMoves:
    """What the playbook has for the base of a brief; nothing where it cannot read the source."""
    evidence, withdrawn = Evidence.of(brief), withdrawn_moves(brief)
    try:
        # In a thread: parsing takes milliseconds, and an interrupt need not wait for it.
        found, refused = await asyncio.to_thread(propose_all, brief.source, evidence, withdrawn)
    except UserError as error:
        return OfferedMoves(brief.source, (), (error.describe(),))
    reasons = tuple(f"{r.move}: {r.reason}" for r in refused)
    return OfferedMoves(brief.source, tuple(found), reasons)
