"""Paired timings as tables, by all protocols, with what is to be doubted about them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from astra_tui.model.digest import short
from astra_tui.model.events import RoundsTimed
from astra_tui.model.gpu import EnergyUse
from astra_tui.model.state import SessionState
from astra_tui.model.timing import (
    BEHIND_PRODUCER,
    Caveat,
    PairedTime,
    Ratio,
    Timing,
    WorkloadTiming,
    mean_name,
    mean_ratio,
)
from astra_tui.model.yardsticks import BEST, ChainTimes, ShapeTimes, ShippedTimes
from astra_tui.present import document as doc
from astra_tui.present import numbers
from astra_tui.present.numbers import microseconds, percent, ratio, seconds, speedup, times
from astra_tui.present.tones import Phrase, Tone
from astra_tui.present.words import (
    PORTFOLIO,
    best_of,
    kind_winner,
    shipped_words,
    timing_verdict,
    words_of,
)
from astra_tui.sessions.summary import BASELINE, final_timings


class Names(NamedTuple):
    """What a pair is called, in its title and, where that is too long, in its columns."""

    base: str
    candidate: str
    base_column: str = "base"
    candidate_column: str = "cand."


_PAIRED = "paired graph replay, every launch with its data outside the L2 cache (docs/timing.md)"
_PAPER = "the Astra paper's protocol: 100 launches from the host, arithmetic mean"
_PROTOCOLS = {
    "paired": f"measured by {_PAIRED}",
    "paper": f"measured by {_PAPER}",
    "both": f'measured by {_PAIRED}; "paper" is {_PAPER}',
}


def circumstances_blocks(where: str, checks: Sequence[str], protocol: str) -> list[doc.Block]:
    """On what and how it was measured, and what was checked before."""
    checked = f"checked on the GPU: {'; '.join(checks)}"
    return doc.paragraphs(where, checked, _PROTOCOLS[protocol])


class CaveatMarks:
    """Numbers for caveats from 1 on, the same for the same caveat of several workloads."""

    def __init__(self, caveats: Iterable[Caveat], linked: bool = False):
        self._numbers = {c: n for n, c in enumerate(dict.fromkeys(caveats), start=1)}
        self._linked = linked

    @classmethod
    def of_timing(cls, timings: Iterable[WorkloadTiming]) -> CaveatMarks:
        """Marks that `items` explains next to the table."""
        return cls(caveat for timing in timings for caveat in timing.caveats)

    def of(self, timing: WorkloadTiming) -> doc.Line:
        """The marks of one measurement, as links where the document explains them elsewhere."""
        words: doc.Line = ()
        for mark in sorted({self._numbers[caveat] for caveat in timing.caveats}):
            text = f"[{mark}]"
            link = doc.Link(text, f"caveat-{mark}") if self._linked else text
            words += (" " if words else "", link)
        return (*words, " decides nothing") if timing.invalidated else words

    def items(self) -> list[doc.Items]:
        """Every caveat with its number; nothing where links lead to them."""
        if self._linked or not self._numbers:
            return []
        return [doc.Items(tuple((f"[{n}] {c.message}",) for c, n in self._numbers.items()))]


def timing_blocks(
    timing: Timing,
    names: Names,
    marks: CaveatMarks | None = None,
    *,
    detectable: float | None = None,
) -> list[doc.Block]:
    """A pair with its verdict, both tables, energy and every reason.

    `marks` are of a document that explains caveats elsewhere. `detectable` is the smallest
    difference that this measurement could tell, as a fraction.
    """
    marks = marks or CaveatMarks.of_timing(timing.workloads)
    base = "itself" if timing.base == timing.candidate else names.base
    title = f"{names.candidate} against {base}"
    verdict = doc.badge(timing_verdict(timing))
    behind = any(workload.producer for workload in timing.workloads)
    least = ""
    if detectable is not None:
        least = f"Differences down to {percent(detectable, 2)} can be told apart here."
    return [
        *doc.paragraphs(
            (verdict, " ", doc.Strong(title), f" ({_circumstances(timing)})"),
            *timing.reasons[:1],
            f"{BEHIND_PRODUCER}.".capitalize() if behind else "",
        ),
        cold_table(timing, f"{title}: paired, cold (decides)", names, marks),
        *other_tables(timing, title, names),
        *marks.items(),
        *_energies(timing),
        *doc.items(*timing.reasons[1:]),
        *doc.paragraphs(least),
    ]


def paper_blocks(timing: Timing, names: Names) -> list[doc.Block]:
    """The same by the paper's protocol alone, which has no interval and so no verdict."""
    title = f"{names.candidate} against {names.base}"
    marks = CaveatMarks.of_timing(timing.workloads)
    rows: list[doc.Row] = [(w.workload, *_paper_cells(w), marks.of(w)) for w in timing.workloads]
    mean = _mean(map(_paper_ratio, timing.workloads), timing.weights)
    rows.append((mean_name(timing.weights), None, None, mean, None))
    columns = ("workload", *_times(names), "speedup", "caveats")
    return [
        *doc.paragraphs((doc.Strong(title), f" ({_circumstances(timing)})")),
        doc.table(columns, rows).without_empty_columns(),
        *marks.items(),
        *_energies(timing),
        *doc.paragraphs("The paper's protocol has no interval, and so no verdict."),
    ]


