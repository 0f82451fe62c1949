"""Two candidates side by side: plans, checks, counters, verdicts, times, and the diff."""

from __future__ import annotations

from collections.abc import Callable

from astra_tui.present.document import (
    Block,
    Cell,
    Diff,
    Line,
    badge,
    number,
    speedup_line,
    table,
)
from astra_tui.present.numbers import count, short, significant
from astra_tui.present.tones import Phrase, Tone
from astra_tui.present.words import phrase_of, prediction_words, round_verdict, timing_verdict
from astra_tui.sessions.comparison import ComparedCandidate, Side, Sides

_NONE: Line = ("-",)


def comparison_blocks(sides: Sides) -> list[Block]:
    """A table with a column a side, then the diff of the sources.

    A row says of sessions that are not whole how far they may be believed.
    """
    first, second = sides
    rows: list[tuple[Cell, ...]] = [
        (label, *(cell(side) for side in sides)) for label, cell in _ROWS
    ]
    if not all(side.trust.whole for side in sides):
        rows.insert(0, ("session", *(_trust(side) for side in sides)))
    for name in first.compared.counters or second.compared.counters or ():
        cells = (_counter(side.compared, name) for side in sides)
        rows.append((name.replace("_", " "), *cells))
    facts = table(("", first.name, second.name), rows)
    return [facts, Diff(first.name, second.name, first.source, second.source)]


def verdict_of(side: Side) -> Phrase | None:
    """The outcome of a candidate in its round; in doubt where its timing has a workload that lost.

    None for the baseline, and where another candidate of its proposal was judged.
    """
    verdict = side.steps[-1].verdict if side.steps else None
    if side.compared.outcome is None or verdict is None:
        return None
    return round_verdict(side.state, verdict)


def _trust(side: Side) -> Line:
    tone = Tone.GOOD if side.trust.whole else Tone.BAD if side.trust.altered else Tone.CAUTION
    return (badge(Phrase(side.trust.verdict.value.upper(), tone)),)


def _counter(side: ComparedCandidate, name: str) -> Line:
    return _NONE if side.counters is None else (number(side.counters[name], count),)


def _round(side: Side) -> Line:
    return (str(side.compared.round) if side.compared.round else "the baseline",)


def _check(side: Side) -> Line:
    found = side.compared
    if found.verdict is None:
        return ("not checked",)
    return badge(phrase_of(found.verdict)), f", {found.cases} cases, {len(found.failed)} failed"


def _verdict(side: Side) -> Line:
    told = verdict_of(side)
    return (badge(told), f": {'; '.join(side.compared.reasons[:2])}") if told else _NONE


def _times(side: Side) -> Line:
    line: Line = ()
    for timing in side.compared.timings:
        told = badge(timing_verdict(timing))
        between = ("; ",) if line else ()
        line += (
            *between,
            *speedup_line(timing.speedup),
            " ",
            told,
            f" against {short(timing.base)}",
        )
    return line or _NONE


def _of_plan(side: Side, field: str) -> Line:
    plan = side.compared.plan
    return _NONE if plan is None else (getattr(plan, field),)


def _predicted(side: Side) -> Line:
    plan = side.compared.plan
    return _NONE if plan is None else (prediction_words(plan.prediction),)


_ROWS: tuple[tuple[str, Callable[[Side], Line]], ...] = (
    ("round", _round),
    ("plan", lambda s: _of_plan(s, "title")),
    ("bottleneck", lambda s: _of_plan(s, "bottleneck")),
    ("change", lambda s: _of_plan(s, "change")),
    ("predicted", _predicted),
    ("written by", lambda s: (s.compared.author,)),
    ("check", _check),
    ("largest error", lambda s: (f"{significant(s.compared.worst_error)} of what is allowed",)),
    ("verdict", _verdict),
    ("timed", _times),
)
