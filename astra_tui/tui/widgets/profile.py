"""Profile: what a candidate costs against the version it was made from."""

from __future__ import annotations

from textual.geometry import Region

from astra_tui.model.citations import CheckedCitation
from astra_tui.model.events import TimingFinished
from astra_tui.model.state import CandidateState
from astra_tui.model.verdict import KernelUse, Profile, WorkloadProfile
from astra_tui.present.numbers import change_between, count, percent, short
from astra_tui.present.tones import Tone, tone_of_change
from astra_tui.present.words import round_verdict
from astra_tui.tui.text_layout import Page, Span, padded, span
from astra_tui.tui.view import View, start_of
from astra_tui.tui.widgets.cited import CitationFinder
from astra_tui.tui.widgets.hardware import draw_hardware
from astra_tui.tui.widgets.pane import Pane
from astra_tui.tui.widgets.times import draw_running, draw_timing, draw_workload

_COUNTERS = (
    ("sectors", "sectors"),
    ("requests", "requests"),
    ("warp_instructions", "warp instr."),
    ("shared_requests", "shared req."),
    ("bank_conflicts", "conflicts"),
    ("barriers", "barriers"),
)
_MOST_WASTED = 6
_NAME, _NUMBER, _CHANGE = 12, 13, 11


class ProfilePane(Pane):
    """Counters before and after, for all workloads together and for each, and resources."""

    TITLE = "Profile"
    HELP = (
        "What the chosen candidate costs, against the version it was made from. Counters of the "
        "emulator are exact for memory traffic; it gives no time and no speedup. Less is better "
        "for every counter. Moved in vain are bytes that a line moves although an earlier line, "
        "launch or iteration did, and what L2 reads that no one asks for; blocks that load the "
        "same are not meant. Occupancy is resident warps over what one SM can hold.\n\n"
        "On a GPU, ratios are old time over new with their 95 % interval. Cold decides, the "
        "paper's protocol stands next to it, and the bar is the share of the floor: the time of a "
        "copy of the same bytes. CAVEATS says that something spoils the measurement. "
        "Hardware counters are those of ncu, whose own durations are no times."
    )

    def __init__(self, *, id: str | None = None):  # noqa: A002
        super().__init__(id=id)
        self._cited: CheckedCitation | None = None
        self._cited_of = ""
        self._row: int | None = None

    def point_at(self, reading: CheckedCitation | None, candidate: str) -> None:
        """Marks a number of a candidate that a plan cites; None takes the mark away."""
        self._cited, self._cited_of = reading, candidate
        self.redraw()
        self.call_after_refresh(self._show_mark)

    def row_style(self, row: int) -> str:
        """The cited number stands out."""
        return "lines--cursor" if row == self._row else ""

    def _show_mark(self) -> None:
        if self._row is not None:
            self.scroll_to_region(Region(0, self._row, 1, 1), animate=False)

    def part(self, view: View) -> tuple[object, ...]:
        """Candidate and base with what is known of them, and the verdict."""
        return (view.candidate, view.base, view.proposal, *view.rounds_timed)

    def draw(self, view: View, page: Page) -> None:
        """The verdict, the totals, each workload, the kernels."""
        self._row = None
        start = start_of(view)
        if start is not None:
            page.paragraph("The plan has no code. It starts from this version:", Tone.DIM)
            view = start
        candidate = view.candidate
        if candidate is None:
            page.paragraph("There is no code yet.", Tone.DIM)
            return
        pointer = CitationFinder(self._cited if candidate.hash == self._cited_of else None)
        pointer.head(page)
        self._draw_candidate(view, page, candidate, pointer)
        self._row = pointer.row

    def _draw_candidate(
        self, view: View, page: Page, candidate: CandidateState, pointer: CitationFinder
    ) -> None:
        _draw_head(page, view, candidate)
        _draw_times(page, view, candidate, pointer)
        if candidate.profile is None:
            page.paragraph(_why_no_profile(candidate), Tone.DIM)
            return
        before = view.base.profile if view.base else None
        _draw_totals(page, before, candidate.profile, pointer)
        _draw_wasted(page, candidate.profile)
        for workload in candidate.profile.workloads:
            _draw_workload(page, workload, _same_workload(before, workload), pointer)
        _draw_kernels(page, before, candidate.profile, pointer)
        page.blank()
        for what, why in candidate.profile.missing.items():
            page.field(what, why, Tone.DIM)
        if candidate.hardware is not None:
            draw_hardware(page, candidate.hardware, pointer)
        else:
            _say_why_no_hardware(page, view, candidate.profile)
        if candidate.profile.device == "emulator":
            page.paragraph(
                "Counted by the emulator. Times, change of roofline and the paper's protocol "
                "need a GPU.",
                Tone.DIM,
            )


def _draw_head(page: Page, view: View, candidate: CandidateState) -> None:
    base = f" from {short(view.base.hash)}" if view.base else ""
    page.line(Span(short(candidate.hash)), Span(base, Tone.DIM))
    verdict = view.proposal.verdict if view.proposal else None
    if verdict is None:
        return
    told = round_verdict(view.state, verdict)
    page.line(Span(told.words.upper(), told.tone))
    for reason in verdict.reasons:
        page.paragraph(reason, indent=2)


