"""Where a benchmark ran: machine, versions, commit, command."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path(__file__).parent / "results"
_PACKAGES = ("numpy", "nvidia-cuda-nvrtc", "torch")


def describe() -> dict[str, object]:
    """What a reader needs to judge or repeat a result."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "packages": {name: importlib.metadata.version(name) for name in _PACKAGES},
        "commit": commit_of(ROOT),
        "command": "python " + " ".join([str(Path(sys.argv[0]).name), *sys.argv[1:]]),
    }


def commit_of(checkout: Path) -> str:
    """What a checkout has checked out."""
    return subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=checkout,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()


def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor()
