"""Every step of the playbook's path for a GPU against tuned.cu, on every workload.

    python benchmarks/gpu_moves.py [--out FILE] [--task NAME ...] [--rounds N]

The path takes each move once, in the playbook's order, whatever it gains: the figures show what a
move is worth, and which step a run would refuse because a workload gets slower by it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from astra_tui.lab.on_gpu.measuring import Options
from astra_tui.model.task import KernelTask
from astra_tui.model.timing import Timing
from astra_tui.playbook import Evidence, propose_all
from benchmarks import gpu

DEVICE = "cuda:0"


def main() -> None:
    """Times the tasks that were asked for and prints a table each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("moves.json"))
    parser.add_argument("--task", action="append", default=[])
    parser.add_argument("--rounds", type=int, default=40, help="rounds of pairs a workload")
    options = parser.parse_args()
    with gpu.open_machine(DEVICE) as machine:
        result: dict[str, Any] = {"environment": gpu.environment(machine), "tasks": {}}
        for name in options.task or gpu.TASKS:
            result["tasks"][name] = _task(machine, name, options.rounds)
            gpu.save(options.out, result)


def path(task: KernelTask) -> list[tuple[str, str]]:
    """The moves in the playbook's order, each once, and the source after each."""
    source = task.baseline_file.read_text(encoding="utf-8")
    steps = [("baseline", source)]
    while True:
        taken = {move for move, _ in steps}
        offered, _ = propose_all(source, Evidence(task, device=DEVICE))
        new = next((p for p in offered if p.plan.move not in taken), None)
        if new is None:
            return steps
        source = new.source
        steps.append((new.plan.move, source))


def _task(machine: gpu.Machine, name: str, rounds: int) -> dict[str, Any]:
    task = gpu.task_named(name)
    steps = path(task)
    tuned = task.tuned_file
    base = machine.compiled(task, tuned.read_text(encoding="utf-8"), str(tuned))
    candidates = [machine.compiled(task, text, move) for move, text in steps]
    with machine.bench(task, Options(warm=False, round_limit=rounds)) as bench:
        events = bench.time(task.workloads, base, candidates)
        timings = [e for e in events if isinstance(e, Timing)]
    times = {move: _times(t) for (move, _), t in zip(steps, timings, strict=True)}
    against = [w.cold.base_us for w in timings[0].workloads]
    _print(name, times, against)
    names = [w.workload for w in timings[0].workloads]
    return {"workloads": names, "tuned_us": against, "cold_us": times}


def _times(timing: Timing) -> list[float]:
    return [w.cold.candidate_us for w in timing.workloads]


def _print(name: str, times: dict[str, list[float]], against: list[float]) -> None:
    print(f"{name}: cold us, and tuned.cu's over it")
    print(f"  {'tuned.cu':18}" + "".join(f"{us:9.2f}       " for us in against))
    for move, found in times.items():
        cells = (f"{us:9.2f} {b / us:5.2f}x" for us, b in zip(found, against, strict=True))
        print(f"  {move:18}" + "".join(cells))


if __name__ == "__main__":
    main()
