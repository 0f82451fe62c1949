"""What the next round stands on: the best candidate, or another one of the archive.

Nothing here is random: draws follow from the session's seed and the number of the round, so that a
session that was killed before it wrote a choice down makes the same one again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from astra_tui.lab.tuning.portfolio import portfolio
from astra_tui.model.archive import Archive, Cost, Member, archive_of
from astra_tui.model.digest import content_hash
from astra_tui.model.events import ParentChoice
from astra_tui.model.launch.expression import Expression
from astra_tui.model.settings import SearchKind
from astra_tui.model.state import RoundState, SessionState
from astra_tui.model.task import KernelTask
from astra_tui.model.verdict import Outcome
from astra_tui.model.verdict_thresholds import MIN_DIFFERENCE

PATIENCE = 2
"""Rounds in a row without gain after which a line of rounds is left."""
FEW_LINES = 4
"""Lines of difference from any better candidate that make half of a candidate's novelty."""
_DIGITS = 13


@dataclass(frozen=True)
class Parents:
    """What a round stands on, and why."""

    base: str
    why: ParentChoice
    other: str = ""
    """A winner of another branch that the round merges with the base."""
    among: int = 0
    """Of how many candidates the base was drawn."""


def choose_parents(
    state: SessionState, search: SearchKind, text_of: Callable[[str], str]
) -> Parents | None:
    """What the next round stands on; None where the team has no plan left for any candidate."""
    if state.next_parent in fit_candidates(state):
        return Parents(state.next_parent, ParentChoice.CHOSEN)
    if search is SearchKind.GREEDY:
        return Parents(state.best, ParentChoice.BEST)
    is_restarts = search is SearchKind.RESTARTS
    if len(state.rounds) == 1:  # The baseline may not have passed its check yet.
        return Parents(state.best, ParentChoice.LINE if is_restarts else ParentChoice.DRAWN)
    archive, without_plan = archive_of(state), exhausted(state)
    open_ = [m for m in archive.fit if m.candidate not in without_plan]
    if is_restarts:
        tip, stale = _line(state)
        is_open = any(m.candidate == tip for m in open_)
        if is_open and stale < PATIENCE:
            return Parents(tip, ParentChoice.LINE)
        others = [m for m in open_ if m.candidate != tip]
        if merge := _merge(state, archive):
            return merge
        if not others:
            return Parents(tip, ParentChoice.LINE) if is_open else None
        return Parents(draw(state, others, text_of), ParentChoice.RESTART, among=len(others))
    if merge := _merge(state, archive):
        return merge
    if not open_:
        return None
    return Parents(draw(state, open_, text_of), ParentChoice.DRAWN, among=len(open_))


def fit_candidates(state: SessionState) -> frozenset[str]:
    """The candidates on which a round can stand."""
    return frozenset(m.candidate for m in archive_of(state).fit)


def exhausted(state: SessionState) -> frozenset[str]:
    """The candidates for which the team had no plan left."""
    return frozenset(r.base for r in state.rounds if r.barren and not r.other)


def draw(state: SessionState, members: Sequence[Member], text_of: Callable[[str], str]) -> str:
    """One of some members, the best first, with the chances that `weights` gives them."""
    chances = weights(state, members, text_of)
    number = int(content_hash(f"parent {state.seed} {len(state.rounds)}")[:_DIGITS], 16)
    left = number / 16**_DIGITS * sum(chances)
    for member, chance in zip(members, chances, strict=True):
        left -= chance
        if left < 0:
            return member.candidate
    return members[-1].candidate


def weights(
    state: SessionState, members: Sequence[Member], text_of: Callable[[str], str]
) -> list[float]:
    """How likely each member is to be a parent, up to a factor.

    Half as likely as one that costs less, and the less so the fewer lines of it differ from one of
    those; and less with every round that stood on it and brought nothing better.
    """
    costs = sorted({m.cost for m in members})
    lines = [Counter(map(str.strip, text_of(m.candidate).splitlines())) for m in members]
    tried = (r for r in state.rounds if r.closed and not r.lost and not r.unusable)
    failed = Counter(r.base for r in tried if not r.winner)
    found = []
    for number, member in enumerate(members):
        own = lines[number]
        differing = (max((own - o).total(), (o - own).total()) for o in lines[:number])
        novelty = min(((d + 1) / (d + 1 + FEW_LINES) for d in differing), default=1.0)
        found.append(0.5 ** costs.index(member.cost) * novelty / (1 + failed[member.candidate]))
    return found


def _line(state: SessionState) -> tuple[str, int]:
    """The candidate on which the current line of rounds stands, and how many rounds in a row have
    brought it nothing.
    """
    begins = (ParentChoice.RESTART, ParentChoice.CHOSEN)
    starts = [n for n, r in enumerate(state.rounds) if r.why in begins]
    rounds = state.rounds[starts[-1] :] if starts else state.rounds[1:]
    tip, stale = (rounds[0].base if starts else state.best), 0
    for round_ in _done(rounds):
        stale = 0 if round_.winner else stale + 1
        tip = round_.winner if starts and round_.winner else tip
    return tip, stale


def _done(rounds: Sequence[RoundState]) -> Iterator[RoundState]:
    idle = (r.barren or r.lost or r.unusable for r in rounds)
    return (r for r, nothing in zip(rounds, idle, strict=True) if r.closed and not nothing)


def _merge(state: SessionState, archive: Archive) -> Parents | None:
    """A round that merges the best with a winner of another branch; each winner once, and never
    two such rounds in a row.
    """
    last = state.rounds[-1]
    best = archive.members.get(state.best)
    if last.other or best is None or not best.fit:
        return None
    merged = {r.other for r in state.rounds}
    lineage = set(archive.lineage(state.best))
    for member in archive.fit:
        hash_ = member.candidate
        is_apart = hash_ not in lineage and state.best not in archive.lineage(hash_)
        if member.outcome is Outcome.BETTER and is_apart and hash_ not in merged:
            return Parents(state.best, ParentChoice.MERGE, hash_)
    return None


@dataclass(frozen=True)
class _Gain:
    """A ratio without an interval: counts are exact, and times were taken in other pairs."""

    speedup: float
    valid: bool = True

    @property
    def low(self) -> float:
        return self.speedup

    @property
    def high(self) -> float:
        return self.speedup


def gains_of(
    task: KernelTask, archive: Archive, base: str, other: str
) -> tuple[tuple[str, ...], Expression | None]:
    """Where another candidate is better than a base, a workload each, and a condition on sizes that
    tells these workloads from those where it is worse; None where none does, or is needed.
    """
    old, new = (archive.members[hash_].by_workload for hash_ in (base, other))
    gains = {w: _Gain(_ratio(old[w], new[w])) for w in old.keys() & new.keys()}
    sizes = {w.name: w.dims for w in task.workloads if w.name in gains}
    found = portfolio(0, sizes, {0: dict.fromkeys(gains, _Gain(1.0)), 1: gains})
    words = tuple(
        f"{w}: {100 * (1 - 1 / gains[w].speedup):.1f} % less"
        for w in sizes
        if gains[w].speedup > 1 + MIN_DIFFERENCE
    )
    is_worse = any(g.speedup < 1 - MIN_DIFFERENCE for g in gains.values())
    return words, found.parts[0].condition if found.parts and is_worse else None


def _ratio(old: Cost, new: Cost) -> float:
    """Old over new, of the first part in which they differ."""
    return next((a / b for a, b in zip(old, new, strict=True) if a != b and b), 1.0)
