"""Kernel tasks: lists of them, their cases and their yardsticks, and drafts of new ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from astra_tui.model.check import Case
from astra_tui.model.drafts import ExposedTime, OpenPoint, ServiceWorkload
from astra_tui.model.task import KernelTask
from astra_tui.model.yardsticks import YardstickEntry
from astra_tui.present import document as doc
from astra_tui.present.checks import at_line
from astra_tui.present.numbers import dimensions, percent, pluralised


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
    rows: list[doc.Row] = []
    for case in cases:
        outside = case.outside_contract
        refused = f" (outside the contract: {outside}; has to be refused)" if outside else ""
        rows.append((case.id, dimensions(case.dims), case.why + refused))
    heading = f"{task}: {pluralised(len(cases), 'case')}"
    return [*doc.paragraphs(heading), doc.table(("case", "sizes", "why"), rows)]


def service_blocks(
    form: str,
    workloads: Sequence[ServiceWorkload],
    share: float,
    exposed: ExposedTime | None,
    end_to_end: float | None,
) -> list[doc.Block]:
    """The tables for task.toml, and what the operator is of the recorded time."""
    lines = (line for w in workloads for line in _workload_table(w).split("\n"))
    told = [f"From a {form}: {pluralised(len(workloads), 'workload')}, {percent(share, 1)} of all."]
    if exposed is not None:
        told.append(
            f"The operator ran for {exposed.operator_us:,.0f} of {exposed.recorded_us:,.0f} us, "
            f"for {exposed.exposed_us:,.0f} us alone: {percent(exposed.share, 1)} of the time."
        )
    if end_to_end is not None:
        told.append(f"So the whole gets {end_to_end:.4f} times as fast at most.")
    return [*doc.paragraphs(*told), *doc.listing(*lines)]


def _workload_table(workload: ServiceWorkload) -> str:
    dims = ", ".join(f"{name} = {size}" for name, size in workload.dims.items())
    calls = pluralised(workload.calls, "call")
    return (
        f"[[workloads]] # {calls}\ndims = {{ {dims} }}\n"
        f'dtype = "{workload.dtype.value}"\nweight = {workload.weight}\n'
    )


def yardsticks_blocks(
    entries: Sequence[YardstickEntry], unserved: Mapping[str, Sequence[str]]
) -> list[doc.Block]:
    """One row a yardstick; what none serves follows, then what could not be built."""
    columns = "task", "yardstick", "state", "serves", "package", "licence", "age", "pdl"
    listed = doc.table(columns, map(_yardstick, entries), optional=4)
    without = {task: ", ".join(workloads) for task, workloads in unserved.items() if workloads}
    lacking = (f"{task}: no yardstick serves {names}" for task, names in without.items())
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
    state = "cached" if e.cached else "not fetched"
    if e.kind == "out of reach":
        state = e.kind
    elif e.built is not None:
        state = "built" if e.built else "not built"
    served = "all workloads" if len(e.serves) > 1 else "the workload"
    if e.refuses:
        served = f"{len(e.serves)} of {len(e.serves) + len(e.refuses)} workloads"
    return e.task, e.name, state, served, package, e.licence, f"{e.age_days} d", pdl


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
    points = (f"{at:2}. {point}" for at, point in enumerate(open_points, 1))
    works = "the draft loads, and its baseline compiles"
    parts: dict[str, Sequence[doc.Block]] = {
        "for you to confirm or decide": doc.items(*points),
        "the draft works": doc.paragraphs("" if problems else works),
        "the draft does not work yet": doc.items(*(f"- {problem}" for problem in problems)),
    }
    return [
        *doc.paragraphs(f"wrote {own}{copied} in {folder}", *origin),
        *doc.sections(parts),
        *doc.paragraphs(f"write or confirm reference.py, then: astra-tui check {folder}"),
    ]


def point_blocks(point: OpenPoint, source: Sequence[str]) -> list[doc.Block]:
    """An open point with its line of the source and the choices."""
    choices = (f"{g.key}: one of {', '.join(g.choices)}" for g in point.guesses if g.choices)
    return [at_line(point.text, source, point.line), *doc.paragraphs(*choices)]


def kernels_blocks(by_file: Mapping[str, Sequence[tuple[int, str]]]) -> list[doc.Block]:
    """Lines and names of kernels, file by file."""
    listed = {f: [f"{at:6}  {name}" for at, name in found] for f, found in by_file.items()}
    return [doc.Entry((file,), doc.listing(*lines)) for file, lines in listed.items()]
