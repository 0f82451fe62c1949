"""Tables of paired timings by both protocols, and the caveats about them."""

from __future__ import annotations

from collections.abc import Iterable

from astra_tui.model.timing import (
    BEHIND_PRODUCER,
    PairedTime,
    Timing,
    WorkloadTiming,
)
from astra_tui.model.yardsticks import BEST, ShapeTimes, ShippedTimes
from astra_tui.present.document import (
    Block,
    Code,
    Details,
    Inline,
    Line,
    Link,
    Paragraph,
    Section,
    Strong,
    Table,
    badge,
    interval,
    number,
)
from astra_tui.present.numbers import (
    dimensions,
    geometric_mean,
    microseconds,
    percent,
    pluralised,
    ratio,
    short,
)
from astra_tui.present.report.facts import Facts
from astra_tui.present.report.plots.roofline import roofline_figure
from astra_tui.present.words import timing_verdict

_EMPTY: Line = ()

Names = tuple[str, str]
"""What the columns call the two versions of a pair."""

_ROUND_NAMES = "before", "candidate"


def timing_section(facts: Facts) -> Section | None:
    """The winner against baseline.cu and tuned.cu, per workload; None where nothing was timed.

    Timings of the rounds are in their rounds.
    """
    if not facts.timings:
        return None
    blocks: list[Block] = [Paragraph((_PROTOCOLS,))]
    if not facts.finals:
        why = "the best is the baseline" if not facts.won else "the session ended before that"
        blocks.append(
            Paragraph((f"Nothing was measured again at the end: {why}. Each round has its own.",))
        )
    for final in facts.finals:
        blocks += final_tables(facts, final.timing, final.beside)
    if facts.best.shipped is not None:
        blocks += shipped_blocks(facts.best.shipped)
    figure = roofline_figure(facts)
    if figure is not None:
        blocks.append(figure)
    return Section("Times per workload", "times", tuple(blocks))


_PROTOCOLS = (
    "Two protocols. Paired graph replay captures both versions in CUDA graphs and replays them in "
    "turn, in random order over rotated buffers; cold, where every launch finds its data outside "
    "the L2 cache, decides, and warm stands next to it. The Astra paper's protocol (arXiv "
    "2509.07506, section 4.1) is 20 warm-ups and 100 launches from the host with an event pair "
    "around each, and the arithmetic mean; it times the launch path as well and has no interval. A "
    "speedup is the time of the older version over that of the newer one."
)


def final_tables(facts: Facts, timing: Timing, base: str) -> list[Block]:
    """Both protocols of one pair, with what the verdict rests on."""
    title = f"Best against {base}"
    blocks: list[Block] = [Paragraph((badge(timing_verdict(timing)), " ", Strong(title)))]
    blocks += [Paragraph((reason,)) for reason in timing.reasons[:1]]
    if any(workload.producer for workload in timing.workloads):
        blocks.append(Paragraph((f"{BEHIND_PRODUCER}.".capitalize(),)))
    names = base, "best"
    blocks.append(cold_table(facts, timing, f"{title}: paired, cold (decides)", names))
    blocks.append(other_table(timing, f"{title}: {_others(timing).lower()}", names))
    if timing.reasons[1:]:
        further = tuple(Paragraph((reason,)) for reason in timing.reasons[1:])
        blocks.append(Details(f"Further reasons ({len(further)})", further))
    return blocks


_SHIPPED_PROTOCOL = (
    "Paired, cold. Every launch follows a kernel that writes part of its inputs, which is part of "
    "all times. The fastest of a workload is chosen on one half of the pairs and compared on the "
    "other; there is none where a shipped kernel that serves it was not timed or is void."
)


def shipped_blocks(shipped: ShippedTimes) -> list[Block]:
    """The best against the fastest shipped kernel of each shape, and what was not timed."""
    title = "Best against the fastest shipped kernels"
    blocks: list[Block] = [Paragraph((Strong(title),)), Paragraph((_SHIPPED_PROTOCOL,))]
    if shipped.times is not None:
        rows = [_shipped_row(shape) for shape in shipped.times.shapes]
        mean = shipped.speedup
        words = ((number(mean.value, ratio),), interval(mean)) if mean else (("not known",), _EMPTY)
        rows.append((("geometric mean",), _EMPTY, _EMPTY, *words))
        columns = ("workload", "best us", "fastest shipped", "its time / best", "95 % interval")
        blocks.append(Table(title, columns, tuple(rows), frozenset({1, 3, 4})))
    for name, reason in shipped.not_timed.items():
        blocks.append(Paragraph((Code(name), f" is not timed: {reason}.")))
    return blocks


