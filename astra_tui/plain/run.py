"""A run as lines of text: what happens, on stderr, and at the end its result, on stdout."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from astra_tui.model.auto_approval import AutoApproval
from astra_tui.model.citations import CitationStatus, check_citations
from astra_tui.model.events import (
    AnalysisGiven,
    AutoApprovalSet,
    BestChanged,
    CaseChecked,
    CheckFinished,
    CheckStarted,
    CodeFailed,
    CodeWritten,
    CompileFinished,
    DecisionTaken,
    DeviceOpened,
    ErrorOccurred,
    Event,
    HardwareCountersRead,
    NoteAdded,
    Paused,
    PlanningFinished,
    PlanProposed,
    RoundOpened,
    RoundsTimed,
    Sanitized,
    SessionClosed,
    ShippedTimed,
    StageBegan,
    TimingFinished,
    VerdictReached,
    WorkloadTimed,
)
from astra_tui.model.state import CandidateState, SessionState
from astra_tui.plain.console import console, indented
from astra_tui.plain.hardware import hardware_words, print_hardware
from astra_tui.plain.output import note, visible
from astra_tui.plain.sanitizer import sanitizer_lines
from astra_tui.plain.tags import PlanTags, tagged
from astra_tui.plain.timing import (
    gpu_words,
    overall_words,
    print_timing,
    rounds_line,
    workload_line,
)
from astra_tui.plain.yardsticks import print_shipped
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
            text += _doubtful_citations(event, state())
        if text and self._held is not None:
            self._held.append(tagged(text, tag))
        elif text:
            self._write(tagged(text, tag))

    def pass_over(self, event: Event) -> None:
        """Takes note of an event of an earlier run, and writes nothing."""
        self._tags.tag(event)

    def _text(self, event: Event) -> str:
        match event:
            case RoundOpened():
                what = f"round {event.round}" if event.round else "round 0: the baseline"
                return f"\n{what}, from {event.base[:12]}"
            case PlanProposed():
                plan = event.plan
                predicted = plan.prediction
                return (
                    f"  plan {event.proposal + 1}: {plan.title} [{plan.risk.value} risk, "
                    f"by {event.author.describe()}]\n"
                    f"    expects {predicted.counter.value} x {predicted.counter_ratio:.2f}"
                )
            case PlanningFinished():
                return f"  no plan: {event.reason}" if event.reason else ""
            case DecisionTaken():
                return self._decision(event)
            case CodeWritten():
                return f"  code: {event.candidate[:12]} by {event.author.describe()}"
            case CodeFailed():
                return f"  no code: {event.reason}"
            case _:
                return self._step(event)

    def _decision(self, event: DecisionTaken) -> str:
        decision = event.decision
        text = f"  {decision.gate.value} {decision.status.value} by {decision.by.describe()}"
        if decision.partial is not None:
            text += f", hunks {', '.join(str(h + 1) for h in decision.partial)} only"
        return text + (f": {decision.reason}" if decision.reason else "")

    def _step(self, event: Event) -> str:
        match event:
            case StageBegan(stage="sanitize" | "profile" | "time" | "hardware"):
                return f"  {event.stage} ..."
            case CompileFinished():
                errors = [d for d in event.diagnostics if d.severity.value == "error"]
                if event.ok:
                    return "  compiled"
                first = f"line {errors[0].line}: {errors[0].message}" if errors else "no reason"
                return f"  does not compile: {first}"
            case CheckStarted():
                self._failed = 0
                return f"  checking {event.cases} cases ..."
            case CaseChecked():
                return self._case(event)
            case CheckFinished():
                return f"  check {event.verdict.value}: {event.message} ({event.seconds:.1f} s)"
            case Sanitized():
                return self._sanitizer(event)
            case HardwareCountersRead():
                return f"  {hardware_words(event.report)}"
            case ShippedTimed():
                return f"  {event.shipped.describe()}"
            case DeviceOpened() | RoundsTimed() | WorkloadTimed() | TimingFinished():
                return self._timing(event)
            case _:
                return self._news(event)

    def _timing(self, event: DeviceOpened | RoundsTimed | WorkloadTimed | TimingFinished) -> str:
        match event:
            case DeviceOpened():
                return f"device {gpu_words(event.device, event.gpu)}"
            case RoundsTimed():
                self._reported += 1
                due = self._progress and self._reported % _PROGRESS_EVERY == 0
                return f"    {rounds_line(event)}" if due else ""
            case WorkloadTimed():
                self._reported = 0
                return f"    {workload_line(event.timing)}"
            case TimingFinished():
                again = "measured again" if event.final else "timed"
                base = event.timing.base[:12]
                return f"  {again} against {base}: {overall_words(event.timing)}"

    def _sanitizer(self, event: Sanitized) -> str:
        """What no tool looked at is reported once, and again when its reason is another."""
        lines = sanitizer_lines(event.reports)
        before, self._sanitized = self._sanitized, lines
        looked = any(report.looked for report in event.reports)
        return "" if lines == before and not looked else "\n".join(f"    {x}" for x in lines)

    def _case(self, event: CaseChecked) -> str:
        if event.result.outcome.ok:
            return ""
        self._failed += 1
        return f"    {event.result.case.id}: {event.result.message}" if self._failed == 1 else ""

    def _news(self, event: Event) -> str:
        match event:
            case VerdictReached():
                verdict = event.verdict
                return f"  verdict: {verdict.outcome.value}: " + "; ".join(verdict.reasons[:3])
            case BestChanged():
                return f"  the best is now {event.candidate[:12]}"
            case AnalysisGiven():
                return f"  {event.role}: {event.text}"
            case NoteAdded():
                return f"  note from {event.by.describe()}: {event.text}"
            case AutoApprovalSet():
                words = AutoApproval(event.mode, event.left).describe() or "everything is asked"
                return f"  {words}, set by {event.by.describe()}"
            case Paused():
                return "  paused" + (", the step was dropped" if event.interrupted else "")
            case ErrorOccurred():
                return f"  error in {event.where}: {event.message}"
            case SessionClosed():
                return f"\n{event.reason.words} ({event.message})"
        return ""


def _doubtful_citations(event: PlanProposed, state: SessionState) -> str:
    """A line for each number of a plan's evidence that was not measured, or not so."""
    base = state.candidate(state.round(event.round).base)
    cited = (r for o in event.plan.observations for r in check_citations(o, base))
    wrong = (r for r in cited if r.standing is not CitationStatus.AGREES)
    return "".join(f"\n    evidence cites {reading.describe()}" for reading in wrong)


