"""A run as lines of text: what happens, on stderr, and at the end what came of it, on stdout."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from astra_tui.model.events import (
    AnalysisGiven,
    BestChanged,
    CaseChecked,
    CheckFinished,
    CheckStarted,
    CodeFailed,
    CodeWritten,
    CompileFinished,
    DecisionTaken,
    Event,
    NoteAdded,
    Paused,
    PlanProposed,
    PlansEnded,
    RoundOpened,
    SessionClosed,
    StageBegan,
    TroubleMet,
    VerdictReached,
)
from astra_tui.model.state import SessionState
from astra_tui.plain.output import console, note

_COUNTERS = ("sectors", "requests", "warp_instructions", "shared_requests", "barriers")


class RunLines:
    """Writes one line for each event that a reader wants to know of."""

    def __init__(self, write: Callable[[str], None] = note):
        self._write = write
        self._failed = 0
        self._held: list[str] | None = None

    def hold(self) -> None:
        """Keeps what it would write, while something else has the terminal."""
        self._held = []

    def let_go(self) -> None:
        """Writes what was kept."""
        held, self._held = self._held or [], None
        for text in held:
            self._write(text)

    def show(self, event: Event) -> None:
        """Writes about one event, or not."""
        text = self._text(event)
        if text and self._held is not None:
            self._held.append(text)
        elif text:
            self._write(text)

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
            case PlansEnded():
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
            case StageBegan(stage="profile"):
                return "  profile ..."
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
            case _:
                return self._news(event)

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
            case Paused():
                return "  paused" + (", the step was dropped" if event.interrupted else "")
            case TroubleMet():
                return f"  trouble in {event.where}: {event.message}"
            case SessionClosed():
                return f"\nended ({event.reason.value}): {event.message}"
        return ""


def print_run(state: SessionState, folder: Path) -> None:
    """The result of a run: the baseline beside the best, counter by counter."""
    out = console()
    opened = state.opened
    assert opened is not None
    baseline, best = state.candidate(opened.baseline), state.candidate(state.best)
    out.print(f"task     {opened.settings.task}")
    out.print(f"team     {opened.settings.team.value} {opened.settings.model}".rstrip())
    out.print(f"device   {opened.settings.device}")
    out.print(f"session  {folder}")
    if state.closed is not None:
        out.print(f"ended    {state.closed.reason.value}: {state.closed.message}")
    if baseline.profile is None or best.profile is None:
        return
    if best.hash == baseline.hash:
        out.print("best     the baseline: no candidate was correct and better")
    else:
        out.print(f"best     {best.hash[:12]}  (sources/{best.hash[:12]}.cu)")
    out.print("")
    out.print(f"{'':20}{'baseline':>16}{'best':>16}{'change':>10}")
    for name in _COUNTERS:
        before, after = baseline.profile.total(name), best.profile.total(name)
        change = f"{100 * (after - before) / before:+.1f} %" if before else ""
        out.print(f"{name.replace('_', ' '):20}{before:>16,}{after:>16,}{change:>10}")
    out.print("")
    out.print("counted by the emulator, which gives no time and no speedup")
