"""Paired timings as tables, by all protocols, with what is to be doubted about them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from astra_tui.model.digest import short
from astra_tui.model.events import RoundsTimed
from astra_tui.model.gpu import EnergyUse
from astra_tui.model.state import SessionState
from astra_tui.model.timing import (
    BEHIND_PRODUCER,
    COLD,
    PROTOCOLS,
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
from astra_tui.present import numbers, words
from astra_tui.present.numbers import microseconds, percent, ratio, seconds
from astra_tui.present.tones import Phrase, Tone, phrase_of, words_of
from astra_tui.sessions.summary import BASELINE, final_timings

_PAIRED = "paired graph replay, every launch with its data outside the L2 cache (docs/timing.md)"
_PAPER = "the Astra paper's protocol: 100 launches from the host, arithmetic mean"
_MEASURED = {
    "paired": f"measured by {_PAIRED}",
    "paper": f"measured by {_PAPER}",
    "both": f'measured by {_PAIRED}; "paper" is {_PAPER}',
}


def circumstances_blocks(where: str, checks: Sequence[str], protocol: str) -> list[doc.Block]:
    """On what and how it was measured, and what was checked before."""
    checked = f"checked on the GPU: {'; '.join(checks)}"
    return doc.paragraphs(where, checked, _MEASURED[protocol])


def timing_blocks(
    timing: Timing,
    base: str,
    candidate: str,
    *,
    detectable: float | None = None,
    by_paper: bool = False,
) -> list[doc.Block]:
    """A pair, called by these names: its verdict, times by all protocols, energy, every reason.

    `detectable` is the least difference that it could tell. The paper's protocol has no verdict.
    """
    base = "itself" if timing.base == timing.candidate else base
    title = f"{candidate} against {base}"
    verdict = (words.timing_verdict(timing), " ") if not by_paper else ()
    first, *further = timing.reasons if timing.reasons and not by_paper else ("",)
    behind = any(workload.producer for workload in timing.workloads)
    no_verdict = "The paper's protocol has no interval, and so no verdict."
    least = ""
    if detectable is not None:
        least = f"Differences down to {percent(detectable, 2)} can be told apart here."
    protocols = ("paper",) if by_paper else PROTOCOLS
    caption = title if by_paper else f"{title}: {COLD} decides"
    return [
        *doc.paragraphs(
            (*verdict, Phrase(title, Tone.TITLE), f" ({_circumstances(timing)})"),
            first,
            f"{BEHIND_PRODUCER}.".capitalize() if behind else "",
        ),
        *times_blocks(timing.workloads, caption, protocols, of=timing),
        *_energies(timing),
        *doc.items(*further),
        *doc.paragraphs(least, no_verdict if by_paper else ""),
    ]


# -- all times, by all protocols -------------------------------------------------------------------

_METRICS = dict(
    zip(PROTOCOLS, ("time_us of_floor floor_us", "chained_us", "warm_us", "paper_us"), strict=True)
)
"""What a row of each protocol has that a plan may cite."""
_OPTIONAL = ("of floor", "threshold", "floor us", "type", "pairs")


def times_blocks(
    timings: Iterable[WorkloadTiming | RoundsTimed],
    caption: str = "",
    protocols: Iterable[str] = PROTOCOLS,
    *,
    of: Timing | None = None,
) -> list[doc.Block]:
    """A row for each workload and protocol, and for the means over those `of` a timing; times in
    microseconds. Caveats have numbers from 1 on in the table, and are explained below it.
    """
    rows: list[doc.Record] = []
    places: list[str] = []
    known = list(timings)
    caveats = (c for w in known if isinstance(w, WorkloadTiming) for c in w.caveats)
    marks = {c: f"[{n}]" for n, c in enumerate(dict.fromkeys(caveats), start=1)}
    for protocol in protocols:
        found = [(w, pair) for w in known if (pair := w.pairs.get(protocol))]
        rows += [_time_row(w, protocol, pair, marks, of) for w, pair in found]
        places += [doc.place((w.workload,), *_METRICS[protocol].split()) for w, _ in found]
        if of is not None and found:
            rows.append(_mean_row(of, protocol, [pair.speedup.value for _, pair in found]))
            places.append("")
    made = doc.records(rows, caption, places=tuple(places), optional=_OPTIONAL)
    explained = (f"{mark} {caveat.message}" for caveat, mark in marks.items())
    return [made.without_empty_columns(), *doc.items(*explained)]


def _time_row(
    timing: WorkloadTiming | RoundsTimed,
    protocol: str,
    pair: PairedTime,
    marks: Mapping[Caveat, str],
    of: Timing | None,
) -> dict[str, doc.Cell]:
    """One workload by one protocol; what is known of the workload stands with what decides."""
    name = timing.workload
    if of is not None and isinstance(timing, WorkloadTiming) and len(set(of.weights)) > 1:
        name += f" ({percent(timing.weight / sum(of.weights), 1)})"
    told = {"workload": name, "protocol": protocol, "base us": _us(pair.base_us)}
    told |= {"cand. us": _us(pair.candidate_us), **_ratio(pair.speedup)}
    if isinstance(timing, RoundsTimed):
        return {**told, "verdict": f"{timing.rounds} rounds"}
    decides, floor = protocol == COLD, timing.floor
    doubts = " ".join(mark for caveat, mark in marks.items() if caveat in timing.caveats)
    doubts += " decides nothing" if timing.invalidated else ""
    told |= {"verdict": phrase_of(timing.verdict) if decides else None, "caveats": doubts}
    if decides:
        told |= {
            "of floor": doc.number(timing.of_floor, percent) if timing.of_floor else None,
            "threshold": doc.number(timing.threshold, percent, 2),
            "floor us": _us(floor.us) if floor else None,
            "type": timing.dtype.value,
        }
    return {**told, "pairs": pair.speedup.rounds or None}


def _mean_row(timing: Timing, protocol: str, speedups: Sequence[float]) -> dict[str, doc.Cell]:
    """The geometric mean; nothing unless all of them are known, positive and finite."""
    told: dict[str, doc.Cell] = {"workload": mean_name(timing.weights), "protocol": protocol}
    if protocol == COLD:
        verdict = Phrase(words_of(timing.verdict), words.timing_verdict(timing).tone)
        return {**told, **_ratio(timing.speedup), "verdict": verdict}
    known = [s for s in speedups if 0 < s < math.inf]
    if len(known) < len(timing.workloads):
        return told
    return {**told, "speedup": doc.number(mean_ratio(known, timing.weights), ratio)}


def _ratio(found: Ratio, name: str = "speedup") -> dict[str, doc.Cell]:
    return {name: doc.number(found.value, ratio), "95 % interval": doc.interval(found)}


def _circumstances(timing: Timing) -> str:
    clocks = [w.sm_mhz for w in timing.workloads if w.sm_mhz]
    low, high = min(clocks, default=0.0), max(clocks, default=0.0)
    clock = f"{low:,.0f} MHz" if high - low < 1 else f"{low:,.0f} to {high:,.0f} MHz"
    return ", ".join([timing.device, *([clock] if clocks else []), seconds(timing.seconds)])


def speedup_told(timing: Timing) -> doc.Line:
    """The mean with its interval, and the verdict."""
    return *doc.speedup_line(timing.speedup), " ", words.timing_verdict(timing)


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
    told = words.shipped_words(shipped)
    headline = Phrase(f"best {told.text}", told.tone)
    blocks = doc.paragraphs((headline,), _SHIPPED_PROTOCOL)
    if shipped.times is not None:
        blocks.append(_compared_table(shipped.times.shapes, BEST, shipped.speedup))
    lacking = shipped.not_timed.items()
    untimed = ((doc.Code(name), f" is not timed: {reason}.") for name, reason in lacking)
    return [*blocks, *doc.paragraphs(*untimed)]


def final_blocks(state: SessionState) -> list[doc.Block]:
    """The best, measured again at the end, against the files of its task and what others ship."""
    shipped = state.candidate(state.best).shipped
    finals = (timing_blocks(f.timing, f.against, "Best") for f in final_timings(state))
    return [*chain.from_iterable(finals), *(shipped_blocks(shipped) if shipped else ())]


def chain_blocks(task: str, measured: ChainTimes) -> list[doc.Block]:
    """Times of every version, a column a shape; then each source against the fastest shipped."""
    follows = "itself" if measured.chain == "itself" else "a producer (times are of both)"
    title = f"{task}: microseconds a launch, each after {follows}"
    shapes = measured.shapes
    bases = {"version": shapes[0].base if shapes else None}
    rows: list[doc.Record] = [
        {"version": "floor", **{s.workload: _us(s.floor_us) for s in shapes}},
        {**bases, **{s.workload: _us(s.base_us) for s in shapes}},
    ]
    for name in dict.fromkeys(v.name for shape in shapes for v in shape.versions):
        rows.append({"version": name, **{s.workload: _time_of(s, name) for s in shapes}})
    compared = (_compared_table(shapes, source, mean) for source, mean in measured.means.items())
    remarks = dict.fromkeys(remark for shape in shapes for remark in _remarks(shape))
    return [doc.records(rows, title), *compared, *doc.items(*remarks)]


def _compared_table(shapes: Sequence[ShapeTimes], source: str, mean: Ratio | None) -> doc.Table:
    rows: list[doc.Record] = []
    by = f"its time / {source}"
    for shape in shapes:
        told = {"workload": shape.workload, f"{source} us": _time_of(shape, source)}
        found = shape.fastest.get(source)
        named: doc.Cell = doc.Code(found.name) if found else "not known"
        compared = _ratio(found.speedup, by) if found else {}
        rows.append({**told, "fastest shipped": named, **compared})
    means = _ratio(mean, by) if mean else {by: "not known"}
    rows.append({"workload": mean_name(shape.weight for shape in shapes), **means})
    return doc.records(rows, f"{source} against the fastest shipped kernels")


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
    own = next((t.timing for t in final_timings(state) if t.against == BASELINE), None)
    winners = [(state.gpu_name, state.best, own, words.best_of(state), "decides rounds")]
    for kind, known in state.kinds.items():
        if known.winner:
            timing = known.timing(known.winner, state.opened.baseline, final=True)
            told = words.kind_winner(state, kind)
            winners.append((kind, known.winner, timing, told, known.reason))
    rows: list[doc.Row] = []
    for kind, winner, timing, told, why in winners:
        found: doc.Row = (told, None)
        if timing is not None:
            found = doc.speedup_line(timing.speedup), timing.uuid[:12]
        rows.append((kind, doc.Code(short(winner)), *found, why))
    columns = "kind of GPU", "winner", "speedup", "measured on", "why"
    table = doc.table(columns, rows, "Winners by kind of GPU, each against baseline.cu there")
    return [table, *doc.paragraphs(words.PORTFOLIO)]