def print_run(state: SessionState, folder: Path) -> None:
    """The result of a run: the best by its final timings, and counter by counter."""
    out = console()
    opened = state.opened
    assert opened is not None
    baseline, best = state.candidate(opened.baseline), state.candidate(state.best)
    out.print(f"task     {opened.settings.task}")
    out.print(f"team     {opened.settings.team.value} {opened.settings.model}".rstrip())
    gpu = state.device.gpu if state.device else None
    out.print(f"device   {gpu_words(opened.settings.device, gpu)}")
    out.print(f"session  {folder}")
    if state.closed is not None:
        indented(out, f"ended    {state.closed.reason.words} ({state.closed.message})", 0)
    if baseline.profile is None and not final_timings(state):
        return
    if best.hash == baseline.hash:
        out.print("best     the baseline: no candidate was correct and better")
    else:
        out.print(f"best     {best.hash[:12]}  (sources/{best.hash[:12]}.cu)")
    _print_tools(out, best)
    for final in final_timings(state):
        print_timing(final.timing, base=final.beside, candidate=best.hash[:12])
    if best.shipped is not None:
        print_shipped(opened.settings.task, best.shipped)
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
        change = f"{100 * (after - before) / before:+.1f} %" if before else ""
        out.print(f"{name.replace('_', ' '):20}{before:>16,}{after:>16,}{change:>10}")
    out.print("")
    out.print("counted by the emulator, which gives no time and no speedup")
