"""The verdict on a correct candidate, from its profile beside that of its base."""

from __future__ import annotations

from astra_tui.model.plan import Counter
from astra_tui.model.verdict import Comparison, Outcome, Profile, RoundVerdict, WorkloadProfile

MULTIPROCESSORS = 132
"""Of an H100 SXM (NVIDIA H100 white paper): fewer blocks than that leave some of them idle."""
MIN_OCCUPANCY = 0.25

_KEY_NAMES = ("sectors", "requests", "warp instructions")


def compare(base: Profile, candidate: Profile) -> Comparison:
    """Counters of both, workload by workload added up."""
    ratios = {}
    for counter in Counter:
        before, after = base.total(counter.value), candidate.total(counter.value)
        if before:
            ratios[counter.value] = after / before
    return Comparison("counters", base.ranking_key(), candidate.ranking_key(), ratios)


def judge(base_hash: str, base: Profile, candidate_hash: str, candidate: Profile) -> RoundVerdict:
    """Better when the ranking key is less and no parallelism was given up for it.

    The key cannot see parallelism: a grid of one block could win by it. What looks like that is
    INCONCLUSIVE, and never becomes the base.
    """
    comparison = compare(base, candidate)
    reasons: tuple[str, ...]
    before, after = comparison.base_key, comparison.candidate_key
    if after == before:
        outcome, reasons = Outcome.SAME, ("no counter of the ranking key changed",)
    elif after > before:
        outcome, reasons = Outcome.WORSE, (_difference(before, after),)
    else:
        lost = _lost_parallelism(base, candidate)
        outcome = Outcome.INCONCLUSIVE if lost else Outcome.BETTER
        reasons = (*lost, _difference(before, after))
    return RoundVerdict(outcome, reasons, candidate_hash, base_hash, comparison)


def _difference(before: tuple[int, int, int], after: tuple[int, int, int]) -> str:
    changes = [
        f"{name} {old:,} to {new:,} ({100 * (new - old) / old if old else 0:+.1f} %)"
        for name, old, new in zip(_KEY_NAMES, before, after, strict=True)
        if old != new
    ]
    return "; ".join(changes)


def _lost_parallelism(base: Profile, candidate: Profile) -> tuple[str, ...]:
    reasons = []
    for old, new in zip(base.workloads, candidate.workloads, strict=True):
        if _fewer_threads(old, new):
            reasons.append(
                f"{new.workload}: {new.blocks} blocks of {new.threads} threads instead of "
                f"{old.blocks} of {old.threads}; the emulator cannot say what that costs"
            )
    least = min((k.occupancy for k in base.kernels), default=1.0)
    for kernel in candidate.kernels:
        if kernel.occupancy < min(MIN_OCCUPANCY, least):
            reasons.append(
                f"{kernel.kernel}: occupancy {kernel.occupancy:.0%} "
                f"({kernel.registers} registers, {kernel.shared_bytes} B of shared memory)"
            )
    return tuple(reasons)


def _fewer_threads(old: WorkloadProfile, new: WorkloadProfile) -> bool:
    """Whether multiprocessors go idle that the base kept busy."""
    return new.blocks < min(MULTIPROCESSORS, old.blocks)
