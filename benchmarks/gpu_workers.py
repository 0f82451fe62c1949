"""On a machine with two GPUs: a study by one worker and by two, and whether they agree.

    python benchmarks/gpu_workers.py [FILE] [--seeds 4]

Writes benchmarks/results/gpu_workers.json: seconds of both, what the two GPUs gained, the best
candidate of every run and its speedup with both, and how long GPUs idled while a study ran. Twenty
minutes on two H200. It has not run yet.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from environment import RESULTS, describe

from astra_tui.model.state import SessionState
from astra_tui.sessions.integrity import read_session
from astra_tui.sessions.summary import final_timings

STUDY = """
tasks = ["silu_and_mul", "fused_add_rmsnorm"]
teams = ["playbook"]
seeds = {seeds}

[settings.plain]
rounds = 3
device = "cuda"
"""


def gpus() -> list[str]:
    """UUIDs, as nvidia-smi lists them."""
    told = subprocess.run(
        ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return told.stdout.split()


def studied(file: Path, out: Path, visible: list[str]) -> dict[str, Any]:
    """A study on some GPUs, one worker each: its seconds, and every run's best and speedup."""
    command = [
        sys.executable, "-m", "astra_tui", "study", str(file), "--out", str(out),
        "--workers", "local", "--json",
    ]  # fmt: skip
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ",".join(visible)}
    begun = time.monotonic()
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - begun
    states = {s.name: read_session(s).state for s in sorted(out.iterdir()) if s.is_dir()}
    return {
        "gpus": len(visible),
        "exit_code": ended.returncode,
        "seconds": round(seconds, 1),
        "gpu_seconds": round(sum(s.usage.gpu_seconds for s in states.values()), 1),
        "workers": [line for line in ended.stderr.splitlines() if " done in " in line],
        "runs": {name: told(state) for name, state in states.items()},
    }


def told(state: SessionState) -> dict[str, Any]:
    """The best candidate of a run, its last timing, and the GPUs that its timings name."""
    timings = [t.timing for t in final_timings(state)]
    all_timings = [t.timing for c in state.candidates.values() for t in c.timings]
    return {
        "best": state.best,
        "speedups": [(t.speedup.low, t.speedup.value, t.speedup.high) for t in timings],
        "verdicts": [t.verdict.value for t in timings],
        "uuids": sorted({t.uuid for t in all_timings}),
    }


def overlap(one: dict[str, Any], two: dict[str, Any]) -> bool:
    """Whether intervals of the same run on one GPU and on two share a point."""
    pairs = zip(one["speedups"], two["speedups"], strict=False)
    return all(a[0] <= b[2] and b[0] <= a[2] for a, b in pairs)


def main() -> None:
    """Studies with one GPU, then with two."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", nargs="?")
    parser.add_argument("--seeds", type=int, default=4)
    options = parser.parse_args()
    found = gpus()[:2]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(options.file or Path(folder) / "study.toml")
        if not options.file:
            file.write_text(STUDY.format(seeds=list(range(1, options.seeds + 1))))
        one = studied(file, Path(folder) / "one", found[:1])
        two = studied(file, Path(folder) / "two", found)
    same = {
        name: run["best"] == two["runs"][name]["best"] and overlap(run, two["runs"][name])
        for name, run in one["runs"].items()
    }
    result = {
        "one": one,
        "two": two,
        "gain": round(one["seconds"] / two["seconds"], 3),
        "same_winner_within_intervals": same,
        "gpu_idle": {
            str(r["gpus"]): round(1 - r["gpu_seconds"] / (r["gpus"] * r["seconds"]), 3)
            for r in (one, two)
        },
    }
    text = json.dumps({"environment": describe(), **result}, indent=1) + "\n"
    (RESULTS / "gpu_workers.json").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
