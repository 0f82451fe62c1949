"""A/A: tuned.cu against itself under other kernel names, compiled again, in other buffers.

    python benchmarks/gpu_control.py [--out FILE] [--trials N] [--seconds S]

A trial is one workload; all workloads of the three tasks take turns until there are N trials or
S seconds have passed. No trial may come out FASTER or SLOWER. As in a session, the processes in
which candidates were checked hold the GPU meanwhile, and do nothing.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from astra_tui.lab.on_gpu.measuring import Options
from astra_tui.model.timing import Timing, TimingVerdict
from benchmarks import gpu

IDLE = 3
"""A candidate's process, the baseline's, and the one that waits for the next candidate."""

DECIDED = (TimingVerdict.FASTER, TimingVerdict.SLOWER)


def main() -> None:
    """Runs the trials and prints what they say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("control.json"))
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=400.0)
    options = parser.parse_args()
    trials: list[dict[str, Any]] = []
    ends = time.monotonic() + options.seconds
    with gpu.open_machine() as machine, gpu.idle_processes(machine, IDLE):
        environment = {**gpu.environment(machine), "idle_processes": IDLE}
        while len(trials) < options.trials and time.monotonic() < ends:
            for name in gpu.TASKS:
                trials += trials_of(machine, name)
            gpu.save(options.out, {"environment": environment, **summary(trials), "trials": trials})
    print(dict(summary(trials).items()))


def trials_of(machine: gpu.Machine, name: str) -> list[dict[str, Any]]:
    """One trial a workload of a task."""
    task = gpu.task_named(name)
    file = task.tuned_file
    text = file.read_text(encoding="utf-8")
    first = machine.compiled(task, text, str(file))
    second = machine.compiled(task, renamed(text), f"{file} (renamed)")
    assert first.compilation.cubin != second.compilation.cubin
    found = []
    with machine.bench(task, Options(warm=False, own_buffers=True)) as bench:
        for event in bench.time(task.workloads, first, [second]):
            if isinstance(event, Timing):
                found = [_trial(name, w) for w in event.workloads]
    return found


def renamed(text: str) -> str:
    """The source with every kernel under another name, in the code and in the launch plan."""
    names = set(re.findall(r"__global__\s+void\s+(?:__launch_bounds__\([^)]*\)\s*)?(\w+)", text))
    for name in sorted(names, key=len, reverse=True):
        text = re.sub(rf"\b{name}\b", f"{name}_again", text)
    return text


def _trial(task: str, w: Any) -> dict[str, Any]:
    speedup = w.cold.speedup
    return {
        "task": task,
        "workload": w.workload,
        "verdict": w.verdict.value,
        "ratio": speedup.value,
        "low": speedup.low,
        "high": speedup.high,
        "half_width": speedup.half_width,
        "threshold": w.threshold,
        "rounds": speedup.rounds,
        "us": w.cold.base_us,
        "seconds": w.seconds,
        "doubts": [d.message for d in w.caveats],
    }


def summary(trials: list[dict[str, Any]]) -> dict[str, Any]:
    """What the trials amount to."""
    verdicts = [t["verdict"] for t in trials]
    return {
        "count": len(trials),
        "decided": sum(v in [d.value for d in DECIDED] for v in verdicts),
        "verdicts": {v: verdicts.count(v) for v in sorted(set(verdicts))},
        "largest_difference": max(abs(t["ratio"] - 1) for t in trials),
        "largest_half_width": max(t["half_width"] for t in trials),
        "median_seconds": statistics.median(t["seconds"] for t in trials),
    }


if __name__ == "__main__":
    main()
