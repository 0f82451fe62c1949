"""Times `astra-tui check silu_and_mul` as a whole process: empty cache, then full cache.

    python benchmarks/check_latency.py [--repeat N]

Then counts the CPU time of checks in a started process, with an empty cache, of three tasks: a
session's first check (baseline.cu), its second (tuned.cu), and another one of the same cases, in
all processes that take part.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from environment import RESULTS, ROOT, describe

from astra_tui.emulator.device import Emulator
from astra_tui.lab.cache import CACHE_VARIABLE
from astra_tui.lab.check.oracle import Oracle
from astra_tui.lab.check.runner import Checker
from astra_tui.lab.compiler import Compiler
from astra_tui.model.task import find_task

COMMAND = [sys.executable, "-m", "astra_tui", "check", "silu_and_mul", "--json"]


def timed(cache: Path) -> tuple[float, dict[str, Any]]:
    """Seconds of one whole process, and its report."""
    environment = {**os.environ, "ASTRA_TUI_CACHE": str(cache)}
    begin = time.perf_counter()
    answer = subprocess.run(
        COMMAND, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    return time.perf_counter() - begin, json.loads(answer.stdout)


TASKS = ("silu_and_mul", "fused_add_rmsnorm", "merge_attn_states_lse")


def cpu_seconds() -> float:
    """CPU time of this process and all that it started, those that have ended as well."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = file.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(file.parent.name)
        # Of itself, and of children that it has waited for; see proc_pid_stat(5).
        parents[pid], ticks[pid] = int(fields[1]), sum(map(int, fields[11:15]))
    found = sum(
        sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    ours = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
        found += sum(ticks[pid] for pid in more) / os.sysconf("SC_CLK_TCK")
    return found


def in_started_process(name: str) -> dict[str, float]:
    """CPU seconds of three checks of a session on the emulator, one after the other."""
    task = find_task(name)
    baseline, tuned = ((task.folder / f"{file}.cu").read_text() for file in ("baseline", "tuned"))
    other = tuned.replace("__global__", "/* the same */ __global__", 1)
    found = {}
    with Compiler() as compiler, Oracle(task) as oracle:
        checker = Checker(task, Emulator(), compiler, oracle, seed=12345)
        for label, text in (("first", baseline), ("second", tuned), ("again", other)):
            begin = cpu_seconds()
            *_, report = checker.check(text, f"{label}.cu")
            assert report.verdict.value == "passed", report.message
            found[label] = round(cpu_seconds() - begin, 2)
    return found


def main() -> None:
    """Prints medians and writes results/check_latency.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=5)
    repeat = parser.parse_args().repeat
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder) / "cache"
        cold: list[float] = []
        warm: list[float] = []
        for _ in range(repeat):
            shutil.rmtree(cache, ignore_errors=True)
            cold.append(timed(cache)[0])
            seconds, report = timed(cache)
            warm.append(seconds)
        os.environ[CACHE_VARIABLE] = str(Path(folder) / "of_checks")
        of_checks = {name: in_started_process(name) for name in TASKS}
    reports = {
        Path(r["source"]).name: {"seconds": round(r["seconds"], 2), "cases": len(r["cases"])}
        for r in report["reports"]
    }
    result = {
        "environment": describe(),
        "repeat": repeat,
        "cold_seconds": {"median": round(statistics.median(cold), 2), "min": round(min(cold), 2)},
        "warm_seconds": {"median": round(statistics.median(warm), 2), "min": round(min(warm), 2)},
        "warm_by_source": reports,
        "load": round(os.getloadavg()[0], 1),
        "cpu_seconds_in_started_process": of_checks,
    }
    print(json.dumps({k: v for k, v in result.items() if k != "environment"}, indent=1))
    (RESULTS / "check_latency.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