# -- the measurement that decides ------------------------------------------------------------------

_COLD = ("speedup", "95 % interval", "verdict", "caveats", "of floor", "threshold", "floor us")


def cold_table(timing: Timing, caption: str, names: Names, marks: CaveatMarks) -> doc.Table:
    """A row a workload and one of the means; times in microseconds."""
    verdict = doc.Badge(words_of(timing.verdict), timing_verdict(timing).tone)
    rows = [cold_row(w, marks) for w in timing.workloads]
    means = _ratio_cells(timing.speedup)
    if len(set(timing.weights)) > 1:
        shares = (percent(weight / sum(timing.weights), 1) for weight in timing.weights)
        rows = [(f"{row[0]} ({share})", *row[1:]) for row, share in zip(rows, shares, strict=True)]
    rows.append((mean_name(timing.weights), None, None, *means, verdict, *(None,) * 5))
    return paired_table(caption, names, rows)


def paired_table(caption: str, names: Names, rows: Sequence[doc.Row]) -> doc.Table:
    """A table of such rows; the last columns are left out where a line has no room for them."""
    columns = ("workload", *_times(names), *_COLD, "type")
    return doc.table(columns, rows, caption, optional=4).without_empty_columns()


def cold_row(timing: WorkloadTiming, marks: CaveatMarks) -> doc.Row:
    """One workload by the pair that decides."""
    cold, floor = timing.cold, timing.floor
    share = cold.candidate_us and timing.of_floor
    return (
        timing.workload,
        *_paired_cells(cold),
        doc.badge(timing.verdict),
        marks.of(timing),
        doc.number(share, percent) if share else None,
        doc.number(timing.threshold, percent, 2),
        _us(floor.us) if floor else None,
        timing.dtype.value,
    )


def running_row(event: RoundsTimed) -> doc.Row:
    """A workload whose rounds are coming in."""
    found = _paired_cells(PairedTime(event.base_us, event.candidate_us, event.speedup))
    return event.workload, *found, f"{event.rounds} rounds", *(None,) * 5


# -- those that do not decide ----------------------------------------------------------------------


