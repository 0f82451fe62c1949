"""What the rounds so far say about one candidate: the one thing to ask after every block."""

from __future__ import annotations

from dataclasses import dataclass

from astra_tui.gpu.timing.pairing import PairedRounds
from astra_tui.gpu.timing.stability import autocorrelation_caveat, drift_caveat, offset_caveat
from astra_tui.gpu.timing.stopping import ROUND_LIMIT, decide, rounds_to_add, threshold
from astra_tui.model.timing import Caveat, Ratio, TimingVerdict


@dataclass(frozen=True)
class Conclusion:
    """A candidate against its base, and the base against its copy, by the same rounds."""

    speedup: Ratio
    control: Ratio
    threshold: float
    verdict: TimingVerdict
    rounds_to_add: int
    """0 if the verdict stands."""
    caveats: tuple[Caveat, ...]


def conclude(
    rounds: PairedRounds, candidate: int, control: int, base: int = 0, limit: int = ROUND_LIMIT
) -> Conclusion:
    """Judges the version `candidate` of `rounds`, where `control` is a copy of `base`.

    The verdict is INCONCLUSIVE if a caveat invalidates the measurement, whatever its interval says.
    Raises BadSamples before there are two rounds, and one of them with T(N).
    """
    log_ratios = rounds.log_ratios(candidate, base)
    speedup, beside_itself = rounds.ratio(candidate, base), rounds.ratio(control, base)
    least = threshold(beside_itself)
    found = (
        drift_caveat(log_ratios, least),
        autocorrelation_caveat(log_ratios),
        offset_caveat(rounds),
    )
    caveats = tuple(d for d in found if d is not None)
    voided = any(d.invalidates for d in caveats)
    return Conclusion(
        speedup,
        beside_itself,
        least,
        TimingVerdict.INCONCLUSIVE if voided else decide(speedup, least),
        rounds_to_add(speedup, least, rounds.rounds, limit),
        caveats,
    )
