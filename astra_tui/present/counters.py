"""Counters: of two versions, next to the lines of their sources, a GPU's own, and what a candidate
costs by all of them and its times.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from astra_tui.model.check import Case, CountedSource
from astra_tui.model.counters import DURATION, ComparedCounter, Counters, Metric, NcuReport, Place
from astra_tui.model.digest import short
from astra_tui.model.events import RoundsTimed
from astra_tui.model.settings import EMULATOR
from astra_tui.model.state import CandidateState, ProposalState, SessionState
from astra_tui.model.timing import WorkloadTiming
from astra_tui.model.traffic import ArgumentTraffic, WastedTraffic, wasted_traffic
from astra_tui.model.verdict import KernelUse, Profile, WorkloadProfile
from astra_tui.present import document as doc
from astra_tui.present.numbers import count, decimal, dimensions, percent
from astra_tui.present.plans import verdict_rows
from astra_tui.present.timing import times_blocks, timing_blocks
from astra_tui.present.tones import Phrase, Tone
from astra_tui.sessions.summary import counter_totals

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
    lines, more = doc.first([w.describe() for w in wasted] or ["nothing"], 8)
    return doc.Entry((f"moved in vain, {name}:",), doc.paragraphs(*lines, more, *problems))


# -- a source, line by line ------------------------------------------------------------------------


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
    rows: list[doc.Record] = []
    in_vain: list[doc.Block] = []
    for name, version in zip(_names(versions), versions, strict=True):
        rows += [{"bytes of": t.argument, "version": name, **_bytes(t)} for t in version.traffic]
        wasted = wasted_traffic((w.workload, w.arguments) for w in version.workloads)
        uncounted = (w for w in version.workloads if w.problem)
        left = (f"{w.workload} was not counted: {w.problem}" for w in uncounted)
        in_vain += [wasted_entry(name, wasted, *left)] if version.workloads else []
    return [doc.records(rows, optional=_STORES), *in_vain]


_STORES = ("stored", "distinct stores", "half lines", "shared")


def _bytes(t: ArgumentTraffic) -> dict[str, doc.Cell]:
    loaded = (n or None for n in (t.size, t.loaded, t.distinct_loaded))
    moved = doc.number((t.loaded - t.shared + t.stored) / t.compulsory, decimal, 2)
    stored = (n or None for n in (t.stored, t.distinct_stored, t.half_lines, t.shared))
    names = "size", "loaded", "distinct", "moved/distinct", *_STORES
    return dict(zip(names, (*loaded, moved, *stored), strict=True))


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
    found: dict[Place, _Cells] = {}
    for place, (requests, sectors, moved, conflicts, instructions) in counters.by_place().items():
        efficiency = percent(moved / (32 * sectors)) if sectors else ""
        counted = [count(n) if n else "" for n in (requests, sectors, conflicts, instructions)]
        found[place] = (*counted[:2], efficiency, *counted[2:])
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
        if (lost := launch.excess_shared_wavefronts) is not None:
            passes = "passes over shared memory lost to bank conflicts"
            blocks += doc.paragraphs(f"{lost:,.0f} {passes}")
        missing = (f"not read: {name}: {why}" for name, why in launch.missing.items())
        blocks += doc.paragraphs(*(Phrase(text, Tone.CAUTION) for text in missing))
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
    rows: list[doc.Record] = []
    for c in counters:
        row: dict[str, doc.Cell] = {"": c.counter.replace("_", " "), "emulator": c.emulator}
        row |= {"GPU": "not read by ncu", "difference": None}
        if c.gpu is not None and c.difference is not None:
            apart = doc.Number(c.difference, f"{c.difference:+,.0f}")
            row |= {"GPU": doc.number(c.gpu, decimal, 0), "difference": apart}
        rows.append(row)
    missing = {name: why for launch in report.launches for name, why in launch.missing.items()}
    told = doc.paragraphs(*(f"{name}: {why}" for name, why in missing.items()))
    version = f" by ncu {report.version}" if report.version else ""
    title = f"{file}: the GPU's own counters{version}, in the same case"
    return doc.sections({title: [doc.records(rows), *told]})


# -- what a candidate costs ------------------------------------------------------------------------


def profile_blocks(
    state: SessionState,
    proposal: ProposalState | None,
    candidate: CandidateState,
    base: CandidateState | None,
    running: Sequence[RoundsTimed] = (),
) -> list[doc.Block]:
    """The verdict, the times so far, the totals, each workload, the kernels; or why there is no
    profile.
    """
    start = f" from {short(base.hash)}" if base else ""
    head: doc.Line = (doc.Code(short(candidate.hash)), Phrase(start, Tone.DIM))
    blocks: list[doc.Block] = [doc.Paragraph(head)]
    if proposal is not None and proposal.verdict is not None:
        blocks.append(doc.fields(verdict_rows(state, proposal.verdict)))
    blocks += _times(state, candidate, base, running)
    profile = candidate.profile
    if profile is None:
        why = "No profile: a candidate that is not correct has no cost worth knowing."
        if candidate.check is None:
            why = "No profile yet: it is taken once all cases have passed."
        elif candidate.correct:
            why = "The profile is being taken."
        return [*blocks, *doc.paragraphs(Phrase(why, Tone.DIM))]
    before = base.profile if base else None
    hardware = _hardware(state, candidate, profile)
    return [*blocks, *cost_blocks(before, profile), *doc.sections({"": hardware})]


def _hardware(state: SessionState, candidate: CandidateState, profile: Profile) -> list[doc.Block]:
    """A GPU's own counters, or why there are none."""
    if candidate.hardware is not None:
        return hardware_blocks(candidate.hardware)
    why = "Hardware counters were not asked for: --ncu reads them."
    if state.opened is not None and state.opened.settings.ncu:
        why = "Hardware counters are read of the baseline and of every new best."
    elif profile.device == EMULATOR:
        why = "Counted by the emulator. Times and the paper's protocol need a GPU."
    return doc.paragraphs(Phrase(why, Tone.DIM))


