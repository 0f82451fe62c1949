"""The answer of a study: what its runs gained, and how their plans ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from astra_tui.model.settings import EMULATOR
from astra_tui.model.state import Usage
from astra_tui.model.verdict import Outcome
from astra_tui.present import document as doc
from astra_tui.present import numbers
from astra_tui.present.words import words_of
from astra_tui.sessions.study import STUDY_COUNTERS, StudyRow


def study_blocks(rows: Sequence[StudyRow], usage: Usage) -> list[doc.Block]:
    """What was gained, then the outcomes; a column of speedups only where a GPU ran."""
    is_timed = any(device != EMULATOR for row in rows for device in row.devices)
    columns = ["task", "team", "setting", "ended", "requests", "sectors", "instructions"]
    gains = doc.table(
        [*columns, *(["speedup"] if is_timed else [])], (_gains(r, is_timed) for r in rows)
    )
    seen = [o for o in Outcome if any(row.outcomes.get(o.value) for row in rows)]
    heads = ["task", "team", "setting", "plans", *map(words_of, seen)]
    ended = doc.table(heads, (_outcomes(row, seen) for row in rows), "Plans by outcome")
    heads = ["task", "team", "setting", "candidates", "wrong", "not compiled"]
    faults = doc.table(heads, map(_faults, rows), "Candidates, repairs included")
    return [gains, *doc.paragraphs(*_notes(is_timed)), ended, faults, *_cost(usage)]


def _notes(is_timed: bool) -> Iterator[str]:
    yield (
        "Requests, sectors and instructions: of the best against the baseline, counted by the "
        "emulator, geometric means over the seeds that have ended."
    )
    if is_timed:
        yield (
            "Speedup: of the best over baseline.cu, measured again at the end (1 where nothing was "
            "better), geometric mean over seeds with its 95 % interval by Student's t."
        )


def _named(row: StudyRow) -> tuple[str, str, str]:
    return row.task, row.team, row.setting


def _gains(row: StudyRow, is_timed: bool) -> doc.Row:
    counted = (row.counters[name] for name in STUDY_COUNTERS)
    cells = ("-" if c is None else (doc.number(c, numbers.change),) for c in counted)
    speedup = doc.speedup_line(row.speedup) or "-"
    return *_named(row), f"{row.ended} of {row.runs}", *cells, *((speedup,) if is_timed else ())


def _outcomes(row: StudyRow, seen: Sequence[Outcome]) -> doc.Row:
    shares = ((doc.number(row.share(o.value), numbers.percent),) for o in seen)
    return *_named(row), row.plans, *(shares if row.plans else ("-" for _ in seen))


def _faults(row: StudyRow) -> doc.Row:
    return *_named(row), row.candidates, row.wrong, row.not_compiled


def _cost(usage: Usage) -> Iterator[doc.Block]:
    if usage.calls or usage.gpu_seconds:
        words = (
            f"All runs: {numbers.pluralised(usage.calls, 'call')}, "
            f"{numbers.pluralised(usage.tokens, 'token')}, {numbers.dollars(usage.dollars)}, "
            f"{numbers.seconds(usage.gpu_seconds)} of timing on the GPU."
        )
        yield from doc.paragraphs(words)
