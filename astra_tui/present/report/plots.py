"""Drawings of a report as SVG, by ziaplot: logarithmic axes, marks in the colours of the page.

A mark is the sign of its tone, so that its form says what its colour says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from xml.etree import ElementTree

import ziaplot

from astra_tui.model.timing import Ratio
from astra_tui.present import numbers
from astra_tui.present.document import Block, Figure, inline
from astra_tui.present.tones import Tone, sign_of
from astra_tui.present.words import round_verdict, timing_verdict
from astra_tui.sessions.facts import Facts, ReportedProposal
from astra_tui.sessions.summary import COUNTERS

_LEGEND = (
    "▲ better, ▼ worse, ■ same, ◆ inconclusive, × not measured; "
    "a ring marks what the next rounds built on"
)
_COLOURS = dict.fromkeys(Tone, "var(--plain)") | {
    tone: f"var(--{tone.value})" for tone in (Tone.GOOD, Tone.BAD, Tone.CAUTION)
}
_INK, _QUIET, _RULE = "var(--ink)", "var(--quiet)", "var(--rule)"
_STYLE = f"""
* {{ font: system-ui; font_size: 12; }}
Canvas {{ color: none; }}
Graph {{ color: none; edge_color: none; edge_width: 0; stroke_width: 0; }}
Graph.TickX {{ color: {_QUIET}; font_size: 12; height: 6; stroke_width: 0; }}
Graph.TickY {{ color: {_QUIET}; font_size: 12; height: 0; stroke_width: 0; margin: 20; }}
Graph.XName {{ color: {_QUIET}; font_size: 12; }}
Graph.Title {{ color: {_QUIET}; font_size: 12; }}
Graph.GridX {{ color: none; }}
Graph.GridY {{ color: {_RULE}; stroke: solid; stroke_width: 1; }}
"""
_SMALLEST = 1e-4
"""Counters that fall to nothing are drawn here."""
_WIDEST = 4000


def is_plottable(value: float) -> bool:
    """Whether a value has a place on a logarithmic axis that can still be read."""
    return 1e-9 <= value <= 1e9


def log_ticks(values: Sequence[float]) -> list[float]:
    """Values for labels of a logarithmic axis that holds these: round ones where they are apart."""
    low, high = min(values), max(values)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    few = (1, 1.5, 2, 3, 5, 7) if len(decades) <= 3 else (1, 2, 5)
    factors = few if len(decades) <= 5 else (1,)
    ticks = [t for p in decades for f in factors if low <= (t := f * 10.0**p) <= high]
    if len(ticks) >= 3:
        return ticks[:: 1 + len(ticks) // 12]
    return sorted({float(f"{low * (high / low) ** (i / 4):.3g}") for i in range(5)})


@dataclass(frozen=True)
class _Point:
    """A version that was tried; `kept` says whether the next round built on it."""

    label: str
    title: str
    tone: Tone
    kept: bool
    ratio: Ratio | None = None
    """To the version that it is compared with; None where that was not measured."""
    is_final: bool = False

    @property
    def drawn(self) -> list[float]:
        """The ratio and both ends of its interval, as far as they have a place."""
        ends = (self.ratio.value, self.ratio.low, self.ratio.high) if self.ratio else ()
        return [value for value in ends if is_plottable(value)]


class _Plot:
    """One drawing; `name` makes its ids unique in the page."""

    def __init__(self, name: str, width: float, height: float):
        self._name = name
        self.graph = ziaplot.Graph().size(width, height).css(_STYLE)

    def mark(self, x: float, y: float, sign: str, colour: str, title: str) -> None:
        """A sign whose title is read out and shown under the pointer."""
        drawn = ziaplot.Text(x, y, sign, "center", "center")
        drawn.style(f"font_size: 15; color: {colour}")
        self.graph.add(drawn.subelement(f"<title>{escape(inline(title))}</title>"))

    def words(self, x: float, y: float, text: str) -> None:
        """Words around a place."""
        drawn = ziaplot.Text(x, y, inline(text, 60), "center", "center")
        self.graph.add(drawn.style(f"font: system-ui; font_size: 12; color: {_INK}"))

    def line(self, x: Sequence[float], y: Sequence[float], style: str = "") -> None:
        """Straight lines from place to place."""
        drawn = ziaplot.PolyLine(x, y).style(f"color: {_QUIET}; stroke_width: 1.3; {style}")
        self.graph.add(drawn)

    def told(self, title: str, description: str) -> str:
        """The drawing for a page, which says aloud what it shows."""
        root = self.graph.svgxml()
        del root.attrib["xmlns"]
        root.set("role", "img")
        root.set("aria-labelledby", f"{self._name}-title {self._name}-desc")
        for element in root.iter():
            for key, value in element.items():
                if key == "id":
                    element.set(key, f"{self._name}-{value}")
                elif value.startswith("url(#"):
                    element.set(key, value.replace("#", f"#{self._name}-"))
        for at, (tag, words) in enumerate((("title", title), ("desc", description))):
            made = ElementTree.Element(tag, id=f"{self._name}-{tag}")
            made.text = inline(words)
            root.insert(at, made)
        return ElementTree.tostring(root, encoding="unicode")


def _labels(values: Sequence[float]) -> tuple[list[float], list[str]]:
    """Where the labels of a logarithmic axis are, and what they say."""
    ticks = log_ticks(values)
    return [math.log(t) for t in ticks], [f"{t:.6g}" for t in ticks]


def _over_rounds(
    name: str, axis: str, points: Sequence[_Point], height: float, spacing: float, held: list[float]
) -> _Plot:
    """A mark for each version with its interval, final ones after a rule, on an axis that holds
    these values; with room enough, each with its value.
    """
    finals, most = sum(p.is_final for p in points), len(points)
    width = min(spacing * max(24, most), _WIDEST) + 60 * finals
    plot = _Plot(name, width, height)
    plot.graph.xticks(range(most), _shown_labels(points, width - 60)).xrange(-0.5, most - 0.5)
    plot.graph.axesnames(x="round").title(axis)
    low, high = (math.log(end) for end in (min(1.0, *held), max(1.0, *held)))
    room = max(0.1 * (high - low), 0.02)
    low, high = low - room, high + 2 * room
    plot.graph.yticks(*_labels([1.0, *held])).yrange(low, high)
    plot.line((-0.5, most - 0.5), (0, 0), f"stroke: dashed; color: {_INK}")
    if finals:
        plot.line((most - finals - 0.5,) * 2, (low, high))
    for x, point in enumerate(points):
        if not point.ratio or not is_plottable(point.ratio.value):
            plot.mark(x, low, "×", _QUIET, f"{point.title}, not measured")
            continue
        y, *ends = map(math.log, point.drawn)
        if len(ends) == 2:
            plot.line((x, x), ends, f"color: {_INK}")
        if point.kept:
            ring = ziaplot.Point((x, y)).marker("round", 10)
            plot.graph.add(ring.style(f"color: none; edge_color: {_INK}; edge_width: 1.3"))
        told = f"{point.title}, {numbers.speedup(point.ratio)}"
        plot.mark(x, y, sign_of(point.tone), _COLOURS[point.tone], told)
        if spacing >= 30:  # A value has room.
            plot.words(x, y + 0.08 * (high - low), numbers.ratio(point.ratio.value))
    return plot


def _shown_labels(points: Sequence[_Point], room: float) -> list[str]:
    """The labels of places along the bottom; of rounds, as many as do not touch."""
    longest = max((len(p.label) for p in points if not p.is_final), default=1)
    step = max(1, math.ceil((7.5 * longest + 4) * len(points) / room))
    shown = (i % step == 0 or point.is_final for i, point in enumerate(points))
    return [
        inline(p.label, 60) if is_shown else "" for p, is_shown in zip(points, shown, strict=True)
    ]


def _point(entry: ReportedProposal, found: Ratio | None) -> _Point:
    told = round_verdict(entry.state, entry.proposal.verdict)
    title = f"round {entry.label}, {entry.plan.title}: {told.text}"
    return _Point(entry.label, title, told.tone, entry.became_best, found)


def speedup_figure(facts: Facts) -> list[Block]:
    """The speedups of all rounds and of the winner; nothing where no round was timed."""
    points = [_point(entry, entry.proposal.speedup) for entry in facts.reported]
    if not any(p.drawn for p in points):
        return []
    for final in facts.finals:
        told = timing_verdict(final.timing)
        title = f"final, against {final.against}: {told.text}"
        found = final.timing.speedup
        points.append(_Point(final.against, title, told.tone, True, found, is_final=True))
    title = "Speedup of each round against the version it started from"
    description = (
        "Time of the older version over that of the newer one, geometric mean over the workloads, "
        f"cold, with 95 % intervals, on a logarithmic axis; above 1 is faster. {_LEGEND}."
    )
    if facts.finals:
        description += " After the rule: the best candidate, measured again."
    held = [value for p in points for value in p.drawn]
    plot = _over_rounds("speedups", "speedup, log axis", points, 300, 30, held)
    return [Figure(title, description, plot.told(title, description))]


def counters_figure(facts: Facts) -> list[Block]:
    """Counters of all rounds over the baseline's, a drawing each; nothing without two versions."""
    profiles = {hash_: profile for _, hash_, profile in facts.counted}
    first = profiles.get(facts.baseline.hash)
    versions = [facts.baseline, *(entry.candidate for entry in facts.reported)]
    if first is None or sum(v is not None and v.hash in profiles for v in versions) < 2:
        return []
    start = _Point("0", "the baseline", Tone.PLAIN, True)
    points = [start, *(_point(entry, None) for entry in facts.reported)]
    found = (profiles.get(v.hash) if v else None for v in versions)
    counted = list(zip(points, found, strict=True))
    title = "Counters of each round against the baseline's"
    description = (
        "Each count over the baseline's, added up over the workloads, on a logarithmic axis; below "
        f"1 is less work. {_LEGEND}."
    )
    counters = {
        name: [
            replace(point, ratio=_counted(p.total(name), first.total(name)) if p else None)
            for point, p in counted
        ]
        for name in COUNTERS
        if name != "bytes" and first.total(name) > 0
    }
    held = [p.ratio.value for each in counters.values() for p in each if p.ratio]
    panels = [
        _over_rounds(f"counter-{name}", label, each, 190, 15, held).told(label, description)
        for name, each in counters.items()
        for label in [name.replace("_", " ")]
    ]
    drawn = f'<div class="panels">{"".join(panels)}</div>'
    return [Figure(title, description, drawn)] if panels else []


