"""The generated parts of docs/gate.md: the kinds of the zoo, and what audits of the gate found."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from astra_tui.lab.audit.zoo import read_zoo
from astra_tui.model.audit import AuditSummary, Group, KindSum
from astra_tui.model.task_folders import bundled

ZOO = bundled("tests") / "zoo"
RESULTS = bundled("benchmarks") / "results"


def kind_table() -> str:
    """The kinds of planted kernels, and how many there are."""
    zoo = read_zoo(ZOO)
    lines = ["| kind | planted | what is wrong |", "| --- | --- | --- |"]
    for kind, about in zoo.abouts.items():
        count = sum(entry.kind == kind for entry in zoo.planted)
        lines.append(f"| {kind} | {count} | {about} |")
    lines += ["", f"{len(zoo.planted)} planted and {len(zoo.honest)} honest kernels."]
    return "\n".join(lines)


def audit_sections() -> str:
    """A section for each audit whose summary is committed."""
    files = sorted(RESULTS.glob("audit_*.json"))
    if not files:
        return "No results of an audit are committed yet."
    found = [msgspec.json.decode(file.read_bytes(), type=AuditSummary) for file in files]
    return "\n\n".join("\n".join(_section(summary)) for summary in found)


def _section(summary: AuditSummary) -> Iterator[str]:
    head = summary.head
    yield f"## On {head.device}"
    yield ""
    yield f"`{summary.command}`, {head.date}: version {head.version}, gate `{head.gate[:12]}`, "
    yield f"{head.compiler}; {head.machine}; {summary.cpu_seconds / 3600:.1f} hours of CPU time."
    yield ""
    yield "| group | kind | judged | wrong | inconclusive | void | hang | not caught, or accused |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for kind in summary.kinds:
        yield _row(kind.group.value, kind.kind, kind)
    yield ""
    for group in Group:
        kinds = [kind for kind in summary.kinds if kind.group is group]
        judged = sum(kind.judged for kind in kinds)
        names = [f"`{name}`" for kind in kinds for name in kind.failures]
        if judged:
            words = "did not pass" if group is Group.HONEST else "not caught"
            shown = f": {', '.join(names)}" if names else ""
            yield f"- {group.value}: {len(names)} of {judged} {words}{shown}."
    left_out = sum(kind.not_counted for kind in summary.kinds)
    yield f"- not counted: {left_out} mutants that are no program, or change nothing."


def _row(group: str, kind: str, of: KindSum) -> str:
    numbers = (of.judged, of.wrong, of.inconclusive, of.void, of.hang, len(of.failures))
    return f"| {group} | {kind} | " + " | ".join(map(str, numbers)) + " |"
