"""Writes the parts of docs/, and the prompts, that follow from tables in the code.

    python docs/generate.py [--check]

With --check nothing is written; the exit code is 1 when a page is out of date, and stderr names it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from pathlib import Path

from agents_page import prompt_table, small_model_tables, study_tables
from commands_page import command_sections, exit_code_table
from gate_page import audit_sections, kind_table
from json_page import answer_sections, part_sections

from astra_tui.emulator.opcode_table import OPCODES, REFUSED
from astra_tui.model.dtypes import FLOATS, DType
from astra_tui.model.findings import EXPLANATIONS, WARNINGS

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


def element_type_table() -> str:
    """The element types, with what their C++ type needs and their numbers hold."""
    lines = [
        "| type | in C++ | header | bits | largest | smallest step | special | `T` |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for dtype in DType:
        step, special = "1", ""
        if dtype.is_float:
            largest, step = f"{dtype.largest:.6g}", f"{dtype.smallest_step:.3g}"
            special = ", ".join(s for s in ("nan", "inf", "-inf") if s in dtype.specials)
        else:
            largest = str(dtype.integer_range[1])
        header = f"`{dtype.header}`" if dtype.header else ""
        of_t = "yes" if dtype.value in FLOATS else ""
        lines.append(
            f"| `{dtype.value}` | `{dtype.cuda}` | {header} | {dtype.bits} | {largest} | {step} | "
            f"{special} | {of_t} |"
        )
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


def refused_instructions() -> str:
    """The refusals for a prompt, one reason a line."""
    entries = sorted(REFUSED, key=lambda r: (r.what, r.advice))
    lines = []
    for (what, advice), group in groupby(entries, key=lambda r: (r.what, r.advice)):
        names = ", ".join(r.prefix for r in group)
        lines.append(f"- {names} ({what}): {advice}")
    return "\n".join(lines)


def refused_features() -> str:
    """What they are for, in one line."""
    return "; ".join(sorted({r.what for r in REFUSED}))


Parts = Mapping[str, Callable[[], str]]

PROMPTS: Parts = {
    "refused_instructions": refused_instructions,
    "refused_features": refused_features,
}

PAGES: Mapping[str, Parts] = {
    "kernel-task.md": {"element types": element_type_table},
    "emulator.md": {"opcodes": opcode_table, "refused": refusal_table, "findings": finding_table},
    "commands.md": {"commands": command_sections, "exit codes": exit_code_table},
    "server-faults.md": {"faults": fault_table},
    "agents.md": {"prompt sizes": prompt_table, "small model": small_model_tables},
    "study.md": {"gates": study_tables("gates"), "small model": study_tables("small_model")},
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
    for file, new in generated():
        if file.is_file() and file.read_text(encoding="utf-8") == new:
            continue
        if "--check" in sys.argv:
            name = file.relative_to(DOCS.parent)
            sys.stderr.write(f"{name} is out of date; say: python docs/generate.py\n")
            code = 1
        else:
            file.write_text(new, encoding="utf-8")
    return code


def generated() -> Iterator[tuple[Path, str]]:
    """Every file with what it has to hold."""
    for name, parts in PAGES.items():
        yield DOCS / name, renewed((DOCS / name).read_text(encoding="utf-8"), parts)
    for name, make in PROMPTS.items():
        yield DOCS.parent / "astra_tui" / "llm" / "prompts" / f"{name}.txt", make() + "\n"


if __name__ == "__main__":
    sys.exit(main())
