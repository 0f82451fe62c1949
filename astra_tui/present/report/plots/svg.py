"""Elements of SVG as text, marks, and logarithmic axes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from astra_tui.present.document import inline
from astra_tui.present.tones import Tone

LEGEND = "▲ better, ▼ worse, ■ same, ◆ inconclusive, × not measured"


def element(name: str, *children: str, **attributes: object) -> str:
    """One element; `class_` is the class, and an underscore in a name is a hyphen."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-") if key != "viewBox" else key}="{_value(value)}"'
        for key, value in attributes.items()
    )
    return f"<{name}{written}>{''.join(children)}</{name}>"


def _value(value: object) -> str:
    text = f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
    return escape(text, quote=True)


def words(text: str, x: float, y: float, class_: str = "", limit: int = 60) -> str:
    """Text at a place."""
    return element("text", escape(inline(text, limit)), x=x, y=y, class_=class_)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> str:
    """A straight line."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def titled(title: str, *children: str) -> str:
    """A group whose title is read out and shown under the pointer."""
    return element("g", element("title", escape(inline(title))), *children)


def drawing(
    name: str, title: str, description: str, size: tuple[float, float], parts: Iterable[str]
) -> str:
    """A whole drawing; `name` makes the ids of its title and description unique in the page."""
    width, height = size
    return element(
        "svg",
        element("title", escape(inline(title)), id=f"{name}-title"),
        element("desc", escape(inline(description)), id=f"{name}-desc"),
        *parts,
        role="img",
        aria_labelledby=f"{name}-title {name}-desc",
        viewBox=f"0 0 {width:g} {height:g}",
        width=width,
        height=height,
    )


def mark(x: float, y: float, tone: Tone, class_: str = "", size: float = 5.5) -> str:
    """A point whose form says what its colour says."""
    match tone:
        case Tone.GOOD:
            corners = [(0.0, -1.1), (1.0, 0.8), (-1.0, 0.8)]
        case Tone.BAD:
            corners = [(0.0, 1.1), (1.0, -0.8), (-1.0, -0.8)]
        case Tone.CAUTION:
            corners = [(0.0, -1.2), (1.2, 0.0), (0.0, 1.2), (-1.2, 0.0)]
        case _:
            corners = [(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)]
    points = " ".join(f"{x + dx * size:.1f},{y + dy * size:.1f}" for dx, dy in corners)
    return element("polygon", points=points, class_=f"mark {tone.value} {class_}".strip())


def cross(x: float, y: float, size: float = 4) -> str:
    """The mark of what was not measured."""
    return line(x - size, y - size, x + size, y + size, "cross") + line(
        x - size, y + size, x + size, y - size, "cross"
    )


@dataclass(frozen=True)
class LogAxis:
    """Values from `low` to `high` on a way from `begin` to `end` in the drawing."""

    low: float
    high: float
    begin: float
    end: float

    @classmethod
    def over(cls, values: Sequence[float], begin: float, end: float) -> LogAxis:
        """An axis that holds positive finite values with some room; 0.8 to 1.25 at the least."""
        low, high = min(values), max(values)
        room = max((high / low) ** 0.08, 1.02)
        low, high = low / room, high * room
        if high / low < 1.1:
            middle = math.sqrt(low) * math.sqrt(high)
            low, high = middle / 1.05, middle * 1.05
        return cls(low, high, begin, end)

    def at(self, value: float) -> float:
        """The place of a value, at an end of the axis where it lies beyond."""
        bounded = min(max(value, self.low), self.high)
        share = math.log(bounded / self.low) / math.log(self.high / self.low)
        return self.begin + share * (self.end - self.begin)

    def ticks(self) -> list[float]:
        """Round values for labels: 1, 2, 5 times powers of ten, and evenly where that is sparse."""
        if math.log10(self.high) - math.log10(self.low) > 6:
            decades = range(math.ceil(math.log10(self.low)), math.floor(math.log10(self.high)) + 1)
            return [10.0**d for d in decades][:: max(1, len(decades) // 8)]
        first = math.floor(math.log10(self.low))
        powers = range(first, math.ceil(math.log10(self.high)) + 1)
        found = [m * 10.0**p for p in powers for m in (1, 2, 5)]
        inside = [v for v in found if self.low <= v <= self.high]
        return inside if len(inside) >= 3 else self._even_ticks()

    def _even_ticks(self) -> list[float]:
        rough = (self.high - self.low) / 5
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough)
        first = math.ceil(self.low / step)
        return [n * step for n in range(first, math.floor(self.high / step) + 1)]


def is_plottable(value: float) -> bool:
    """Whether a value has a place on a logarithmic axis that can still be read."""
    return 1e-9 <= value <= 1e9


def tick_text(value: float) -> str:
    """The label of a tick."""
    return f"{value:.6g}"
