"""The places of rounds along a horizontal axis, one for each proposal."""

from __future__ import annotations

from dataclasses import dataclass

from astra_tui.present.report.plots.svg import element, words

_WIDEST = 4000.0


@dataclass(frozen=True)
class Slots:
    """Labelled places from `begin` to `end`, the same distance apart."""

    labels: tuple[str, ...]
    begin: float
    end: float

    def x(self, index: int) -> float:
        """The middle of a slot."""
        return self.begin + (index + 0.5) * (self.end - self.begin) / len(self.labels)

    def drawn(self, y: float) -> str:
        """The labels, thinned out where they would touch."""
        longest = max(map(len, self.labels))
        apart = (self.end - self.begin) / len(self.labels)
        step = max(1, -int(-(7.5 * longest + 4) // apart))
        return element(
            "g",
            *(
                words(label, self.x(index), y, "tick middle")
                for index, label in enumerate(self.labels)
                if index % step == 0
            ),
        )


def width_for(slots: int, least: float, each: float) -> float:
    """How wide a drawing with so many slots is."""
    return min(max(least, each * slots), _WIDEST)