def _times(
    state: SessionState,
    candidate: CandidateState,
    base: CandidateState | None,
    running: Sequence[RoundsTimed],
) -> list[doc.Block]:
    """What was timed: what runs now, the pair that decided, the winner's last."""
    first = base.hash if base else ""
    names = {first: "the version before"}
    if state.opened is not None:
        names[state.opened.baseline] = "the baseline"
    known = [timed.timing for timed in candidate.timed]
    now: list[WorkloadTiming | RoundsTimed] = [*known]
    now += (r for r in running if r.candidate == candidate.hash)
    parts: dict[str, Sequence[doc.Block]] = {}
    if now:
        parts["Time so far"] = times_blocks(now)
    latest = {f.timing.base: f for f in candidate.timings}
    for hash_, finished in sorted(latest.items(), key=lambda found: found[0] != first):
        again = ", measured again at the end" if finished.final else ""
        against = names.get(hash_, short(hash_))
        times = timing_blocks(finished.timing, against, short(candidate.hash))
        parts[f"Time against {against}{again}"] = times
    return doc.sections(parts)


# -- counters --------------------------------------------------------------------------------------


def cost_blocks(
    before: Profile | None, now: Profile, names: tuple[str, str] = ("before", "now")
) -> list[doc.Block]:
    """Counters of all workloads together and of each, what is moved in vain, launches, kernels."""
    was = counter_totals(before) if before else None
    earlier = {(w.workload, w.dtype): w for w in (before.workloads if before else ())}
    each = [
        ((w.workload, w.dtype.value), _counts(old) if old else None, _counts(w))
        for w in now.workloads
        for old in [earlier.get((w.workload, w.dtype))]
    ]
    versions = zip(names, (before, now), strict=True)
    counted = [(n, p) for n, p in versions if p and any(w.traffic for w in p.workloads)]
    known = {k.kernel: k for k in before.kernels} if before else {}
    kernels = [_kernel(k, known.get(k.kernel)) for k in now.kernels]
    metrics = ("registers", "spill_bytes", "shared_bytes", "occupancy")
    used = tuple(doc.place((k.kernel,), *metrics) for k in now.kernels)
    return [
        counted_table(names, [((), was, counter_totals(now))], "All workloads together"),
        *(wasted_entry(name, profile.wasted) for name, profile in counted),
        *([counted_table(names, each, "Each workload")] if each else []),
        *([_launches(now)] if now.workloads else []),
        *([doc.records(kernels, "Kernels", places=used)] if kernels else []),
        *doc.paragraphs(*(f"{what}: {why}" for what, why in now.missing.items())),
    ]


def _counts(workload: WorkloadProfile) -> dict[str, int]:
    names = ("sectors", "requests", "warp_instructions")
    return {name: int(getattr(workload.counters, name)) for name in names}


def _launches(profile: Profile) -> doc.Table:
    rows: list[doc.Record] = [
        {
            "workload": w.workload,
            "type": w.dtype.value,
            "counted at": dimensions(w.dims),
            "kernels": ", ".join(w.kernels),
            "blocks": w.blocks,
            "threads a block": w.threads,
            "asked for of moved bytes": doc.number(w.counters.sector_efficiency, percent),
        }
        for w in profile.workloads
    ]
    metrics = ("blocks", "threads", "sector_efficiency")
    places = tuple(doc.place((w.workload,), *metrics) for w in profile.workloads)
    return doc.records(rows, "Launches", places=places)


def _kernel(now: KernelUse, before: KernelUse | None) -> dict[str, doc.Cell]:
    spilled = Tone.CAUTION if now.spill_bytes else Tone.PLAIN
    registers: doc.Line = (doc.number(now.registers, count),)
    if before and before.registers != now.registers:
        registers += (" (was ", doc.number(before.registers, count), ")")
    return {
        "kernel": doc.Code(now.kernel),
        "registers": registers,
        "spilled bytes": doc.Number(now.spill_bytes, count(now.spill_bytes), spilled),
        "shared bytes": now.shared_bytes,
        "occupancy": doc.number(now.occupancy, percent),
    }
