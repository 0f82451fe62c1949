"""Counters: of two versions, next to the lines of their sources, and a GPU's own."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from astra_tui.model.check import Case
from astra_tui.model.compilation import Compilation
from astra_tui.model.counters import DURATION, ComparedCounter, Counters, Metric, NcuReport, Place
from astra_tui.model.findings import Finding
from astra_tui.model.traffic import ArgumentTraffic, WorkloadTraffic, wasted_traffic
from astra_tui.present import document as doc
from astra_tui.present.numbers import count, decimal, dimensions, percent, pluralised
from astra_tui.present.tones import Phrase, Tone

Counted = Mapping[str, int]


def counted_table(
    names: tuple[str, str],
    counts: Sequence[tuple[tuple[str, ...], Counted | None, Counted]],
    caption: str = "",
) -> doc.Table:
    """Counters of two versions and how each changed, of a workload or, where nothing names one, of
    all together; of the later version alone, where there is no other.
    """
    rows: list[doc.Row] = []
    for of, before, now in counts:
        for name, value in now.items():
            was = before[name] if before is not None else None
            change = doc.changed(was, value) if was is not None else None
            rows.append((name.replace("_", " "), " ".join(of), was, value, change))
    places = tuple(doc.place(of, name) for of, _, now in counts for name in now)
    columns = ("counter", "workload", *names, "change")
    return doc.table(columns, rows, caption, places=places).without_empty_columns()


# -- a source, line by line ------------------------------------------------------------------------


@dataclass(frozen=True)
class CountedSource:
    """One version of a kernel: its text and what was counted."""

    file: str
    text: str
    counters: Counters
    compilation: Compilation
    faults: tuple[Finding, ...]
    traffic: tuple[ArgumentTraffic, ...]
    """Of the workload that was counted."""
    workloads: tuple[WorkloadTraffic, ...]
    """Of all workloads."""


def counters_blocks(
    task: str, case: Case, compulsory_bytes: int, versions: Sequence[CountedSource]
) -> list[doc.Block]:
    """Totals, then the source line by line; with two versions, in the form of a diff."""
    title = f"{task}, {case.why}, {case.dtype.value}, {dimensions(case.dims)}"
    return [
        *doc.paragraphs(title),
        *_totals(compulsory_bytes, versions),
        *doc.paragraphs(*(f"{v.file}: {fault.describe()}" for v in versions for fault in v.faults)),
        *doc.sections({"Bytes moved": _moved(versions), "Line by line": _lines(versions)}),
    ]


def _names(versions: Sequence[CountedSource]) -> list[str]:
    """How the versions are told apart: by file name, or by path where that is the same."""
    files = [v.file for v in versions]
    short = [file.rpartition("/")[2] for file in files]
    return short if len(set(short)) == len(short) else files


_REMARKS = {
    "requests": "to global memory, one a warp",
    "warp_instructions": "of PTX, one a warp",
    "shared_requests": "to shared memory, one a warp",
    "bank_conflicts": "extra passes over shared memory",
    "barriers": "waits, one a warp",
    "shuffles": "one a warp",
}
_WHERE_COUNTED = ("shared_requests", "bank_conflicts", "barriers", "shuffles")


def _totals(compulsory_bytes: int, versions: Sequence[CountedSource]) -> list[doc.Block]:
    names, counters = _names(versions), [v.counters for v in versions]
    two = len(versions) == 2
    compulsory = f"of 32 bytes; compulsory: {count(compulsory_bytes // 32)}"
    rows: list[doc.Row] = []
    for name, remark in {"sectors": compulsory, **_REMARKS}.items():
        values = [int(getattr(c, name)) for c in counters]
        if any(values) or name not in _WHERE_COUNTED:
            changes = [doc.changed(values[-1], values[0])] * two
            shown = name.removeprefix("warp_").replace("_", " ")
            rows.append((shown, *values, *changes, remark))
    used = [[k.resources.registers for k in v.compilation.kernels] for v in versions]
    registers = (doc.Number(max(each, default=0), ", ".join(map(str, each))) for each in used)
    rows.append(("registers", *registers, *[None] * two, "a thread, by kernel"))
    columns = ("", *names, *["change"] * two, "")
    order = ""
    if two:
        new, old = (c.ranking_key() for c in counters)
        told = "equal" if new == old else "better" if new < old else "worse"
        key = "the emulator's key (sectors, requests, instructions)"
        order = f"{names[0]} is {told} by {key}"
    compiler = f"counts depend on the compiler: {counters[0].compiler}"
    return [doc.table(columns, rows), *doc.paragraphs(order, compiler)]


_MOST_LISTED = 8


def _moved(versions: Sequence[CountedSource]) -> list[doc.Block]:
    """Bytes of each argument, where a request of a warp moves a byte once, and those in vain."""
    two = len(versions) == 2
    rows: list[doc.Row] = []
    for name, version in zip(_names(versions), versions, strict=True):
        for t in version.traffic:
            share = (t.loaded - t.shared + t.stored) / t.compulsory
            loaded = (n or None for n in (t.size, t.loaded, t.distinct_loaded))
            stored = (n or None for n in (t.stored, t.distinct_stored, t.half_lines, t.shared))
            moved = doc.number(share, decimal, 2)
            rows.append((t.argument, *[name] * two, *loaded, moved, *stored))
    columns = (
        "bytes of", *[""] * two, "size", "loaded", "distinct", "moved/distinct", "stored",
        "distinct", "half lines", "shared",
    )  # fmt: skip
    return [doc.table(columns, rows, optional=4), *doc.paragraphs(*_moved_in_vain(versions))]


def _moved_in_vain(versions: Sequence[CountedSource]) -> Iterator[str]:
    """On any workload."""
    for name, version in zip(_names(versions), versions, strict=True):
        prefix = f"{name}: " if len(versions) == 2 else ""
        found = wasted_traffic((w.workload, w.arguments) for w in version.workloads)
        yield from (f"{prefix}{wasted.describe()}" for wasted in found[:_MOST_LISTED])
        if len(found) > _MOST_LISTED:
            yield f"{prefix}{len(found) - _MOST_LISTED} more in --json"
        if not found and version.workloads:
            counted = pluralised(len(version.workloads), "workload")
            yield f"{prefix}nothing is moved in vain on {counted}"
        for workload in (w for w in version.workloads if w.problem):
            yield f"{prefix}{workload.workload} was not counted: {workload.problem}"


_COLUMNS = ("req", "sectors", "eff", "confl", "instr")
_Cells = tuple[str, ...]
_NOTHING: _Cells = ("",) * len(_COLUMNS)
_TONES = {"+": Tone.GOOD, "-": Tone.BAD}


@dataclass(frozen=True)
class _Line:
    """One line of a source: its number, what was counted there, and in which version it is."""

    number: int
    cells: _Cells
    text: str
    mark: str = " "


def _lines(versions: Sequence[CountedSource]) -> list[doc.Block]:
    """The source with its counts; columns in which nothing was counted are left out."""
    legend = ""
    if len(versions) == 1:
        lines = _annotated(versions[0])
    else:
        lines = list(_merged(*map(_annotated, versions)))
        new, old = _names(versions)
        legend = f"+ {new}, - {old}, no mark: text and counts are the same in both"
    rows = [_COLUMNS, *(line.cells for line in lines)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    kept = [i for i in range(len(_COLUMNS)) if any(line.cells[i] for line in lines)]

    def counts(cells: _Cells) -> str:
        return "".join(f"{cells[i]:>{widths[i]}} " for i in kept)

    shown = [
        Phrase(
            f"{counts(line.cells)}{line.number or '':5} {line.mark} {line.text}",
            _TONES.get(line.mark, Tone.PLAIN),
        )
        for line in lines
    ]
    return [*doc.paragraphs(legend), doc.Listing(f"{counts(_COLUMNS)} line", shown)]


def _annotated(version: CountedSource) -> list[_Line]:
    """The lines of the source, then those of upstream files to which no line of it led."""
    cells = _cells(version.counters)
    texts = enumerate(version.text.splitlines(), 1)
    own = [_Line(at, cells.get((at, ""), _NOTHING), text) for at, text in texts]
    return [*own, *(_Line(0, cells[place], place[1]) for place in sorted(cells) if place[1])]


def _merged(new: list[_Line], old: list[_Line]) -> Iterator[_Line]:
    """Both versions as a diff of text and counts."""
    before, after = ([(line.text, line.cells) for line in side] for side in (old, new))
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            yield from new[j1:j2]
        else:
            yield from (replace(line, mark="-") for line in old[i1:i2])
            yield from (replace(line, mark="+") for line in new[j1:j2])


def _cells(counters: Counters) -> dict[Place, _Cells]:
    """The counts of each place as text, in the order of `_COLUMNS`; empty where they are zero."""
    instructions = {c.place: c.warp_instructions for c in counters.lines}
    found: dict[Place, _Cells] = {}
    for place in {*instructions, *(a.place for a in counters.accesses)}:
        here = [a for a in counters.accesses if a.place == place]
        requests, sectors, conflicts = (
            sum(getattr(a, name) for a in here) for name in ("requests", "sectors", "conflicts")
        )
        moved = sum(a.bytes for a in here if a.in_global)
        efficiency = percent(moved / (32 * sectors)) if sectors else ""
        counts = requests, sectors, conflicts, instructions.get(place, 0)
        texts = [count(value) if value else "" for value in counts]
        found[place] = (*texts[:2], efficiency, *texts[2:])
    return found


# -- a GPU's own -----------------------------------------------------------------------------------

_MEANINGS = {
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": "DRAM throughput",
    "lts__t_sector_hit_rate.pct": "L2 hits",
    "l1tex__t_sector_hit_rate.pct": "L1 hits",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "active warps",
}
"""The most telling metrics of ncu in words."""


def hardware_blocks(report: NcuReport, file: str = "") -> list[doc.Block]:
    """Every counter of every launch with its unit, or why there are none; never its durations."""
    by = f", by ncu {report.version}" if report.version else ""
    head = f"{file}: " * bool(file) + f"hardware counters: {report.outcome}{by}"
    told = doc.Badge(head, Tone.PLAIN if report.available else Tone.CAUTION)
    blocks = doc.paragraphs(report.remedy)
    for launch in report.launches:
        size = (" x ".join(count(n) for n in each) for each in (launch.grid, launch.block))
        values = {n: m for n, m in launch.metrics.items() if n != DURATION}
        places = tuple(doc.place((launch.kernel, report.workload), name) for name in values)
        rows = ((name, metric_words(m), _MEANINGS.get(name)) for name, m in values.items())
        title = f"{launch.kernel}, {' blocks of '.join(size)} threads"
        blocks.append(doc.table(("", "", ""), rows, title, places=places))
        if launch.excess_shared_wavefronts is not None:
            lost = "passes over shared memory lost to bank conflicts"
            blocks += doc.paragraphs(f"{launch.excess_shared_wavefronts:,.0f} {lost}")
        for name, why in launch.missing.items():
            blocks += doc.paragraphs((doc.Badge(f"not read: {name}: {why}", Tone.CAUTION),))
    return [doc.Entry((told,), blocks)]


def metric_words(metric: Metric) -> str:
    """A value with its unit, as in "1,234,567 byte" or "50.25 %"."""
    digits = ",.0f" if 1000 <= abs(metric.value) < 1e15 else ".4g"
    return f"{metric.value:{digits}} {metric.unit}".rstrip()


def compared_blocks(
    file: str, report: NcuReport, counters: Sequence[ComparedCounter]
) -> list[doc.Block]:
    """The emulator's counters against the GPU's, with what lies between; or why there are none."""
    if not report.available:
        return hardware_blocks(report, file)
    rows: list[doc.Row] = []
    for c in counters:
        read: doc.Row = (None, None, "not read by ncu")
        if c.gpu is not None and c.difference is not None:
            apart = doc.Number(c.difference, f"{c.difference:+,.0f}")
            read = (doc.number(c.gpu, decimal, 0), apart, None)
        rows.append((c.counter.replace("_", " "), c.emulator, *read))
    columns = ("", "emulator", "GPU", "difference", "")
    missing = {name: why for launch in report.launches for name, why in launch.missing.items()}
    told = doc.paragraphs(*(f"{name}: {why}" for name, why in missing.items()))
    version = f" by ncu {report.version}" if report.version else ""
    title = f"{file}: the GPU's own counters{version}, in the same case"
    return doc.sections({title: [doc.table(columns, rows), *told]})
