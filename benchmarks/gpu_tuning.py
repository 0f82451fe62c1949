"""A full sweep of three tuned kernels against the model-ordered search, on one GPU.

    python benchmarks/gpu_tuning.py [--out FILE] [--task NAME]... [--seconds N] [--all-workloads]
    python benchmarks/gpu_tuning.py --table [--out FILE]     # what was measured, without a GPU

For each task, tuned.cu with dependent launch is swept over block, bytes of a pack, unrolling and
the place of its trigger (`astra_tui/playbook/space.py`). Every trial is timed (20 rounds, launches
after themselves, caches cold, outputs verified), then the search takes a tenth of them with times
of its own, and what both chose is timed again in one fresh process. `--seconds` bounds the full
sweep of a task (110 by default): the three tasks take 6 to 8 minutes on an H100 with 16 cores.
Every first time is written down, so that `--table` can replay other searches on the same data.
Without a GPU, or where a task fails, the reason is in the file.
"""

from __future__ import annotations

import argparse
import asyncio
import heapq
import json
import math
import random
import statistics
import sys
import time
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

sys.path.insert(0, str(Path(__file__).parent.parent))

from astra_tui.lab.check.execution import read_source
from astra_tui.lab.compiler import Compiler
from astra_tui.lab.on_gpu.bench import Bench
from astra_tui.lab.on_gpu.workload import Compiled
from astra_tui.lab.requests import TrialTimings
from astra_tui.lab.tuning.search import (
    SHARE,
    Batch,
    Candidates,
    Place,
    Search,
    Searched,
    places,
    search,
)
from astra_tui.lab.tuning.sweep import (
    FINAL,
    SCREENING,
    RecordedTimes,
    Times,
    TrialTime,
    finalists,
    time_batch,
    time_trials,
    trial_time,
)
from astra_tui.lab.tuning.trials import TRIAL, candidates_of, compile_trials
from astra_tui.model.task import KernelTask, Workload
from astra_tui.playbook import Evidence, KernelText, NotApplicable, propose
from astra_tui.playbook.moves.overlap_launches import OverlapLaunches
from astra_tui.playbook.space import Space, space_of
from benchmarks import gpu

DEVICE = "cuda:0"
BATCH = 8
WORKLOADS = {
    "silu_and_mul": ("16x4096", "16x12288", "256x11008", "4096x14336"),
    "fused_add_rmsnorm": ("256x4096", "128x11008", "512x14336", "4096x8192"),
    "merge_attn_states_lse": ("512x40x128", "512x32x256", "768x40x128", "4096x32x128"),
}
"""Short and long, few rows and many: what a full sweep has time for."""


def main() -> None:
    """Times the tasks that were asked for, or prints tables of what is written down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("gpu_tuning.json"))
    parser.add_argument("--task", choices=gpu.TASKS, action="append", help="default: all three")
    parser.add_argument("--seconds", type=float, default=110.0, help="of a task's full sweep")
    parser.add_argument("--all-workloads", action="store_true")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if options.table:
        found = json.loads(options.out.read_text(encoding="utf-8"))
        for name, task in found["tasks"].items():
            print("\n".join(table(name, task)))
        return
    with gpu.open_machine(DEVICE) as machine:
        result: dict[str, Any] = {"environment": gpu.environment(machine), "tasks": {}}
        for name in options.task or gpu.TASKS:
            begun = time.monotonic()
            try:
                found = _task(machine, name, options.seconds, every=options.all_workloads)
            except Exception:  # What the other tasks give is still wanted.
                found = {"failed": traceback.format_exc()}
            result["tasks"][name] = {**found, "seconds": round(time.monotonic() - begun, 1)}
            gpu.save(options.out, result)
            print("\n".join(table(name, result["tasks"][name])), flush=True)


def swept_space(task: KernelTask, arch: str = "sm_90a") -> Space:
    """The space of a task's tuned kernel with dependent launch."""
    evidence = Evidence(task, device=DEVICE, arch=arch)
    text = KernelText.read(task.tuned_file.read_text(encoding="utf-8"))
    overlapped = propose(OverlapLaunches(), text, evidence)
    if isinstance(overlapped, NotApplicable):
        raise SystemExit(f"{task.name}: {overlapped.reason}")
    return space_of(overlapped.source, evidence)


