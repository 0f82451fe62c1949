"""All candidates of a session in one table: what each was made from, its cost and its result.

It follows from the state alone, so that a replay, a resumed session and a branch have the same one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from astra_tui.model.state import CandidateState, ProposalState, RoundState, SessionState
from astra_tui.model.timing import mean_ratio
from astra_tui.model.verdict import Outcome

Cost = tuple[float, ...]
"""Less is better, the first part first: sectors, requests and warp instructions, as the emulator
counts them; or a time as a share of the baseline's.
"""


@dataclass(frozen=True)
class Member:
    """One candidate, where it was written first."""

    candidate: str
    round: int
    proposal: int
    parents: tuple[str, ...]
    """What it was made from: nothing for the baseline, two sources in a merge."""
    outcome: Outcome | None
    """Against the first of its parents; None for the baseline and what was not judged."""
    cost: Cost = ()
    """Over all workloads; empty unless it is correct and was measured on the session's device."""
    by_workload: Mapping[str, Cost] = field(default_factory=dict)

    @property
    def fit(self) -> bool:
        """Whether others can be built on it."""
        return bool(self.cost)


@dataclass(frozen=True)
class Archive:
    """The members by their hash, in the order in which they were written; the baseline first."""

    members: Mapping[str, Member]

    @property
    def fit(self) -> tuple[Member, ...]:
        """Those on which others can be built, the best first; of equal ones the older."""
        return tuple(sorted((m for m in self.members.values() if m.fit), key=lambda m: m.cost))

    def lineage(self, candidate: str) -> tuple[str, ...]:
        """A candidate and all that it was made from, back to the baseline; the youngest first."""
        found, open_ = {candidate}, [candidate]
        while open_:
            member = self.members.get(open_.pop())
            new = [p for p in member.parents if p not in found] if member else []
            found.update(new)
            open_ += new
        order = {hash_: number for number, hash_ in enumerate(self.members)}
        return tuple(sorted(found, key=lambda hash_: order.get(hash_, -1), reverse=True))

    def common_ancestor(self, one: str, other: str) -> str:
        """The youngest source from which both were made; "" where there is none."""
        others = set(self.lineage(other))
        return next((hash_ for hash_ in self.lineage(one) if hash_ in others), "")


def archive_of(state: SessionState) -> Archive:
    """The archive of a session as it stands. Copies are no members: their originals are."""
    if state.opened is None:
        return Archive({})
    baseline = state.opened.baseline
    members = {baseline: Member(baseline, 0, 0, (), None, *_costs(state.candidate(baseline), {}))}
    for round_ in state.rounds:
        for proposal in round_.proposals:
            for candidate in proposal.written:
                known = state.candidate(candidate)
                if candidate not in members and not known.copy_of:
                    members[candidate] = Member(
                        candidate, round_.number, proposal.index, _parents(round_, proposal),
                        _outcome(proposal, candidate), *_costs(known, members),
                    )  # fmt: skip
    return Archive(members)


def _parents(round_: RoundState, proposal: ProposalState) -> tuple[str, ...]:
    return (round_.base, round_.other) if round_.other and proposal.merges else (round_.base,)


def _outcome(proposal: ProposalState, candidate: str) -> Outcome | None:
    verdict = proposal.verdict
    return verdict.outcome if verdict is not None and verdict.candidate == candidate else None


def _costs(known: CandidateState, members: Mapping[str, Member]) -> tuple[Cost, Mapping[str, Cost]]:
    """Over all workloads, and by workload."""
    if not known.correct or known.profile is None:
        return (), {}
    if not known.is_timed:
        counted = {w.workload: w.counters.ranking_key() for w in known.profile.workloads}
        return known.profile.ranking_key(), counted
    times = _relative_times(known, members)
    if not times:
        return (), {}
    weights = {w.workload: w.weight for f in known.timings for w in f.timing.workloads}
    mean = mean_ratio(list(times.values()), [weights.get(name, 1.0) for name in times])
    return (mean,), {workload: (time,) for workload, time in times.items()}


def _relative_times(known: CandidateState, members: Mapping[str, Member]) -> dict[str, float]:
    """By workload, as shares of the baseline's times: over the last timing against a member."""
    if not members:
        return {w.workload: 1.0 for w in known.profile.workloads} if known.profile else {}
    for finished in reversed(known.timings):
        base = members.get(finished.timing.base)
        workloads = finished.timing.workloads
        if (
            base is not None
            and workloads
            and base.by_workload.keys() >= {w.workload for w in workloads}
        ):
            return {
                w.workload: base.by_workload[w.workload][0] / w.cold.speedup.value
                for w in workloads
            }
    return {}