def _counted(now: int, first: int) -> Ratio:
    return Ratio(max(now / first, _SMALLEST), 0.0, math.inf, 0)


def roofline_figure(facts: Facts) -> list[Block]:
    """Times of the best against the floor, a row a workload; nothing where one is missing."""
    timings = {f.against: f.timing for f in facts.finals}
    if not timings and facts.best.timings:
        timings = {"the version before it": facts.best.timings[-1].timing}
    others = [(n, w.workload, w.cold.base_us) for n, t in timings.items() for w in t.workloads]
    rows = {
        w.workload: (
            w.floor.us,
            w.cold.candidate_us,
            {n: us for n, at, us in others if at == w.workload},
        )
        for w in (next(iter(timings.values())).workloads if timings else ())
        if w.floor and is_plottable(w.floor.us) and is_plottable(w.cold.candidate_us)
    }
    if not rows:
        return []
    title = "Times against the floor, per workload"
    named = ", ".join(f"{sign} {name}" for name, sign in zip(timings, _OTHERS, strict=False))
    description = (
        "Cold times in microseconds on a logarithmic axis: | the floor, which is the longer of an "
        "empty launch and a copy of the compulsory bytes, both measured on this GPU; ▲ the best "
        f"candidate; {named}. At the right: the share of the floor that the best reaches."
    )
    return [Figure(title, description, _roofline(rows).told(title, description))]


