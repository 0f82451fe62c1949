"""Yardsticks in a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.console import Console

from astra_tui.model.timing import Ratio
from astra_tui.model.yardsticks import ChainTimes, ShapeTimes, ShippedTimes, YardstickEntry
from astra_tui.plain.console import console, indented, print_table, table, toned
from astra_tui.plain.output import visible
from astra_tui.present.numbers import microseconds, speedup
from astra_tui.present.words import shipped_words


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


def print_chain(task: str, chain: ChainTimes) -> None:
    """Microseconds a launch, a row a version and a column a shape; then each source compared."""
    out = console()
    out.print("")
    follows = "itself" if chain.chain == "itself" else "a producer (times are of both)"
    out.print(visible(f"{task}: microseconds a launch, each after {follows}"), style="bold")
    rows = table("version", *(shape.workload for shape in chain.shapes))
    rows.add_row("floor", *(_us(shape.floor_us) for shape in chain.shapes))
    base = chain.shapes[0].base if chain.shapes else ""
    rows.add_row(visible(base), *(_us(shape.base_us) for shape in chain.shapes))
    for name in dict.fromkeys(v.name for shape in chain.shapes for v in shape.versions):
        rows.add_row(visible(name), *(_time_of(shape, name) for shape in chain.shapes))
    print_table(out, rows)
    for source, mean in chain.means.items():
        out.print("")
        _print_compared(out, chain, source, mean)
    for line in dict.fromkeys(line for shape in chain.shapes for line in _remarks(shape)):
        indented(out, line, 2)


def print_shipped(task: str, shipped: ShippedTimes) -> None:
    """The best candidate of a session against what others ship, and what was not timed."""
    if shipped.times is not None:
        print_chain(task, shipped.times)
    out = console()
    out.print("")
    out.print(toned(*shipped_words(shipped)))
    for name, reason in shipped.not_timed.items():
        indented(out, f"{name} is not timed: {reason}", 2)


def _print_compared(out: Console, chain: ChainTimes, source: str, mean: Ratio | None) -> None:
    """A row a shape: the fastest shipped kernel, and its time over the source's."""
    rows = table("shape", "fastest shipped", visible(f"its time / {source}"))
    for shape in chain.shapes:
        found = shape.fastest.get(source)
        cells = (found.name, speedup(found.speedup, "")) if found else ("not all were timed", "-")
        rows.add_row(*map(visible, (shape.workload, *cells)))
    words = speedup(mean, "") if mean else "-"
    rows.add_row("geometric mean", "", words, style="bold")
    print_table(out, rows)


def _time_of(shape: ShapeTimes, name: str) -> str:
    """A version's time; "-" where it does not serve the shape, "void" where it decides nothing."""
    found = next((v for v in shape.versions if v.name == name), None)
    if found is None:
        return "-"
    return "void" if found.caveats else _us(found.us)


def _remarks(shape: ShapeTimes) -> Iterator[str]:
    for name, reason in shape.not_timed.items():
        yield f"{name} is not timed: {reason}"
    for version in shape.versions:
        for caveat in version.caveats:
            yield f"{version.name} is void on {shape.workload}: {caveat.message}"


def _us(time: float | None) -> str:
    return "" if time is None else microseconds(time)


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