def _task(machine: gpu.Machine, name: str, seconds: float, *, every: bool) -> dict[str, Any]:
    task = gpu.task_named(name)
    named = None if every else WORKLOADS[name]
    workloads = {w.name: w for w in task.workloads if named is None or w.name in named}
    facts = machine.gpu.facts
    space = swept_space(task, facts.arch)
    begun = time.monotonic()
    sources = space.sources()
    settings, texts = [s for s, _ in sources], [text for _, text in sources]
    trials = list(compile_trials(task, facts.attributes, texts, lambda: Compiler(arch=facts.arch)))
    compiled_in = time.monotonic() - begun
    compiled = [
        Compiled(read_source(task, text, TRIAL), t.compilation) if t.compilation else None
        for text, t in zip(texts, trials, strict=True)
    ]
    assert compiled[0] is not None, trials[0].problem
    with machine.bench(task, SCREENING) as bench:
        own = BenchTimes(bench, workloads, compiled)
        itself = own.measured(list(workloads.values()), [0]).timings[0].workloads
        floors = {t.workload: t.floor for t in itself if t.floor is not None}
        candidates = candidates_of(trials, floors, facts.attributes["sm_count"])
        where = places([d.choices for d in space.dimensions], [list(s.values()) for s in settings])
        full = _measured_all(BenchTimes(bench, workloads, compiled), candidates, seconds)
        bench.renew()
        begun = time.monotonic()
        searched = search(candidates, where, own)
        searched_in = time.monotonic() - begun
        bench.renew()
        bench.options = FINAL
        by_full = _as_searched(candidates, full)
        chosen = tuple(dict.fromkeys((0, *finalists(searched), *finalists(by_full))))
        retimed = _retimed(own, chosen)
    return {
        "dimensions": msgspec.to_builtins(space.dimensions),
        "settings": [dict(s) for s in settings],
        "problems": {str(i): t.problem for i, t in enumerate(trials) if t.problem},
        "floors": msgspec.to_builtins(floors),
        "predicted_us": {
            c.workload: {str(t): us for t, us in c.predicted_us.items()} for c in candidates
        },
        "base_us": {
            w: min(t.us * t.speedup for t in found.values() if t.valid)
            for w, found in full.times.found.items()
        },
        "times": {w: msgspec.to_builtins(list(t.values())) for w, t in full.times.found.items()},
        "search_times": {
            w: msgspec.to_builtins(list(t.values())) for w, t in own.times.found.items()
        },
        "chosen": {s.workload: s.best for s in searched},
        "best_of_full": {s.workload: s.best for s in by_full},
        "retimed": retimed,
        "seconds_compiling": round(compiled_in, 1),
        "seconds_searching": round(searched_in, 1),
    }


@dataclass
class BenchTimes:
    """Times of trials by one bench (`lab/tuning/search.py`'s Times)."""

    bench: Bench
    workloads: Mapping[str, Workload]
    compiled: Sequence[Compiled | None]
    times: Times = field(default_factory=Times)

    def of(self, workload: str, trials: Sequence[int]) -> Mapping[int, float | None]:
        """Measures some trials together, and keeps their times."""
        named = self.workloads[workload]
        return self.times.keep(workload, asyncio.run(time_batch(self._measure, named, 0, trials)))

    def measured(self, workloads: Sequence[Workload], trials: Sequence[int]) -> TrialTimings:
        """Trials against the first, by the bench's options."""
        found = [self.compiled[trial] for trial in (0, *trials)]
        base, *others = (one for one in found if one is not None)
        return time_trials(self.bench, workloads, base, others)

    async def _measure(
        self, workloads: Sequence[Workload], base: int, trials: Sequence[int], *, final: bool
    ) -> TrialTimings:
        assert not base, "all are timed against the first"
        assert not final, "these are first times"
        return self.measured(workloads, trials)


def _measured_all(
    times: BenchTimes, candidates: Sequence[Candidates], seconds: float
) -> BenchTimes:
    """Every trial of every workload, or as many as the time allows, drawn at random: the model
    must not choose what it is compared with.
    """
    draw = random.Random(0)
    orders = {
        c.workload: draw.sample(list(c.predicted_us), len(c.predicted_us)) for c in candidates
    }
    until = time.monotonic() + seconds
    while any(orders.values()) and time.monotonic() < until:
        for workload, left in orders.items():
            batch, orders[workload] = left[:BATCH], left[BATCH:]
            if batch:
                times.of(workload, batch)
    return times


def _rows(times: Times) -> dict[str, Any]:
    return {w: msgspec.to_builtins(list(found.values())) for w, found in times.found.items()}


def _as_searched(candidates: Iterable[Candidates], full: BenchTimes) -> tuple[Searched, ...]:
    found = []
    for one in candidates:
        times = full.times.found.get(one.workload, {})
        us = {t: x.us for t, x in times.items() if x.valid}
        found.append(Searched(one.workload, us, len(times), len(one.predicted_us), 0.0))
    return tuple(found)


def _retimed(times: BenchTimes, chosen: Sequence[int]) -> dict[str, list[dict[str, Any]]]:
    """Final times of the chosen trials on each workload, all against the base in one call."""
    found = {}
    for name, workload in times.workloads.items():
        timings = times.measured([workload], chosen[1:]).timings if chosen[1:] else ()
        base_us = timings[0].workloads[0].cold.base_us if timings else 0.0
        rows = [TrialTime(chosen[0], base_us, 1.0, 1.0, 1.0)]
        rows += [
            trial_time(t, timing.workloads[0], base_us)
            for t, timing in zip(chosen[1:], timings, strict=False)
        ]
        found[name] = msgspec.to_builtins(rows)
    return found


# -- what was measured -----------------------------------------------------------------------------


