"""Tables of paired timings by both protocols, and the caveats about them."""

from __future__ import annotations

from collections.abc import Iterable

from astra_tui.model.timing import (
    Timing,
)
from astra_tui.present import document as doc
from astra_tui.present.document import number
from astra_tui.present.numbers import (
    decimal,
    dimensions,
    microseconds,
    pluralised,
    short,
)
from astra_tui.present.report.facts import Facts
from astra_tui.present.report.plots import roofline_figure
from astra_tui.present.timing import Names, cold_table, other_tables, shipped_blocks, timing_blocks
from astra_tui.present.words import timing_verdict


def timing_section(facts: Facts) -> doc.Section | None:
    """The winner against baseline.cu and tuned.cu, per workload; None where nothing was timed.

    Timings of the rounds are in their rounds.
    """
    if not facts.timings:
        return None
    blocks: list[doc.Block] = [doc.Paragraph((_PROTOCOLS,))]
    if not facts.finals:
        why = (
            "the best is the baseline"
            if not facts.state.has_better
            else "the session ended before that"
        )
        blocks.append(
            doc.Paragraph(
                (f"Nothing was measured again at the end: {why}. Each round has its own.",)
            )
        )
    for final in facts.finals:
        names = Names(final.beside, "Best", final.beside, "best")
        blocks += timing_blocks(final.timing, names, facts.marks)
    if facts.best.shipped is not None:
        blocks += shipped_blocks(facts.best.shipped)
    figure = roofline_figure(facts)
    if figure is not None:
        blocks.append(figure)
    return doc.Section("Times per workload", "times", tuple(blocks))


_PROTOCOLS = (
    "Two protocols. Paired graph replay captures both versions in CUDA graphs and replays them in "
    "turn, in random order over rotated buffers; cold, where every launch finds its data outside "
    "the L2 cache, decides, and warm stands next to it. The Astra paper's protocol (arXiv "
    "2509.07506, section 4.1) is 20 warm-ups and 100 launches from the host with an event pair "
    "around each, and the arithmetic mean; it times the launch path as well and has no interval. A "
    "speedup is the time of the older version over that of the newer one."
)


def round_timings(facts: Facts, timings: Iterable[Timing]) -> list[doc.Block]:
    """The timings of one candidate that are no final ones, folded away."""
    return [_round_timing(facts, timing) for timing in timings]


def _round_timing(facts: Facts, timing: Timing) -> doc.Details:
    base = "itself" if timing.base == timing.candidate else short(timing.base)
    names = Names(base, short(timing.candidate), "before", "candidate")
    workloads = pluralised(len(timing.workloads), "workload")
    title = f"Times of {names.candidate} against {base}"
    cold = cold_table(timing, f"{title}: paired, cold (decides)", names, facts.marks)
    tables = (cold, *other_tables(timing, title, names))
    return doc.Details(f"{title}: {timing_verdict(timing).words}, {workloads}", tables)


def caveat_section(facts: Facts) -> doc.Section | None:
    """Every caveat about a measurement; None where nothing was timed."""
    if not facts.timings:
        return None
    if not facts.caveats:
        text = "No measurement is marked: the gates on clocks, power, heat, drift and others held."
        return doc.Section("Caveats", "caveats", (doc.Paragraph((text,)),))
    rows = (
        (f"[{n}]", d.kind.replace("_", " "), d.message, _weight(d.invalidates), _where(facts, n))
        for n, d in enumerate(facts.caveats, start=1)
    )
    anchors = tuple(f"caveat-{n}" for n, _ in enumerate(facts.caveats, start=1))
    columns = ("mark", "kind", "what was seen", "weight", "measurements")
    title = "Reasons not to trust a measurement fully"
    return doc.Section("Caveats", "caveats", (doc.table(columns, rows, title, anchors=anchors),))


def _weight(invalidates: bool) -> doc.Inline:
    return (
        doc.Strong("the measurement decides nothing")
        if invalidates
        else "shown, the verdict stands"
    )


def _where(facts: Facts, number: int) -> str:
    caveat = facts.caveats[number - 1]
    workloads = [w for t in facts.timings for w in t.workloads if caveat in w.caveats]
    names = list(dict.fromkeys(w.workload for w in workloads))
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return f"{len(workloads)}: {', '.join(names[:4])}{more}"


def protocol_table(facts: Facts) -> doc.Table | None:
    """How each workload was measured, from its latest timing."""
    latest = {w.workload: w for t in facts.timings for w in t.workloads}
    if not latest:
        return None
    rows = (
        (f"{w.workload} {w.dtype.value}", dimensions(w.dims), w.cold.speedup.rounds, w.launches,
         w.buffer_sets, number(w.offset_us, microseconds),
         number(w.sm_mhz, decimal, 0) if w.sm_mhz else "not read", w.verified_sets)
        for w in latest.values()
    )  # fmt: skip
    columns = (
        "workload", "dimensions", "pairs of rounds", "launches a graph", "buffer sets",
        "offset taken off, us", "SM clock, MHz", "buffer sets verified",
    )  # fmt: skip
    caption = "How it was measured: the latest timing of each workload"
    return doc.table(columns, rows, caption)
