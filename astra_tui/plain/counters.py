"""A kernel source with the emulator's counters next to its lines."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rich.console import Console
from rich.text import Text

from astra_tui.model.check import Case
from astra_tui.model.compilation import Compilation
from astra_tui.model.counters import Counters, Place
from astra_tui.model.findings import Finding
from astra_tui.model.traffic import ArgumentTraffic, WorkloadTraffic, wasted_traffic
from astra_tui.plain.console import console, indented, print_table, table
from astra_tui.plain.output import visible
from astra_tui.present.numbers import change_between, count, dimensions, percent


@dataclass(frozen=True)
class CountedSource:
    """One version of a kernel: its text and what was counted."""

    file: str
    text: str
    counters: Counters
    compilation: Compilation
    faults: tuple[Finding, ...]
    traffic: tuple[ArgumentTraffic, ...]
    """Of the workload that was counted."""
    workloads: tuple[WorkloadTraffic, ...]
    """Of all workloads."""


def print_counters(
    task: str, case: Case, compulsory_bytes: int, versions: Sequence[CountedSource]
) -> None:
    """Totals, then the source line by line; with two versions, in the form of a diff."""
    out = console()
    sizes = dimensions(case.dims)
    indented(out, f"{task}, {case.why}, {case.dtype.value}, {sizes}", 0)
    _print_totals(out, compulsory_bytes, versions)
    for version in versions:
        for fault in version.faults:
            indented(out, f"{version.file}: {fault.describe()}", 0)
    _print_traffic(out, versions)
    out.print()
    _print_lines(out, versions)


def _print_totals(out: Console, compulsory_bytes: int, versions: Sequence[CountedSource]) -> None:
    names = _names(versions)
    two = len(versions) == 2
    rows = table("", *names, *(["change"] if two else []), "")
    for column in rows.columns[1:-1]:
        column.justify = "right"
    for name, values, remark in _totals([v.counters for v in versions], compulsory_bytes):
        change = [change_between(*reversed(values))] if two else []
        rows.add_row(name, *map(count, values), *change, remark)
    registers = [_registers(v) for v in versions]
    rows.add_row("registers", *registers, *([""] if two else []), "a thread, by kernel")
    print_table(out, rows)
    if two:
        keys = [v.counters.ranking_key() for v in versions]
        order = "equal" if keys[0] == keys[1] else "better" if keys[0] < keys[1] else "worse"
        key = "the emulator's key (sectors, requests, instructions)"
        indented(out, f"{names[0]} is {order} by {key}", 0)
    indented(out, f"counts depend on the compiler: {versions[0].counters.compiler}", 0)


def _totals(
    counters: Sequence[Counters], compulsory_bytes: int
) -> Iterator[tuple[str, list[int], str]]:
    """Name, a value for each version, and a remark; what no one does is left out."""
    compulsory = f"of 32 bytes; compulsory: {compulsory_bytes / 32:,.0f}"
    yield "sectors", [c.sectors for c in counters], compulsory
    yield "requests", [c.requests for c in counters], "to global memory, one a warp"
    yield "instructions", [c.warp_instructions for c in counters], "of PTX, one a warp"
    optional = (
        ("shared requests", [c.shared_requests for c in counters], "to shared memory, one a warp"),
        ("bank conflicts", [c.bank_conflicts for c in counters], "extra passes over shared memory"),
        ("barriers", [c.barriers for c in counters], "waits, one a warp"),
        ("shuffles", [c.shuffles for c in counters], "one a warp"),
    )
    yield from (entry for entry in optional if any(entry[1]))


def _names(versions: Sequence[CountedSource]) -> list[str]:
    """How the versions are told apart: by file name, or by path where that is the same."""
    files = [visible(v.file) for v in versions]
    short = [file.rpartition("/")[2] for file in files]
    return short if len(set(short)) == len(short) else files


def _registers(version: CountedSource) -> str:
    return ", ".join(str(k.resources.registers) for k in version.compilation.kernels)


# -- what is moved in vain -------------------------------------------------------------------------

_MOST_LISTED = 8


def _print_traffic(out: Console, versions: Sequence[CountedSource]) -> None:
    """Bytes of each argument, and what is moved in vain on any workload."""
    out.print()
    two = len(versions) == 2
    columns = ("size", "loaded", "distinct", "shared", "stored", "distinct", "half lines")
    rows = table("bytes of", *([""] if two else []), *columns, "a warp's request moves a byte once")
    for column in rows.columns[-8:-1]:
        column.justify = "right"
    for name, version in zip(_names(versions), versions, strict=True):
        for t in version.traffic:
            counts = (
                t.size,
                t.loaded,
                t.distinct_loaded,
                t.shared,
                t.stored,
                t.distinct_stored,
                t.half_lines,
            )
            cells = (f"{n:,}" if n else "" for n in counts)
            remark = f"{(t.loaded - t.shared + t.stored) / t.compulsory:.2f} times the distinct"
            rows.add_row(t.argument, *([name] if two else []), *cells, remark)
    print_table(out, rows)
    for name, version in zip(_names(versions), versions, strict=True):
        prefix = f"{name}: " if two else ""
        found = wasted_traffic((w.workload, w.arguments) for w in version.workloads)
        for wasted in found[:_MOST_LISTED]:
            indented(out, f"{prefix}{wasted.describe()}", 0)
        if len(found) > _MOST_LISTED:
            indented(out, f"{prefix}{len(found) - _MOST_LISTED} more in --json", 0)
        if not found and version.workloads:
            count = len(version.workloads)
            indented(out, f"{prefix}nothing is moved in vain on {count} workloads", 0)
        for workload in (w for w in version.workloads if w.problem):
            indented(out, f"{prefix}{workload.workload} was not counted: {workload.problem}", 0)


# -- line by line ----------------------------------------------------------------------------------

_COLUMNS = ("req", "sectors", "eff", "confl", "instr")
_Cells = tuple[str, ...]
_NOTHING: _Cells = ("",) * len(_COLUMNS)


@dataclass(frozen=True)
class _Line:
    """One line of a source: its number, what was counted there, and in which version it is."""

    number: int
    cells: _Cells
    text: str
    mark: str = " "


def _print_lines(out: Console, versions: Sequence[CountedSource]) -> None:
    """The source with its counts; columns in which nothing was counted are left out.

    A line is cut at the edge of a terminal, so that the columns stay in line.
    """
    if len(versions) == 1:
        lines = _annotated(versions[0])
    else:
        lines = list(_merged(*map(_annotated, versions)))
        names = _names(versions)
        legend = f"+ {names[0]}, - {names[1]}, no mark: text and counts are the same in both"
        indented(out, legend, 0)
    rows = [_COLUMNS, *(line.cells for line in lines)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    kept = [i for i in range(len(_COLUMNS)) if any(line.cells[i] for line in lines)]

    def counts(cells: _Cells) -> str:
        return "".join(f"{cells[i]:>{widths[i]}} " for i in kept)

    width = out.width if out.file.isatty() else None
    out.print(Text(f"{counts(_COLUMNS)} line", style="bold"))
    for line in lines:
        row = f"{counts(line.cells)}{line.number or '':5} {line.mark} {visible(line.text)}"
        out.print(row.expandtabs(8).rstrip()[:width])


def _annotated(version: CountedSource) -> list[_Line]:
    """The lines of the source, then those of upstream files to which no line of it led."""
    cells = _cells(version.counters)
    texts = enumerate(version.text.splitlines(), 1)
    own = [_Line(number, cells.get((number, ""), _NOTHING), text) for number, text in texts]
    return [*own, *(_Line(0, cells[place], place[1]) for place in sorted(cells) if place[1])]


def _merged(new: list[_Line], old: list[_Line]) -> Iterator[_Line]:
    """Both versions as a diff of text and counts."""
    before, after = ([(line.text, line.cells) for line in side] for side in (old, new))
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            yield from new[j1:j2]
        else:
            yield from (replace(line, mark="-") for line in old[i1:i2])
            yield from (replace(line, mark="+") for line in new[j1:j2])


def _cells(counters: Counters) -> dict[Place, _Cells]:
    """The counts of each place as text, in the order of `_COLUMNS`."""
    instructions = {c.place: c.warp_instructions for c in counters.lines}
    found: dict[Place, _Cells] = {}
    for place in {*instructions, *(a.place for a in counters.accesses)}:
        here = [a for a in counters.accesses if a.place == place]
        sectors = sum(a.sectors for a in here)
        moved = sum(a.bytes for a in here if a.in_global)
        found[place] = (
            _number(sum(a.requests for a in here)),
            _number(sectors),
            percent(moved / (32 * sectors)) if sectors else "",
            _number(sum(a.conflicts for a in here)),
            _number(instructions.get(place, 0)),
        )
    return found


def _number(value: int) -> str:
    return count(value) if value else ""
