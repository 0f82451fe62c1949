"""What compiler, devices and disassembler say about lines, as marks and columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from astra_tui.model.compilation import Diagnostic, Severity
from astra_tui.model.counters import Counters
from astra_tui.model.findings import Finding
from astra_tui.model.sass import Instruction
from astra_tui.tui.widgets.code.annotations import LineColumn, LineMark, MarkKind

_SASS_WIDTH = 28


def diagnostic_marks(diagnostics: Iterable[Diagnostic]) -> tuple[LineMark, ...]:
    """The messages of a compiler, in its order."""
    return tuple(
        LineMark(
            d.line, MarkKind.ERROR if d.severity is Severity.ERROR else MarkKind.WARNING, d.message
        )
        for d in diagnostics
    )


def finding_marks(findings: Iterable[Finding]) -> tuple[LineMark, ...]:
    """Findings by line; the same fault in several cases is one mark that says how often."""
    kinds: dict[tuple[int, str], list[Finding]] = {}
    for finding in findings:
        line = finding.line or finding.launch_line
        kinds.setdefault((line, finding.kind.value), []).append(finding)
    return tuple(
        LineMark(
            line,
            MarkKind.WARNING if same[0].is_warning else MarkKind.FINDING,
            same[0].describe() + (f" ({len(same)} times)" if len(same) > 1 else ""),
        )
        for (line, _), same in sorted(kinds.items())
    )


def counter_columns(counters: Counters | None) -> tuple[LineColumn, ...]:
    """The emulator's counts by line: global requests and sectors, and bank conflicts if any."""
    if counters is None:
        return ()
    requests: Counter[int] = Counter()
    sectors: Counter[int] = Counter()
    conflicts: Counter[int] = Counter()
    for access in counters.accesses:
        if access.space == "global":
            requests[access.line] += access.requests
            sectors[access.line] += access.sectors
        elif access.space == "shared":
            conflicts[access.line] += access.conflicts
    columns = (("requests", requests), ("sectors", sectors), ("conflicts", conflicts))
    return tuple(
        LineColumn(title, {line: str(count) for line, count in counts.items() if count})
        for title, counts in columns
        if counts.total()
    )


def sass_column(instructions: Iterable[Instruction]) -> tuple[LineColumn, ...]:
    """The machine instructions of each line by name, such as "LDG.128 2, FFMA 8"."""
    names: dict[int, Counter[str]] = {}
    for instruction in instructions:
        if instruction.line:
            names.setdefault(instruction.line, Counter())[instruction.name] += 1
    values = {
        line: ", ".join(f"{name} {count}" for name, count in counts.most_common())
        for line, counts in names.items()
    }
    return (LineColumn("SASS", values, _SASS_WIDTH, align_right=False),) if values else ()
