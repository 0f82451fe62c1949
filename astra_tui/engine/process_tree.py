"""The processes that descend from one."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path


def descendants(pid: int, proc: Path = Path("/proc")) -> frozenset[int]:
    """Ids of the children of a process, of their children and so on; none where /proc is not."""
    children: dict[int, list[int]] = defaultdict(list)
    for stat in proc.glob("[0-9]*/stat"):
        try:
            # The name before it is in parentheses, and may hold some itself.
            fields = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            children[int(fields[1])].append(int(stat.parent.name))
        except (OSError, IndexError, ValueError):  # It has ended meanwhile.
            continue
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        new = [child for child in children[waiting.pop()] if child not in found]
        found.update(new)
        waiting.extend(new)
    return frozenset(found)
