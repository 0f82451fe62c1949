"""What the rounds so far say about one candidate: the one thing to ask after every block."""

from __future__ import annotations

from dataclasses import dataclass

from astra_tui.gpu.timing.pairing import PairedRounds
from astra_tui.gpu.timing.stability import autocorrelation_doubt, drift_doubt, offset_doubt
from astra_tui.gpu.timing.verdict import ROUND_LIMIT, decide, rounds_to_add, threshold
from astra_tui.model.timing import Doubt, Ratio, TimingVerdict


@dataclass(frozen=True)
class Conclusion:
    """A candidate beside its base, and the base beside its copy, by the same rounds."""

    speedup: Ratio
    control: Ratio
    threshold: float
    verdict: TimingVerdict
    rounds_to_add: int
    """0 if the verdict stands."""
    doubts: tuple[Doubt, ...]


def conclude(
    rounds: PairedRounds, candidate: int, control: int, base: int = 0, limit: int = ROUND_LIMIT
) -> Conclusion:
    """Judges the version `candidate` of `rounds`, where `control` is a copy of `base`.

    The verdict is INCONCLUSIVE if a doubt voids the measurement, whatever its interval says.
    Raises BadSamples before there are two rounds, and one of them with T(N).
    """
    log_ratios = rounds.log_ratios(candidate, base)
    speedup, beside_itself = rounds.ratio(candidate, base), rounds.ratio(control, base)
    least = threshold(beside_itself)
    found = (
        drift_doubt(log_ratios, least),
        autocorrelation_doubt(log_ratios),
        offset_doubt(rounds),
    )
    doubts = tuple(d for d in found if d is not None)
    voided = any(d.voids for d in doubts)
    return Conclusion(
        speedup,
        beside_itself,
        least,
        TimingVerdict.INCONCLUSIVE if voided else decide(speedup, least),
        rounds_to_add(speedup, least, rounds.rounds, limit),
        doubts,
    )
