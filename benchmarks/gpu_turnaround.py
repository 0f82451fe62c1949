"""How long it takes from source text to verdict, warm, and what it is spent on.

    python benchmarks/gpu_turnaround.py [--out FILE] [--task NAME]... [--repeats N] [--workloads N]

The engine's own steps on new text every time, so that no cache of compiled code helps: compile,
check (the whole suite), paired timing against baseline.cu with the emulator's counters meanwhile.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from astra_tui.engine.lab import Lab
from astra_tui.lab.devices import choose_device
from astra_tui.lab.requests import NamedSource
from astra_tui.model.check import CheckReport
from astra_tui.model.timing import Timing
from benchmarks import gpu

STEPS = ("compile", "check", "time", "profile", "time_and_profile", "all")


def main() -> None:
    """Prints the medians of all steps, in seconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("turnaround.json"))
    parser.add_argument("--task", action="append", choices=gpu.TASKS, help="by default all")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--workloads", type=int, default=4, help="the first so many of the task")
    options = parser.parse_args()
    with gpu.open_machine() as machine:
        environment = gpu.environment(machine)
    found = {}
    for task in options.task or gpu.TASKS:
        runs = asyncio.run(_runs(task, options.repeats, options.workloads))
        # The first starts processes, imports torch and measures floors.
        medians = {step: statistics.median(run[step] for run in runs[1:]) for step in STEPS}
        found[task] = {"warm_medians_s": medians, "first": runs[0], "runs": runs[1:]}
        print(task, {step: round(seconds, 2) for step, seconds in medians.items()})
        print("first", {step: round(seconds, 2) for step, seconds in runs[0].items()})
    result = {"environment": environment, "workloads": options.workloads, "tasks": found}
    gpu.save(options.out, result)


async def _runs(name: str, repeats: int, count: int) -> list[dict[str, float]]:
    task = gpu.task_named(name)
    text = task.tuned_file.read_text(encoding="utf-8")
    base = NamedSource(task.baseline_file.read_text(encoding="utf-8"), str(task.baseline_file))
    named = tuple(w.name for w in task.workloads[:count])
    device = await asyncio.to_thread(choose_device, "cuda")
    lab = Lab(task, device.name)
    try:
        return [
            await _run(lab, base, f"{text}\n// {run} {time.time_ns()}\n", named)
            for run in range(repeats + 1)
        ]
    finally:
        lab.close()


async def _run(lab: Lab, base: NamedSource, text: str, named: tuple[str, ...]) -> dict[str, float]:
    took: dict[str, float] = {}
    began = time.perf_counter()
    await _clocked(took, "compile", lab.open(NamedSource(text, "new.cu")).compile())
    await _clocked(took, "check", _check(lab, text))
    both = time.perf_counter()
    await asyncio.gather(
        _clocked(took, "time", _time(lab, base, NamedSource(text, "new.cu"), named)),
        _clocked(took, "profile", lab.open(NamedSource(text, "new.cu")).profile()),
    )
    ends = time.perf_counter()
    return {**took, "time_and_profile": ends - both, "all": ends - began}


async def _clocked(took: dict[str, float], step: str, work: Coroutine[Any, Any, Any]) -> None:
    began = time.perf_counter()
    await work
    took[step] = time.perf_counter() - began


async def _check(lab: Lab, text: str) -> None:
    async for event in lab.open(NamedSource(text, "new.cu")).check():
        if isinstance(event, CheckReport):
            assert event.verdict.value == "passed", event.message


async def _time(
    lab: Lab, base: NamedSource, candidate: NamedSource, named: tuple[str, ...]
) -> None:
    async for step in lab.open(candidate).time(base, workloads=named):
        if isinstance(step, Timing):
            assert len(step.workloads) == len(named)


if __name__ == "__main__":
    main()
