"""What the recorded sessions of a study say: one row a task, team and setting."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from astra_tui.model.check import CheckVerdict
from astra_tui.model.settings import EMULATOR
from astra_tui.model.state import CandidateState, SessionState
from astra_tui.model.verdict import Profile
from astra_tui.sessions.folder import source_path
from astra_tui.sessions.summary import BASELINE, final_timings

STUDY_COUNTERS = ("requests", "sectors", "warp_instructions")

_T_975 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""Student's t, 97.5 %, for 1 to 30 degrees of freedom; for more, the last is a little too wide."""


class SeedMean(msgspec.Struct, frozen=True):
    """A geometric mean over seeds with its 95 % interval, and each seed's value.

    Of a single seed there is no interval: `low` and `high` are None.
    """

    value: float
    low: float | None
    high: float | None
    values: tuple[float, ...]


class WorkloadMeans(msgspec.Struct, frozen=True):
    """One workload in all seeds of a row: as `counters` and `speedup` of the row."""

    workload: str
    counters: dict[str, SeedMean | None]
    speedup: SeedMean | None


class CodeLines(msgspec.Struct, frozen=True):
    """Lines that are not blank, means over seeds: of the baseline and of the best."""

    before: float
    after: float


class StudyRow(msgspec.Struct, frozen=True):
    """All seeds of one task, team and setting; figures are those of runs that have ended."""

    task: str
    team: str
    setting: str
    runs: int
    ended: int
    devices: tuple[str, ...]
    stopped: dict[str, int]
    correct: int
    """Those of the ended whose best passed its check."""
    lines: CodeLines | None
    counters: dict[str, SeedMean | None]
    speedup: SeedMean | None
    workloads: tuple[WorkloadMeans, ...]
    plans: int
    outcomes: dict[str, int]
    candidates: int
    wrong: int
    not_compiled: int

    def share(self, outcome: str) -> float:
        """Of its plans, those that ended so."""
        return self.outcomes.get(outcome, 0) / self.plans if self.plans else 0.0


def study_row(
    task: str, team: str, setting: str, runs: int, ended: Mapping[Path, SessionState]
) -> StudyRow:
    """The row of `runs` runs, of which these have ended, by the folders of their sessions."""
    states = tuple(ended.values())
    outcomes = Counter(
        p.verdict.outcome.value
        for state in states
        for round_ in state.rounds
        for p in round_.proposals
        if p.verdict is not None
    )
    written = [one for state in states for one in _written(state)]
    return StudyRow(
        task=task,
        team=team,
        setting=setting,
        runs=runs,
        ended=len(states),
        devices=tuple(sorted({state.device_name for state in states})),
        stopped=dict(Counter(s.closed.reason.value for s in states if s.closed is not None)),
        correct=sum(state.candidate(state.best).correct for state in states if state.opened),
        lines=_lines(ended),
        counters=_counters(states),
        speedup=over_seeds([_speedup(state) for state in states]),
        workloads=tuple(_by_workload(states)),
        plans=outcomes.total(),
        outcomes=dict(outcomes),
        candidates=len(written),
        wrong=sum(c.check is not None and c.check.verdict is CheckVerdict.FAILED for c in written),
        not_compiled=sum(c.compilation is not None and not c.compilation.ok for c in written),
    )


def _lines(ended: Mapping[Path, SessionState]) -> CodeLines | None:
    found = [
        (_length(folder, state.opened.baseline), _length(folder, state.best))
        for folder, state in ended.items()
        if state.opened is not None
    ]
    if not found:
        return None
    before, after = (sum(counts) / len(found) for counts in zip(*found, strict=True))
    return CodeLines(before, after)


def _length(folder: Path, candidate: str) -> int:
    text = source_path(folder, candidate).read_text(encoding="utf-8")
    return sum(bool(line.strip()) for line in text.splitlines())


def _written(state: SessionState) -> list[CandidateState]:
    """All sources that were written for plans, repairs included, each once."""
    written = (hash_ for r in state.rounds for p in r.proposals for hash_ in p.written)
    return [state.candidate(hash_) for hash_ in dict.fromkeys(written)]


def _counters(states: Sequence[SessionState], workload: str = "") -> dict[str, SeedMean | None]:
    """The best over the baseline, on a workload or on all of them."""
    return {
        name: over_seeds([_counted(state, name, workload) for state in states])
        for name in STUDY_COUNTERS
    }


def _counted(state: SessionState, counter: str, workload: str) -> float | None:
    """None where one was not counted, or counts nothing."""
    assert state.opened is not None
    before = state.candidate(state.opened.baseline).profile
    after = state.candidate(state.best).profile
    if before is None or after is None:
        return None
    old, new = (_total(profile, counter, workload) for profile in (before, after))
    return new / old if old and new else None


def _total(profile: Profile, counter: str, workload: str) -> int:
    chosen = tuple(w for w in profile.workloads if workload in ("", w.workload))
    return msgspec.structs.replace(profile, workloads=chosen).total(counter)


def _by_workload(states: Sequence[SessionState]) -> Iterator[WorkloadMeans]:
    profiles = (s.candidate(s.opened.baseline).profile for s in states if s.opened is not None)
    names = dict.fromkeys(w.workload for p in profiles if p is not None for w in p.workloads)
    for name in names:
        times = over_seeds([_speedup(state, name) for state in states])
        yield WorkloadMeans(name, _counters(states, name), times)


def _speedup(state: SessionState, workload: str = "") -> float | None:
    """Of the best over the baseline, measured again at the end; 1 where nothing was better.

    None where it was not timed, as on the emulator, or where a measurement decides nothing.
    """
    if state.device_name in ("", EMULATOR):
        return None
    if not state.has_better:
        assert state.opened is not None
        return 1.0 if state.candidate(state.opened.baseline).is_timed else None
    found = [t.timing for t in final_timings(state) if t.against == BASELINE]
    if not found or any(w.invalidated for w in found[0].workloads):
        return None
    if not workload:
        return found[0].speedup.value
    each = (w.cold.speedup.value for w in found[0].workloads if w.workload == workload)
    return next(each, None)


def over_seeds(ratios: Sequence[float | None]) -> SeedMean | None:
    """The geometric mean with its interval by Student's t over the logarithms; None unless all are
    known.
    """
    known = tuple(ratio for ratio in ratios if ratio is not None)
    count = len(known)
    if not known or count < len(ratios):
        return None
    logs = [math.log(ratio) for ratio in known]
    mean = math.fsum(logs) / count
    if count == 1:
        return SeedMean(known[0], None, None, known)
    variance = math.fsum((one - mean) ** 2 for one in logs) / (count - 1)
    half = _T_975[min(count - 1, len(_T_975)) - 1] * math.sqrt(variance / count)
    return SeedMean(math.exp(mean), math.exp(mean - half), math.exp(mean + half), known)


def over_tasks(means: Sequence[SeedMean | None]) -> SeedMean | None:
    """The same of several tasks: each seed's geometric mean over them, then over seeds. None unless
    all are known, with as many seeds.
    """
    known = [mean.values for mean in means if mean is not None]
    if not known or len(known) < len(means) or len(set(map(len, known))) > 1:
        return None
    return over_seeds([math.prod(seed) ** (1 / len(known)) for seed in zip(*known, strict=True)])
