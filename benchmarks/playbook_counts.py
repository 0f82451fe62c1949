"""Runs the playbook on every kernel task on the emulator, twice, and writes what it reached.

    python benchmarks/playbook_counts.py

Counts only: the emulator gives no time and no speedup. The two runs have to end on the same
candidate.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from environment import RESULTS, ROOT, describe

TASKS = ("silu_and_mul", "fused_add_rmsnorm", "merge_attn_states_lse")
SHOWN = ("sectors", "requests", "warp_instructions")


def optimised(task: str, folder: Path) -> tuple[float, dict[str, Any]]:
    """Wall seconds of a whole run on this machine, and its report."""
    command = [sys.executable, "-m", "astra_tui", "run", task]
    command += ["--team", "playbook", "--device", "emulator", "--approve", "auto"]
    command += ["--headless", "--json", "--session", str(folder / task)]
    begin = time.perf_counter()
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return time.perf_counter() - begin, json.loads(answer.stdout)


def main() -> None:
    """Prints a table and writes results/playbook_counts.json."""
    results: dict[str, Any] = {}
    for task in TASKS:
        runs = []
        for _ in range(2):
            with tempfile.TemporaryDirectory() as folder:
                runs.append(optimised(task, Path(folder)))
        (seconds, report), (_, again) = runs
        same = report["best"]["candidate"] == again["best"]["candidate"]
        if not same:
            sys.exit(f"{task}: two runs ended on different candidates")
        before, after = report["baseline"]["counters"], report["best"]["counters"]
        results[task] = {
            "run_seconds_on_this_machine": round(seconds, 1),
            "rounds": len(report["rounds"]),
            "best": report["best"]["candidate"],
            "baseline": {name: before[name] for name in SHOWN},
            "reached": {name: after[name] for name in SHOWN},
            "moves": [[p["move"], p["outcome"]] for r in report["rounds"] for p in r["proposals"]],
        }
        cells = [f"{before[n]:,} to {after[n]:,}" for n in SHOWN]
        print(f"| {task} | " + " | ".join(cells) + " |")
    result = {"environment": describe(), "command": "python benchmarks/playbook_counts.py"}
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / "playbook_counts.json"
    file.write_text(json.dumps({**result, "tasks": results}, indent=2) + "\n")


if __name__ == "__main__":
    main()
