"""The verdict on a correct candidate, from its profile and that of its base."""

from __future__ import annotations

from msgspec.structs import replace

from astra_tui.model.occupancy import H100_MULTIPROCESSORS
from astra_tui.model.plan import Counter
from astra_tui.model.timing import WRONG_OUTPUT, Timing, TimingVerdict
from astra_tui.model.verdict import Comparison, Outcome, Profile, RoundVerdict, WorkloadProfile
from astra_tui.model.verdict_thresholds import MIN_OCCUPANCY, MOST_IDLE

_KEY_NAMES = ("sectors", "requests", "warp instructions")


def compare_counters(base: Profile, candidate: Profile) -> Comparison:
    """Counters of both, workload by workload added up."""
    ratios = {}
    for counter in Counter if not (base.uncounted or candidate.uncounted) else ():
        before, after = base.total(counter.value), candidate.total(counter.value)
        if before:
            ratios[counter.value] = after / before
    return Comparison("counters", base.ranking_key(), candidate.ranking_key(), ratios)


def judge_counters(
    base_hash: str, base: Profile, candidate_hash: str, candidate: Profile
) -> RoundVerdict:
    """Better when the ranking key is less and no parallelism was given up for it.

    The key cannot see parallelism: a grid of one block could win by it. A candidate that leaves
    multiprocessors idle on workloads with more than half of the traffic, or of which few warps
    fit on one, is INCONCLUSIVE and never becomes the base. Where it does so on smaller workloads
    only, as wider accesses do, the verdict says so as a caution.
    """
    comparison = compare_counters(base, candidate)
    reasons: tuple[str, ...]
    before, after = comparison.base_key, comparison.candidate_key
    if after == before:
        outcome, reasons = (
            Outcome.SAME,
            ("sectors, requests and warp instructions are what they were",),
        )
    elif after > before:
        outcome, reasons = Outcome.WORSE, (_difference(before, after),)
    else:
        idle, crowded = _idle(base, candidate), _low_occupancy(base, candidate)
        traffic = sum(w.compulsory_bytes for w in candidate.workloads)
        lost = crowded or sum(new.compulsory_bytes for _, new in idle) > MOST_IDLE * traffic
        outcome = Outcome.INCONCLUSIVE if lost else Outcome.BETTER
        cautions = (*crowded, *(_describe_idle(old, new) for old, new in idle))
        change = _difference(before, after)
        reasons = (*cautions, change) if lost else (change, *cautions)
    return RoundVerdict(outcome, reasons, candidate_hash, base_hash, comparison)


OUTCOMES = {
    TimingVerdict.FASTER: Outcome.BETTER,
    TimingVerdict.SLOWER: Outcome.WORSE,
    TimingVerdict.SAME: Outcome.SAME,
    TimingVerdict.INCONCLUSIVE: Outcome.INCONCLUSIVE,
}


def judge_timed(base: Profile, candidate: Profile, timing: Timing) -> RoundVerdict:
    """The verdict of the paired timing. Counters are shown with it and decide nothing."""
    comparison = replace(compare_counters(base, candidate), basis="time", speedup=timing.speedup)
    wrong = tuple(
        f"{w.workload}: {caveat.message}"
        for w in timing.workloads
        for caveat in w.caveats
        if caveat.kind == WRONG_OUTPUT
    )
    outcome = Outcome.WRONG if wrong else OUTCOMES[timing.verdict]
    return RoundVerdict(
        outcome, (*wrong, *timing.reasons), timing.candidate, timing.base, comparison
    )


def _difference(before: tuple[int, int, int], after: tuple[int, int, int]) -> str:
    changes = [
        f"{name} {old:,} to {new:,} ({100 * (new - old) / old if old else 0:+.1f} %)"
        for name, old, new in zip(_KEY_NAMES, before, after, strict=True)
        if old != new
    ]
    return "; ".join(changes)


_Pair = tuple[WorkloadProfile, WorkloadProfile]


def _idle(base: Profile, candidate: Profile) -> tuple[_Pair, ...]:
    """The workloads, before and after, on which multiprocessors go idle that were busy: those of an
    H100, for which the emulator stands.
    """
    return tuple(
        (old, new)
        for old, new in zip(base.workloads, candidate.workloads, strict=True)
        if new.blocks < min(H100_MULTIPROCESSORS, old.blocks)
    )


def _describe_idle(old: WorkloadProfile, new: WorkloadProfile) -> str:
    return (
        f"{new.workload}: {new.blocks} blocks of {new.threads} threads instead of "
        f"{old.blocks} of {old.threads}; the emulator cannot say what that costs"
    )


def _low_occupancy(base: Profile, candidate: Profile) -> tuple[str, ...]:
    least = min((k.occupancy for k in base.kernels), default=1.0)
    return tuple(
        f"{kernel.kernel}: occupancy {kernel.occupancy:.0%} "
        f"({kernel.registers} registers, {kernel.shared_bytes} B of shared memory)"
        for kernel in candidate.kernels
        if kernel.occupancy < min(MIN_OCCUPANCY, least)
    )
