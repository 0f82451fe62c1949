"""What compute-sanitizer found in a candidate, in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console

from astra_tui.model.sanitizer import SanitizerReport, sanitizer_words
from astra_tui.plain.console import indented
from astra_tui.plain.output import visible

MAX_SHOWN_FINDINGS = 5
"""Of one tool."""


def print_sanitizer(
    out: Console, reports: Sequence[SanitizerReport], source_line: Callable[[int], str]
) -> None:
    """A line for each outcome, then every finding with its line of the source."""
    for words in sanitizer_words(reports):
        indented(out, words, 2)
    for remedy in dict.fromkeys(r.remedy for r in reports if r.remedy):
        indented(out, remedy, 4)
    for report in reports:
        _print_findings(out, report, source_line)


def sanitizer_lines(reports: Sequence[SanitizerReport]) -> list[str]:
    """The same without sources, for a log: two spaces before what belongs to the line above."""
    lines = list(sanitizer_words(reports))
    lines += [f"  {text}" for report in reports for text in _findings(report)]
    return lines


def _findings(report: SanitizerReport) -> list[str]:
    """Without their places in the source shown; the tool's warnings last."""
    texts = [*(finding.describe() for finding in report.findings), *report.unread]
    shown = [f"{report.tool.value}: {text}" for text in texts[:MAX_SHOWN_FINDINGS]]
    if len(texts) > MAX_SHOWN_FINDINGS:
        shown.append(f"{report.tool.value}: and {len(texts) - MAX_SHOWN_FINDINGS} more")
    warnings = report.warnings[:MAX_SHOWN_FINDINGS]
    return [*shown, *(f"{report.tool.value} warns: {w.describe()}" for w in warnings)]


def _print_findings(
    out: Console, report: SanitizerReport, source_line: Callable[[int], str]
) -> None:
    lines = [finding.line for finding in report.findings[:MAX_SHOWN_FINDINGS]]
    for index, text in enumerate(_findings(report)):
        indented(out, text, 4)
        if index < len(lines) and lines[index] and source_line(lines[index]):
            out.print(f"      {lines[index]:4} | {visible(source_line(lines[index]))}")
