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

from astra_tui.model.timing import Ratio, Timing
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


def _labels(values: Sequence[float]) -> tuple[list[float], list[str]]:
    """Where the labels of a logarithmic axis are, and what they say."""
    ticks = log_ticks(values)
    return [math.log(t) for t in ticks], [f"{t:.6g}" for t in ticks]


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


class _Plot:
    """One drawing; `name` makes its ids unique in the page."""

    def __init__(self, name: str, width: float, height: float):
        self._name = name
        self.graph = ziaplot.Graph().size(width, height).css(_STYLE)

    def mark(self, x: float, y: float, sign: str, colour: str, title: str) -> None:
        """A sign whose title is read out and shown under the pointer."""
        drawn = ziaplot.Text(x, y, sign, "center", "center").style(
            f"font_size: 15; color: {colour}"
        )
        self.graph.add(drawn.subelement(f"<title>{escape(inline(title))}</title>"))

    def ring(self, x: float, y: float) -> None:
        """A ring around a mark."""
        drawn = ziaplot.Point((x, y)).marker("round", 10)
        self.graph.add(drawn.style(f"color: none; edge_color: {_INK}; edge_width: 1.3"))

    def text(self, x: float, y: float, words: str) -> None:
        """Words around a place."""
        drawn = ziaplot.Text(x, y, inline(words, 60), "center", "center")
        self.graph.add(drawn.style(f"font: system-ui; font_size: 12; color: {_INK}"))

    def line(self, x: Sequence[float], y: Sequence[float], style: str = "") -> None:
        """Straight lines from place to place."""
        drawn = ziaplot.PolyLine(x, y).style(f"color: {_QUIET}; stroke_width: 1.3; {style}")
        self.graph.add(drawn)

    def rounds(self, points: Sequence[_Point], room: float) -> None:
        """The labels of places 0, 1, ... along the bottom; of rounds, as many as do not touch."""
        labels = [inline(p.label, 60) for p in points]
        longest = max((len(p.label) for p in points if not p.is_final), default=1)
        step = max(1, math.ceil((7.5 * longest + 4) * len(points) / room))
        names = [n if i % step == 0 or points[i].is_final else "" for i, n in enumerate(labels)]
        self.graph.xticks(range(len(points)), names).xrange(-0.5, len(points) - 0.5)
        self.graph.axesnames(x="round")
        self.line((-0.5, len(points) - 0.5), (0, 0), f"stroke: dashed; color: {_INK}")

    def height(self, values: Sequence[float]) -> tuple[float, float]:
        """A logarithmic axis up the left side that holds these values; its ends as logarithms."""
        low, high = math.log(min(values)), math.log(max(values))
        room = max(0.1 * (high - low), 0.02)
        self.graph.yticks(*_labels(values))
        self.graph.yrange(low - room, high + 2 * room)
        return low - room, high + 2 * room

    def svg(self, title: str, description: str) -> str:
        """The drawing for a page, which says aloud what it shows."""
        root = self.graph.svgxml()
        del root.attrib["xmlns"]
        told = {"title": title, "desc": description}
        for at, (tag, words) in enumerate(told.items()):
            made = ElementTree.Element(tag, id=f"{self._name}-{tag}")
            made.text = inline(words)
            root.insert(at, made)
        root.set("role", "img")
        root.set("aria-labelledby", " ".join(f"{self._name}-{tag}" for tag in told))
        for element in root.iter():
            for key, value in element.items():
                if key == "id" and not value.startswith(self._name):
                    element.set(key, f"{self._name}-{value}")
                elif value.startswith("url(#"):
                    element.set(key, value.replace("#", f"#{self._name}-"))
        return ElementTree.tostring(root, encoding="unicode")


def _over_rounds(
    name: str, axis: str, points: Sequence[_Point], height: float, spacing: float, held: list[float]
) -> _Plot:
    """A mark for each version with its interval, final ones after a rule, on an axis that holds
    these values; with room enough, each with its value.
    """
    finals = sum(p.is_final for p in points)
    width = min(spacing * max(24, len(points)), _WIDEST) + 60 * finals
    plot = _Plot(name, width, height)
    plot.rounds(points, width - 60)
    low, high = plot.height([1.0, *held])
    plot.graph.title(axis)
    if finals:
        at = len(points) - finals - 0.5
        plot.line((at, at), (low, high))
    for x, point in enumerate(points):
        found = point.ratio
        if found is None or not is_plottable(found.value):
            plot.mark(x, low, "×", _QUIET, f"{point.title}, not measured")
            continue
        y = math.log(found.value)
        if len(_ends(found)) == 3:
            plot.line((x, x), (math.log(found.low), math.log(found.high)), f"color: {_INK}")
        if point.kept:
            plot.ring(x, y)
        told = f"{point.title}, {numbers.speedup(found)}"
        plot.mark(x, y, sign_of(point.tone), _COLOURS[point.tone], told)
        if spacing >= _ROOM_FOR_VALUE:
            plot.text(x, y + 0.08 * (high - low), numbers.ratio(found.value))
    return plot


_ROOM_FOR_VALUE = 30


def _point(entry: ReportedProposal, found: Ratio | None) -> _Point:
    told = round_verdict(entry.state, entry.proposal.verdict)
    title = f"round {entry.label}, {entry.plan.title}: {told.text}"
    return _Point(entry.label, title, told.tone, entry.became_best, found)


def _ends(found: Ratio | None) -> list[float]:
    """The value and both ends of its interval, as far as they can be drawn."""
    ends = (found.value, found.low, found.high) if found else ()
    return [value for value in ends if is_plottable(value)]


