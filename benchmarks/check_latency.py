"""Times `astra-tui check silu_and_mul` as a whole process: empty cache, then full cache.

    python benchmarks/check_latency.py [--repeat N]

Also says where the time goes, from Python's own import timer and the check's report.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from environment import RESULTS, ROOT, describe

COMMAND = [sys.executable, "-m", "astra_tui", "check", "silu_and_mul", "--json"]


def timed(cache: Path) -> tuple[float, dict[str, Any]]:
    """Seconds of one whole process, and its report."""
    environment = {**os.environ, "ASTRA_TUI_CACHE": str(cache)}
    begin = time.perf_counter()
    answer = subprocess.run(
        COMMAND, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    return time.perf_counter() - begin, json.loads(answer.stdout)


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
    }
    print(json.dumps({k: v for k, v in result.items() if k != "environment"}, indent=1))
    (RESULTS / "check_latency.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
