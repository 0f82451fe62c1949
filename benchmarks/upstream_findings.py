"""What the kernels that `upstream_drafts.py` drafted move in vain and do wrong, for a person to rule on.

    python benchmarks/upstream_findings.py WORK_FOLDER [--only PART] [--jobs N] [--page]

Every draft that runs is counted on the emulator at its workloads and at the largest of its sizes. A
line for each kernel goes to WORK_FOLDER/findings.jsonl, so that a run that was ended continues: bytes
moved in vain, where they are a part of all bytes that counts, and what the emulator's checks found. A
move of the playbook that takes a finding away leaves its patch in WORK_FOLDER/patches. `--page` writes docs/findings/sweep.md, with the
rulings of benchmarks/upstream/rulings.toml. A draft may have guessed a shape or a role wrong: what
follows from that is no finding, and a ruling says so.
"""  # noqa: E501

from __future__ import annotations

import argparse
import difflib
import json
import tomllib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from environment import ROOT
from upstream_drafts import ANSWERS, NO_REFERENCE, STEPS, Row, in_processes, known_rows

from astra_tui.emulator.device import Emulator
from astra_tui.lab.check.counting import MAX_ELEMENTS, PROFILE_ELEMENTS, count, workload_case
from astra_tui.lab.check.execution import Source, read_source
from astra_tui.lab.compiler import Compiler
from astra_tui.lab.upstream import task_headers
from astra_tui.model.check import Case
from astra_tui.model.counters import Counters, add_counters
from astra_tui.model.errors import UserError
from astra_tui.model.findings import FindingKind
from astra_tui.model.task import KernelTask, load_task
from astra_tui.model.traffic import ArgumentTraffic, WastedTraffic, wasted_traffic
from astra_tui.playbook import Evidence, propose_all

LEAST_PART = 0.03
"""Of all bytes that a kernel moves: what is moved in vain less than this is not listed."""

BUDGET = 300_000
"""Steps of one size: a few seconds."""

RULINGS = ANSWERS / "rulings.toml"
_OURS = (FindingKind.BUDGET, FindingKind.UNSUPPORTED)
"""What says nothing of a kernel: it takes long, or needs what the emulator does not run."""

_PAGE = ROOT / "docs" / "findings" / "sweep.md"


@dataclass(frozen=True)
class FindingRow:
    """One finding about one kernel."""

    package: str
    file: str
    kernel: str
    line: int
    """Of the kernel in its file."""
    kind: str
    what: str
    code: tuple[str, ...]
    """The lines of the draft that it names, which are those of the package."""
    part: float
    """Of all bytes that the kernel moves, on the sizes that show it; 0 for faults."""
    move: str = ""
    """The move of the playbook that takes it away."""

    @property
    def key(self) -> str:
        """As rulings name it."""
        return f"{self.package}:{self.file}:{self.kernel}:{self.kind}"


@dataclass(frozen=True)
class Counted:
    """A draft on some sizes: what was moved, the counters, and what was found wrong."""

    traffic: tuple[tuple[str, tuple[ArgumentTraffic, ...]], ...]
    counters: Counters
    faults: tuple[tuple[str, str, int], ...]
    """Kind, words, and line."""


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="drafts whose folder has this in its name")
    parser.add_argument("--jobs", type=int, default=1, help="kernels at a time")
    parser.add_argument("--page", action="store_true")
    options = parser.parse_args()
    log = options.folder / "findings.jsonl"
    known = _known(log)
    rows = [r for r in known_rows(options.folder / "rows.jsonl") if _runs(r)]
    drafts = options.folder / "drafts"
    left = [
        (row, drafts / row.draft, options.folder / "patches") for row in rows
        if row.draft not in known and options.only in row.draft and (drafts / row.draft).exists()
    ]  # fmt: skip
    with log.open("a", encoding="utf-8") as out:
        for row, found in in_processes(options.jobs, _looked_at, left):
            print(row.draft, row.kernel, flush=True)
            for finding in found:
                print(finding.key, f"{finding.part:.0%}", finding.what, finding.move, flush=True)
            line = {"draft": row.draft, "findings": [asdict(f) for f in found]}
            out.write(json.dumps(line) + "\n")
            out.flush()
            known[row.draft] = found
    listed = [finding for row in rows for finding in known.get(row.draft, ())]
    print(f"{len(listed)} findings in {len(known)} kernels")
    if options.page:
        _PAGE.parent.mkdir(exist_ok=True)
        made = sorted({row.made_with for row in rows})
        _PAGE.write_text(page(listed, len(known), made), encoding="utf-8")


def _known(log: Path) -> dict[str, list[FindingRow]]:
    """The findings of a run so far, by the drafts that it has looked at."""
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    return {
        line["draft"]: [FindingRow(**row) for row in line["findings"]]
        for line in map(json.loads, lines)
    }


def _runs(row: Row) -> bool:
    return STEPS.index(row.reached) >= STEPS.index("compiled")


def _looked_at(given: tuple[Row, Path, Path]) -> tuple[Row, list[FindingRow]]:
    return given[0], list(_findings(*given))


def _findings(row: Row, folder: Path, patches: Path) -> Iterator[FindingRow]:
    if row.reached == "ran" and row.why != NO_REFERENCE:
        yield _row(row, "wrong", row.why, (), 0.0)
    try:
        task = load_task(folder)
        source = read_source(task, task.baseline_file.read_text(), "baseline.cu")
        with Compiler(upstream=task_headers(task)) as compiler:
            counted = _counted(task, source, compiler)
            if not counted.traffic and not counted.faults:
                print(row.draft, "was not counted: no size ran to its end", flush=True)
            lines = source.text.splitlines()
            for kind, what, line in counted.faults:
                if row.reached != "compiled":  # Else the draft is wrong, by what is known of it.
                    yield _row(row, kind, what, _code(lines, (line,)), 0.0)
            for waste in wasted_traffic(counted.traffic):
                part = _part(waste, counted)
                if part < LEAST_PART:
                    continue
                move = _mended(task, source, compiler, counted, waste, patches / row.draft)
                code = _code(lines, waste.lines)
                yield _row(row, waste.waste.kind.value, waste.describe(), code, part, move)
    except UserError as error:
        print(row.draft, "was not counted:", error.message, flush=True)