def _draw_times(page: Page, view: View, candidate: CandidateState, pointer: CitationFinder) -> None:
    """What was timed: the pair that decided, the winner's last, or what runs now."""
    running = tuple(r for r in view.rounds_timed if r.candidate == candidate.hash)
    if candidate.timed:
        page.heading("Time so far")
        for timed in candidate.timed:
            draw_workload(page, timed.timing, CitationFinder())
    if running:
        draw_running(page, running)
    latest = {f.timing.base: f for f in candidate.timings}.values()
    first = view.base.hash if view.base else ""
    for finished in sorted(latest, key=lambda f: f.timing.base != first):
        base = _base_words(view, finished)
        draw_timing(page, finished.timing, base, pointer, final=finished.final)


def _base_words(view: View, finished: TimingFinished) -> str:
    """What a timing is against: the version before it, the baseline, or another source."""
    base = finished.timing.base
    opened = view.state.opened
    if opened is not None and base == opened.baseline:
        return "the baseline"
    if view.base is not None and base == view.base.hash:
        return "the version before"
    return f"{short(base)}"


def _say_why_no_hardware(page: Page, view: View, profile: Profile) -> None:
    opened = view.state.opened
    if opened is not None and opened.settings.ncu:
        text = "Hardware counters are read of the baseline and of every new best."
        page.paragraph(text, Tone.DIM)
    elif profile.device != "emulator":
        page.paragraph("Hardware counters were not asked for: --ncu reads them.", Tone.DIM)


def _why_no_profile(candidate: CandidateState) -> str:
    if candidate.check is None:
        return "No profile yet: it is taken once all cases have passed."
    if candidate.correct:
        return "The profile is being taken."
    return "No profile: a candidate that is not correct has no cost worth knowing."


def _row(page: Page, name: str, before: int | None, after: int) -> None:
    old, change, tone = "", "", Tone.PLAIN
    if before is not None:
        old, change = count(before), change_between(before, after)
        tone = tone_of_change(before, after)
    page.line(
        Span(padded(name, _NAME), Tone.DIM),
        Span(old.rjust(_NUMBER)),
        Span(count(after).rjust(_NUMBER)),
        Span(change.rjust(_CHANGE), tone),
    )


def _titles(page: Page, has_base: bool) -> None:
    before = "before" if has_base else ""
    line = " " * _NAME + before.rjust(_NUMBER) + "now".rjust(_NUMBER) + "change".rjust(_CHANGE)
    page.line(Span(line if has_base else line.replace("change", "      "), Tone.DIM))


def _draw_totals(page: Page, before: Profile | None, now: Profile, pointer: CitationFinder) -> None:
    page.heading("All workloads together")
    _titles(page, before is not None)
    for counter, name in _COUNTERS:
        old = before.total(counter) if before else None
        _row(page, name, old, now.total(counter))
        pointer.drawn(page, "", counter)


def _draw_wasted(page: Page, profile: Profile) -> None:
    """What lines move in vain, on the workload that shows it most."""
    found = profile.wasted
    if not found:
        return
    page.heading("Moved in vain")
    for wasted in found[:_MOST_WASTED]:
        page.paragraph(wasted.describe(), indent=2)
    if len(found) > _MOST_WASTED:
        page.paragraph(f"and {len(found) - _MOST_WASTED} more", Tone.DIM, indent=2)


def _draw_workload(
    page: Page, now: WorkloadProfile, before: WorkloadProfile | None, pointer: CitationFinder
) -> None:
    page.blank()
    sizes = ", ".join(f"{name} {size}" for name, size in now.dims.items())
    page.line(span(now.workload, Tone.TITLE), span(f"  {now.dtype.value}, ran {sizes}", Tone.DIM))
    page.line(
        Span(f"{now.blocks:,} blocks of {now.threads} threads", Tone.DIM),
        Span(f", sectors used to {percent(now.counters.sector_efficiency)}", Tone.DIM),
    )
    pointer.drawn(page, now.workload, "blocks", "threads", "sector_efficiency")
    for counter, name in _COUNTERS[:3]:
        old = int(getattr(before.counters, counter)) if before else None
        _row(page, name, old, int(getattr(now.counters, counter)))
        pointer.drawn(page, now.workload, counter)


def _same_workload(profile: Profile | None, now: WorkloadProfile) -> WorkloadProfile | None:
    found = profile.workloads if profile else ()
    return next((w for w in found if (w.workload, w.dtype) == (now.workload, now.dtype)), None)


def _draw_kernels(
    page: Page, before: Profile | None, now: Profile, pointer: CitationFinder
) -> None:
    if not now.kernels:
        return
    page.heading("Kernels")
    known = {k.kernel: k for k in before.kernels} if before else {}
    for kernel in now.kernels:
        page.line(span(kernel.kernel))
        page.line(Span("  "), *_use(kernel, known.get(kernel.kernel)))
        pointer.drawn(page, kernel.kernel, "registers", "spill_bytes", "shared_bytes", "occupancy")


def _use(now: KernelUse, before: KernelUse | None) -> list[Span]:
    spills = Span(
        f", {now.spill_bytes} bytes spilled" if now.spill_bytes else ", no spills",
        Tone.CAUTION if now.spill_bytes else Tone.PLAIN,
    )
    was = f" (was {before.registers})" if before and before.registers != now.registers else ""
    return [
        Span(f"{now.registers} registers{was}"),
        spills,
        Span(f", {now.shared_bytes} B shared, occupancy {percent(now.occupancy)}"),
    ]
