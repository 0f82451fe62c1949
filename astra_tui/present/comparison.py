"""Two candidates side by side: the plans that led to them, their checks, what they cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from astra_tui.model.check import CaseOutcome
from astra_tui.model.timing import Timing, WorkloadTiming
from astra_tui.present import document as doc
from astra_tui.present.numbers import pluralised, short, significant, speedup
from astra_tui.present.timing import measured_blocks
from astra_tui.present.tones import Phrase, Tone, tone_of
from astra_tui.present.words import (
    OUTCOME_MARKS,
    phrase_of,
    prediction_words,
    round_verdict,
    score_words,
    speedup_prediction,
    team_words,
    timing_verdict,
    words_of,
)
from astra_tui.sessions.comparison import Side, Sides, Step, case_differences, direct_timing
from astra_tui.sessions.summary import TUNED

LETTERS = ("A", "B")
NO_RATIO = (
    "These times are of different runs, so that no ratio of A and B is formed from them: clocks, "
    "temperature and neighbours differ from run to run."
)
_OTHER_TASKS = "The sessions ran on different tasks: "
_Rows = list[doc.Row]


def comparison_blocks(sides: Sides) -> list[doc.Block]:
    """Plans, checks and costs with a column a side, then the diff of the sources."""
    first, second = sides
    parts = {
        "Plans": plans_blocks(sides),
        "Tests": cases_blocks(sides),
        "Costs": costs_blocks(sides),
    }
    diff = doc.Diff(first.name, second.name, first.source, second.source)
    return [*(doc.Section(name, "", tuple(part)) for name, part in parts.items()), diff]


def _table(rows: _Rows) -> doc.Table:
    return doc.table(("", *LETTERS), rows)


def _rows(sides: Sides, cells: dict[str, Callable[[Side], doc.Cell]]) -> _Rows:
    return [(name, *(cell(side) for side in sides)) for name, cell in cells.items()]


def same_task(sides: Sides) -> bool:
    """Whether both are kernels of the same task, so that more than their plans compares."""
    return sides[0].compared.task_hash == sides[1].compared.task_hash


# -- plans -----------------------------------------------------------------------------------------


def plans_blocks(sides: Sides) -> list[doc.Block]:
    """Where each side comes from, and the plans that led to it, predicted and measured.

    Sessions that are not whole say how far they may be believed.
    """
    rows = _rows(sides, _ORIGIN)
    if all(side.trust.whole for side in sides):
        rows = [row for row in rows if row[0] != "trust"]
    steps: _Rows = []
    for at in range(max(len(side.steps) for side in sides)):
        columns = [_step(side, side.steps[at]) if at < len(side.steps) else {} for side in sides]
        steps += [(name, *(c.get(name) for c in columns)) for name in columns[0] | columns[1]]
    others = (f"{pluralised(side.other_plans, 'plan')} that led elsewhere" for side in sides)
    return [
        *([] if same_task(sides) else doc.paragraphs(f"{_OTHER_TASKS}only plans compare.")),
        _table(rows),
        doc.Section("Plans, from the baseline on", "", (_table([*steps, ("not shown", *others)]),)),
    ]


def verdict_of(side: Side) -> Phrase | None:
    """The outcome of a candidate in its round; in doubt where its timing has a workload that lost.

    None for the baseline, and where another candidate of its proposal was judged.
    """
    verdict = side.steps[-1].verdict if side.steps else None
    if side.compared.outcome is None or verdict is None:
        return None
    return round_verdict(side.state, verdict)


def _trust(side: Side) -> doc.Cell:
    tone = Tone.GOOD if side.trust.whole else Tone.BAD if side.trust.altered else Tone.CAUTION
    return doc.badge(Phrase(side.trust.verdict.value.upper(), tone))


def _team(side: Side) -> doc.Cell:
    assert side.state.opened is not None
    settings = side.state.opened.settings
    return f"{settings.task}, {team_words(settings)}"


def _verdict(side: Side) -> doc.Cell:
    told = verdict_of(side)
    return (doc.badge(told), f": {'; '.join(side.compared.reasons[:2])}") if told else None


_ORIGIN: dict[str, Callable[[Side], doc.Cell]] = {
    "session": lambda s: f"{s.folder.name}:r{s.compared.round}",
    "trust": _trust,
    "candidate": lambda s: doc.Code(short(s.compared.candidate)),
    "task": _team,
    "device": lambda s: s.state.device_name,
    "written by": lambda s: s.compared.author,
    "verdict": _verdict,
}


def _step(side: Side, step: Step) -> dict[str, doc.Cell]:
    """A plan on the way to a candidate, by the names of its rows."""
    verdict, plan, expected = step.verdict, step.plan, step.plan.prediction
    mark = OUTCOME_MARKS[verdict.outcome] if verdict else ">"
    tone = round_verdict(side.state, verdict).tone if verdict else Tone.ACCENT
    measured: doc.Cell = doc.badge(score_words(step.measured)) if step.measured else "not measured"
    cells: dict[str, doc.Cell] = {
        "plan": (doc.Badge(f"{mark} ", tone), f"{step.round} ", doc.Strong(plan.title)),
        "  move": plan.move or "written by the coding agent",
        "  bottleneck": plan.bottleneck,
        "  change": plan.change,
        "  predicted": prediction_words(expected),
        "  measured": measured,
    }
    if verdict and verdict.comparison and verdict.comparison.speedup:
        found = speedup(verdict.comparison.speedup)
        cells["  speedup"] = f"{found}, {speedup_prediction(expected)} predicted"
    return cells


# -- tests -----------------------------------------------------------------------------------------


def cases_blocks(sides: Sides) -> list[doc.Block]:
    """How many cases passed, and those that ended in two ways."""
    checked = _table(_rows(sides, {"check": _check, "largest error": _error}))
    if not same_task(sides):
        return [checked, *doc.paragraphs(f"{_OTHER_TASKS}their cases are not comparable.")]
    different = case_differences(sides)
    if not different:
        return [checked, *doc.paragraphs("Every case ended alike on both sides.")]
    rows: _Rows = [(case, _ended(first), _ended(second)) for case, first, second in different]
    return [checked, doc.Section(f"Ended in two ways: {len(rows)}", "", (_table(rows),))]


def _check(side: Side) -> doc.Cell:
    found = side.compared
    if found.verdict is None:
        return "not checked"
    cases = f", {found.cases} cases, {len(found.failed)} failed"
    return doc.badge(phrase_of(found.verdict)), cases


def _error(side: Side) -> doc.Cell:
    return f"{significant(side.compared.worst_error)} of what is allowed"


def _ended(outcome: CaseOutcome | None) -> doc.Cell:
    return doc.badge(phrase_of(outcome) if outcome else Phrase("not run", Tone.DIM))


# -- costs -----------------------------------------------------------------------------------------


def costs_blocks(sides: Sides, timed: Timing | None = None, note: str = "") -> list[doc.Block]:
    """Counters, what was timed of both in one run, then the times that each session has.

    `note` says what became of timing them.
    """
    own = tuple(_own_times(sides))
    title = "Times that the sessions have, each against another version in a run of its own"
    return [
        doc.Section("Counted by the emulator, over all workloads", "", tuple(_counted(sides))),
        *doc.paragraphs(note),
        *_both_timed(sides, timed or direct_timing(sides)),
        *([doc.Section(title, "", own)] if own else []),
    ]


def _both_timed(sides: Sides, timing: Timing | None) -> list[doc.Block]:
    if timing is not None:
        base, other = LETTERS if timing.base == sides[0].compared.candidate else LETTERS[::-1]
        told = f"One run, in turns. {base} is the base, {other} the candidate."
        return [*measured_blocks(timing, "Time of A against B"), *doc.paragraphs(told)]
    if not any(side.compared.timings for side in sides):
        return [*doc.paragraphs("Neither was timed.")]
    if same_task(sides):
        return [*doc.paragraphs(NO_RATIO)]
    return [*doc.paragraphs(f"{_OTHER_TASKS}their times are not comparable.")]


def _counted(sides: Sides) -> list[doc.Block]:
    first, second = (side.compared.counters for side in sides)
    if first is None or second is None or not same_task(sides):
        missing = "the tasks differ" if first and second else "not both have a profile"
        return [*doc.paragraphs(f"No counters to compare: {missing}.")]
    rows = [doc.counter_row(name, before, second[name]) for name, before in first.items()]
    return [doc.table(("", *LETTERS, "change"), rows)]


def _own_times(sides: Sides) -> Iterator[doc.Block]:
    for letter, side in zip(LETTERS, sides, strict=True):
        opened = side.state.opened
        known = side.state.candidate(side.compared.candidate)
        names = {t.timing.base: TUNED for t in known.timings if t.final}
        names |= {opened.baseline: "the baseline"} if opened is not None else {}
        for timing in side.compared.timings:
            base = names.get(timing.base, short(timing.base))
            head = f"{letter} against {base}, on {timing.gpu or timing.device}"
            verdict = doc.badge(timing_verdict(timing))
            rows: _Rows = [("all", (*doc.speedup_line(timing.speedup), " ", verdict))]
            rows += [(f"{w.workload} {w.dtype.value}", _workload(w)) for w in timing.workloads]
            yield doc.table(("", ""), rows, head)


def _workload(timing: WorkloadTiming) -> doc.Cell:
    doubt = ", void" if timing.invalidated else ", with caveats" if timing.caveats else ""
    tone = Tone.BAD if timing.invalidated else tone_of(timing.verdict)
    told = doc.Badge(f"{words_of(timing.verdict)}{doubt}", tone)
    return *doc.speedup_line(timing.cold.speedup), " ", told
