"""Predictions against what was measured: how far an author's expectations can be trusted."""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from astra_tui.model.author import AuthorKind
from astra_tui.model.experience import SMALLEST_RATIO
from astra_tui.model.plan import Counter, Plan, Prediction
from astra_tui.model.state import ProposalState, SessionState
from astra_tui.model.verdict import Comparison, Outcome


class Score(msgspec.Struct, frozen=True):
    """One prediction and its measurement; ratios are new over old, below 1 is better."""

    counter: Counter
    predicted_ratio: float
    measured_ratio: float
    error: float
    """|measured - predicted|: 0.075 is off by 7.5 percentage points."""
    log_error: float
    """|ln(measured / predicted)|: 0 is exact, 0.69 is off by a factor of two."""


class LedgerEntry(msgspec.Struct, frozen=True):
    """How the predictions of one team and model came out.

    `plans` counts all of them, `measured` those whose counter could be compared. A plan that the
    engineer edited is the engineer's, under the team "engineer".
    """

    team: str
    model: str
    plans: int
    measured: int
    better: int
    mean_error: float | None
    mean_log_error: float | None
    """Both None when nothing was measured."""


def score(prediction: Prediction, comparison: Comparison | None) -> Score | None:
    """The prediction's score; None where nothing was measured, and where the base did not have the
    counter, so that it has no ratio.
    """
    measured = comparison.ratios.get(prediction.counter.value) if comparison else None
    if measured is None:
        return None
    predicted = prediction.counter_ratio
    return Score(
        counter=prediction.counter,
        predicted_ratio=predicted,
        measured_ratio=measured,
        error=abs(measured - predicted),
        log_error=abs(math.log(_bounded(measured) / _bounded(predicted))),
    )


def ledger(state: SessionState) -> tuple[LedgerEntry, ...]:
    """One entry for each team and model that proposed a plan in the session."""
    kept: dict[tuple[str, str], list[tuple[ProposalState, Plan]]] = {}
    for round_ in state.rounds:
        for proposal in round_.proposals:
            plan = state.plan_of(round_.number, proposal.index)
            kept.setdefault(owner_of(state, proposal, plan), []).append((proposal, plan))
    return tuple(_entry(*owner, plans) for owner, plans in kept.items())


def owner_of(state: SessionState, proposal: ProposalState, plan: Plan) -> tuple[str, str]:
    """Team and model whose plan it is; one that the engineer edited is the engineer's."""
    if plan != proposal.plan or proposal.author.kind is AuthorKind.ENGINEER:
        return AuthorKind.ENGINEER.value, ""
    team = state.opened.settings.team.value if state.opened else ""
    return team, proposal.author.name if proposal.author.kind is AuthorKind.MODEL else ""


def _entry(team: str, model: str, plans: Iterable[tuple[ProposalState, Plan]]) -> LedgerEntry:
    plans = tuple(plans)
    verdicts = [(proposal.verdict, plan) for proposal, plan in plans if proposal.verdict]
    scores = [
        found for verdict, plan in verdicts if (found := score(plan.prediction, verdict.comparison))
    ]
    return LedgerEntry(
        team=team,
        model=model,
        plans=len(plans),
        measured=len(scores),
        better=sum(verdict.outcome is Outcome.BETTER for verdict, _ in verdicts),
        mean_error=_mean([s.error for s in scores]),
        mean_log_error=_mean([s.log_error for s in scores]),
    )


def _mean(errors: list[float]) -> float | None:
    return math.fsum(errors) / len(errors) if errors else None


def _bounded(ratio: float) -> float:
    return min(max(ratio, SMALLEST_RATIO), 1 / SMALLEST_RATIO)
