"""Tests: every case of a candidate, and for each failure what, where, and how to run it alone."""

from __future__ import annotations

import shlex
from pathlib import Path

from astra_tui.model.check import (
    CaseResult,
    CheckVerdict,
)
from astra_tui.model.compilation import Severity
from astra_tui.model.digest import short
from astra_tui.model.events import CompileFinished
from astra_tui.model.state import CandidateState
from astra_tui.present.checks import (
    diagnostics_blocks,
    failures_blocks,
    reasons_blocks,
)
from astra_tui.present.layout import Line, Span
from astra_tui.present.tones import Tone, tone_of, words_of
from astra_tui.sessions.summary import check_of
from astra_tui.tui.text_layout import Page, padded, span
from astra_tui.tui.view import View
from astra_tui.tui.widgets.pane import Pane

_BAR, _WORD, _ERROR = 10, 8, 5
_WIDE_ENOUGH = 60
_MAX_FINDINGS = 4


def tests_line(view: View) -> Line:
    """How the check of the chosen candidate stands, in one line."""
    candidate = view.tested
    label = Span(" Tests  ", Tone.DIM)
    if candidate is None:
        return (label, Span("there is no code yet", Tone.DIM))
    if candidate.compilation is not None and not candidate.compilation.ok:
        return (label, Span("not checked: it does not compile", Tone.BAD))
    done, failed = len(candidate.results), len(candidate.failures)
    if candidate.check is None:
        known = max(done, candidate.cases)
        words = f"{done} of {known} cases, {failed} failed" if known else "not checked yet"
        return (label, Span(words, Tone.BAD if failed else Tone.PLAIN))
    tone = Tone.BAD if failed or not candidate.correct else tone_of(candidate.check.verdict)
    verdict = words_of(candidate.check.verdict)
    return (label, Span(verdict, tone), span(f": {candidate.check.message}"))


class TestsPane(Pane):
    """The cases of the chosen candidate as they end, failures first."""

    TITLE = "Tests"
    HELP = (
        "The cases of the chosen candidate. The bar is the largest error as a part of what is "
        "allowed: a full bar is at the bound. A case that failed says what is wrong and where, "
        "the inputs that show it, and the command that runs it alone. Failures that are alike "
        "are told once. Where the session asks for it, compute-sanitizer has looked at a candidate "
        "that passed, and what it finds makes the candidate wrong.\n\n"
        "t adds a case of your own: all candidates from now on are checked with it."
    )

    def part(self, view: View) -> tuple[object, ...]:
        """All that is known of the candidate."""
        return (view.tested, view.state.cases, view.without_cases)

    def draw(self, view: View, page: Page) -> None:
        """Progress, what the verdict rests on with failures in full, then one line a case."""
        candidate = view.tested
        if candidate is None:
            page.paragraph("There is no code yet.", Tone.DIM)
            return
        self._draw_progress(page, candidate)
        again = _command(view, candidate)
        checked = check_of(candidate, view.state.device_name)
        if checked is not None:
            page.blocks(reasons_blocks(checked, again=again))
        elif candidate.failures:
            page.heading("Failures")
            page.blocks(failures_blocks(candidate.failures, again=again))
        if candidate.results or view.without_cases:
            page.heading("Cases")
        if view.without_cases:
            page.paragraph(view.without_cases, Tone.DIM)
        for result in candidate.results:
            _draw_case(page, result)

    def _draw_progress(self, page: Page, candidate: CandidateState) -> None:
        name = Span(short(candidate.hash) + "  ", Tone.DIM)
        check = candidate.check
        if check is not None:
            tone = tone_of(check.verdict)
            if check.verdict is CheckVerdict.PASSED and not candidate.correct:
                tone = Tone.BAD
            page.line(name, Span(words_of(check.verdict).upper(), tone))
            if any(report.found for report in candidate.sanitizer):
                page.paragraph("but compute-sanitizer found errors", Tone.BAD)
            return
        if candidate.compilation is not None and not candidate.compilation.ok:
            _draw_not_compiled(page, name, candidate.compilation)
            return
        if not candidate.cases:
            page.line(name, Span("not checked yet", Tone.DIM))
            return
        done, failed = len(candidate.results), len(candidate.failures)
        tone = Tone.BAD if failed else Tone.PLAIN
        known = max(done, candidate.cases)  # A launch plan may ask for more.
        page.line(name, Span(f"{done} of {known} cases, {failed} failed", tone))


def _command(view: View, candidate: CandidateState) -> str:
    """What checks the candidate again."""
    opened = view.state.opened
    task = opened.settings.task if opened else "TASK"
    source = str(Path("sources") / f"{short(candidate.hash)}.cu")
    seed = f" --seed {view.state.seed}" if view.state.seed else ""
    return f"astra-tui check {shlex.quote(task)} {source}{seed}"


def _draw_not_compiled(page: Page, name: Span, compilation: CompileFinished) -> None:
    """What the compiler says, and where more of it is."""
    page.line(name, Span("DID NOT COMPILE", Tone.BAD))
    page.paragraph("No case was run. The diff (3) and the source (4) mark the lines.", Tone.DIM)
    errors = [d for d in compilation.diagnostics if d.severity is Severity.ERROR]
    page.blocks(diagnostics_blocks(errors[:_MAX_FINDINGS]))
    if len(errors) > _MAX_FINDINGS:
        page.paragraph(f"and {len(errors) - _MAX_FINDINGS} more errors")


def _draw_case(page: Page, result: CaseResult) -> None:
    tone = tone_of(result.outcome)
    worst = result.worst
    fraction = None if worst is None else worst.error / worst.allowed
    error = "" if fraction is None else f"{fraction:.2f}"
    bar = "" if fraction is None or page.width < _WIDE_ENOUGH else " " + _bar(fraction)
    name = page.width - _WORD - _ERROR - (_BAR + 1 if page.width >= _WIDE_ENOUGH else 0)
    page.line(
        Span(padded(words_of(result.outcome), _WORD), tone),
        Span(padded(span(result.case.id).text, max(name - 1, 8)) + " "),
        Span(error.rjust(_ERROR)),
        Span(bar),
    )


def _bar(fraction: float) -> str:
    """How much of the bound an error takes; past the bound it is full and marked."""
    if not fraction < 1:
        return "█" * (_BAR - 1) + "!"
    return "█" * round(fraction * _BAR)
