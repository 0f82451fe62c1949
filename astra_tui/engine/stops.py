"""Why an engine ends."""

from __future__ import annotations

from astra_tui.model.events import StopReason
from astra_tui.model.settings import Budget
from astra_tui.model.state import SessionState


class Stop(Exception):
    """Ends the run, with a reason that the journal keeps."""

    def __init__(self, reason: StopReason, message: str):
        super().__init__(message)
        self.reason = reason
        self.message = message


def check_budget(state: SessionState, budget: Budget) -> None:
    """Raises Stop when the tokens or dollars of a run are used up."""
    usage = state.usage
    if budget.tokens is not None and usage.tokens >= budget.tokens:
        raise Stop(StopReason.BUDGET, f"{usage.tokens:,} of {budget.tokens:,} tokens are used")
    if budget.dollars is not None and usage.dollars >= budget.dollars:
        raise Stop(StopReason.BUDGET, f"${usage.dollars:.2f} of ${budget.dollars:.2f} are spent")


def check_rounds(state: SessionState) -> None:
    """Raises Stop when all rounds are done."""
    done = sum(r.closed for r in state.rounds if r.number)
    if done >= state.round_limit:
        raise Stop(StopReason.ROUNDS, f"{done} of {state.round_limit} rounds are done")
