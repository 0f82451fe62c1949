"""Sentences and expectations from what was counted at some lines."""

from __future__ import annotations

from collections.abc import Iterable

from tree_sitter import Node

from astra_tui.agents.playbook.syntax import last_line_of, line_of
from astra_tui.model.counters import Counters
from astra_tui.model.plan import CodePlace, Counter, Prediction


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
    lines = {n for node in nodes for n in range(line_of(node), last_line_of(node) + 1)}
    total = int(getattr(counters, counter.value))
    if not total:
        return None
    return _at(counters, counter, lines) / total


def _at(counters: Counters, counter: Counter, lines: set[int]) -> int:
    match counter:
        case Counter.REQUESTS | Counter.SECTORS:
            found = (a for a in counters.accesses if a.space == "global" and a.line in lines)
            return sum(getattr(a, counter.value) for a in found)
        case Counter.SHARED_REQUESTS | Counter.BANK_CONFLICTS:
            name = "requests" if counter is Counter.SHARED_REQUESTS else "conflicts"
            shared = (a for a in counters.accesses if a.space == "shared" and a.line in lines)
            return sum(getattr(a, name) for a in shared)
        case _:
            return sum(getattr(n, counter.value) for n in counters.lines if n.line in lines)


def evidence_of(
    counters: Counters | None, nodes: Iterable[Node], *which: Counter
) -> tuple[str, ...]:
    """One sentence for each counter that the lines of some nodes move."""
    found = list(nodes)
    sentences = []
    for counter in which:
        part = share(counters, counter, found)
        if part is not None and part > 0:
            name = counter.value.replace("_", " ")
            sentences.append(f"{lines_text(found)}: {part:.0%} of the {name} counted")
    if sentences:
        return tuple(sentences)
    why = "no counters were given" if counters is None else "nothing was counted on these lines"
    return (f"{why}: the code alone speaks for it",)


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