def table(name: str, task: Mapping[str, Any]) -> list[str]:
    """Search against full sweep by final times, and searches replayed on the first times."""
    if "failed" in task:
        return [f"{name}: failed", task["failed"]]
    lines = [f"{name}: {len(task['settings'])} settings, {task['seconds']:.0f} s"]
    lines.append(
        "| workload | trials | timed in full | by search | base us | full us | search us "
        "| search reaches |"
    )
    lines.append("| --- | --- | --- | --- | --- | --- | --- | --- |")
    reached = []
    for workload, predicted in task["predicted_us"].items():
        final = {t["trial"]: t["us"] for t in task["retimed"][workload] if t.get("us")}
        best, chosen = task["best_of_full"][workload], task["chosen"][workload]
        counts = (len(predicted), len(task["times"][workload]), len(task["search_times"][workload]))
        us = [f"{final[t]:.2f}" if t in final else "-" for t in (0, best, chosen)]
        share = final[best] / final[chosen] if {best, chosen} <= final.keys() else None
        reached += [share] if share else []
        shown = f"{100 * share:.1f} %" if share else "no valid final time"
        lines.append(
            f"| {workload} | {' | '.join(map(str, counts))} | {' | '.join(us)} | {shown} |"
        )
    if reached:
        lines.append(f"| mean | | | | | | | {100 * statistics.geometric_mean(reached):.1f} % |")
    return [*lines, *_replays(task), ""]


def _replays(task: Mapping[str, Any]) -> list[str]:
    """What several ways to choose a tenth of the trials reach on the recorded first times."""
    recorded = RecordedTimes.read(task["times"])
    candidates = tuple(
        Candidates(w, {int(t): us for t, us in p.items() if int(t) in recorded.us.get(w, {})})
        for w, p in task["predicted_us"].items()
    )
    candidates = tuple(c for c in candidates if c.predicted_us)
    where = _where(task)
    first = random.Random(0)
    found = {
        "search": [_reached(search(candidates, where, recorded), recorded)],
        "the model's order alone": [_reached(_in_order(candidates, recorded), recorded)],
        "drawn at random, mean of 200": [
            _reached(_in_order(candidates, recorded, first), recorded) for _ in range(200)
        ],
    }
    share = f"replayed, {100 * SHARE:.0f} % of the trials"
    lines = [
        f"{share}, {words}: {100 * statistics.mean(values):.1f} % of the fastest first times"
        for words, values in found.items()
    ]
    alone, trials = _on_gpus(Search(candidates, where), recorded, 1)
    for gpus in (2, 4, 8):
        cost, count = _on_gpus(Search(candidates, where), recorded, gpus)
        lines.append(
            f"{share}, the search on {gpus} GPUs: {alone / cost:.2f} times as fast, "
            f"{count} trials timed and not {trials}"
        )
    return lines


def _on_gpus(search: Search, recorded: RecordedTimes, gpus: int) -> tuple[int, int]:
    """How long a search takes that measures ahead on GPUs that are free, and how many trials it
    times, where a job of n trials takes 2 + n: its base and a copy of that come with it.
    """
    now, begun, done = 0, set[tuple[str, int]](), set[tuple[str, int]]()
    running: list[tuple[int, tuple[tuple[str, int], ...]]] = []
    free = [0] * gpus

    def begin(batch: Batch) -> None:
        rows = tuple((batch.workload, t) for t in batch.trials if (batch.workload, t) not in begun)
        if rows:
            begun.update(rows)
            end = max(now, heapq.heappop(free)) + 2 + len(rows)
            heapq.heappush(free, end)
            heapq.heappush(running, (end, rows))

    while (batch := search.next()) is not None:
        begin(batch)
        ahead = search.ahead()
        while any((batch.workload, t) not in done for t in batch.trials):
            while len(running) < gpus and (following := next(ahead, None)):
                begin(following)
            now, rows = heapq.heappop(running)
            done.update(rows)
        search.learn(batch, recorded.of(batch.workload, batch.trials))
    return now, len(begun)


def _where(task: Mapping[str, Any]) -> tuple[Place, ...]:
    choices = [d["choices"] for d in task["dimensions"]]
    return places(choices, [list(s.values()) for s in task["settings"]])


def _in_order(
    candidates: Iterable[Candidates], recorded: RecordedTimes, draw: random.Random | None = None
) -> tuple[Searched, ...]:
    found = []
    for one in candidates:
        order = sorted(one.predicted_us, key=lambda t: one.predicted_us[t])
        if draw is not None:
            draw.shuffle(order)
        us = {t: recorded.us[one.workload][t] for t in order[: one.budget(SHARE)]}
        found.append(Searched(one.workload, us, len(us), len(order), 0.0))
    return tuple(found)


def _reached(searched: Sequence[Searched], recorded: RecordedTimes) -> float:
    """The geometric mean over workloads of the fastest time of all over the fastest chosen."""
    logs = [
        math.log(min(recorded.us[s.workload].values()) / s.us[s.best])
        for s in searched
        if s.best is not None
    ]
    return math.exp(statistics.mean(logs))


if __name__ == "__main__":
    main()
