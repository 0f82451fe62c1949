"""The result of an export, in words."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from astra_tui.model.export import ExportReport, ExportStep, StepOutcome
from astra_tui.plain.console import console, indented
from astra_tui.plain.output import visible

_WORDS = {
    StepOutcome.PASSED: ("passed", "green"),
    StepOutcome.FAILED: ("FAILED", "bold red"),
    StepOutcome.NOT_CHECKED: ("not checked", "yellow"),
}
_WORD_WIDTH = 12


def print_steps(steps: Sequence[ExportStep]) -> None:
    """Each check with its outcome."""
    out = console()
    for step in steps:
        word, style = _WORDS[step.outcome]
        mark = Text(f"  {word:<{_WORD_WIDTH}}", style=style)
        out.print(Text.assemble(mark, step.name))
        indented(out, visible(step.detail), 2 + _WORD_WIDTH)


def print_export(report: ExportReport) -> None:
    """Each check with its outcome, then the files; where a check failed, that nothing is left."""
    out = console()
    out.print(f"{report.task}, candidate {report.candidate[:12]}, as {report.format.value}")
    print_steps(report.steps)
    if not report.folder:
        out.print("a check failed: nothing was written")
        return
    out.print(f"written to {visible(report.folder)}:")
    for name in report.files:
        out.print(f"  {visible(name)}")
