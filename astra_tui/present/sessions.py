"""Lists of sessions, each with its result in words, and of running engines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from astra_tui.model.experience import Experience, PredictionRecord
from astra_tui.present import document as doc
from astra_tui.present import numbers
from astra_tui.present.numbers import minute
from astra_tui.present.tones import Phrase, Tone, tone_of
from astra_tui.present.words import NOTHING_BETTER, best_of, words_of
from astra_tui.sessions.store import ALTERED, SessionSummary, summary_and_state
from astra_tui.sessions.wire import Welcome


def session_entry(folder: Path) -> SessionSummary:
    """One session with its result in words; a damaged one is listed as such.

    Figures of one that was altered are no results.
    """
    summary, state = summary_and_state(folder)
    is_told = state is not None and summary.status != ALTERED
    result = best_of(state) if state is not None and is_told else NOTHING_BETTER
    return replace(summary, result=result.words, tone=result.tone.value)


def in_tree_order(sessions: Sequence[SessionSummary]) -> Iterator[tuple[int, SessionSummary]]:
    """Each session with how many parents it has in the list, after its parent."""
    names = {s.name for s in sessions}
    children: dict[str, list[SessionSummary]] = {}
    for s in sessions:
        children.setdefault(s.parent if s.parent in names else "", []).append(s)
    stack = [(0, s) for s in reversed(children.pop("", []))]
    while stack:
        depth, s = stack.pop()
        yield depth, s
        stack += [(depth + 1, child) for child in reversed(children.pop(s.name, []))]
    for circle in children.values():  # Names that go round: no engine wrote these.
        yield from ((0, s) for s in circle)


def sessions_blocks(sessions: Sequence[SessionSummary]) -> list[doc.Block]:
    """One row a session, branches below their parent; then what they are called."""
    columns = "session", "task", "team", "device", "status", "rounds", "started", "best"
    rows = (_row(depth, s) for depth, s in in_tree_order(sessions))
    titles = tuple((f"{s.name}: {s.title}",) for s in sessions if s.title)
    return [doc.table(columns, rows), *(doc.Paragraph(title) for title in titles)]


def _row(depth: int, s: SessionSummary) -> doc.Row:
    name = s.name
    if s.parent:
        origin = "" if depth else f"{s.parent} "
        name = f"{'  ' * depth}{s.name} (from {origin}event {s.fork_seq})"
    result = doc.badge(Phrase(s.result or "-", Tone(s.tone)))
    return name, s.task, s.team, s.device, s.status, s.rounds, minute(s.started), result


def memory_blocks(
    known: Sequence[Experience], records: Sequence[PredictionRecord]
) -> list[doc.Block]:
    """One row a plan that was tried, latest last; then how predictions came out."""
    columns = "plan", "operator", "GPU", "outcome", "predicted", "measured", "what"
    ledger = ((f"{r.team} {r.model}".strip(), r.describe()) for r in records)
    tried = doc.table(columns, map(_tried_row, known))
    return [tried, doc.table(("team", "so far"), ledger, "Predictions")]


def _tried_row(one: Experience) -> doc.Row:
    expected, counter = one.prediction, one.prediction.counter.value
    bounds, measured = expected.speedup, one.ratios.get(counter)
    if one.speedup is not None and bounds is not None:
        predicted, found = f"{bounds[0]:.2f}x to {bounds[1]:.2f}x", numbers.speedup(one.speedup)
    else:
        predicted = f"{counter.replace('_', ' ')} x{expected.counter_ratio:.2f}"
        found = "-" if measured is None else f"x{measured:.2f}"
    outcome = doc.badge(Phrase(words_of(one.outcome), tone_of(one.outcome)))
    return one.id, one.operator, one.gpu, outcome, predicted, found, one.title


def engines_blocks(engines: Sequence[Welcome]) -> list[doc.Block]:
    """One row a running engine."""
    columns = "session", "task", "status", "process", "folder"
    return [
        doc.table(columns, ((e.session, e.task, e.status, str(e.pid), e.folder) for e in engines))
    ]
