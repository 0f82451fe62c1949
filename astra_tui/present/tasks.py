"""Kernel tasks: lists of them, their cases and their yardsticks, and drafts of new ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from astra_tui.model.check import Case
from astra_tui.model.open_point import OpenPoint
from astra_tui.model.task import KernelTask
from astra_tui.model.yardsticks import YardstickEntry
from astra_tui.present import document as doc
from astra_tui.present.numbers import dimensions, pluralised
from astra_tui.present.tones import Phrase


def tasks_blocks(tasks: Sequence[KernelTask]) -> list[doc.Block]:
    """One row a task."""
    columns = "task", "types", "workloads", "what it does"
    rows = (
        (task.name, " ".join(d.short for d in task.dtypes), len(task.workloads), task.summary)
        for task in tasks
    )
    return [doc.table(columns, rows)]


def cases_blocks(task: str, cases: Sequence[Case]) -> list[doc.Block]:
    """The cases of a task, with the reason for each."""
    rows = ((case.id, dimensions(case.dims), _why(case)) for case in cases)
    heading = f"{task}: {pluralised(len(cases), 'case')}"
    return [*doc.paragraphs(heading), doc.table(("case", "sizes", "why"), rows)]


def _why(case: Case) -> str:
    outside = case.outside_contract
    refused = f" (outside the contract: {outside}; has to be refused)" if outside else ""
    return case.why + refused


# -- yardsticks ------------------------------------------------------------------------------------


def yardsticks_blocks(
    entries: Sequence[YardstickEntry], unserved: Mapping[str, Sequence[str]]
) -> list[doc.Block]:
    """One row a yardstick; what none serves follows, then what could not be built."""
    columns = "task", "yardstick", "state", "serves", "package", "licence", "age", "pdl"
    listed = doc.table(columns, map(_yardstick, entries), optional=4)
    lacking = [
        f"{task}: no yardstick serves {', '.join(workloads)}"
        for task, workloads in unserved.items()
        if workloads
    ]
    failed = [
        doc.Entry((f"{e.task}: {e.name} not timed: {e.problem}",), doc.paragraphs(e.hint))
        for e in entries
        if e.problem
    ]
    newer = {f"{e.package} {e.version}": ", ".join(e.newer[:3]) for e in entries if e.newer}
    pinned = [f"{p}: the index has {found}; the pin stays as it is" for p, found in newer.items()]
    return [listed, *doc.paragraphs(*lacking), *failed, *doc.paragraphs(*pinned)]


def _yardstick(e: YardstickEntry) -> doc.Row:
    package, pdl = f"{e.package} {e.version}", "yes" if e.pdl else "no"
    return e.task, e.name, _state(e), _served(e), package, e.licence, f"{e.age_days} d", pdl


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


# -- drafts ----------------------------------------------------------------------------------------


def draft_blocks(
    folder: Path,
    files: Sequence[str],
    origin: Sequence[str],
    open_points: Sequence[OpenPoint],
    problems: Sequence[str],
) -> list[doc.Block]:
    """The files, where they come from, the open points as a numbered list, the next command."""
    upstream = sum(file.startswith("upstream/") for file in files)
    own = ", ".join(file for file in files if not file.startswith("upstream/"))
    copied = f" and {upstream} files in upstream/" if upstream else ""
    points = tuple((f"{at:2}. {point}",) for at, point in enumerate(open_points, 1))
    state: list[doc.Block] = [*doc.paragraphs("the draft loads, and its baseline compiles")]
    if problems:
        state = doc.items(*(f"- {problem}" for problem in problems))
    return [
        *doc.paragraphs(f"wrote {own}{copied} in {folder}", *origin),
        doc.Section("for you to confirm or decide", "", (doc.Items(points),)),
        doc.Section(
            "the draft does not work yet" if problems else "the draft works", "", tuple(state)
        ),
        *doc.paragraphs(f"write or confirm reference.py, then: astra-tui check {folder}"),
    ]


def point_blocks(point: OpenPoint, source: Sequence[str]) -> list[doc.Block]:
    """An open point with its line of the source and the choices."""
    known = 0 < point.line <= len(source)
    excerpt = (Phrase(f"{point.line:5} | {source[point.line - 1].strip()}"),) if known else ()
    choices = (f"{g.key}: one of {', '.join(g.choices)}" for g in point.guesses if g.choices)
    listing = [doc.Listing("", excerpt)] if excerpt else []
    return [*doc.paragraphs(point.text), *listing, *doc.paragraphs(*choices)]


def kernels_blocks(by_file: Mapping[str, Sequence[tuple[int, str]]]) -> list[doc.Block]:
    """Lines and names of kernels, file by file."""
    return [
        doc.Entry(
            (file,), (doc.Listing("", tuple(Phrase(f"{at:6}  {name}") for at, name in kernels)),)
        )
        for file, kernels in by_file.items()
    ]
