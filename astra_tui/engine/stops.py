"""Why an engine ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from astra_tui.model.events import StopReason
from astra_tui.model.occupancy import overlaps_launches
from astra_tui.model.settings import Budget
from astra_tui.model.state import SessionState, Usage
from astra_tui.model.team_protocol import BudgetSpent
from astra_tui.model.timing import Timing
from astra_tui.present import numbers

if TYPE_CHECKING:
    from astra_tui.llm import Prices

FINISHED = (StopReason.ROUNDS, StopReason.NO_PLAN, StopReason.BUDGET, StopReason.ROOFLINE)
"""Reasons after which a run has come to its end, as planned."""


class Stop(Exception):
    """Ends the run, with a reason that the journal keeps."""

    def __init__(self, reason: StopReason, message: str):
        super().__init__(message)
        self.reason = reason
        self.message = message


SHORTEST_ANSWER = 256
"""Tokens: a call for less than this is not made."""


def check_budget(state: SessionState, budget: Budget) -> None:
    """Raises Stop when the tokens, dollars, calls or GPU seconds of a run are used up."""
    usage = state.usage
    tokens = usage.tokens + usage.reserved_tokens
    if budget.tokens is not None and tokens >= budget.tokens:
        raise Stop(StopReason.BUDGET, f"{tokens:,} of {budget.tokens:,} tokens are used")
    dollars = usage.dollars + usage.reserved_dollars
    if budget.dollars is not None and dollars >= budget.dollars:
        raise Stop(StopReason.BUDGET, f"${dollars:.2f} of ${budget.dollars:.2f} are spent")
    calls = usage.calls + usage.open_calls
    if budget.calls is not None and calls >= budget.calls:
        raise Stop(StopReason.BUDGET, f"{calls} of {budget.calls} calls are made")
    check_gpu_budget(state, budget)


def check_gpu_budget(state: SessionState, budget: Budget) -> None:
    """Raises Stop when another measurement, as long as the longest timing so far, does not fit."""
    if budget.gpu_seconds is None:
        return
    used = state.usage.gpu_seconds
    longest = max(
        (t.timing.gpu_seconds for c in state.candidates.values() for t in c.timings), default=0.0
    )
    if used + longest >= budget.gpu_seconds:
        raise Stop(
            StopReason.BUDGET,
            f"{used:.0f} of {budget.gpu_seconds:.0f} seconds of measuring on the GPU are used, and "
            f"the next timing may take {longest:.0f}",
        )


def answer_tokens(usage: Usage, budget: Budget, prices: Prices, prompt: int, wanted: int) -> int:
    """Tokens that the answer to a prompt of so many tokens may have, at most `wanted`.

    `usage` does not count the call itself. Raises BudgetSpent, which says what is left, where the
    prompt and a short answer do not fit.
    """
    if budget.calls is not None and usage.calls + usage.open_calls >= budget.calls:
        made = usage.calls + usage.open_calls
        raise BudgetSpent(f"{made} of {budget.calls} calls are made")
    most = wanted
    least = min(wanted, SHORTEST_ANSWER)
    if budget.tokens is not None:
        left = budget.tokens - usage.tokens - usage.reserved_tokens
        most = min(most, left - prompt)
        if most < least:
            raise BudgetSpent(
                f"{max(left, 0):,} of {budget.tokens:,} tokens are left, and the next call needs "
                f"about {prompt + least:,}"
            )
    if budget.dollars is not None:
        left_dollars = budget.dollars - usage.dollars - usage.reserved_dollars
        of_prompt = prompt * (prices.input_per_million or 0.0) / 1e6
        of_token = (prices.output_per_million or 0.0) / 1e6
        if of_token:
            most = min(most, int((left_dollars - of_prompt) / of_token))
        if most < least or of_prompt > left_dollars:
            raise BudgetSpent(
                f"${max(left_dollars, 0.0):.4f} of ${budget.dollars:.2f} are left, and the next "
                f"call needs about ${of_prompt + least * of_token:.4f}"
            )
    return most


def check_rounds(state: SessionState) -> None:
    """Raises Stop when all rounds are done."""
    done = state.rounds_done
    if done >= state.round_limit:
        said = f"{done} of {state.round_limit} rounds are done"
        lost = [r.loss for r in state.rounds if r.unusable]
        if lost:
            said = f"{said}; {len(lost)} without an answer that can be used, such as: {lost[-1]}"
        raise Stop(StopReason.ROUNDS, said)


def check_roofline(state: SessionState, share: float) -> None:
    """Raises Stop when the best candidate reaches this share of the floor on every workload.

    The floor is a copy of as many bytes, measured on the same GPU. A share of 0 never stops.
    """
    best = state.candidate(state.best)
    overlaps = best.profile is not None and overlaps_launches(best.profile.arch)
    reached = ""
    if share and best.timings:
        reached = at_roof(best.timings[-1].timing, share, overlaps=overlaps)
    if reached:
        raise Stop(StopReason.ROOFLINE, reached)


def at_roof(timing: Timing, share: float, *, overlaps: bool = False) -> str:
    """Why nothing is left to gain: each workload's time, its floor and the share of it that is
    reached. "" where a workload is further from its floor than `share` allows, has none, or has a
    time that may decide nothing.

    Copies do not overlap: where the GPU `overlaps` launches, a kernel that does not has that left,
    and of one that is faster than the copy by more than the threshold the copy says nothing.
    """
    if overlaps and not all(w.producer for w in timing.workloads):
        return ""
    if overlaps and any((w.of_floor or 0.0) > 2 - share for w in timing.workloads):
        return ""
    found = [(w, w.of_floor) for w in timing.workloads if w.floor and not w.invalidated]
    shares = [(w, reached) for w, reached in found if reached is not None and reached >= share]
    if not shares or len(shares) < len(timing.workloads):
        return ""
    each = "; ".join(
        f"{w.workload} {numbers.time((w.chained or w.cold).candidate_us)}, floor "
        f"{numbers.time(w.floor.us)} "
        f"({100 * reached:.0f} %)"
        for w, reached in shares
        if w.floor
    )
    left = 100 * (1 - share)
    return f"at most {left:.2g} % is left on every workload, by a copy of as many bytes: {each}"
