"""From written code to verdict in recorded sessions, and what the time went into.

    python benchmarks/session_turnaround.py SESSION... [--workloads N]

Read from the monotonic times of the journal, of rounds that were decided by policy and timed on a
GPU. With N, the workloads of a task after the first N are taken out of the timing.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from astra_tui.model.events import (
    CheckFinished,
    CodeWritten,
    CompileFinished,
    TimingFinished,
    VerdictReached,
    WorkloadTimed,
)
from astra_tui.sessions.journal_lines import Record
from astra_tui.sessions.journal_reader import read_journal

STEPS = ("compile", "check", "time and profile", "all")


def main() -> None:
    """Prints medians in seconds, a line a session."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sessions", nargs="+", type=Path)
    parser.add_argument("--workloads", type=int, default=4)
    options = parser.parse_args()
    for folder in options.sessions:
        turns = turnarounds(list(read_journal(folder).records), options.workloads)
        medians = [f"{s} {statistics.median(t[s] for t in turns):.2f} s" for s in STEPS]
        print(f"{folder.name}: {len(turns)} candidates, medians: {', '.join(medians)}")


def turnarounds(records: list[Record], workloads: int) -> list[dict[str, float]]:
    """One entry a candidate that was timed in a round."""
    found: list[dict[str, float]] = []
    at: dict[type, float] = {}
    taken: list[float] = []
    for record in records:
        event = record.event
        if isinstance(event, CodeWritten):
            at, taken = {CodeWritten: record.mono}, []
        elif isinstance(event, WorkloadTimed):
            taken.append(record.mono)
        elif isinstance(event, TimingFinished) and event.final:
            at = {}
        elif isinstance(event, VerdictReached) and TimingFinished in at:
            found.append(_steps(at, taken, record.mono, workloads))
            at = {}
        if at:
            at.setdefault(type(event), record.mono)
    return found


def _steps(
    at: dict[type, float], taken: list[float], verdict: float, workloads: int
) -> dict[str, float]:
    last = min(workloads, len(taken)) - 1
    left_out = taken[-1] - taken[last]
    return {
        "compile": at[CompileFinished] - at[CodeWritten],
        "check": at[CheckFinished] - at[CompileFinished],
        "time and profile": verdict - at[CheckFinished] - left_out,
        "all": verdict - at[CodeWritten] - left_out,
    }


if __name__ == "__main__":
    main()
