"""Two candidates side by side, in lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from astra_tui.model.timing import Timing
from astra_tui.plain.console import console, print_table, table
from astra_tui.plain.output import visible
from astra_tui.present.numbers import count, short, significant, speedup
from astra_tui.present.words import prediction_words, timing_verdict, words_of
from astra_tui.sessions.comparison import ComparedCandidate
from astra_tui.sessions.integrity import Trust

_NONE = "-"


def print_comparison(
    sides: Sequence[ComparedCandidate], diff: str, names: Sequence[str], trust: Sequence[Trust]
) -> None:
    """Plans, checks, counters and verdicts as a table, then the diff of the sources.

    A row says of sessions that are not whole how far they may be believed.
    """
    out = console()
    rows = table("", *map(visible, names))
    rows.columns[1].no_wrap, rows.columns[1].overflow = False, "fold"
    if not all(one.whole for one in trust):
        rows.add_row("session", *(one.verdict.value.upper() for one in trust))
    for label, cell in _ROWS:
        rows.add_row(label, *(visible(cell(side)) for side in sides))
    for name in sides[0].counters or sides[1].counters or ():
        rows.add_row(name.replace("_", " "), *(_counter(side, name) for side in sides))
    print_table(out, rows)
    out.print("")
    out.print(visible(diff) if diff else "the sources are the same")


def _counter(side: ComparedCandidate, name: str) -> str:
    return _NONE if side.counters is None else count(side.counters[name])


def _check(side: ComparedCandidate) -> str:
    if side.verdict is None:
        return "not checked"
    return f"{words_of(side.verdict)}, {side.cases} cases, {len(side.failed)} failed"


def _verdict(side: ComparedCandidate) -> str:
    if side.outcome is None:
        return _NONE
    return f"{words_of(side.outcome)}: {'; '.join(side.reasons[:2])}"


def _predicted(side: ComparedCandidate) -> str:
    return prediction_words(side.plan.prediction) if side.plan else _NONE


def _times(side: ComparedCandidate) -> str:
    return "; ".join(map(_ratio, side.timings)) or _NONE


def _ratio(timing: Timing) -> str:
    verdict = timing_verdict(timing).words
    return f"{speedup(timing.speedup)} {verdict}, against {short(timing.base)}"


_ROWS: tuple[tuple[str, Callable[[ComparedCandidate], str]], ...] = (
    ("round", lambda s: str(s.round) if s.round else "the baseline"),
    ("plan", lambda s: s.plan.title if s.plan else _NONE),
    ("bottleneck", lambda s: s.plan.bottleneck if s.plan else _NONE),
    ("change", lambda s: s.plan.change if s.plan else _NONE),
    ("predicted", _predicted),
    ("written by", lambda s: s.author),
    ("check", _check),
    ("largest error", lambda s: f"{significant(s.worst_error)} of what is allowed"),
    ("verdict", _verdict),
    ("timed", _times),
)