def speedup_figure(facts: Facts) -> list[Block]:
    """The speedup of every round's candidate with its interval, and of the winner at the end.

    Nothing where no round was timed.
    """
    points = [_point(entry, entry.proposal.speedup) for entry in facts.reported]
    if not any(_ends(p.ratio) for p in points):
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
    held = [value for p in points for value in _ends(p.ratio)]
    plot = _over_rounds("speedups", "speedup, log axis", points, 300, 30, held)
    return [Figure(title, description, plot.svg(title, description))]


def counters_figure(facts: Facts) -> list[Block]:
    """Counters of every round's candidate against the baseline's, a small drawing a counter.

    Nothing where fewer than two versions were counted.
    """
    versions = [facts.baseline, *(entry.candidate for entry in facts.reported)]
    profiles = [v.profile if v and v.profile and v.profile.workloads else None for v in versions]
    first = profiles[0]
    if first is None or sum(p is not None for p in profiles) < 2:
        return []
    start = _Point("0", "the baseline", Tone.PLAIN, True)
    points = [start, *(_point(entry, None) for entry in facts.reported)]
    counters = {
        name: [
            replace(point, ratio=_counted(p.total(name), first.total(name)) if p else None)
            for point, p in zip(points, profiles, strict=True)
        ]
        for name in COUNTERS
        if name != "bytes" and first.total(name) > 0
    }
    if not counters:
        return []
    title = "Counters of each round against the baseline's"
    description = (
        "Each count over the baseline's, added up over the workloads, on a logarithmic axis; below "
        f"1 is less work. {_LEGEND}."
    )
    held = [p.ratio.value for each in counters.values() for p in each if p.ratio]
    panels = [
        _over_rounds(f"counter-{name}", label, each, 190, 15, held).svg(label, description)
        for name, each in counters.items()
        for label in [name.replace("_", " ")]
    ]
    return [Figure(title, description, f'<div class="panels">{"".join(panels)}</div>')]


def _counted(now: int, first: int) -> Ratio:
    return Ratio(max(now / first, _SMALLEST), 0.0, math.inf, 0)


# -- times against the floor -----------------------------------------------------------------------


def roofline_figure(facts: Facts) -> list[Block]:
    """Times against what no kernel can go below on this GPU, a row for each workload.

    Nothing where the best candidate was not timed, or no floor was measured.
    """
    timings = {f.against: f.timing for f in facts.finals}
    if not timings and facts.best.timings:
        timings = {"the version before it": facts.best.timings[-1].timing}
    rows = {
        w.workload: (w.floor.us, w.cold.candidate_us, _others(timings, w.workload))
        for w in (next(iter(timings.values())).workloads if timings else ())
        if w.floor and is_plottable(w.floor.us) and is_plottable(w.cold.candidate_us)
    }
    if not rows:
        return []
    title = "Times against the floor, per workload"
    others = ", ".join(f"{sign} {name}" for name, sign in zip(timings, _OTHERS, strict=False))
    description = (
        "Cold times in microseconds on a logarithmic axis: | the floor, which is the longer of an "
        "empty launch and a copy of the compulsory bytes, both measured on this GPU; ▲ the best "
        f"candidate; {others}. At the right: the share of the floor that the best reaches."
    )
    return [Figure(title, description, _roofline(rows).svg(title, description))]


_OTHERS = {sign_of(tone): _COLOURS[tone] for tone in (Tone.CAUTION, Tone.PLAIN)}
"""Marks of the versions that the best is compared with, and their colours."""


def _others(timings: dict[str, Timing], workload: str) -> dict[str, float]:
    found = ((name, w) for name, timing in timings.items() for w in timing.workloads)
    return {n: w.cold.base_us for n, w in found if w.workload == workload}


def _roofline(rows: dict[str, tuple[float, float, dict[str, float]]]) -> _Plot:
    plot = _Plot("roofline", 760, 90 + 34 * len(rows))
    known = [
        time
        for floor, best, others in rows.values()
        for time in (floor, best, *others.values())
        if is_plottable(time)
    ]
    low, high = math.log(min(known)), math.log(max(known))
    room = max(high - low, 0.05)
    end = high + 0.1 * room
    plot.graph.css(_STYLE + f"Graph.GridX {{ color: {_RULE}; stroke: solid; stroke_width: 1; }}")
    plot.graph.xticks(*_labels(known))
    plot.graph.xrange(low - 0.08 * room, end + 0.08 * room)
    plot.graph.yticks([-i for i in range(len(rows))], [inline(n, 20) for n in rows])
    plot.graph.yrange(-len(rows) + 0.4, 1.1)
    plot.graph.axesnames(x="us, log axis")
    plot.text(end, 0.7, "of floor")
    for at, (name, (floor, best, others)) in enumerate(rows.items()):
        places = [math.log(t) for t in (floor, best, *others.values()) if is_plottable(t)]
        plot.line((min(places), max(places)), (-at, -at))
        times = "; ".join(f"{name} {numbers.time(us)}" for name, us in others.items())
        told = f"{name}: floor {numbers.time(floor)}, best {numbers.time(best)}, {times}"
        plot.line((math.log(floor),) * 2, (-at - 0.3, -at + 0.3), f"color: {_INK}; stroke_width: 4")
        for (sign, colour), us in zip(_OTHERS.items(), others.values(), strict=False):
            if is_plottable(us):
                plot.mark(math.log(us), -at, sign, colour, told)
        plot.mark(math.log(best), -at, "▲", _INK, told)
        plot.text(end, -at, numbers.percent(floor / best))
    return plot
