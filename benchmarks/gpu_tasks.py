"""The playbook on every task of `kernels/`, from the kernel that ships to where nothing is left.

    python benchmarks/gpu_tasks.py --out FOLDER [--task NAME]... [--at-once N] [--minutes M]
    python benchmarks/gpu_tasks.py --out FOLDER --table       # what was recorded, without a GPU

The baseline of a task from a package is that package's kernel. A session a task, several of them
at once: who times has the GPU alone. What has ended is not run again, what was cut is resumed.
`--table` writes `gpu_tasks.json` next to the sessions: for each workload the baseline, the best,
the floor (a copy of as many bytes), and how the run ended.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from astra_tui.model.errors import UserError
from astra_tui.model.state import SessionState
from astra_tui.model.task import find_task
from astra_tui.model.timing import Timing
from astra_tui.sessions.integrity import read_session
from benchmarks.gpu_shipped import source_commit

ROOT = Path(__file__).resolve().parents[1]
GRACE_SECONDS = 30.0


def main() -> None:
    """Runs the tasks, or sums up their sessions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--task", action="append", help="default: all of kernels/")
    parser.add_argument("--at-once", type=int, default=4)
    parser.add_argument("--minutes", type=float, default=60.0, help="of all tasks together")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--sweep", default="0")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--prefix", default="gpu", help="of the names of sessions")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    options.out = options.out.resolve()
    tasks = options.task or sorted(f.parent.name for f in ROOT.glob("kernels/*/task.toml"))
    if not options.table:
        ends = time.monotonic() + 60 * options.minutes
        with ThreadPoolExecutor(options.at_once) as pool:
            for done in [pool.submit(_run, task, ends, options) for task in tasks]:
                done.result()
    found = summary(options.out)
    found["command"] = " ".join(["python", *sys.argv])
    (options.out / "gpu_tasks.json").write_text(json.dumps(found, indent=1) + "\n")
    print("\n".join(table(found)))


def _run(task: str, ends: float, options: argparse.Namespace) -> None:
    session = options.out / f"{options.prefix}-{task}"
    command = [sys.executable, "-m", "astra_tui", "run", task, "--session", str(session)]
    command += ["--team", "playbook", "--device", options.device, "--approve", "auto"]
    command += ["--headless", "--json", "--rounds", str(options.rounds), "--sweep", options.sweep]
    command += ["--title", f"The playbook on {task}"]
    left = ends - time.monotonic()
    if left < GRACE_SECONDS or _has_ended(session):
        return
    options.out.mkdir(parents=True, exist_ok=True)
    with (options.out / f"{task}.log").open("a", encoding="utf-8") as log:
        child = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
        try:
            child.wait(left)
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGINT)
            try:
                child.wait(GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                child.kill()
    print(f"{task}: exit code {child.returncode}", file=sys.stderr, flush=True)


def _has_ended(session: Path) -> bool:
    try:
        return read_session(session).state.closed is not None
    except UserError:
        return False


# -- what was recorded -----------------------------------------------------------------------------


def summary(folder: Path) -> dict[str, Any]:
    """What the sessions of a folder say."""
    tasks = {}
    for journal in sorted(folder.glob("*/journal.jsonl*")):
        try:
            state = read_session(journal.parent).state
        except UserError as error:
            tasks[journal.parent.name] = {"problem": error.describe()}
            continue
        if state.opened is not None:
            tasks[state.opened.settings.task] = _of_session(state)
    return {"commit": source_commit(), "tasks": tasks}


def _of_session(state: SessionState) -> dict[str, Any]:
    opened = state.opened
    assert opened is not None
    timing = _against_baseline(state, opened.baseline)
    task = find_task(opened.settings.task)
    return {
        "package": str(task.upstream.package) if task.upstream is not None else "",
        "gpu": timing.gpu if timing is not None else "",
        "driver": state.device.gpu.driver if state.device and state.device.gpu else "",
        "compiler": opened.versions.get("nvidia-cuda-nvrtc", ""),
        "moves": [
            [p.plan.move, str(p.verdict.outcome) if p.verdict is not None else None]
            for r in state.rounds
            for p in r.proposals
            if p.plan is not None
        ],
        "ended": state.closed.message if state.closed is not None else None,
        "stopped": str(state.closed.reason) if state.closed is not None else None,
        "improved": state.best != opened.baseline,
        "speedup": _ratio(timing.speedup) if timing is not None else None,
        "workloads": [_of_workload(w) for w in timing.workloads] if timing is not None else [],
    }


def _against_baseline(state: SessionState, baseline: str) -> Timing | None:
    """The best against the baseline, the last measurement where there is one; else the baseline
    against itself.
    """
    best = state.candidates.get(state.best)
    if best is None:
        return None
    return best.timing(baseline, final=True) or best.timing(baseline)


def _of_workload(w: Any) -> dict[str, Any]:
    alone = w.chained or w.cold
    return {
        "workload": w.workload,
        "baseline_us": w.cold.base_us,
        "best_us": w.cold.candidate_us,
        "speedup": _ratio(w.cold.speedup),
        "producer": w.producer,
        "alone_us": alone.candidate_us,
        "floor_us": w.floor.us if w.floor is not None else None,
        "bytes": w.floor.compulsory_bytes if w.floor is not None else None,
    }


def _ratio(found: Any) -> list[float] | None:
    return None if found is None else [found.value, found.low, found.high]


def table(found: dict[str, Any]) -> list[str]:
    """A row a workload; times in microseconds.

    `shipped`, `best` and their ratio are after a producer where a plan says `pdl=`, as in the
    session; `alone` is the best after itself, of which the floor is a share.
    """
    lines = [
        "| task, workload | shipped | best | speedup | alone | floor | of it | what gained |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, task in found["tasks"].items():
        gained = ", ".join(m for m, outcome in task.get("moves", []) if outcome == "better")
        for w in task.get("workloads", []):
            value, low, high = w["speedup"]
            floor = w["floor_us"]
            share = f"{100 * floor / w['alone_us']:.0f} %" if floor else "-"
            cells = (
                f"{name}, {w['workload']}", f"{w['baseline_us']:.2f}", f"{w['best_us']:.2f}",
                f"{value:.3f} ({low:.3f} to {high:.3f})", f"{w['alone_us']:.2f}",
                f"{floor:.2f}" if floor else "-", share, gained or "nothing",
            )  # fmt: skip
            lines.append(f"| {' | '.join(cells)} |")
        lines += [] if task.get("ended") else [f"({name} was cut)"]
    return lines


if __name__ == "__main__":
    main()
