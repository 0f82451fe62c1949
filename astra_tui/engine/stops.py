"""Why an engine ends."""

from __future__ import annotations

from astra_tui.model.events import StopReason
from astra_tui.model.settings import Budget
from astra_tui.model.state import SessionState

FINISHED = (StopReason.ROUNDS, StopReason.NO_PLAN, StopReason.BUDGET, StopReason.ROOFLINE)
"""Reasons after which a run has come to its end, as planned."""


class Stop(Exception):
    """Ends the run, with a reason that the journal keeps."""

    def __init__(self, reason: StopReason, message: str):
        super().__init__(message)
        self.reason = reason
        self.message = message


def check_budget(state: SessionState, budget: Budget) -> None:
    """Raises Stop when the tokens, dollars or GPU seconds of a run are used up."""
    usage = state.usage
    if budget.tokens is not None and usage.tokens >= budget.tokens:
        raise Stop(StopReason.BUDGET, f"{usage.tokens:,} of {budget.tokens:,} tokens are used")
    if budget.dollars is not None and usage.dollars >= budget.dollars:
        raise Stop(StopReason.BUDGET, f"${usage.dollars:.2f} of ${budget.dollars:.2f} are spent")
    if budget.gpu_seconds is not None and usage.gpu_seconds >= budget.gpu_seconds:
        used = f"{usage.gpu_seconds:.0f} of {budget.gpu_seconds:.0f} seconds"
        raise Stop(StopReason.BUDGET, f"{used} of timing on the GPU are used up")


def check_rounds(state: SessionState) -> None:
    """Raises Stop when all rounds are done."""
    done = sum(r.closed for r in state.rounds if r.number)
    if done >= state.round_limit:
        raise Stop(StopReason.ROUNDS, f"{done} of {state.round_limit} rounds are done")


def check_roofline(state: SessionState, share: float) -> None:
    """Raises Stop when the best candidate reaches this share of the floor on every workload.

    The floor is a copy of as many bytes, measured on the same GPU. A share of 0 never stops.
    """
    timings = state.candidate(state.best).timings
    if not share or not timings:
        return
    reached = [w.of_floor for w in timings[-1].timing.workloads]
    shares = [s for s in reached if s is not None]
    if shares and len(shares) == len(reached) and min(shares) >= share:
        raise Stop(
            StopReason.ROOFLINE,
            f"every workload runs at {100 * min(shares):.0f} % or more of what a copy needs",
        )
