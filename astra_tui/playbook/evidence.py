"""Sentences and expectations from what was counted at some lines."""

from __future__ import annotations

from collections.abc import Iterable

from tree_sitter import Node

from astra_tui.cuda_source.syntax import last_line_of, line_of
from astra_tui.model.counters import Counters
from astra_tui.model.plan import (
    Citation,
    CodePlace,
    Counter,
    Observation,
    Prediction,
    places_words,
)


def places_of(nodes: Iterable[Node]) -> tuple[CodePlace, ...]:
    """The lines of some nodes, in order, each once."""
    places = {(line_of(n), last_line_of(n)) for n in nodes}
    return tuple(CodePlace(first, last) for first, last in sorted(places))


def lines_text(nodes: Iterable[Node]) -> str:
    """Such as "line 7", or "lines 7, 9 and 12"."""
    lines = sorted({line_of(n) for n in nodes})
    if len(lines) == 1:
        return f"line {lines[0]}"
    return f"lines {', '.join(map(str, lines[:-1]))} and {lines[-1]}"


def share(counters: Counters | None, counter: Counter, nodes: Iterable[Node]) -> float | None:
    """The part of a counter's total that the lines of some nodes have, None without counts."""
    if counters is None:
        return None
    total = _count(counters, counter)
    return _count(_at(counters, joined_places(nodes)), counter) / total if total else None


def joined_places(nodes: Iterable[Node]) -> tuple[CodePlace, ...]:
    """The lines of some nodes, in order; those that overlap as one place."""
    joined: list[CodePlace] = []
    for place in places_of(nodes):
        if joined and place.first <= joined[-1].last:
            last = joined.pop()
            place = CodePlace(last.first, max(last.last, place.last))
        joined.append(place)
    return tuple(joined)


def _at(counters: Counters, places: Iterable[CodePlace]) -> Counters:
    return counters.at(*(range(place.first, place.last + 1) for place in places))


def _count(counters: Counters, counter: Counter) -> int:
    return int(getattr(counters, counter.value))


def evidence_of(
    counters: Counters | None, nodes: Iterable[Node], *which: Counter
) -> tuple[str | Observation, ...]:
    """One sentence for each counter that the lines of some nodes move, with the counts it quotes.

    `counters` are those of all workloads together.
    """
    if counters is None:
        return ("no counters were given: it follows from reading the code",)
    places = joined_places(nodes)
    observed = [_observed(counters, places, counter) for counter in which]
    found = tuple(observation for observation in observed if observation is not None)
    return found or ("no counter supports this: it follows from reading the code",)


def _observed(
    counters: Counters, places: tuple[CodePlace, ...], counter: Counter
) -> Observation | None:
    there, total = _count(_at(counters, places), counter), _count(counters, counter)
    if not there:
        return None
    name = counter.value.replace("_", " ")
    return Observation(
        f"{places_words(places)}: {there:,} of {total:,} {name} counted ({there / total:.0%})",
        (
            Citation(counter.value, float(there), lines=places),
            Citation(counter.value, float(total)),
        ),
    )


def predicted(
    counter: Counter,
    part: float | None,
    left: float,
    speedup: tuple[float, float],
    assumed: float = 0.5,
) -> Prediction:
    """The prediction when `part` of a counter falls to `left` of what it was.

    Without counts, `assumed` stands for the part.
    """
    known = assumed if part is None else part
    return Prediction(*speedup, counter, round(1 - known * (1 - left), 3))