def other_tables(timing: Timing, title: str, names: Names) -> list[doc.Block]:
    """The other protocols by which it was timed; times in microseconds."""
    timed = timing.workloads
    if not any(w.chained or w.warm or w.paper for w in timed):
        return []
    rows = [
        (w.workload, *_paired_cells(w.chained), *_paired_cells(w.warm), *_paper_cells(w))
        for w in timed
    ]
    weights = timing.weights
    chained = _mean((w.chained.speedup.value if w.chained else None for w in timed), weights)
    warm = _mean((w.warm.speedup.value if w.warm else None for w in timed), weights)
    paper = _mean(map(_paper_ratio, timed), weights)
    means = (None, None, chained, None), (None, None, warm, None), (None, None, paper)
    rows.append((mean_name(weights), *(cell for mean in means for cell in mean)))
    columns = ["workload"]
    for protocol in ("after itself", "warm", "paper"):
        columns += [f"{protocol} {name}" for name in (*_times(names), "speedup")]
        columns += ["95 % interval"] if protocol != "paper" else []
    by_paper = ", and the paper's protocol" if any(w.paper for w in timed) else ""
    caption = f"{title}: paired, warm{by_paper}"
    return [doc.table(columns, rows, caption, optional=len(columns) - 1).without_empty_columns()]


def _times(names: Names) -> tuple[str, str]:
    return f"{names.base_column} us", f"{names.candidate_column} us"


def _paired_cells(paired: PairedTime | None) -> doc.Row:
    """Both times, the speedup and its interval; empty where they were not measured."""
    if paired is None:
        return (None,) * 4
    return _us(paired.base_us), _us(paired.candidate_us), *_ratio_cells(paired.speedup)


def _ratio_cells(found: Ratio) -> doc.Row:
    return doc.number(found.value, ratio), doc.interval(found)


def _paper_cells(timing: WorkloadTiming) -> doc.Row:
    paper, found = timing.paper, _paper_ratio(timing)
    if paper is None:
        return (None,) * 3
    speedup = doc.number(found, ratio) if found is not None else None
    return _us(paper.base_us), _us(paper.candidate_us), speedup


def _paper_ratio(timing: WorkloadTiming) -> float | None:
    paper = timing.paper
    return paper.speedup if paper and paper.candidate_us else None


def _mean(speedups: Iterable[float | None], weights: Sequence[float]) -> doc.Cell:
    """Their geometric mean; nothing unless all of them are known, positive and finite."""
    found = list(speedups)
    known = [s for s in found if s is not None and 0 < s < math.inf]
    is_whole = known and len(known) == len(found)
    return doc.number(mean_ratio(known, weights), ratio) if is_whole else None


def _circumstances(timing: Timing) -> str:
    clocks = [w.sm_mhz for w in timing.workloads if w.sm_mhz]
    low, high = min(clocks, default=0.0), max(clocks, default=0.0)
    clock = f"{low:,.0f} MHz" if high - low < 1 else f"{low:,.0f} to {high:,.0f} MHz"
    return ", ".join([timing.device, *([clock] if clocks else []), seconds(timing.seconds)])


def speedup_told(timing: Timing) -> doc.Line:
    """The mean with its interval, and the verdict."""
    return *doc.speedup_line(timing.speedup), " ", doc.badge(timing_verdict(timing))


# -- in a narrow place -----------------------------------------------------------------------------

_BAR = 20


def measured_blocks(timing: Timing, title: str) -> list[doc.Block]:
    """A finished timing: all workloads together, then each, for a pane."""
    verdict = timing_verdict(timing)
    together = f"  {speedup(timing.speedup)} over all workloads" if timing.speedup else ""
    where = doc.Badge(f"  on {timing.device}", Tone.DIM)
    line: doc.Line = (doc.Badge(verdict.words.upper(), verdict.tone), together, where)
    workloads = map(workload_entry, timing.workloads)
    return doc.sections({title: [doc.Paragraph(line), *workloads]})


