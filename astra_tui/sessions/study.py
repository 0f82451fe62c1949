"""What the recorded sessions of a study say: one row a task, team and setting."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

import msgspec

from astra_tui.model.check import CheckVerdict
from astra_tui.model.events import CodeWritten
from astra_tui.model.settings import EMULATOR
from astra_tui.model.state import CandidateState, SessionState
from astra_tui.model.timing import Ratio
from astra_tui.sessions.summary import BASELINE, final_timings

STUDY_COUNTERS = ("requests", "sectors", "warp_instructions")

_T_975 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""Student's t, 97.5 %, for 1 to 30 degrees of freedom; for more, the last is a little too wide."""


class StudyRow(msgspec.Struct, frozen=True):
    """All seeds of one task, team and setting; figures are those of runs that have ended."""

    task: str
    team: str
    setting: str
    runs: int
    ended: int
    devices: tuple[str, ...]
    stopped: dict[str, int]
    counters: dict[str, float | None]
    speedup: Ratio | None
    plans: int
    outcomes: dict[str, int]
    candidates: int
    wrong: int
    not_compiled: int

    def share(self, outcome: str) -> float:
        """Of its plans, those that ended so."""
        return self.outcomes.get(outcome, 0) / self.plans if self.plans else 0.0


def study_row(
    task: str, team: str, setting: str, runs: int, ended: Sequence[SessionState]
) -> StudyRow:
    """The row of `runs` runs, of which these have ended."""
    outcomes = Counter(
        p.verdict.outcome.value
        for state in ended
        for round_ in state.rounds
        for p in round_.proposals
        if p.verdict is not None
    )
    written = [one for state in ended for one in _written(state)]
    return StudyRow(
        task=task,
        team=team,
        setting=setting,
        runs=runs,
        ended=len(ended),
        devices=tuple(sorted({state.device_name for state in ended})),
        stopped=dict(Counter(s.closed.reason.value for s in ended if s.closed is not None)),
        counters={name: _mean(ended, _counted(name)) for name in STUDY_COUNTERS},
        speedup=_over_seeds([_speedup(state) for state in ended]),
        plans=outcomes.total(),
        outcomes=dict(outcomes),
        candidates=len(written),
        wrong=sum(map(_is_wrong, written)),
        not_compiled=sum(c.compilation is not None and not c.compilation.ok for c in written),
    )


def _written(state: SessionState) -> list[CandidateState]:
    """All sources that were written for plans, repairs included, each once."""
    attempts = (a for r in state.rounds for p in r.proposals for a in p.attempts)
    hashes = {a.candidate: None for a in attempts if isinstance(a, CodeWritten)}
    return [state.candidate(hash_) for hash_ in hashes]


def _is_wrong(candidate: CandidateState) -> bool:
    return candidate.check is not None and candidate.check.verdict is CheckVerdict.FAILED


def _counted(counter: str) -> Callable[[SessionState], float | None]:
    """Of the best over the baseline; None where one was not counted, or counts nothing."""

    def ratio(state: SessionState) -> float | None:
        assert state.opened is not None
        before = state.candidate(state.opened.baseline).profile
        after = state.candidate(state.best).profile
        if before is None or after is None:
            return None
        old, new = before.total(counter), after.total(counter)
        return new / old if old and new else None

    return ratio


def _speedup(state: SessionState) -> float | None:
    """Of the best over the baseline, measured again at the end; 1 where nothing was better.

    None where it was not timed, as on the emulator, or where a measurement decides nothing.
    """
    if state.device_name in ("", EMULATOR):
        return None
    if not state.has_better:
        assert state.opened is not None
        return 1.0 if state.candidate(state.opened.baseline).is_timed else None
    found = [t.timing for t in final_timings(state) if t.beside == BASELINE]
    if not found or any(w.invalidated for w in found[0].workloads):
        return None
    return found[0].speedup.value


def _mean(
    ended: Sequence[SessionState], ratio: Callable[[SessionState], float | None]
) -> float | None:
    found = _over_seeds([ratio(state) for state in ended])
    return found.value if found is not None else None


def _over_seeds(ratios: Sequence[float | None]) -> Ratio | None:
    """The geometric mean with its interval by Student's t over the logarithms; None unless all are
    known. Of a single one, the interval has no end.
    """
    logs = [math.log(ratio) for ratio in ratios if ratio is not None]
    count = len(logs)
    if not logs or count < len(ratios):
        return None
    mean = math.fsum(logs) / count
    if count == 1:
        return Ratio(math.exp(mean), 0.0, math.inf, 1)
    variance = math.fsum((one - mean) ** 2 for one in logs) / (count - 1)
    half = _T_975[min(count - 1, len(_T_975)) - 1] * math.sqrt(variance / count)
    return Ratio(math.exp(mean), math.exp(mean - half), math.exp(mean + half), count)
