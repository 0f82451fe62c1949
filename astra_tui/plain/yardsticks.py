"""Yardsticks in a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from astra_tui.model.yardsticks import YardstickEntry
from astra_tui.plain.console import console, print_table, table
from astra_tui.plain.output import visible


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
            out.print(visible(f"{e.task}: {e.name} not timed: {e.problem}") + visible(hint))
    for package, newer in _newer(entries).items():
        versions = ", ".join(newer[:3])
        out.print(visible(f"{package}: the index has {versions}; the pin stays as it is"))


def _state(e: YardstickEntry) -> str:
    if e.kind == "out of reach":
        return e.kind
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
