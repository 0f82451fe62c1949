"""A run as lines of text: what happens, on stderr, and at the end its result, on stdout."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from astra_tui.model.citations import CitationStatus, check_citations
from astra_tui.model.events import (
    CaseChecked,
    CheckStarted,
    DeviceOpened,
    EngineStarted,
    Event,
    ExchangeMade,
    PlanProposed,
    ProfileTaken,
    RoundOpened,
    RoundsTimed,
    Sanitized,
    SessionClosed,
    SessionOpened,
    StageBegan,
    WorkloadTimed,
)
from astra_tui.model.state import CandidateState, SessionState
from astra_tui.plain.console import console, indented, print_blocks
from astra_tui.plain.hardware import print_hardware
from astra_tui.plain.output import note, visible
from astra_tui.plain.sanitizer import sanitizer_lines
from astra_tui.plain.tags import PlanTags, tagged
from astra_tui.present.events import describe
from astra_tui.present.numbers import change_between, count, short
from astra_tui.present.timing import CaveatMarks, Names, shipped_blocks, timing_blocks
from astra_tui.present.words import STAGES, device_words, prediction_words
from astra_tui.sessions.summary import final_timings

_COUNTERS = ("sectors", "requests", "warp_instructions", "shared_requests", "barriers")


_PROGRESS_EVERY = 10
"""Reports of more rounds that make one line; each is of one block of rounds."""


class RunLines:
    """Writes one line for each event that a reader wants to know of.

    `progress` says whether to write how far a timing is too; by default if stderr is a terminal.
    """

    def __init__(self, write: Callable[[str], None] = note, progress: bool | None = None):
        self._write = write
        self._progress = sys.stderr.isatty() if progress is None else progress
        self._failed = 0
        self._reported = 0
        self._held: list[str] | None = None
        self._sanitized: list[str] = []
        self._tags = PlanTags()

    def hold(self) -> None:
        """Keeps what it would write, while something else has the terminal."""
        self._held = []

    def release(self) -> None:
        """Writes what was kept."""
        held, self._held = self._held or [], None
        for text in held:
            self._write(text)

    def show(self, event: Event, state: Callable[[], SessionState] | None = None) -> None:
        """Writes about one event, or not. `state` gives the one that the event made."""
        tag, text = self._tags.tag(event), self._text(event)
        if isinstance(event, PlanProposed) and state is not None:
            text += _expectation(event, state())
        if text and self._held is not None:
            self._held.append(tagged(text, tag))
        elif text:
            self._write(tagged(text, tag))

    def pass_over(self, event: Event) -> None:
        """Takes note of an event of an earlier run, and writes nothing."""
        self._tags.tag(event)

    def _text(self, event: Event) -> str:
        match event:
            case StageBegan(stage="sanitize" | "profile" | "time" | "hardware"):
                return f"  {STAGES[event.stage]} ..."
            case Sanitized():
                return self._sanitizer(event)
            case CheckStarted() | WorkloadTimed():
                self._failed = self._reported = 0
            case CaseChecked() if not event.result.outcome.ok:
                self._failed += 1
                if self._failed > 1:
                    return ""
            case RoundsTimed():
                self._reported += 1
                if not self._progress or self._reported % _PROGRESS_EVERY:
                    return ""
            case SessionOpened() | EngineStarted() | ExchangeMade() | ProfileTaken():
                return ""
        said = describe(event)
        return _INDENTS.get(type(event), "  ") + said.words if said else ""

    def _sanitizer(self, event: Sanitized) -> str:
        """What no tool looked at is reported once, and again when its reason is another."""
        lines = sanitizer_lines(event.reports)
        before, self._sanitized = self._sanitized, lines
        looked = any(report.looked for report in event.reports)
        return "" if lines == before and not looked else "\n".join(f"    {x}" for x in lines)


_INDENTS: dict[type, str] = {
    RoundOpened: "\n",
    DeviceOpened: "",
    SessionClosed: "\n",
    CaseChecked: "    ",
    RoundsTimed: "    ",
    WorkloadTimed: "    ",
}
"""What stands before the line of an event, where it is not the indent of a step."""


def _expectation(event: PlanProposed, state: SessionState) -> str:
    """What a plan expects, and each number of its evidence that was not measured, or not so."""
    lines = f"\n    expects {prediction_words(event.plan.prediction)}"
    base = state.candidate(state.round(event.round).base)
    cited = (r for o in event.plan.observations for r in check_citations(o, base))
    wrong = (r for r in cited if r.standing is not CitationStatus.AGREES)
    return lines + "".join(f"\n    evidence cites {reading.describe()}" for reading in wrong)


def print_run(state: SessionState, folder: Path) -> None:
    """The result of a run: the best by its final timings, and counter by counter."""
    out = console()
    opened = state.opened
    assert opened is not None
    baseline, best = state.candidate(opened.baseline), state.candidate(state.best)
    out.print(f"task     {opened.settings.task}")
    out.print(f"team     {opened.settings.team.value} {opened.settings.model}".rstrip())
    gpu = state.device.gpu if state.device else None
    out.print(f"device   {device_words(state.device_name, gpu)}")
    out.print(f"session  {folder}")
    if state.closed is not None:
        indented(out, f"ended    {state.closed.reason.words} ({state.closed.message})", 0)
    if baseline.profile is None and not final_timings(state):
        return
    if best.hash == baseline.hash:
        out.print("best     the baseline: no candidate was correct and better")
    else:
        out.print(f"best     {short(best.hash)}  (sources/{short(best.hash)}.cu)")
    _print_tools(out, best)
    for final in final_timings(state):
        names = Names(final.beside, short(best.hash), candidate_column="best")
        marks = CaveatMarks.of_timing(final.timing.workloads)
        out.print("")
        print_blocks(timing_blocks(final.timing, names, marks), out)
    if best.shipped is not None:
        out.print("")
        print_blocks(shipped_blocks(best.shipped), out)
    _print_counters(out, baseline, best)


def _print_tools(out: Console, best: CandidateState) -> None:
    """What the tools of the CUDA toolkit say about the best, where they were asked."""
    for number, line in enumerate(sanitizer_lines(best.sanitizer)):
        out.print(f"{'' if number else 'tools':9}{visible(line)}")
    if best.hardware is not None:
        print_hardware(out, best.hardware)


def _print_counters(out: Console, baseline: CandidateState, best: CandidateState) -> None:
    if baseline.profile is None or best.profile is None:
        return
    if not (baseline.profile.workloads and best.profile.workloads):
        return  # The emulator could not count one of them.
    out.print("")
    out.print(f"{'':20}{'baseline':>16}{'best':>16}{'change':>10}")
    for name in _COUNTERS:
        before, after = baseline.profile.total(name), best.profile.total(name)
        change = change_between(before, after)
        out.print(f"{name.replace('_', ' '):20}{count(before):>16}{count(after):>16}{change:>10}")
    out.print("")
    out.print("counted by the emulator, which gives no time and no speedup")
