"""Times against what no kernel can go below on this GPU, a row for each workload."""

from __future__ import annotations

from dataclasses import dataclass

from astra_tui.model.timing import Timing
from astra_tui.present.document import Figure
from astra_tui.present.numbers import percent, time
from astra_tui.present.report.facts import Facts
from astra_tui.present.report.plots.svg import (
    LogAxis,
    drawing,
    element,
    is_plottable,
    line,
    mark,
    tick_text,
    titled,
    words,
)
from astra_tui.present.tones import Tone, sign_of

_WIDTH, _LEFT, _RIGHT, _TOP, _ROW = 760.0, 150.0, 84.0, 34.0, 34.0


@dataclass(frozen=True)
class _Row:
    workload: str
    floor: float
    best: float
    others: tuple[tuple[str, Tone, float], ...]
    """Name, mark and time of the versions that it is compared with."""


def roofline_figure(facts: Facts) -> Figure | None:
    """None where the best candidate was not timed, or no floor was measured."""
    timings = [(f.beside, f.timing) for f in facts.finals]
    if not timings and facts.best.timings:
        timings = [("the version before it", facts.best.timings[-1].timing)]
    rows = _rows(timings)
    if not rows:
        return None
    title = "Times against the floor, per workload"
    others = ", ".join(f"{sign_of(tone)} {name}" for name, tone, _ in rows[0].others)
    description = (
        "Cold times in microseconds on a logarithmic axis: | the floor, which is the longer of an "
        "empty launch and a copy of the compulsory bytes, both measured on this GPU; ▲ the best "
        f"candidate; {others}. At the right: the share of the floor that the best reaches."
    )
    return Figure(title, description, _drawn(title, description, rows))


def _rows(timings: list[tuple[str, Timing]]) -> list[_Row]:
    if not timings:
        return []
    tones = (Tone.CAUTION, Tone.PLAIN)
    rows = []
    for workload in timings[0][1].workloads:
        found = [
            (name, tone, w)
            for (name, timing), tone in zip(timings, tones, strict=False)
            for w in timing.workloads
            if w.workload == workload.workload
        ]
        floor, best = workload.floor, workload.cold.candidate_us
        others = tuple((n, t, w.cold.base_us) for n, t, w in found if is_plottable(w.cold.base_us))
        if floor is not None and is_plottable(floor.us) and is_plottable(best):
            rows.append(_Row(workload.workload, floor.us, best, others))
    return rows


def _drawn(title: str, description: str, rows: list[_Row]) -> str:
    values = [v for r in rows for v in (r.floor, r.best, *(t for *_, t in r.others))]
    axis = LogAxis.over(values, _LEFT, _WIDTH - _RIGHT)
    bottom = _TOP + _ROW * len(rows)
    parts = []
    for tick in axis.ticks():
        x = axis.at(tick)
        parts.append(line(x, _TOP - 6, x, bottom, "grid"))
        parts.append(words(tick_text(tick), x, bottom + 18, "tick middle"))
    parts.append(words("of floor", _WIDTH - 10, _TOP - 14, "label end"))
    parts.append(words("us, log axis", (_LEFT + _WIDTH - _RIGHT) / 2, bottom + 38, "label middle"))
    parts += [_row(r, _TOP + _ROW * (i + 0.5), axis) for i, r in enumerate(rows)]
    return drawing("roofline", title, description, (_WIDTH, bottom + 50), parts)


def _row(row: _Row, y: float, axis: LogAxis) -> str:
    places = [axis.at(v) for v in (row.floor, row.best, *(t for *_, t in row.others))]
    floor, best = places[:2]
    parts = [
        words(row.workload, _LEFT - 12, y + 4, "tick end", limit=20),
        line(min(places), y, max(places), y, "span"),
        element("rect", x=floor - 2.0, y=y - 11, width=4.0, height=22.0, class_="floor"),
    ]
    parts += [mark(axis.at(time), y, tone, "other") for _, tone, time in row.others]
    parts.append(mark(best, y, Tone.GOOD, "best"))
    share = percent(row.floor / row.best)
    parts.append(words(share, _WIDTH - 10, y + 4, "value end"))
    others = "; ".join(f"{name} {time(us)}" for name, _, us in row.others)
    title = f"{row.workload}: floor {time(row.floor)}, best {time(row.best)}, {others}"
    return titled(title, *parts)
