"""The result of an export, in words."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from astra_tui.model.export import ExportReport, ExportStep
from astra_tui.plain.console import console, indented, toned
from astra_tui.plain.output import visible
from astra_tui.present.numbers import short
from astra_tui.present.tones import tone_of
from astra_tui.present.words import words_of

_WORD_WIDTH = 12


def print_steps(steps: Sequence[ExportStep]) -> None:
    """Each check with its outcome."""
    out = console()
    for step in steps:
        word = f"  {words_of(step.outcome):<{_WORD_WIDTH}}"
        out.print(Text.assemble(toned(word, tone_of(step.outcome)), step.name))
        indented(out, visible(step.detail), 2 + _WORD_WIDTH)


def print_export(report: ExportReport) -> None:
    """Each check with its outcome, then the files; where a check failed, that nothing is left."""
    out = console()
    out.print(f"{report.task}, candidate {short(report.candidate)}, as {report.format.value}")
    print_steps(report.steps)
    if not report.folder:
        out.print("a check failed: nothing was written")
        return
    out.print(f"written to {visible(report.folder)}:")
    for name in report.files:
        out.print(f"  {visible(name)}")
