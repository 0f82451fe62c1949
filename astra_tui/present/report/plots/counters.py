"""Counters of every round's candidate against the baseline's, one small drawing a counter."""

from __future__ import annotations

from dataclasses import dataclass

from astra_tui.model.verdict import Profile
from astra_tui.present.document import Figure
from astra_tui.present.report.facts import Facts
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
from astra_tui.sessions.summary import COUNTERS

_HEIGHT, _TOP, _BOTTOM, _LEFT = 190.0, 34.0, 140.0, 46.0
_SMALLEST = 1e-4
"""Counters that fall to nothing are drawn here."""


@dataclass(frozen=True)
class _Point:
    label: str
    title: str
    profile: Profile | None
    tone: Tone
    kept: bool


def counters_figure(facts: Facts) -> Figure | None:
    """None where fewer than two versions were counted."""
    baseline = facts.baseline.profile
    points = _points(facts)
    if baseline is None or not baseline.workloads or sum(p.profile is not None for p in points) < 2:
        return None
    names = [n for n in COUNTERS if n != "bytes" and baseline.total(n) > 0]
    ratios = {
        n: [p.profile.total(n) / baseline.total(n) if p.profile else None for p in points]
        for n in names
    }
    known = [r for values in ratios.values() for r in values if r is not None]
    shown = [max(r, _SMALLEST) for r in known if is_plottable(r) or r == 0]
    if not shown:
        return None
    axis = LogAxis.over([*shown, 1.0], _BOTTOM, _TOP)
    title = "Counters of each round against the baseline's"
    description = (
        "Each count over the baseline's, added up over the workloads, on a logarithmic axis; below "
        "1 is less work. The line follows the best. " + LEGEND + "."
    )
    width = width_for(len(points), 360, 16)
    panels = [
        drawing(f"counter-{n}", n.replace("_", " "), description, (width, _HEIGHT),
                _panel(n, points, ratios[n], axis, width))
        for n in names
    ]  # fmt: skip
    return Figure(title, description, element("div", *panels, class_="panels"))


def _points(facts: Facts) -> list[_Point]:
    points = [_Point("0", "the baseline", facts.baseline.profile, Tone.PLAIN, True)]
    for entry in facts.reported:
        points.append(
            _Point(
                label=entry.label,
                title=f"round {entry.label}, {entry.plan.title}: {entry.told.words}",
                profile=_counted(entry.candidate.profile) if entry.candidate else None,
                tone=entry.told.tone,
                kept=entry.became_best,
            )
        )
    return points


def _counted(profile: Profile | None) -> Profile | None:
    return profile if profile is not None and profile.workloads else None


def _panel(
    name: str, points: list[_Point], ratios: list[float | None], axis: LogAxis, width: float
) -> list[str]:
    slots = Slots(tuple(p.label for p in points), _LEFT, width - 8)
    parts = [words(name.replace("_", " "), 4, 16, "label strong")]
    for tick in axis.ticks():
        y = axis.at(tick)
        parts += [line(_LEFT, y, width - 8, y, "grid")]
        parts += [words(tick_text(tick), _LEFT - 6, y + 4, "tick end")]
    parts += [line(_LEFT, axis.at(1.0), width - 8, axis.at(1.0), "one")]
    parts += [_course(points, ratios, axis, slots), slots.drawn(_BOTTOM + 20)]
    parts += [words("round", (_LEFT + width) / 2, _BOTTOM + 40, "tick middle")]
    for index, (point, found) in enumerate(zip(points, ratios, strict=True)):
        x = slots.x(index)
        if found is None:
            parts.append(titled(f"{point.title}, not counted", cross(x, _BOTTOM + 4)))
        else:
            drawn = mark(x, axis.at(max(found, _SMALLEST)), point.tone, size=4.5)
            parts.append(titled(f"{point.title}: {found:.4f} of the baseline's", drawn))
    return parts


def _course(points: list[_Point], ratios: list[float | None], axis: LogAxis, slots: Slots) -> str:
    """The best so far, as steps."""
    corners: list[str] = []
    y: float | None = None
    for index, (point, found) in enumerate(zip(points, ratios, strict=True)):
        x = slots.x(index)
        if y is not None:
            corners.append(f"{x:.1f},{y:.1f}")
        if point.kept and found is not None:
            y = axis.at(max(found, _SMALLEST))
            corners.append(f"{x:.1f},{y:.1f}")
    return element("polyline", points=" ".join(corners), class_="course")