def workload_entry(timing: WorkloadTiming) -> doc.Entry:
    """One workload: the ratio that decides, the floor, what else was measured, and caveats."""
    doubt = Tone.BAD if timing.invalidated else Tone.CAUTION
    head: doc.Line = (
        doc.Strong(f"{timing.workload} {timing.dtype.value}  "),
        doc.badge(timing.verdict),
        doc.Badge(f"  {timing.cold.speedup.rounds} pairs", Tone.DIM),
        doc.Badge("  CAVEATS" if timing.caveats else "", doubt),
    )
    rows: dict[str, doc.Row] = {}
    for name, pair, remark in (
        ("cold", timing.cold, ", with the producer before it" * timing.producer),
        ("chained", timing.chained, ", after itself alone"),
        ("warm", timing.warm, ""),
    ):
        if pair is not None:
            found = f"{speedup(pair.speedup)}  {times(pair.base_us, pair.candidate_us)}{remark}"
            rows["time_us" if name == "cold" else f"{name}_us"] = name, found
    if timing.paper is not None:
        paper = timing.paper
        found = f"{ratio(paper.speedup)}  {times(paper.base_us, paper.candidate_us)}"
        rows["paper_us"] = "paper", doc.Badge(f"{found}, launches included", Tone.DIM)
    if timing.floor is not None and timing.of_floor is not None:
        filled = max(0, min(round(timing.of_floor * _BAR), _BAR))
        bar = doc.Badge("█" * filled + "░" * (_BAR - filled), Tone.DIM)
        share = f" {percent(timing.of_floor)} of {numbers.time(timing.floor.us)}"
        rows["of_floor floor_us"] = "of floor", (bar, share)
    anchors = tuple(doc.place((timing.workload,), *metrics.split()) for metrics in rows)
    doubts: list[doc.Line] = []
    for caveat in timing.caveats:
        what, tone = ("void", Tone.BAD) if caveat.invalidates else ("doubt", Tone.CAUTION)
        doubts.append((doc.Badge(f"{what}: {caveat.message}", tone),))
    measured = doc.table(("", ""), rows.values(), anchors=anchors)
    return doc.Entry(head, (measured, *doc.paragraphs(*doubts)))


def running_blocks(rounds: Sequence[RoundsTimed]) -> list[doc.Block]:
    """A timing that runs: intervals that narrow."""
    rows = [(r.workload, f"{speedup(r.speedup)}  {r.rounds} pairs") for r in rounds]
    return doc.sections({"Timing now": [doc.table(("", ""), rows)] if rows else []})


# -- energy ----------------------------------------------------------------------------------------


def _energies(timing: Timing) -> list[doc.Block]:
    """What a launch takes of each version, or why it cannot be told."""
    known = [(w.workload, w.energy) for w in timing.workloads if w.energy is not None]
    lines = (
        f"energy of a launch on {name}: base {_energy(used.base)}, "
        f"candidate {_energy(used.candidate)}"
        for name, used in known
    )
    return doc.items(*lines)


def _energy(use: EnergyUse) -> str:
    if use.joules_per_launch is None or use.watts is None:
        return f"not measured ({use.missing})"
    return f"{numbers.significant(1e3 * use.joules_per_launch)} mJ at {use.watts:.0f} W"


# -- kernels that others ship ----------------------------------------------------------------------

_SHIPPED_PROTOCOL = (
    "Paired, cold. Every launch follows a kernel that writes part of its inputs, which is part of "
    "all times. The fastest of a workload is chosen on one half of the pairs and compared on the "
    "other; there is none where a shipped kernel that serves it was not timed or is void."
)


def shipped_blocks(shipped: ShippedTimes) -> list[doc.Block]:
    """The best against the fastest shipped kernel of each shape, and what was not timed."""
    told = shipped_words(shipped)
    headline = doc.Badge(f"best {told.words}", told.tone)
    blocks = doc.paragraphs((headline,), _SHIPPED_PROTOCOL)
    if shipped.times is not None:
        blocks.append(_compared_table(shipped.times.shapes, BEST, shipped.speedup))
    lacking = shipped.not_timed.items()
    untimed = ((doc.Code(name), f" is not timed: {reason}.") for name, reason in lacking)
    return [*blocks, *doc.paragraphs(*untimed)]


