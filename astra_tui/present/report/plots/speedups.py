"""The speedup of every round's candidate, with its interval, and of the winner at the end."""

from __future__ import annotations

from dataclasses import dataclass

from astra_tui.model.timing import Ratio
from astra_tui.present.document import Figure
from astra_tui.present.numbers import ratio, speedup
from astra_tui.present.report.facts import Facts, ReportedProposal
from astra_tui.present.report.plots.slots import Slots, width_for
from astra_tui.present.report.plots.svg import (
    LEGEND,
    LogAxis,
    cross,
    drawing,
    element,
    is_plottable,
    line,
    mark,
    tick_text,
    titled,
    words,
)
from astra_tui.present.tones import Tone
from astra_tui.present.words import timing_verdict

_HEIGHT, _TOP, _BOTTOM = 300.0, 34.0, 250.0
_LEFT, _RIGHT = 64.0, 16.0
_SHORTEST_WITH_ENDS = 14.0
"""Intervals that are shorter, in units of the drawing, are covered by their mark."""


@dataclass(frozen=True)
class _Point:
    label: str
    title: str
    speedup: Ratio | None
    tone: Tone
    kept: bool
    """Whether the next round built on it."""


def speedup_figure(facts: Facts) -> Figure | None:
    """None where no round was timed."""
    points = [_of_entry(t) for t in facts.reported]
    values = [v for p in points if p.speedup for v in _plottable(p.speedup)]
    if not values:
        return None
    finals = [
        _Point(f.beside, f"final, against {f.beside}: {timing_verdict(f.timing).words}",
               f.timing.speedup, timing_verdict(f.timing).tone, True)
        for f in facts.finals
    ]  # fmt: skip
    values += [v for p in finals if p.speedup for v in _plottable(p.speedup)]
    title = "Speedup of each round against the version it started from"
    description = (
        "Time of the older version over that of the newer one, geometric mean over the workloads, "
        "cold, with 95 % intervals, on a logarithmic axis; above 1 is faster. " + LEGEND + "; "
        "a ring marks what the next rounds built on."
    )
    if finals:
        description += " After the rule: the best candidate, measured again."
    svg = _drawn(title, description, points, finals, values)
    return Figure(title, description, svg)


def _of_entry(entry: ReportedProposal) -> _Point:
    verdict = entry.proposal.verdict
    comparison = verdict.comparison if verdict else None
    return _Point(
        label=entry.label,
        title=f"round {entry.label}, {entry.plan.title}: {entry.told.words}",
        speedup=comparison.speedup if comparison else None,
        tone=entry.told.tone,
        kept=entry.became_best,
    )


def _plottable(found: Ratio) -> list[float]:
    return [v for v in (found.value, found.low, found.high) if is_plottable(v)]


def _drawn(
    title: str, description: str, points: list[_Point], finals: list[_Point], values: list[float]
) -> str:
    all_points = [*points, *finals]
    width = width_for(len(all_points), 720, 30) + (110 * len(finals))
    rule = width - _RIGHT - 120 * len(finals)
    axis = LogAxis.over([*values, 1.0], _BOTTOM, _TOP)
    rounds = Slots(tuple(p.label for p in points), _LEFT, rule)
    parts = [_axes(axis, width), rounds.drawn(_BOTTOM + 20)]
    parts += [_point(p, rounds.x(i), axis) for i, p in enumerate(points)]
    parts.append(words("round", (_LEFT + rule) / 2, _BOTTOM + 42, "label middle"))
    if finals:
        last = Slots(tuple(p.label for p in finals), rule, width - _RIGHT)
        parts += [line(rule, _TOP, rule, _BOTTOM + 24, "rule"), last.drawn(_BOTTOM + 20)]
        parts += [_point(p, last.x(i), axis) for i, p in enumerate(finals)]
        middle = (rule + width - _RIGHT) / 2
        parts.append(words("winner, against", middle, _BOTTOM + 42, "label middle"))
    return drawing("speedups", title, description, (width, _HEIGHT), parts)


def _axes(axis: LogAxis, width: float) -> str:
    parts = [words("speedup, log axis", 4, 16, "label")]
    for tick in axis.ticks():
        y = axis.at(tick)
        parts.append(line(_LEFT, y, width - _RIGHT, y, "grid"))
        parts.append(words(tick_text(tick), _LEFT - 8, y + 4, "tick end"))
    one = axis.at(1.0)
    parts.append(line(_LEFT, one, width - _RIGHT, one, "one"))
    return element("g", *parts)


def _point(point: _Point, x: float, axis: LogAxis) -> str:
    found = point.speedup
    if found is None or not is_plottable(found.value):
        return titled(f"{point.title}, no speedup measured", cross(x, _BOTTOM + 4))
    y = axis.at(found.value)
    parts = []
    if is_plottable(found.low) and is_plottable(found.high):
        low, high = axis.at(found.low), axis.at(found.high)
        parts.append(line(x, low, x, high, "whisker"))
        if low - high > _SHORTEST_WITH_ENDS:
            parts += [line(x - 7, end, x + 7, end, "whisker") for end in (low, high)]
    if point.kept:
        parts.append(element("circle", cx=x, cy=y, r=10.0, class_="ring"))
    parts.append(mark(x, y, point.tone))
    parts.append(words(ratio(found.value), x, y - 14, "value middle"))
    title = f"{point.title}, {speedup(found)}"
    return titled(title, *parts)
