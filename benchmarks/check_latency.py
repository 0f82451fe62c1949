"""Times `astra-tui check silu_and_mul` as a whole process: empty cache, then full cache.

    python benchmarks/check_latency.py [--repeat N] [--only PATTERN]

Then counts the CPU time of checks in a started process, with an empty cache, of every bundled task:
a session's first check (baseline.cu) and its second (tuned.cu, or the same again where there is
none), in all processes that take part. The packages that tasks start from are fetched first.
`--only` names tasks, and then nothing else is timed or written.
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
from astra_tui.lab.compiler.headers import HeaderTree
from astra_tui.lab.upstream import task_headers
from astra_tui.model.check import CheckVerdict
from astra_tui.model.task import KernelTask, load_task

COMMAND = [sys.executable, "-m", "astra_tui", "check", "silu_and_mul", "--json"]


def timed(cache: Path) -> tuple[float, dict[str, Any]]:
    """Seconds of one whole process, and its report."""
    environment = {**os.environ, "ASTRA_TUI_CACHE": str(cache)}
    begin = time.perf_counter()
    answer = subprocess.run(
        COMMAND, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    return time.perf_counter() - begin, json.loads(answer.stdout)


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


def in_started_process(task: KernelTask, headers: HeaderTree | None) -> dict[str, Any]:
    """CPU seconds of two checks of a session on the emulator, one after the other."""
    baseline, tuned = task.baseline_file, task.folder / "tuned.cu"
    files = {"first": baseline, "second": tuned if tuned.exists() else baseline}
    found: dict[str, Any] = {}
    with Compiler(upstream=headers) as compiler, Oracle(task) as oracle:
        checker = Checker(task, Emulator(), compiler, oracle, seed=12345)
        for label, file in files.items():
            text = f"{file.read_text()}\n// The {label} check.\n"
            begin = cpu_seconds()
            *_, report = checker.check(text, file.name)
            found[label] = round(cpu_seconds() - begin, 2)
    if report.verdict is not CheckVerdict.PASSED:
        found["verdict"] = f"{report.verdict.value}: {report.message}"
    return found


def of_tasks(pattern: str) -> dict[str, dict[str, Any]]:
    """CPU seconds of checks, by task; each begins with an empty cache."""
    tasks = [load_task(file.parent) for file in sorted(ROOT.glob(f"kernels/{pattern}/task.toml"))]
    headers = {task.name: task_headers(task) for task in tasks}
    found = {}
    for task in tasks:
        with tempfile.TemporaryDirectory() as folder:
            os.environ[CACHE_VARIABLE] = folder
            found[task.name] = in_started_process(task, headers[task.name])
        print(task.name, found[task.name], flush=True)
    return found


def of_processes(repeat: int) -> dict[str, object]:
    """Seconds of whole processes, with an empty and with a full cache."""
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder) / "cache"
        cold: list[float] = []
        warm: list[float] = []
        for _ in range(repeat):
            shutil.rmtree(cache, ignore_errors=True)
            cold.append(timed(cache)[0])
            seconds, report = timed(cache)
            warm.append(seconds)
    reports = {
        Path(r["source"]).name: {"seconds": round(r["seconds"], 2), "cases": len(r["cases"])}
        for r in report["reports"]
    }
    return {
        "repeat": repeat,
        "cold_seconds": {"median": round(statistics.median(cold), 2), "min": round(min(cold), 2)},
        "warm_seconds": {"median": round(statistics.median(warm), 2), "min": round(min(warm), 2)},
        "warm_by_source": reports,
        "load": round(os.getloadavg()[0], 1),
    }


def main() -> None:
    """Prints all figures and writes results/check_latency.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--only", help="count checks of the tasks whose names match, and no more")
    options = parser.parse_args()
    if options.only:
        of_tasks(options.only)
        return
    result = {
        "environment": describe(),
        **of_processes(options.repeat),
        "cpu_seconds_in_started_process": of_tasks("*"),
        "load_of_tasks": round(os.getloadavg()[0], 1),
    }
    print(json.dumps({k: v for k, v in result.items() if k != "environment"}, indent=1))
    (RESULTS / "check_latency.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
