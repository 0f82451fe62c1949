"""Where kernel tasks lie: in ./kernels, in configured folders, and those that come with us.

Listing them reads none, and brings in nothing that reads one.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

KERNELS_VARIABLE = "ASTRA_TUI_KERNELS"
"""Environment variable: more folders of kernel tasks, separated as in PATH."""

UPSTREAM_LIST = "upstream.toml"
"""The file of a task that says what it has of a package, with origin, licence and hashes."""

_PACKAGE = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Found:
    """A folder that holds a task, and the name by which it is found."""

    name: str
    folder: Path


def task_folders() -> tuple[Path, ...]:
    """The folders that are searched by name, in order."""
    configured = os.environ.get(KERNELS_VARIABLE, "")
    return (
        Path("kernels"),
        *(Path(p) for p in configured.split(os.pathsep) if p),
        bundled("kernels"),
    )


def bundled(what: str) -> Path:
    """A folder of data that comes with the package: in the wheel, else in the source tree."""
    packed = _PACKAGE / "_bundled" / what
    return packed if packed.is_dir() else _PACKAGE.parent / what


def list_tasks() -> tuple[Found, ...]:
    """Every task that has a name; where several share one, the first found.

    Of each folder those that need nothing from a package come first.
    """
    found: dict[str, Found] = {}
    for folder in task_folders():
        tasks = sorted(file.parent for file in folder.glob("*/task.toml"))
        for task in sorted(tasks, key=lambda task: (task / UPSTREAM_LIST).exists()):
            found.setdefault(task.name, Found(task.name, task))
    return tuple(found.values())
