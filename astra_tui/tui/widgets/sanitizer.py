"""What compute-sanitizer found, on a page."""

from __future__ import annotations

from collections.abc import Sequence

from astra_tui.model.sanitizer import SanitizerReport, SanitizerVerdict, sanitizer_words
from astra_tui.present.tones import Tone
from astra_tui.tui.text_layout import Page

_MAX_FINDINGS = 4

_TONES = {
    SanitizerVerdict.CLEAN: Tone.GOOD,
    SanitizerVerdict.FOUND: Tone.BAD,
    SanitizerVerdict.UNAVAILABLE: Tone.CAUTION,
    SanitizerVerdict.FAILED: Tone.CAUTION,
}


def draw_sanitizer(page: Page, reports: Sequence[SanitizerReport]) -> None:
    """A line for each outcome with the tools that had it, then what they found."""
    if not reports:
        return
    page.heading("compute-sanitizer")
    for verdict, tone in _TONES.items():
        for words in sanitizer_words(r for r in reports if r.verdict is verdict):
            page.paragraph(words, tone)
    for report in reports:
        _draw_findings(page, report)
    for remedy in dict.fromkeys(r.remedy for r in reports if r.remedy):
        page.field("remedy", remedy)


def _draw_findings(page: Page, report: SanitizerReport) -> None:
    """What a tool found, and what it warns of; its own words where we have no kind for them."""
    found = [*(finding.describe() for finding in report.findings), *report.unread]
    for text in found[:_MAX_FINDINGS]:
        page.field(report.tool.value, text, Tone.BAD)
    if len(found) > _MAX_FINDINGS:
        page.field("", f"and {len(found) - _MAX_FINDINGS} more findings", Tone.BAD)
    for warning in report.warnings[:_MAX_FINDINGS]:
        page.field(report.tool.value, f"warns: {warning.describe()}", Tone.CAUTION)