def chain_blocks(task: str, chain: ChainTimes) -> list[doc.Block]:
    """Times of every version, a column a shape; then each source against the fastest shipped."""
    follows = "itself" if chain.chain == "itself" else "a producer (times are of both)"
    title = f"{task}: microseconds a launch, each after {follows}"
    shapes = chain.shapes
    rows: list[doc.Row] = [
        ("floor", *(_us(shape.floor_us) for shape in shapes)),
        (shapes[0].base if shapes else None, *(_us(shape.base_us) for shape in shapes)),
    ]
    for name in dict.fromkeys(v.name for shape in shapes for v in shape.versions):
        rows.append((name, *(_time_of(shape, name) for shape in shapes)))
    columns = ("version", *(shape.workload for shape in shapes))
    compared = (_compared_table(shapes, source, mean) for source, mean in chain.means.items())
    remarks = dict.fromkeys(remark for shape in shapes for remark in _remarks(shape))
    return [doc.table(columns, rows, title), *compared, *doc.items(*remarks)]


def _compared_table(shapes: Sequence[ShapeTimes], source: str, mean: Ratio | None) -> doc.Table:
    rows: list[doc.Row] = []
    for shape in shapes:
        found, us = shape.fastest.get(source), _time_of(shape, source)
        compared: doc.Row = ("not known", None, None)
        if found is not None:
            compared = (doc.Code(found.name), *_ratio_cells(found.speedup))
        rows.append((shape.workload, us, *compared))
    means = _ratio_cells(mean) if mean else ("not known", None)
    rows.append((mean_name(shape.weight for shape in shapes), None, None, *means))
    columns = "workload", f"{source} us", "fastest shipped", f"its time / {source}", "95 % interval"
    caption = f"{source} against the fastest shipped kernels"
    return doc.table(columns, rows, caption)


def _time_of(shape: ShapeTimes, name: str) -> doc.Cell:
    """A version's time; nothing where it does not serve the shape, "void" where it decides none."""
    found = next((v for v in shape.versions if v.name == name), None)
    if found is None:
        return None
    return "void" if found.caveats else _us(found.us)


def _us(time: float | None) -> doc.Cell:
    return None if time is None else doc.number(time, microseconds)


def _remarks(shape: ShapeTimes) -> Iterator[str]:
    for name, reason in shape.not_timed.items():
        yield f"{name} is not timed: {reason}"
    for version in shape.versions:
        for caveat in version.caveats:
            yield f"{version.name} is void on {shape.workload}: {caveat.message}"


def portfolio_blocks(state: SessionState) -> list[doc.Block]:
    """The winner on each kind of GPU, where a run had several; a mean over them means nothing."""
    if not any(known.winner for known in state.kinds.values()) or state.opened is None:
        return []
    own = next((t.timing for t in final_timings(state) if t.beside == BASELINE), None)
    why = "decides rounds"
    rows = [_portfolio_row(state.gpu_name, state.best, own, best_of(state), why)]
    for kind, known in state.kinds.items():
        if known.winner:
            timing = known.timing(known.winner, state.opened.baseline, final=True)
            told = kind_winner(state, kind)
            rows.append(_portfolio_row(kind, known.winner, timing, told, known.reason))
    columns = "kind of GPU", "winner", "speedup", "measured on", "why"
    table = doc.table(columns, rows, "Winners by kind of GPU, each against baseline.cu there")
    return [table, *doc.paragraphs(PORTFOLIO)]


def _portfolio_row(
    kind: str, winner: str, timing: Timing | None, told: Phrase, why: str
) -> doc.Row:
    """`told` says how good the winner is where it was not timed."""
    if timing is None:
        return kind, doc.Code(short(winner)), doc.Badge(*told), "", why
    return kind, doc.Code(short(winner)), doc.speedup_line(timing.speedup), timing.uuid[:12], why
