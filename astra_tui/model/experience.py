"""What was tried on this machine: a plan with its prediction and its result, on one GPU.

Sessions tell it, and later sessions are shown what fits their operator, GPU and bottleneck.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

import msgspec

from astra_tui.model.plan import Prediction
from astra_tui.model.timing import Ratio
from astra_tui.model.verdict import Outcome


class Experience(msgspec.Struct, frozen=True, omit_defaults=True):
    """One plan of one session. It says what was measured, and nothing of the kernel's source."""

    session: str
    round: int
    proposal: int
    time: str
    gpu: str
    """The GPU's name, or "emulator" where counts decided."""
    operator: str
    """The kernel task's name."""
    team: str
    model: str
    title: str
    bottleneck: str
    change: str
    move: str
    prediction: Prediction
    outcome: Outcome
    reason: str
    ratios: dict[str, float] = {}
    """Counters, new over old."""
    speedup: Ratio | None = None

    @property
    def id(self) -> str:
        """Names it where it is listed or forgotten."""
        return f"{self.session}/{self.round}.{self.proposal + 1}"

    @property
    def in_bounds(self) -> bool | None:
        """Whether the speedup lies within the predicted bounds; None without either."""
        expected = self.prediction.speedup
        if expected is None or self.speedup is None:
            return None
        return expected[0] <= self.speedup.value <= expected[1]

    def describe(self) -> str:
        """One line, with its source at the end."""
        gpu = self.speedup
        result = f"speedup {gpu.value:.3f} [{gpu.low:.3f}, {gpu.high:.3f}]" if gpu else ""
        counter = self.prediction.counter.value
        measured = self.ratios.get(counter)
        if measured is not None:
            predicted = self.prediction.counter_ratio
            counted = f"{counter} x{measured:.2f} (predicted x{predicted:.2f})"
            result = f"{result}, {counted}" if result else counted
        outcome = self.outcome.value.replace("_", " ")
        told = f": {result or self.reason}" if result or self.reason else ""
        return f"{outcome}: {self.title}{told} [{self.operator} on {self.gpu}, {self.id}]"


def retrieve(
    known: Iterable[Experience], operator: str, gpu: str, bottleneck: str, count: int
) -> tuple[Experience, ...]:
    """At most `count` that fit best: of like operators first, then of like bottlenecks; of those
    that fit alike, such as were measured on this GPU, then the latest. Of equal plans with equal
    outcomes only the latest.
    """
    wanted, limits = _words(operator), _words(bottleneck)

    def fit(one: Experience) -> tuple[float, float, bool, str]:
        same = _likeness(wanted, _words(one.operator))
        alike = _likeness(limits, _words(f"{one.bottleneck} {one.title}"))
        return same, alike, one.gpu == gpu, one.time

    latest = {
        (e.operator, e.gpu, e.title, e.change, e.outcome): e
        for e in sorted(known, key=lambda e: e.time)
    }
    fitting = [(fit(one), one) for one in latest.values()]
    near = [pair for pair in fitting if pair[0][0] >= LEAST_LIKE or pair[0][1] >= LEAST_LIKE]
    return tuple(one for _, one in sorted(near, key=lambda p: p[0], reverse=True)[:count])


LEAST_LIKE = 0.3
"""Share of words in common from which operators or bottlenecks are alike."""

_COMMON = frozenset(["the", "a", "of", "in", "is", "and", "to", "by", "it", "for", "per", "one"])


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"[a-z]+", text.lower())) - _COMMON


def _likeness(one: frozenset[str], other: frozenset[str]) -> float:
    """Words in common, as a share of the shorter text's."""
    least = min(len(one), len(other))
    return len(one & other) / least if least else 0.0


class PredictionRecord(msgspec.Struct, frozen=True):
    """How the predictions of one team and model came out over all sessions of this machine."""

    team: str
    model: str
    plans: int
    better: int
    counters: int
    """Plans whose predicted counter was measured."""
    mean_factor: float | None
    """By which they were off, as a geometric mean: 1 is exact; None where nothing was measured."""
    speedups: int
    """Plans whose predicted speedup was measured."""
    in_bounds: int
    """Those of them that lay within the predicted bounds."""
    speedup_bias: float | None = None
    """Measured speedups over the middle of their bounds, as geometric means: below 1, times were
    predicted too well; None where none was measured.
    """

    def describe(self) -> str:
        """As in "12 plans, 4 better; 9 counters, off by a factor of 1.21 on average"."""
        plans, counters = ("" if n == 1 else "s" for n in (self.plans, self.counters))
        told = [f"{self.plans} plan{plans}, {self.better} better"]
        if self.mean_factor is not None:
            off = f"off by a factor of {self.mean_factor:.2f}"
            told.append(f"{self.counters} counter{counters}, {off}")
        if self.speedup_bias is not None:
            told.append(
                f"{self.in_bounds} of {self.speedups} speedups within predicted bounds, measured "
                f"x{self.speedup_bias:.2f} of their middle"
            )
        return "; ".join(told)


def ledger_over(known: Iterable[Experience]) -> tuple[PredictionRecord, ...]:
    """One record for each team and model, in the order of their names."""
    owners: dict[tuple[str, str], list[Experience]] = {}
    for one in known:
        owners.setdefault((one.team, one.model), []).append(one)
    return tuple(_record(*owner, plans) for owner, plans in sorted(owners.items()))


def predictions_of(known: Iterable[Experience], team: str, model: str, gpu: str) -> str:
    """How the predictions of a team and model came out, where any was measured: on this GPU, and
    on all where there are others.
    """
    own = [one for one in known if (one.team, one.model) == (team, model)]
    here = [one for one in own if one.gpu == gpu]
    told = [(f"on {gpu}: ", here)] if here and len(here) < len(own) else []
    return "; ".join(
        f"{where}{record.describe()}"
        for where, plans in (*told, ("", own))
        for record in ledger_over(plans)
        if record.counters or record.speedups
    )


def _record(team: str, model: str, plans: list[Experience]) -> PredictionRecord:
    factors = [abs(math.log(f)) for one in plans if (f := _factor(one)) is not None]
    bounds = [one.in_bounds for one in plans if one.in_bounds is not None]
    biases = [math.log(b) for one in plans if (b := _speedup_bias(one)) is not None]
    return PredictionRecord(
        team=team,
        model=model,
        plans=len(plans),
        better=sum(one.outcome is Outcome.BETTER for one in plans),
        counters=len(factors),
        mean_factor=_geometric_mean(factors),
        speedups=len(bounds),
        in_bounds=sum(bounds),
        speedup_bias=_geometric_mean(biases),
    )


def _geometric_mean(logarithms: list[float]) -> float | None:
    return math.exp(math.fsum(logarithms) / len(logarithms)) if logarithms else None


def _speedup_bias(one: Experience) -> float | None:
    """Measured over predicted, of the speedup."""
    expected = one.prediction.speedup
    if expected is None or one.speedup is None:
        return None
    return one.speedup.value / math.sqrt(expected[0] * expected[1])


def _factor(one: Experience) -> float | None:
    """Measured over predicted, of the counter that was predicted."""
    measured = one.ratios.get(one.prediction.counter.value)
    if measured is None:
        return None
    return max(measured, SMALLEST_RATIO) / max(one.prediction.counter_ratio, SMALLEST_RATIO)


SMALLEST_RATIO = 1e-3
"""Ratios below count as this one: a counter that falls to 0 has no logarithm."""
