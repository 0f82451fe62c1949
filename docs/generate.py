"""Writes the parts of docs/ that follow from tables in the code.

    python docs/generate.py [--check]

With --check nothing is written; the exit code is 1 when a page is out of date, and stderr names it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from itertools import groupby
from pathlib import Path

from commands_page import command_sections, exit_code_table
from gate_page import audit_sections, kind_table
from json_page import answer_sections, part_sections

from astra_tui.model.findings import EXPLANATIONS, WARNINGS
from astra_tui.model.opcodes import OPCODES, REFUSED

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "benchmarks" / "results"
_PORT = re.compile(r"127\.0\.0\.1:\d+")
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


def fault_table() -> str:
    """What faults of a model's server come to, as `tests/llm_team/server_faults.py` found it."""
    found = json.loads((RESULTS / "server_faults.json").read_text(encoding="utf-8"))
    lines = [
        "| fault | in | exit code | calls | tokens | lost rounds | resumes | message |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in found["rows"]:
        tokens = f"{row['tokens']:,}" + (" (estimated)" if row["estimated calls"] else "")
        message = _PORT.sub("127.0.0.1", row["message"]).replace("|", "\\|")
        lines.append(
            f"| {row['fault']} | {row['in']} | {row['exit code']} | {row['calls']} | {tokens} | "
            f"{row['lost rounds']} | {'yes' if row['resumes'] else 'no'} | {message} |"
        )
    return "\n".join(lines)


Parts = Mapping[str, Callable[[], str]]

PAGES: Mapping[str, Parts] = {
    "emulator.md": {"opcodes": opcode_table, "refused": refusal_table, "findings": finding_table},
    "commands.md": {"commands": command_sections, "exit codes": exit_code_table},
    "server-faults.md": {"faults": fault_table},
    "gate.md": {"kinds": kind_table, "audits": audit_sections},
    "json.md": {"answers": answer_sections, "parts": part_sections},
}


def renewed(page: str, parts: Parts) -> str:
    """The page with its generated parts written again. Raises ValueError for a missing marker."""
    for name, make in parts.items():
        begin, end = BEGIN.format(name), END.format(name)
        if page.count(begin) != 1 or page.count(end) != 1:
            raise ValueError(f"a page needs {begin} and {end}, once each")
        before, _, rest = page.partition(begin)
        _, _, after = rest.partition(end)
        page = f"{before}{begin}\n\n{make()}\n\n{end}{after}"
    return page


def main() -> int:
    """Writes the pages, or compares them."""
    code = 0
    for name, parts in PAGES.items():
        page = (DOCS / name).read_text(encoding="utf-8")
        new = renewed(page, parts)
        if new == page:
            continue
        if "--check" in sys.argv:
            sys.stderr.write(f"docs/{name} is out of date; say: python docs/generate.py\n")
            code = 1
        else:
            (DOCS / name).write_text(new, encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main())