def _row(
    row: Row, kind: str, what: str, code: tuple[str, ...], part: float, move: str = ""
) -> FindingRow:
    return FindingRow(
        row.package, row.file, row.kernel, row.line, kind, what, code, round(part, 4), move
    )


def _counted(task: KernelTask, source: Source, compiler: Compiler) -> Counted:
    traffic = []
    counters = []
    faults: dict[tuple[str, str, int], None] = {}
    for case in _cases(task):
        try:
            found = count(task, source, case, compiler, Emulator(BUDGET))
        except UserError:
            continue  # The launch plan refuses the size.
        name = "x".join(map(str, case.dims.values()))
        for fault in (f for f in found.faults if f.kind not in _OURS):
            faults[fault.kind.value, f"{fault.describe()}, at {name}", fault.line] = None
        if not found.faults and found.compilation.ok:
            traffic.append((name, found.traffic))
            counters.append(found.counters)
    return Counted(tuple(traffic), add_counters(counters), tuple(faults))


def _cases(task: KernelTask) -> Iterator[Case]:
    """The workloads, the largest of all sizes and the typical ones, as far as they stay quick."""
    for workload in task.workloads:
        case = workload_case(task, workload.name, None, PROFILE_ELEMENTS)
        if task.elements(case.dims, case.dtype) <= MAX_ELEMENTS:
            yield case
    largest = {name: max(dim.sizes) for name, dim in task.dims.items()}
    dtype = task.dtypes[0]
    few = {**largest, task.rows: min(8, largest[task.rows])} if task.rows else largest
    for dims in (few, {n: d.typical for n, d in task.dims.items()}):
        if not task.violated(dims, dtype) and task.elements(dims, dtype) <= PROFILE_ELEMENTS:
            yield Case("largest", "the largest sizes", dtype, dims)


def _part(waste: WastedTraffic, counted: Counted) -> float:
    """The bytes in vain over all bytes, on the size that shows it most."""
    whole = {name: sum(t.loaded + t.stored for t in found) for name, found in counted.traffic}
    return max(share.bytes / max(whole[share.workload], 1) for share in waste.shares)


def _code(lines: list[str], numbers: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(lines[n - 1].strip() for n in numbers if 0 < n <= len(lines))


def _mended(
    task: KernelTask,
    source: Source,
    compiler: Compiler,
    counted: Counted,
    waste: WastedTraffic,
    patch: Path,
) -> str:
    """The move after which nothing of that kind is left of the argument; "" for none."""
    evidence = Evidence(task, counted.counters, wasted=wasted_traffic(counted.traffic))
    for proposal in propose_all(source.text, evidence)[0]:
        if not any(p.first <= n <= p.last for p in proposal.plan.places for n in waste.lines):
            continue
        made = read_source(task, proposal.source, "patched.cu")
        after = _counted(task, made, compiler)
        left = [
            w for w in wasted_traffic(after.traffic)
            if (w.argument, w.waste.kind) == (waste.argument, waste.waste.kind)
        ]  # fmt: skip
        if after.traffic and not after.faults and not left:
            patch.parent.mkdir(exist_ok=True)
            sides = (text.splitlines(keepends=True) for text in (source.text, proposal.source))
            text = "".join(difflib.unified_diff(*sides, "a/baseline.cu", "b/baseline.cu"))
            patch.with_suffix(".patch").write_text(text, encoding="utf-8")
            return proposal.plan.move
    return ""


def page(found: list[FindingRow], looked_at: int, made_with: list[str]) -> str:
    """docs/findings/sweep.md."""
    rulings: dict[str, Any] = tomllib.loads(RULINGS.read_text()) if RULINGS.exists() else {}
    lines = [
        "# Findings in kernels of pinned packages",
        "",
        "<!-- Written by benchmarks/upstream_findings.py --page. -->",
        "",
        f"What {looked_at} of the kernels in [upstream.md](../upstream.md) move in vain on the",
        "emulator, and what its checks found, as `make upstream` lists it for a person to rule on.",
        f"Listed is what comes to {100 * LEAST_PART:.0f} % of a kernel's bytes or more; kinds are",
        "explained in [emulator.md](../emulator.md#what-is-moved-in-vain). Sizes are those of the",
        "drafts, which are small, and lines those of the drafts. Rulings are in",
        "`benchmarks/upstream/rulings.toml`; what is real and was looked at by hand has",
        "[a page of its own](README.md).",
        "",
        f"Made with {'; '.join(made_with)}.",
        "",
        "| kernel | what | of all bytes | move | ruling |",
        "| --- | --- | --- | --- | --- |",
    ]
    for row in found:
        ruling = rulings.get(row.key, {"ruling": "open", "why": ""})
        what = " ".join(row.what.split()).replace("|", "\\|")
        words = f"{ruling['ruling']}: {ruling['why']}" if ruling["why"] else ruling["ruling"]
        place = f"{row.package}: {row.file}:{row.line} `{row.kernel}`"
        part = f"{100 * row.part:.0f} %" if row.part else ""
        lines.append(f"| {place} | {what} | {part} | {row.move} | {words} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
