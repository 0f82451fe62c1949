"""What an audit of the gate found, in lines."""

from __future__ import annotations

from collections.abc import Mapping

from astra_tui.model.audit import AuditSummary, Group
from astra_tui.plain.console import console, print_table, table
from astra_tui.plain.output import visible
from astra_tui.present.numbers import short


def print_audit(summary: AuditSummary, messages: Mapping[str, str]) -> None:
    """A row for each kind, then every kernel that speaks against the gate, with its reason."""
    out = console()
    head = summary.head
    out.print(f"gate {short(head.gate)} on {head.device}, {head.compiler}; {head.machine}")
    rows = table("group", "kind", "judged", "wrong", "inconclusive", "void", "hang", "failures")
    for kind in summary.kinds:
        numbers = (kind.judged, kind.wrong, kind.inconclusive, kind.void, kind.hang)
        shown = [str(n) if n else "" for n in (*numbers, len(kind.failures))]
        rows.add_row(kind.group.value, visible(kind.kind), *shown)
    print_table(out, rows)
    for group, words in _FAILURES.items():
        names = [n for k in summary.kinds if k.group is group for n in k.failures]
        judged = sum(k.judged for k in summary.kinds if k.group is group)
        if judged:
            out.print(f"{group.value}: {len(names)} of {judged} {words}")
        for name in names:
            out.print(visible(f"  {name}: {messages.get(name, '')}"))
    left_out = sum(k.not_counted for k in summary.kinds)
    if left_out:
        out.print(f"{left_out} mutants are no program, or change nothing, and are not counted")


_FAILURES = {
    Group.PLANTED: "wrong kernels were not caught",
    Group.HONEST: "right kernels did not pass",
    Group.MUTANT: "mutants were not caught",
}
