"""Writes the parts of docs/ that follow from tables in the code.

    python docs/generate.py [--check]

With --check nothing is written; the exit code says whether everything is up to date.
"""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path

from astra_tui.model.findings import EXPLANATIONS, WARNINGS
from astra_tui.model.opcodes import OPCODES, REFUSED

PAGE = Path(__file__).parent / "emulator.md"
BEGIN, END = "<!-- generated: {} -->", "<!-- end: {} -->"


def opcode_table() -> str:
    """What is emulated, by group."""
    lines = ["| group | opcode | what it does | forms and notes |", "| --- | --- | --- | --- |"]
    for group, opcodes in groupby(OPCODES.values(), key=lambda o: o.group):
        for opcode in opcodes:
            forms = " ".join(sorted(opcode.modifiers))
            note = f"{opcode.note}. " if opcode.note else ""
            lines.append(f"| {group} | `{opcode.name}` | {opcode.summary} | {note}{forms} |")
    return "\n".join(lines)


def refusal_table() -> str:
    """What is refused, and what to do."""
    lines = ["| instruction | what it is | what to do |", "| --- | --- | --- |"]
    lines += [f"| `{r.prefix}` | {r.what} | {r.advice} |" for r in REFUSED]
    return "\n".join(lines)


def finding_table() -> str:
    """The kinds of findings."""
    lines = ["| finding | what it means |", "| --- | --- |"]
    for kind, text in EXPLANATIONS.items():
        warning = " (a warning: the case may pass)" if kind in WARNINGS else ""
        lines.append(f"| `{kind.value}` | {text}{warning} |")
    return "\n".join(lines)


PARTS = {"opcodes": opcode_table, "refused": refusal_table, "findings": finding_table}


def renewed(page: str) -> str:
    """The page with its generated parts written again."""
    for name, make in PARTS.items():
        begin, end = BEGIN.format(name), END.format(name)
        before, _, rest = page.partition(begin)
        _, _, after = rest.partition(end)
        page = f"{before}{begin}\n{make()}\n{end}{after}"
    return page


def main() -> int:
    """Writes the page, or compares it."""
    page = PAGE.read_text(encoding="utf-8")
    new = renewed(page)
    if "--check" in sys.argv:
        return int(page != new)
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
