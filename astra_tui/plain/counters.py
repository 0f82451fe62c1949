"""A kernel source with the emulator's counters beside its lines."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from astra_tui.model.check import Case
from astra_tui.model.compilation import Compilation
from astra_tui.model.counters import Counters
from astra_tui.model.findings import Finding
from astra_tui.plain.output import console, print_table, table, visible

_COLUMNS = (("req", 8), ("sectors", 8), ("eff", 5), ("confl", 6), ("instr", 8))
_WIDTH = sum(width + 1 for _, width in _COLUMNS)
_BLANK = " " * _WIDTH


@dataclass(frozen=True)
class CountedSource:
    """One version of a kernel: its text and what was counted."""

    file: str
    text: str
    counters: Counters
    compilation: Compilation
    faults: tuple[Finding, ...]


def print_counters(
    task: str, case: Case, compulsory_bytes: int, versions: Sequence[CountedSource]
) -> None:
    """Totals, then the source line by line; with two versions, in the form of a diff."""
    out = console()
    sizes = ", ".join(f"{k}={v}" for k, v in case.dims.items())
    out.print(f"{task}, {case.why}, {case.dtype.value}, {sizes}; counted by the emulator")
    _print_totals(out, compulsory_bytes, versions)
    for version in versions:
        for fault in version.faults:
            out.print(f"{visible(version.file)}: {visible(fault.describe())}")
    out.print()
    heads = [f"{visible(v.file.rpartition('/')[2])[: _WIDTH - 1]:<{_WIDTH}}" for v in versions]
    out.print("".join(heads) if len(versions) > 1 else "", end="\n" if len(versions) > 1 else "")
    head = "".join(f"{name:>{width}} " for name, width in _COLUMNS)
    out.print(Text(head * len(versions) + " line", style="bold"))
    lines = _alone(versions[0]) if len(versions) == 1 else _beside(versions[0], versions[1])
    for line in lines:
        out.print(line)


def _print_totals(out: Console, compulsory_bytes: int, versions: Sequence[CountedSource]) -> None:
    rows = table("", *(visible(v.file.rpartition("/")[2]) for v in versions), "")
    counters = [v.counters for v in versions]
    needed = compulsory_bytes / 32
    names = (
        ("sectors (32 bytes)", [c.sectors for c in counters], f"compulsory: {needed:,.0f}"),
        ("requests", [c.requests for c in counters], "accesses to global memory, one a warp"),
        ("warp instructions", [c.warp_instructions for c in counters], "PTX, before ptxas"),
        ("shared requests", [c.shared_requests for c in counters], ""),
        ("bank conflicts", [c.bank_conflicts for c in counters], ""),
        ("barriers", [c.barriers for c in counters], ""),
        ("shuffles", [c.shuffles for c in counters], ""),
    )
    for name, values, remark in names:
        change = ""
        if len(values) == 2 and values[0] and values[0] != values[1]:
            change = f"{(values[0] / values[1] - 1) * 100:+.0f} %" if values[1] else ""
            remark = f"{change}  {remark}".strip() if change else remark
        rows.add_row(name, *(f"{v:,}" for v in values), remark)
    rows.add_row("registers", *(_registers(v) for v in versions), "a thread, by kernel")
    print_table(out, rows)
    if len(versions) == 2:
        keys = [v.counters.ranking_key() for v in versions]
        order = "equal" if keys[0] == keys[1] else "better" if keys[0] < keys[1] else "worse"
        name = visible(versions[0].file.rpartition("/")[2])
        out.print(f"{name} is {order} by the emulator's key (sectors, requests, instructions)")
    out.print(f"counts depend on the compiler: {versions[0].counters.compiler}")


def _registers(version: CountedSource) -> str:
    return ", ".join(str(k.resources.registers) for k in version.compilation.kernels)


def _alone(version: CountedSource) -> Iterator[str]:
    cells = _cells(version.counters)
    for number, text in enumerate(version.text.splitlines(), 1):
        yield f"{cells.get(number, _BLANK)}{number:5} | {visible(text)}"


def _beside(new: CountedSource, old: CountedSource) -> Iterator[str]:
    """Both versions in the order of a diff: the new one's counts left, the old one's right."""
    mine, theirs = _cells(new.counters), _cells(old.counters)
    a, b = old.text.splitlines(), new.text.splitlines()
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if tag == "equal":
            for i, j in zip(range(i1, i2), range(j1, j2), strict=True):
                left, right = mine.get(j + 1, _BLANK), theirs.get(i + 1, _BLANK)
                yield f"{left}{right}{j + 1:5}   {visible(b[j])}"
        else:
            for i in range(i1, i2):
                yield f"{_BLANK}{theirs.get(i + 1, _BLANK)}{i + 1:5} - {visible(a[i])}"
            for j in range(j1, j2):
                yield f"{mine.get(j + 1, _BLANK)}{_BLANK}{j + 1:5} + {visible(b[j])}"


def _cells(counters: Counters) -> dict[int, str]:
    """The counts of each source line as text of fixed width."""
    lines = {c.line: c.warp_instructions for c in counters.lines}
    found: dict[int, str] = {}
    for line in {*lines, *(a.line for a in counters.accesses)}:
        here = [a for a in counters.accesses if a.line == line]
        requests = sum(a.requests for a in here)
        sectors = sum(a.sectors for a in here)
        moved = sum(a.bytes for a in here if a.space == "global")
        values = (
            f"{requests:,}" if requests else "",
            f"{sectors:,}" if sectors else "",
            f"{moved / (32 * sectors):.0%}" if sectors else "",
            f"{sum(a.conflicts for a in here):,}" if any(a.conflicts for a in here) else "",
            f"{lines.get(line, 0):,}",
        )
        cells = zip(values, _COLUMNS, strict=True)
        found[line] = "".join(f"{value:>{width}} " for value, (_, width) in cells)
    return found
