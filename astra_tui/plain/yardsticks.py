"""Yardsticks in a table, and the download of a package in a line."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from astra_tui.model.yardsticks import YardstickEntry
from astra_tui.plain.console import console, print_table, table
from astra_tui.plain.output import is_live, note, visible

_SECONDS = 5.0
_MEGABYTE = 1_000_000


def print_yardsticks(
    entries: Sequence[YardstickEntry], unserved: Mapping[str, Sequence[str]]
) -> None:
    """One line a yardstick; what none serves follows, then what could not be built."""
    rows = table("task", "yardstick", "package", "age", "licence", "pdl", "state", "serves")
    for e in entries:
        package = f"{e.package} {e.version}"
        cells = (e.task, e.name, package, f"{e.age_days} d", e.licence, "yes" if e.pdl else "no")
        rows.add_row(*map(visible, (*cells, _state(e), _served(e))))
    print_table(console(), rows)
    out = console()
    for task, workloads in unserved.items():
        if workloads:
            out.print(visible(f"{task}: no yardstick serves {', '.join(workloads)}"))
    for e in entries:
        if e.problem:
            hint = f"\n  {e.hint}" if e.hint else ""
            out.print(visible(f"{e.task}: {e.name} not built: {e.problem}") + visible(hint))
    for package, newer in _newer(entries).items():
        versions = ", ".join(newer[:3])
        out.print(visible(f"{package}: the index has {versions}; the pin stays as it is"))


@contextmanager
def downloads() -> Iterator[Downloads]:
    """Progress of downloads on stderr: a live line where the terminal can, else now and then."""
    shown = Downloads()
    try:
        yield shown
    finally:
        shown.clear()


class Downloads:
    """Called with the bytes that have come of what `name` names."""

    def __init__(self) -> None:
        self.name = ""
        self._live = is_live()
        self._last = time.monotonic()

    def __call__(self, size: int) -> None:
        text = f"fetching {self.name}: {size / _MEGABYTE:.0f} MB"
        if self._live:
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write(f"\r\x1b[K{visible(text)[:width]}")
            sys.stderr.flush()
        elif time.monotonic() - self._last > _SECONDS:
            self._last = time.monotonic()
            note(text)

    def clear(self) -> None:
        """Removes the live line."""
        if self._live:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _state(e: YardstickEntry) -> str:
    if e.built is not None:
        return "built" if e.built else "not built"
    return "cached" if e.cached else "not fetched"


def _served(e: YardstickEntry) -> str:
    total = len(e.serves) + len(e.refuses)
    if not e.refuses:
        return "all workloads" if total > 1 else "the workload"
    return f"{len(e.serves)} of {total} workloads"


def _newer(entries: Sequence[YardstickEntry]) -> dict[str, tuple[str, ...]]:
    return {f"{e.package} {e.version}": e.newer for e in entries if e.newer}
