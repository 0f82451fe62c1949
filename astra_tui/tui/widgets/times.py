"""Paired times on a page: ratios with their intervals, floors, and what is to be doubted."""

from __future__ import annotations

from astra_tui.model.events import RoundsTimed
from astra_tui.model.timing import Caveat, PairedTime, Timing, WorkloadTiming
from astra_tui.present.numbers import percent, ratio, speedup, time, times
from astra_tui.present.tones import Tone, tone_of
from astra_tui.present.words import timing_verdict
from astra_tui.tui.text_layout import Page, Span, span
from astra_tui.tui.widgets.cited import CitationFinder

_BAR = 20


def draw_timing(
    page: Page, timing: Timing, base: str, pointer: CitationFinder, *, final: bool
) -> None:
    """A finished timing: all workloads together, then each. `base` says against what."""
    page.heading(f"Time against {base}" + (", measured again at the end" if final else ""))
    verdict = timing_verdict(timing)
    together = f"  {speedup(timing.speedup)} over all workloads" if timing.speedup else ""
    page.line(
        Span(verdict.words.upper(), verdict.tone),
        Span(together),
        span(f"  on {timing.device}", Tone.DIM),
    )
    for workload in timing.workloads:
        draw_workload(page, workload, pointer)


def draw_workload(page: Page, timing: WorkloadTiming, pointer: CitationFinder) -> None:
    """One workload: the ratio that decides, the floor, what else was measured, and caveats."""
    tone = tone_of(timing.verdict)
    page.line(
        span(f"{timing.workload} {timing.dtype.value}  ", Tone.TITLE),
        Span(timing.verdict.value, tone),
        Span(f"  {timing.cold.speedup.rounds} pairs", Tone.DIM),
        Span("  CAVEATS" if timing.caveats else "", _doubt(timing)),
    )
    _draw_pair(page, "cold", timing.cold, ", with the producer before it" * timing.producer)
    pointer.drawn(page, timing.workload, "time_us")
    if timing.chained is not None:
        _draw_pair(page, "chained", timing.chained, ", after itself alone")
        pointer.drawn(page, timing.workload, "chained_us")
    if timing.warm is not None:
        _draw_pair(page, "warm", timing.warm)
        pointer.drawn(page, timing.workload, "warm_us")
    if timing.paper is not None:
        paper = timing.paper
        shown = f"{ratio(paper.speedup)}  {times(paper.base_us, paper.candidate_us)}"
        page.field("  paper", f"{shown}, launches included", Tone.DIM)
        pointer.drawn(page, timing.workload, "paper_us")
    if timing.floor is not None and timing.of_floor is not None:
        page.line(
            Span("  of floor  ", Tone.DIM),
            Span(_bar(timing.of_floor), Tone.DIM),
            Span(f" {percent(timing.of_floor)} of {time(timing.floor.us)}"),
        )
        pointer.drawn(page, timing.workload, "of_floor", "floor_us")
    draw_caveats(page, timing.caveats)


def _doubt(timing: WorkloadTiming) -> Tone:
    return Tone.BAD if timing.invalidated else Tone.CAUTION


def _draw_pair(page: Page, name: str, pair: PairedTime, remark: str = "") -> None:
    shown = times(pair.base_us, pair.candidate_us)
    page.field(f"  {name}", f"{speedup(pair.speedup)}  {shown}{remark}")


def draw_caveats(page: Page, caveats: tuple[Caveat, ...]) -> None:
    """Why a measurement is not to be trusted, or not fully."""
    for caveat in caveats:
        what = "void" if caveat.invalidates else "doubt"
        page.field(f"  {what}", caveat.message, Tone.BAD if caveat.invalidates else Tone.CAUTION)


def draw_running(page: Page, rounds: tuple[RoundsTimed, ...]) -> None:
    """A timing that runs: intervals that narrow."""
    page.heading("Timing now")
    for one in rounds:
        text = f"{speedup(one.speedup)}  {one.rounds} pairs"
        page.field(f"  {one.workload}", text, column=max(14, len(one.workload) + 4))


def _bar(fraction: float) -> str:
    filled = max(0, min(round(fraction * _BAR), _BAR))
    return "█" * filled + "░" * (_BAR - filled)
