"""Two candidates side by side on a page: their plans, their checks, what they cost."""

from __future__ import annotations

from collections.abc import Callable

from astra_tui.model.check import CaseOutcome
from astra_tui.model.timing import Timing, WorkloadTiming
from astra_tui.present.comparison import verdict_of
from astra_tui.present.numbers import change_between, short, significant, speedup
from astra_tui.present.tones import Tone, tone_of, tone_of_change
from astra_tui.present.words import (
    OUTCOME_MARKS,
    prediction_words,
    round_verdict,
    score_words,
    speedup_prediction,
    team_words,
    timing_verdict,
    words_of,
)
from astra_tui.sessions.comparison import (
    Side,
    Sides,
    Step,
    case_differences,
    direct_timing,
)
from astra_tui.tui.text_layout import Page, Span, line_cells, padded, span
from astra_tui.tui.widgets.cited import CitationFinder
from astra_tui.tui.widgets.times import draw_timing

_DrawSide = Callable[[Page, Side], None]

LETTERS = ("A", "B")
_BETWEEN = Span(" │ ", Tone.DIM)
_COUNTER_WIDTH = 20

NO_RATIO = (
    "These times are of different runs, so that no ratio of A and B is formed from them: clocks, "
    "temperature and neighbours differ from run to run."
)
HOW_TO_TIME = "t times A against B, where there is a GPU."


def draw_plans(page: Page, sides: Sides) -> None:
    """Where each side comes from, and the plans that led to it, predicted and measured."""
    if not _same_task(sides):
        page.paragraph("The sessions ran on different tasks: only plans compare.", Tone.CAUTION)
        page.blank()
    _side_by_side(page, sides, _draw_origin)
    page.heading("Plans, from the baseline on")
    _side_by_side(page, sides, _draw_steps, headed=False)


def draw_tests(page: Page, sides: Sides) -> None:
    """How many cases passed, and those that ended in two ways."""
    _side_by_side(page, sides, _draw_check)
    if not _same_task(sides):
        page.blank()
        page.paragraph("The sessions ran on different tasks: their cases are not comparable.")
        return
    different = case_differences(sides)
    if not different:
        page.blank()
        page.paragraph("Every case ended alike on both sides.")
        return
    page.heading(f"Ended in two ways: {len(different)}")
    for case, first, second in different:
        page.line(span(f"  {case}"))
        page.line(Span("      A "), _case_end(first), Span("   B "), _case_end(second))


def draw_costs(page: Page, sides: Sides, timed: Timing | None, note: str) -> None:
    """Counters, then the times that each session has, then both against each other if timed.

    `note` says what became of timing them.
    """
    _draw_counters(page, sides)
    known = timed or direct_timing(sides)
    page.heading("Time of A against B")
    if _same_task(sides) or note:
        page.paragraph(note or HOW_TO_TIME, Tone.PLAIN if note else Tone.DIM)
    if known is not None:
        base, other = LETTERS if known.base == sides[0].compared.candidate else LETTERS[::-1]
        page.paragraph(f"One run, in turns. {base} is the base, {other} the candidate.", Tone.DIM)
        draw_timing(page, known, base, CitationFinder(), final=False)
    elif not any(side.compared.timings for side in sides):
        page.paragraph("Neither was timed.", Tone.DIM)
    elif _same_task(sides):
        page.paragraph(NO_RATIO, Tone.CAUTION)
    else:
        page.paragraph(
            "The sessions ran on different tasks: their times are not comparable.", Tone.DIM
        )
    page.heading("Times that the sessions have, each against another version in a run of its own")
    _side_by_side(page, sides, _draw_times)


def head_of(side: Side, letter: str) -> tuple[Span, Span]:
    """A side in a few words, as `astra-tui compare` takes them."""
    return Span(f"{letter} ", Tone.ACCENT), span(f"{side.folder.name}:r{side.compared.round}")


# -- one side --------------------------------------------------------------------------------------


def _draw_origin(page: Page, side: Side) -> None:
    compared = side.compared
    opened = side.state.opened
    assert opened is not None
    settings = opened.settings
    page.field("candidate", short(compared.candidate))
    page.field("task", settings.task)
    page.field("team", team_words(settings))
    page.field("device", side.state.device_name)
    page.field("written by", compared.author)
    told = verdict_of(side)
    if told is not None:
        page.field("verdict", f"{told.words}: {'; '.join(compared.reasons[:2])}", told.tone)


def _draw_steps(page: Page, side: Side) -> None:
    for step in side.steps:
        _draw_step(page, side, step)
    if not side.steps:
        page.paragraph("none: this is the baseline", Tone.DIM)
    if side.other_plans:
        plans = "plan" if side.other_plans == 1 else "plans"
        text = f"{side.other_plans} other {plans} of this session are not on this way"
        page.paragraph(text, Tone.DIM)


