"""Paired times on a page: ratios with their intervals, floors, and what is to be doubted."""

from __future__ import annotations

from astra_tui.model.events import RoundsTimed
from astra_tui.model.timing import Caveat, Timing, TimingVerdict, WorkloadTiming
from astra_tui.tui.text_layout import Page, Span, Tone, span
from astra_tui.tui.widgets.cited import CitationFinder
from astra_tui.tui.words import microseconds, ratio_words

_BAR = 20

VERDICT_TONES = {
    TimingVerdict.FASTER: Tone.GOOD,
    TimingVerdict.SLOWER: Tone.CAUTION,
    TimingVerdict.SAME: Tone.PLAIN,
    TimingVerdict.INCONCLUSIVE: Tone.CAUTION,
}


def draw_timing(
    page: Page, timing: Timing, base: str, pointer: CitationFinder, *, final: bool
) -> None:
    """A finished timing: all workloads together, then each. `base` says against what."""
    page.heading(f"Time against {base}" + (", measured again at the end" if final else ""))
    together = f"  {ratio_words(timing.speedup)} over all workloads" if timing.speedup else ""
    page.line(
        Span(timing.verdict.value.upper(), VERDICT_TONES[timing.verdict]),
        Span(together),
        span(f"  on {timing.device}", Tone.DIM),
    )
    for workload in timing.workloads:
        draw_workload(page, workload, pointer)


def draw_workload(page: Page, timing: WorkloadTiming, pointer: CitationFinder) -> None:
    """One workload: the ratio that decides, the floor, what else was measured, and caveats."""
    tone = VERDICT_TONES[timing.verdict]
    page.line(
        span(f"{timing.workload} {timing.dtype.value}  ", Tone.TITLE),
        Span(timing.verdict.value, tone),
        Span(f"  {timing.cold.speedup.rounds} pairs", Tone.DIM),
        Span("  CAVEATS", Tone.BAD) if timing.caveats else Span(""),
    )
    cold = timing.cold
    times = f"{microseconds(cold.base_us)} to {microseconds(cold.candidate_us)}"
    with_producer = ", with the producer before it" * timing.producer
    page.field("  cold", f"{ratio_words(cold.speedup)}  {times}{with_producer}")
    pointer.drawn(page, timing.workload, "time_us")
    if timing.chained is not None:
        alone = timing.chained
        times = f"{microseconds(alone.base_us)} to {microseconds(alone.candidate_us)}"
        page.field("  chained", f"{ratio_words(alone.speedup)}  {times}, after itself alone")
        pointer.drawn(page, timing.workload, "chained_us")
    if timing.warm is not None:
        warm = timing.warm
        times = f"{microseconds(warm.base_us)} to {microseconds(warm.candidate_us)}"
        page.field("  warm", f"{ratio_words(warm.speedup)}  {times}")
        pointer.drawn(page, timing.workload, "warm_us")
    if timing.paper is not None:
        paper = timing.paper
        times = f"{microseconds(paper.base_us)} to {microseconds(paper.candidate_us)}"
        page.field("  paper", f"{paper.speedup:.3f}x  {times}, launches included", Tone.DIM)
        pointer.drawn(page, timing.workload, "paper_us")
    if timing.floor is not None and timing.of_floor is not None:
        page.line(
            Span("  of floor  ", Tone.DIM),
            Span(_bar(timing.of_floor), Tone.DIM),
            Span(f" {100 * timing.of_floor:.0f} % of {microseconds(timing.floor.us)}"),
        )
        pointer.drawn(page, timing.workload, "of_floor", "floor_us")
    draw_caveats(page, timing.caveats)


def draw_caveats(page: Page, caveats: tuple[Caveat, ...]) -> None:
    """Why a measurement is not to be trusted, or not fully."""
    for caveat in caveats:
        what = "void" if caveat.invalidates else "doubt"
        page.field(f"  {what}", caveat.message, Tone.BAD if caveat.invalidates else Tone.CAUTION)


def draw_running(page: Page, rounds: tuple[RoundsTimed, ...]) -> None:
    """A timing that runs: intervals that narrow."""
    page.heading("Timing now")
    for one in rounds:
        half = 100 * one.speedup.half_width
        text = f"{ratio_words(one.speedup)}  ±{half:.2f} %  {one.rounds} pairs"
        page.field(f"  {one.workload}", text, column=max(14, len(one.workload) + 4))


def _bar(fraction: float) -> str:
    filled = max(0, min(round(fraction * _BAR), _BAR))
    return "█" * filled + "░" * (_BAR - filled)