def _shipped_row(shape: ShapeTimes) -> tuple[Line, ...]:
    found = shape.fastest.get(BEST)
    best = next((v for v in shape.versions if v.name == BEST), None)
    us: Line = (number(best.us, microseconds),) if best else _EMPTY
    if found is None:
        return (shape.workload,), us, ("not known",), _EMPTY, _EMPTY
    compared = (number(found.speedup.value, ratio),), interval(found.speedup)
    return (shape.workload,), us, (Code(found.name),), *compared


def cold_table(facts: Facts, timing: Timing, caption: str, names: Names) -> Table:
    """A row a workload and one of the means; times in microseconds."""
    rows = [_cold_row(facts, w) for w in timing.workloads]
    mean = timing.speedup
    verdict: Line = (badge(timing_verdict(timing)),)
    rows.append(
        (("geometric mean",), _EMPTY, _EMPTY, (number(mean.value, ratio),), interval(mean), _EMPTY,
         verdict, _EMPTY, _EMPTY, _EMPTY)
    )  # fmt: skip
    columns = (
        "workload", f"{names[0]} us", f"{names[1]} us", "speedup", "95 % interval",
        "threshold", "verdict", "floor us", "of floor", "caveats",
    )  # fmt: skip
    made = Table(caption, columns, tuple(rows), frozenset({1, 2, 3, 4, 5, 7, 8}))
    return made.without_empty_columns()


def _cold_row(facts: Facts, timing: WorkloadTiming) -> tuple[Line, ...]:
    floor = timing.floor
    share = timing.cold.candidate_us and timing.of_floor
    return (
        workload_name(timing),
        (number(timing.cold.base_us, microseconds),),
        (number(timing.cold.candidate_us, microseconds),),
        (number(timing.cold.speedup.value, ratio),),
        interval(timing.cold.speedup),
        (number(timing.threshold, percent, 2),),
        (badge(timing.verdict),),
        (number(floor.us, microseconds),) if floor else _EMPTY,
        (number(share, percent),) if share else _EMPTY,
        caveat_marks(facts, timing),
    )


def other_table(timing: Timing, caption: str, names: Names) -> Table:
    """The measurements that do not decide; times in microseconds."""
    rows = [_other_row(w) for w in timing.workloads]
    warm = _mean([w.warm.speedup.value if w.warm else None for w in timing.workloads])
    paper = _mean([_paper_ratio(w) for w in timing.workloads])
    chained = _mean([w.chained.speedup.value if w.chained else None for w in timing.workloads])
    rows.append(
        (("geometric mean",), _EMPTY, _EMPTY, chained, _EMPTY, _EMPTY, _EMPTY, warm, _EMPTY,
         _EMPTY, _EMPTY, paper)
    )  # fmt: skip
    columns = (
        "workload", f"after itself {names[0]} us", f"after itself {names[1]} us",
        "after itself speedup", "95 % interval",
        f"warm {names[0]} us", f"warm {names[1]} us", "warm speedup",
        "95 % interval", f"paper {names[0]} us", f"paper {names[1]} us", "paper speedup",
    )  # fmt: skip
    return Table(caption, columns, tuple(rows), frozenset(range(1, 12))).without_empty_columns()


def _other_row(timing: WorkloadTiming) -> tuple[Line, ...]:
    paper, found = timing.paper, _paper_ratio(timing)
    return (
        workload_name(timing),
        *_paired_cells(timing.chained),
        *_paired_cells(timing.warm),
        (number(paper.base_us, microseconds),) if paper else _EMPTY,
        (number(paper.candidate_us, microseconds),) if paper else _EMPTY,
        (number(found, ratio),) if found is not None else _EMPTY,
    )


def _paired_cells(paired: PairedTime | None) -> tuple[Line, ...]:
    """Both times, the speedup and its interval; empty where they were not measured."""
    if paired is None:
        return (_EMPTY,) * 4
    return (
        (number(paired.base_us, microseconds),),
        (number(paired.candidate_us, microseconds),),
        (number(paired.speedup.value, ratio),),
        interval(paired.speedup),
    )