def _draw_step(page: Page, side: Side, step: Step) -> None:
    verdict, plan = step.verdict, step.plan
    mark = OUTCOME_MARKS[verdict.outcome] if verdict else ">"
    tone = round_verdict(side.state, verdict).tone if verdict else Tone.ACCENT
    page.line(Span(f"{mark} ", tone), Span(f"{step.round} "), span(plan.title, Tone.TITLE))
    page.field("  move", plan.move or "written by the coding agent")
    expected = plan.prediction
    page.field("  predicted", prediction_words(expected))
    if step.measured is not None:
        page.field("  measured", *score_words(step.measured))
    else:
        page.field("  measured", "not measured", Tone.DIM)
    if verdict and verdict.comparison and verdict.comparison.speedup:
        words = speedup(verdict.comparison.speedup)
        page.field("", f"{words}, {speedup_prediction(expected)} predicted")


def _draw_check(page: Page, side: Side) -> None:
    compared = side.compared
    if compared.verdict is None:
        page.paragraph("not checked", Tone.DIM)
        return
    failed = len(compared.failed)
    page.field("check", compared.verdict.value, Tone.BAD if failed else Tone.GOOD)
    page.field("cases", f"{compared.cases - failed} passed, {failed} failed")
    page.field("worst", f"{significant(compared.worst_error)} of the allowed error")


def _draw_times(page: Page, side: Side) -> None:
    if not side.compared.timings:
        page.paragraph("none", Tone.DIM)
    for timing in side.compared.timings:
        page.blank()
        page.line(span(f"against {_base_words(side, timing)}", Tone.TITLE))
        page.line(span(f"on {timing.gpu or timing.device}", Tone.DIM))
        verdict = timing_verdict(timing)
        page.field("all", f"{speedup(timing.speedup)} {verdict.words}", verdict.tone)
        for workload in timing.workloads:
            _draw_workload(page, workload)


def _draw_workload(page: Page, timing: WorkloadTiming) -> None:
    page.line(span(f"{timing.workload} {timing.dtype.value}"))
    void = " VOID" if timing.invalidated else " (caveats)" if timing.caveats else ""
    words = f"{speedup(timing.cold.speedup)}{void}"
    page.field("  cold", words, Tone.BAD if void else tone_of(timing.verdict), column=8)


def _base_words(side: Side, timing: Timing) -> str:
    opened = side.state.opened
    if opened is not None and timing.base == opened.baseline:
        return "the baseline"
    return short(timing.base)


# -- both sides ------------------------------------------------------------------------------------


def _draw_counters(page: Page, sides: Sides) -> None:
    first, second = (side.compared.counters for side in sides)
    page.heading("Counted by the emulator, over all workloads")
    if first is None or second is None or not _same_task(sides):
        missing = "the tasks differ" if first and second else "not both have a profile"
        page.paragraph(f"No counters to compare: {missing}.", Tone.DIM)
        return
    page.line(Span(" " * _COUNTER_WIDTH + "A".rjust(15) + "B".rjust(15), Tone.DIM))
    for name, before in first.items():
        now = second[name]
        page.line(
            Span(padded(name.replace("_", " "), _COUNTER_WIDTH), Tone.DIM),
            Span(f"{before:,}".rjust(15) + f"{now:,}".rjust(15)),
            Span(change_between(before, now).rjust(11), tone_of_change(before, now)),
        )


def _case_end(outcome: CaseOutcome | None) -> Span:
    if outcome is None:
        return Span("not run", Tone.DIM)
    return Span(words_of(outcome), Tone.GOOD if outcome.ok else Tone.BAD)


def _same_task(sides: Sides) -> bool:
    return sides[0].compared.task_hash == sides[1].compared.task_hash


def _side_by_side(page: Page, sides: Sides, draw: _DrawSide, *, headed: bool = True) -> None:
    """Each side in its half of the page, below its name."""
    width = (page.width - line_cells((_BETWEEN,))) // 2
    halves = []
    for letter, side in zip(LETTERS, sides, strict=True):
        half = Page(width)
        if headed:
            half.line(*head_of(side, letter))
        draw(half, side)
        halves.append(half.lines)
    left, right = halves
    for row in range(max(len(left), len(right))):
        begin = left[row] if row < len(left) else ()
        filler = Span(" " * max(width - line_cells(begin), 0))
        end = right[row] if row < len(right) else ()
        page.lines.append((*begin, filler, _BETWEEN, *end))