_OTHERS = {sign_of(tone): _COLOURS[tone] for tone in (Tone.CAUTION, Tone.PLAIN)}
"""Marks of the versions that the best is compared with, and their colours."""


def _roofline(rows: dict[str, tuple[float, float, dict[str, float]]]) -> _Plot:
    plot = _Plot("roofline", 760, 90 + 34 * len(rows))
    times = {n: (floor, best, *others.values()) for n, (floor, best, others) in rows.items()}
    drawn = {n: [t for t in each if is_plottable(t)] for n, each in times.items()}
    known = [time for each in drawn.values() for time in each]
    low, high = math.log(min(known)), math.log(max(known))
    room = max(high - low, 0.05)
    end = high + 0.1 * room
    plot.graph.css(_STYLE + f"Graph.GridX {{ color: {_RULE}; stroke: solid; stroke_width: 1; }}")
    plot.graph.xticks(*_labels(known)).xrange(low - 0.08 * room, end + 0.08 * room)
    plot.graph.yticks([-i for i in range(len(rows))], [inline(n, 20) for n in rows])
    plot.graph.yrange(-len(rows) + 0.4, 1.1).axesnames(x="us, log axis")
    plot.words(end, 0.7, "of floor")
    for at, (name, (floor, best, others)) in enumerate(rows.items()):
        ends = math.log(min(drawn[name])), math.log(max(drawn[name]))
        plot.line(ends, (-at, -at))
        each = "; ".join(f"{name} {numbers.time(us)}" for name, us in others.items())
        told = f"{name}: floor {numbers.time(floor)}, best {numbers.time(best)}, {each}"
        plot.line((math.log(floor),) * 2, (-at - 0.3, -at + 0.3), f"color: {_INK}; stroke_width: 4")
        for (sign, colour), us in zip(_OTHERS.items(), others.values(), strict=False):
            if is_plottable(us):
                plot.mark(math.log(us), -at, sign, colour, told)
        plot.mark(math.log(best), -at, "▲", _INK, told)
        plot.words(end, -at, numbers.percent(floor / best))
    return plot
