"""Hardware counters that ncu read, on a page; never its durations."""

from __future__ import annotations

from astra_tui.model.ncu import DURATION, LaunchCounters, Metric, NcuReport
from astra_tui.present.tones import Tone
from astra_tui.tui.text_layout import Page, span
from astra_tui.tui.widgets.cited import CitationFinder


def draw_hardware(page: Page, report: NcuReport, pointer: CitationFinder) -> None:
    """Every counter of every launch with its unit, or why there are none."""
    page.heading("Hardware counters")
    by = f", by ncu {report.version}" if report.version else ""
    page.paragraph(report.outcome + by, Tone.PLAIN if report.available else Tone.CAUTION)
    if report.remedy:
        page.field("remedy", report.remedy)
    for launch in report.launches:
        _draw_launch(page, launch, pointer, report.workload)


def _draw_launch(
    page: Page, launch: LaunchCounters, pointer: CitationFinder, workload: str
) -> None:
    page.line(span(launch.kernel, Tone.TITLE))
    grid, block = (" x ".join(f"{n:,}" for n in size) for size in (launch.grid, launch.block))
    page.paragraph(f"{grid} blocks of {block} threads", Tone.DIM, indent=2)
    values = {n: metric_words(m) for n, m in launch.metrics.items() if n != DURATION}
    column = min(max((len(value) for value in values.values()), default=0) + 4, page.width // 2)
    for name, value in values.items():
        page.field(f"  {value}", name, column=column)
        pointer.drawn(page, launch.kernel, name)
        pointer.drawn(page, workload, name)
    excess = launch.excess_shared_wavefronts
    if excess is not None:
        page.paragraph(f"{excess:,.0f} passes over shared memory lost to bank conflicts", indent=2)
    for name, why in launch.missing.items():
        page.paragraph(f"not read: {name}: {why}", Tone.CAUTION, indent=2)


def metric_words(metric: Metric) -> str:
    """A value with its unit, as in "1,234,567 byte" or "50.25 %"."""
    digits = ",.0f" if 1000 <= abs(metric.value) < 1e15 else ".4g"
    return f"{metric.value:{digits}} {metric.unit}".rstrip()
