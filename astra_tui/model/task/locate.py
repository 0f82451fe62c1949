"""Finds kernel tasks: by path, else by name in ./kernels, a configured folder, the bundled ones."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from astra_tui.model.errors import nearest
from astra_tui.model.task.loader import load_task
from astra_tui.model.task.table import TaskError
from astra_tui.model.task.task import KernelTask
from astra_tui.model.task.upstream import FILE_NAME as UPSTREAM_LIST

KERNELS_VARIABLE = "ASTRA_TUI_KERNELS"
"""Environment variable: more folders of kernel tasks, separated as in PATH."""

_PACKAGE = Path(__file__).resolve().parents[2]


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


def find_task(name: str) -> KernelTask:
    """Loads a task by path or name. Raises TaskError that names the nearest known one."""
    path = Path(name)
    if path.name == "task.toml":
        path = path.parent
    try:
        has_task, is_folder = (path / "task.toml").is_file(), path.is_dir()
    except OSError:  # a name that no file can have
        has_task = is_folder = False
    if has_task:
        return load_task(path)
    known = {found.name: found.folder for found in list_tasks()}
    if name in known:
        return load_task(known[name])
    if is_folder:
        return load_task(path)
    raise TaskError(f"there is no kernel task '{name}'", hint=nearest(name, known))
