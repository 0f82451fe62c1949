"""Counters: of two versions, next to the lines of their sources, and a GPU's own."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from astra_tui.model.check import Case
from astra_tui.model.compilation import Compilation
from astra_tui.model.counters import DURATION, ComparedCounter, Counters, Metric, NcuReport, Place
from astra_tui.model.findings import Finding
from astra_tui.model.traffic import ArgumentTraffic, WastedTraffic, WorkloadTraffic, wasted_traffic
from astra_tui.present import document as doc
from astra_tui.present.numbers import count, decimal, dimensions, percent
from astra_tui.present.tones import Phrase, Tone

Counted = Mapping[str, int]


def counted_table(
    names: tuple[str, str],
    counts: Sequence[tuple[tuple[str, ...], Counted | None, Counted]],
    caption: str = "",
    remarks: Mapping[str, str] = {},
) -> doc.Table:
    """Counters of two versions and how each changed, of a workload or, where nothing names one, of
    all together; of the later version alone, where there is no other. `remarks` are on counters.
    """
    rows: list[doc.Row] = []
    for of, before, now in counts:
        for name, value in now.items():
            was = before[name] if before is not None else None
            change = doc.changed(was, value) if was is not None else None
            shown = name.replace("_", " ")
            rows.append((shown, " ".join(of), was, value, change, remarks.get(name)))
    places = tuple(doc.place(of, name) for of, _, now in counts for name in now)
    columns = ("counter", "workload", *names, "change", "what")
    return doc.table(columns, rows, caption, places=places).without_empty_columns()


def wasted_entry(name: str, wasted: Sequence[WastedTraffic], *problems: str) -> doc.Entry:
    """What a version moves in vain, what moves most bytes first, and what is not known of it."""
    lines, more = doc.first([w.describe() for w in wasted] or ["nothing"], _MOST_WASTED)
    return doc.Entry((f"moved in vain, {name}:",), doc.paragraphs(*lines, more, *problems))


_MOST_WASTED = 8


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
    "sectors": "of 32 bytes",
    "requests": "to global memory, one a warp",
    "warp_instructions": "of PTX, one a warp",
    "shared_requests": "to shared memory, one a warp",
    "bank_conflicts": "extra passes over shared memory",
    "barriers": "waits, one a warp",
    "shuffles": "one a warp",
}
_WHERE_COUNTED = ("shared_requests", "bank_conflicts", "barriers", "shuffles")


def _totals(compulsory_bytes: int, versions: Sequence[CountedSource]) -> list[doc.Block]:
    names = _names(versions)
    counted = [{n: int(getattr(v.counters, n)) for n in _REMARKS} for v in versions]
    shown = [n for n in _REMARKS if n not in _WHERE_COUNTED or any(each[n] for each in counted)]
    now, *others = ({n: each[n] for n in shown} for each in counted)
    old = names[-1] if others else "before"
    compulsory = f"of 32 bytes; compulsory: {count(compulsory_bytes // 32)}"
    remarks = {**_REMARKS, "sectors": compulsory}
    lines = []
    for name, version in zip(names, versions, strict=True):
        used = ", ".join(str(k.resources.registers) for k in version.compilation.kernels)
        lines.append(f"registers a thread, by kernel of {name}: {used}")
    if others:
        new_key, old_key = (v.counters.ranking_key() for v in versions)
        told = "equal" if new_key == old_key else "better" if new_key < old_key else "worse"
        key = "the emulator's key (sectors, requests, instructions)"
        lines.append(f"{names[0]} is {told} by {key}")
    lines.append(f"counts depend on the compiler: {versions[0].counters.compiler}")
    counts = [((), others[0] if others else None, now)]
    return [counted_table((old, names[0]), counts, "", remarks), *doc.paragraphs(*lines)]


def _moved(versions: Sequence[CountedSource]) -> list[doc.Block]:
    """Bytes of each argument, where a request of a warp moves a byte once, and those in vain."""
    rows: list[doc.Row] = []
    in_vain: list[doc.Block] = []
    for name, version in zip(_names(versions), versions, strict=True):
        for t in version.traffic:
            share = (t.loaded - t.shared + t.stored) / t.compulsory
            loaded = (n or None for n in (t.size, t.loaded, t.distinct_loaded))
            stored = (n or None for n in (t.stored, t.distinct_stored, t.half_lines, t.shared))
            moved = doc.number(share, decimal, 2)
            rows.append((t.argument, name, *loaded, moved, *stored))
        wasted = wasted_traffic((w.workload, w.arguments) for w in version.workloads)
        left = (
            f"{w.workload} was not counted: {w.problem}" for w in version.workloads if w.problem
        )
        if version.workloads:
            in_vain.append(wasted_entry(name, wasted, *left))
    columns = (
        "bytes of", "version", "size", "loaded", "distinct", "moved/distinct", "stored",
        "distinct", "half lines", "shared",
    )  # fmt: skip
    return [doc.table(columns, rows, optional=4), *in_vain]


_COLUMNS = ("req", "sectors", "eff", "confl", "instr")
_Cells = tuple[str, ...]
_NOTHING: _Cells = ("",) * len(_COLUMNS)
_TONES = {"+": Tone.GOOD, "-": Tone.BAD, " ": Tone.PLAIN}


class _Line(NamedTuple):
    """One line of a source: its number, what was counted there, and its text."""

    number: int
    cells: _Cells
    text: str


def _lines(versions: Sequence[CountedSource]) -> list[doc.Block]:
    """The source with its counts; columns in which nothing was counted are left out."""
    names, sides = _names(versions), [_annotated(version) for version in versions]
    lines = list(_merged(sides[0], sides[-1]))
    rows = [_COLUMNS, *(line.cells for _, line in lines)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    kept = [i for i in range(len(_COLUMNS)) if any(line.cells[i] for _, line in lines)]

    def counts(cells: _Cells) -> str:
        return "".join(f"{cells[i]:>{widths[i]}} " for i in kept)

    shown = [
        Phrase(f"{counts(cells)}{number or '':5} {mark} {text}", _TONES[mark])
        for mark, (number, cells, text) in lines
    ]
    legend = f"+ {names[0]}, - {names[-1]}, no mark: text and counts are the same in both"
    told = doc.paragraphs(legend if len(versions) == 2 else "")
    return [*told, doc.Listing(f"{counts(_COLUMNS)} line", shown)]


def _annotated(version: CountedSource) -> list[_Line]:
    """The lines of the source, then those of upstream files to which no line of it led."""
    cells = _cells(version.counters)
    texts = enumerate(version.text.splitlines(), 1)
    own = [_Line(at, cells.get((at, ""), _NOTHING), text) for at, text in texts]
    return [*own, *(_Line(0, cells[place], place[1]) for place in sorted(cells) if place[1])]


def _merged(new: list[_Line], old: list[_Line]) -> Iterator[tuple[str, _Line]]:
    """Both versions as a diff of text and counts: each line after its mark."""
    before, after = ([line[1:] for line in side] for side in (old, new))
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag != "equal":
            yield from (("-", line) for line in old[i1:i2])
        yield from ((" " if tag == "equal" else "+", line) for line in new[j1:j2])


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
    told = Phrase(head, Tone.PLAIN if report.available else Tone.CAUTION)
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
            blocks += doc.paragraphs((Phrase(f"not read: {name}: {why}", Tone.CAUTION),))
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
