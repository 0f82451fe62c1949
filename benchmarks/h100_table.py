"""The tables of the README's H100 section, from what is committed.

    python benchmarks/h100_table.py

One table a recorded playbook session: cold microseconds a launch of baseline.cu, of the best
candidate and, where both were timed in that session, of tuned.cu.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from astra_tui.model.state import SessionState
from astra_tui.model.timing import Timing
from astra_tui.sessions.reading import read_journal

SESSIONS = Path(__file__).parent.parent / "sessions"
NAMES = ("h100-playbook-silu", "h100-playbook-rmsnorm", "h100-playbook-merge")


def main() -> None:
    """Prints Markdown."""
    for name in NAMES:
        print("\n".join(table(read_journal(SESSIONS / name).state())), end="\n\n")


def table(state: SessionState) -> list[str]:
    """The rows of one session."""
    assert state.opened is not None
    name = state.opened.settings.task
    baseline, tuned = _timings(state)
    of_round = state.candidate(state.best).timings[0].timing
    lines = [
        f"| {name} | baseline.cu | best | tuned.cu | tuned / best |",
        "| --- | --- | --- | --- | --- |",
    ]
    for w in (baseline or of_round).workloads:
        first = f"{w.cold.base_us:.2f}" if baseline else _first(state, w.workload)
        row = [w.workload, first, f"{w.cold.candidate_us:.2f}", "not timed", ""]
        if tuned:
            beside = next(p for p in tuned.workloads if p.workload == w.workload)
            speedup = beside.cold.speedup
            row[3] = f"{beside.cold.base_us:.2f}"
            row[4] = f"{speedup.value:.3f} ({speedup.low:.3f} to {speedup.high:.3f})"
        lines.append(f"| {' | '.join(row)} |")
    if tuned:
        mean = tuned.speedup
        lines.append(f"| mean | | | | {mean.value:.3f} ({mean.low:.3f} to {mean.high:.3f}) |")
    return lines


def _timings(state: SessionState) -> tuple[Timing | None, Timing | None]:
    """The best against the baseline and against tuned.cu, where they were measured again."""
    assert state.opened is not None
    finals = {t.timing.base: t.timing for t in state.candidate(state.best).timings if t.final}
    baseline = finals.pop(state.opened.baseline, None)
    return baseline, next(iter(finals.values()), None)


def _first(state: SessionState, workload: str) -> str:
    """The baseline's time in round 0."""
    assert state.opened is not None
    timing = state.candidate(state.opened.baseline).timings[0].timing
    return next(f"{w.cold.base_us:.2f}" for w in timing.workloads if w.workload == workload)


if __name__ == "__main__":
    main()