def workload_name(timing: WorkloadTiming) -> Line:
    """The workload with its element type."""
    return timing.workload, " ", timing.dtype.value


def caveat_marks(facts: Facts, timing: WorkloadTiming) -> Line:
    """Links to the caveats about one measurement."""
    words: list[Inline] = []
    for mark in facts.marks(timing.caveats):
        words += [" " if words else "", Link(f"[{mark}]", f"caveat-{mark}")]
    if timing.invalidated:
        words.append(" decides nothing")
    return tuple(words)


def round_timings(facts: Facts, timings: Iterable[Timing]) -> list[Block]:
    """The timings of one candidate that are no final ones, folded away."""
    return [
        Details(
            f"Times of {short(t.candidate)} {_beside(t)}: {timing_verdict(t).words}, "
            f"{pluralised(len(t.workloads), 'workload')}",
            (
                cold_table(facts, t, f"Paired, cold (decides), {_beside(t)}", _ROUND_NAMES),
                other_table(t, f"{_others(t)}, {_beside(t)}", _ROUND_NAMES),
            ),
        )
        for t in timings
    ]


def _others(timing: Timing) -> str:
    by_paper = any(w.paper for w in timing.workloads)
    return "Paired, warm, and the paper's protocol" if by_paper else "Paired, warm"


def _beside(timing: Timing) -> str:
    own = timing.base == timing.candidate
    return "against itself" if own else f"against {short(timing.base)}"


def caveat_section(facts: Facts) -> Section | None:
    """Every caveat about a measurement; None where nothing was timed."""
    if not facts.timings:
        return None
    if not facts.caveats:
        text = "No measurement is marked: the gates on clocks, power, heat, drift and others held."
        return Section("Caveats", "caveats", (Paragraph((text,)),))
    rows = tuple(
        ((f"[{n}]",), (d.kind.replace("_", " "),), (d.message,), (_weight(d.invalidates),),
         (_where(facts, n),))
        for n, d in enumerate(facts.caveats, start=1)
    )  # fmt: skip
    anchors = tuple(f"caveat-{n}" for n in range(1, len(rows) + 1))
    table = Table(
        "Reasons not to trust a measurement fully",
        ("mark", "kind", "what was seen", "weight", "measurements"),
        rows,
        anchors=anchors,
    )
    return Section("Caveats", "caveats", (table,))


def _weight(invalidates: bool) -> Inline:
    return Strong("the measurement decides nothing") if invalidates else "shown, the verdict stands"


def _where(facts: Facts, number: int) -> str:
    caveat = facts.caveats[number - 1]
    workloads = [w for t in facts.timings for w in t.workloads if caveat in w.caveats]
    names = list(dict.fromkeys(w.workload for w in workloads))
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return f"{len(workloads)}: {', '.join(names[:4])}{more}"


def protocol_table(facts: Facts) -> Table | None:
    """How each workload was measured, from its latest timing."""
    latest = {w.workload: w for t in facts.timings for w in t.workloads}
    if not latest:
        return None
    rows = tuple(
        (
            workload_name(w),
            (dimensions(w.dims),),
            (str(w.cold.speedup.rounds),),
            (str(w.launches),),
            (str(w.buffer_sets),),
            (number(w.offset_us, microseconds),),
            (f"{w.sm_mhz:,.0f}",) if w.sm_mhz else ("not read",),
            (str(w.verified_sets),),
        )
        for w in latest.values()
    )
    columns = (
        "workload", "dimensions", "pairs of rounds", "launches a graph", "buffer sets",
        "offset taken off, us", "SM clock, MHz", "buffer sets verified",
    )  # fmt: skip
    caption = "How it was measured: the latest timing of each workload"
    return Table(caption, columns, rows, frozenset(range(2, 8)))


def _paper_ratio(timing: WorkloadTiming) -> float | None:
    paper = timing.paper
    return paper.speedup if paper and paper.candidate_us else None


def _mean(ratios: list[float | None]) -> Line:
    mean = geometric_mean(ratios)
    return _EMPTY if mean is None else (number(mean, ratio),)
