"""Events, verdicts and numbers in words, the same on every pane."""

from __future__ import annotations

from typing import NamedTuple

from astra_tui.model.auto_approval import AutoApproval
from astra_tui.model.check import CaseOutcome, CheckVerdict
from astra_tui.model.events import (
    AnalysisGiven,
    AutoApprovalSet,
    BestChanged,
    CaseAdded,
    CaseChecked,
    CheckFinished,
    CheckStarted,
    CodeFailed,
    CodeWritten,
    CompileFinished,
    DecisionTaken,
    DeviceOpened,
    EngineStarted,
    ErrorOccurred,
    Event,
    ExchangeMade,
    HardwareCountersRead,
    NoteAdded,
    Paused,
    PlanningFinished,
    PlanProposed,
    ProfileTaken,
    Resumed,
    RoundOpened,
    Sanitized,
    SessionClosed,
    SessionOpened,
    ShippedTimed,
    TimingFinished,
    VerdictReached,
    WorkloadTimed,
)
from astra_tui.model.sanitizer import sanitizer_words
from astra_tui.model.state import SessionState
from astra_tui.model.timing import Ratio, Timing, TimingVerdict
from astra_tui.model.verdict import Comparison, Outcome
from astra_tui.sessions.summary import BASELINE, TUNED, final_timings
from astra_tui.tui.text_layout import Tone

HASH_LENGTH = 12

OUTCOME_TONES = {
    Outcome.BETTER: Tone.GOOD,
    Outcome.SAME: Tone.PLAIN,
    Outcome.WORSE: Tone.CAUTION,
    Outcome.INCONCLUSIVE: Tone.CAUTION,
    Outcome.WRONG: Tone.BAD,
    Outcome.NOT_COMPILED: Tone.BAD,
    Outcome.UNSUPPORTED: Tone.CAUTION,
    Outcome.REJECTED: Tone.DIM,
    Outcome.NOT_WRITTEN: Tone.BAD,
}

CHECK_TONES = {
    CheckVerdict.PASSED: Tone.GOOD,
    CheckVerdict.FAILED: Tone.BAD,
    CheckVerdict.COMPILE_ERROR: Tone.BAD,
    CheckVerdict.PLAN_ERROR: Tone.BAD,
    CheckVerdict.UNSUPPORTED: Tone.CAUTION,
    CheckVerdict.INCONCLUSIVE: Tone.CAUTION,
}

OUTCOME_MARKS = {
    Outcome.BETTER: "+",
    Outcome.SAME: "=",
    Outcome.WORSE: "-",
    Outcome.INCONCLUSIVE: "?",
    Outcome.WRONG: "x",
    Outcome.NOT_COMPILED: "x",
    Outcome.UNSUPPORTED: "?",
    Outcome.REJECTED: "/",
    Outcome.NOT_WRITTEN: "x",
}
"""One character each, so that a verdict is told without colour."""

STAGES = {
    "plan": "planning",
    "code": "writing code",
    "compile": "compiling",
    "check": "checking",
    "sanitize": "running compute-sanitizer",
    "profile": "profiling",
    "time": "timing",
    "hardware": "reading hardware counters",
}
"""What runs in a stage, by its name in StageBegan."""

_Said = tuple[str, Tone]


def short(hash_: str) -> str:
    """The beginning of a hash, by which people tell sources apart."""
    return hash_[:HASH_LENGTH]


def outcome_words(outcome: Outcome) -> str:
    """As in "not compiled"."""
    return outcome.value.replace("_", " ")


def case_words(outcome: CaseOutcome) -> str:
    """As in "wrongly refused"."""
    return outcome.value.replace("_", " ")


def percent(ratio: float) -> str:
    """A ratio of new to old as a change: 0.5 is -50.0 %."""
    return f"{100 * (ratio - 1):+.1f} %"


def comparison_words(comparison: Comparison) -> str:
    """What decided a comparison, in a few characters: times, or counters."""
    if comparison.speedup is not None:
        return ratio_words(comparison.speedup)
    return key_change(comparison.base_key, comparison.candidate_key) or "no counter moved"


def key_change(before: tuple[int, int, int], now: tuple[int, int, int]) -> str:
    """The first counter of the ranking key that moved, and by how much; empty if none did."""
    for name, old, new in zip(("sectors", "requests", "instr."), before, now, strict=True):
        if old and old != new:
            return f"{name} {percent(new / old)}"
    return ""


class Best(NamedTuple):
    """How good the best candidate is, in words; good news only where nothing speaks against it."""

    words: str = ""
    tone: Tone = Tone.DIM


def best_of(state: SessionState) -> Best:
    """How good the best is: measured again against the fastest shipped kernels, else against
    tuned.cu, else against baseline.cu; before that by the timing against the version that it was
    made from; without times by its counters against the baseline's.

    A timing that is inconclusive, and one in which a workload lost, says so. Empty while the
    baseline is the best, and where nothing was measured.
    """
    opened = state.opened
    if opened is None or state.best == opened.baseline:
        return Best()
    shipped = state.candidate(state.best).shipped
    if shipped is not None and shipped.speedup is not None:
        words = f"{shipped.speedup.value:.3f}x fastest shipped"
        return Best(words, Tone.GOOD if shipped.speedup.low > 1 else Tone.CAUTION)
    final = {found.beside: found.timing for found in final_timings(state)}
    for file in (TUNED, BASELINE):
        if file in final:
            return _timed_best(f"{final[file].speedup.value:.3f}x {file}", final[file])
    decisive = _decisive_timing(state)
    if decisive is not None:
        return _timed_best(f"{decisive.speedup.value:.2f}x over its base", decisive)
    before, now = (state.candidate(h).profile for h in (opened.baseline, state.best))
    if before is None or now is None:
        return Best()
    words = key_change(before.ranking_key(), now.ranking_key())
    return Best(words, Tone.GOOD if words else Tone.DIM)


def _timed_best(words: str, timing: Timing) -> Best:
    slower = sum(w.verdict is TimingVerdict.SLOWER for w in timing.workloads)
    if timing.verdict is TimingVerdict.FASTER and not slower:
        return Best(words, Tone.GOOD)
    said = [] if timing.verdict is TimingVerdict.FASTER else [timing.verdict.value]
    said += [f"{slower} of {len(timing.workloads)} slower"] if slower else []
    return Best(f"{words} ({', '.join(said)})", Tone.CAUTION)


def _decisive_timing(state: SessionState) -> Timing | None:
    """The timing by which the best became the best; None where counters decided."""
    base = next((r.base for r in reversed(state.rounds) if r.best == state.best), None)
    return None if base is None else state.candidate(state.best).timing(base)


def ratio_words(ratio: Ratio) -> str:
    """A speedup with its interval, as in "1.525x [1.520, 1.530]"."""
    return f"{ratio.value:.3f}x [{ratio.low:.3f}, {ratio.high:.3f}]"


def microseconds(value: float) -> str:
    """As in "12.3 us" or "1.25 ms"."""
    return f"{value / 1000:.3g} ms" if value >= 1000 else f"{value:.3g} us"


def duration(seconds: float) -> str:
    """As in 0:07 or 1:02:45."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def describe(event: Event) -> _Said | None:
    """An event in one sentence; None for those that no reader of a log misses."""
    return _of_plans(event) or _of_code(event) or _of_checks(event) or _of_session(event)


def _of_plans(event: Event) -> _Said | None:
    match event:
        case RoundOpened(round=0):
            return f"round 0: the baseline {short(event.base)}", Tone.TITLE
        case RoundOpened():
            return f"round {event.round}, from {short(event.base)}", Tone.TITLE
        case PlanProposed():
            plan, who = event.plan, event.author.describe()
            return f"plan {event.proposal + 1} by {who}: {plan.title}", Tone.ACCENT
        case PlanningFinished(reason=reason) if reason:
            return f"no further plan: {reason}", Tone.PLAIN
        case DecisionTaken(decision=decision):
            text = f"{decision.gate.value} {decision.status.value} by {decision.by.describe()}"
            if decision.partial is not None:
                text += f", only hunks {', '.join(str(h + 1) for h in decision.partial)}"
            return text + (f": {decision.reason}" if decision.reason else ""), Tone.PLAIN
    return None


def _of_code(event: Event) -> _Said | None:
    match event:
        case CodeWritten():
            what = f": {event.summary}" if event.summary else ""
            return f"code {short(event.candidate)} by {event.author.describe()}{what}", Tone.PLAIN
        case CodeFailed():
            return f"no code: {event.reason}", Tone.BAD
        case CompileFinished(ok=True):
            return f"compiled {short(event.candidate)} in {event.seconds:.2f} s", Tone.PLAIN
        case CompileFinished():
            errors = [d for d in event.diagnostics if d.severity.value == "error"]
            first = f"line {errors[0].line}: {errors[0].message}" if errors else "no reason given"
            return f"{short(event.candidate)} does not compile: {first}", Tone.BAD
        case ExchangeMade():
            tokens = f"{event.input_tokens:,} tokens in, {event.output_tokens:,} out"
            text = f"{event.model} for {event.purpose}: {tokens}, {event.seconds:.1f} s"
            if event.error:
                return f"{text}; failed: {event.error}", Tone.BAD
            return text, Tone.DIM
    return None


def _of_checks(event: Event) -> _Said | None:
    match event:
        case CheckStarted():
            return f"checking {event.cases} cases of {short(event.candidate)}", Tone.PLAIN
        case CaseChecked(result=result) if not result.outcome.ok:
            return (
                f"{result.case.id} {case_words(result.outcome)}: {result.message}",
                Tone.BAD,
            )
        case CheckFinished():
            tone = Tone.GOOD if event.verdict is CheckVerdict.PASSED else Tone.BAD
            return f"check {event.verdict.value}: {event.message} ({event.seconds:.1f} s)", tone
        case Sanitized(reports=reports):
            tone = Tone.BAD if any(report.found for report in reports) else Tone.PLAIN
            words = "; ".join(sanitizer_words(reports))
            return f"compute-sanitizer on {short(event.candidate)}: {words}", tone
        case HardwareCountersRead(report=report):
            what = f"hardware counters of {short(event.candidate)}"
            return f"{what}: {report.outcome}", Tone.PLAIN if report.available else Tone.CAUTION
        case ProfileTaken():
            return f"profile of {short(event.candidate)} on {event.profile.device}", Tone.PLAIN
        case WorkloadTimed(timing=timing):
            text = f"{timing.workload} {timing.dtype.value}: {ratio_words(timing.cold.speedup)}"
            caveats = "".join(f"; {caveat.message}" for caveat in timing.caveats)
            return f"timed {text}, {timing.verdict.value}{caveats}", Tone.PLAIN
        case TimingFinished(timing=timing):
            what = (
                "the best candidate, measured again"
                if event.final
                else f"{short(timing.candidate)} timed"
            )
            ratio = f": {ratio_words(timing.speedup)}" if timing.speedup else ""
            return f"{what}{ratio}, {timing.verdict.value} ({timing.seconds:.1f} s)", Tone.PLAIN
        case ShippedTimed(shipped=shipped):
            return shipped.describe(), Tone.PLAIN
        case AnalysisGiven():
            return f"{event.role}: {event.text}", Tone.PLAIN
        case VerdictReached(verdict=verdict):
            reasons = "; ".join(verdict.reasons[:3])
            text = f"verdict {outcome_words(verdict.outcome)}: {reasons}"
            return text, OUTCOME_TONES[verdict.outcome]
        case BestChanged():
            return f"the best is now {short(event.candidate)}", Tone.GOOD
    return None


def _of_session(event: Event) -> _Said | None:
    match event:
        case SessionOpened():
            settings = event.settings
            who = f"{settings.team.value} {settings.model}".strip()
            text = f"session {event.session}: {settings.task}, {who}, {settings.device}"
            return text, Tone.TITLE
        case EngineStarted():
            return f"engine: process {event.pid} on {event.host}, {event.rounds} rounds", Tone.DIM
        case DeviceOpened():
            name = f": {event.gpu.name}" if event.gpu and event.gpu.name else ""
            return f"device {event.device}{name}", Tone.DIM
        case NoteAdded():
            return f"note from {event.by.describe()}: {event.text}", Tone.ACCENT
        case CaseAdded():
            return f"case added by {event.by.describe()}: {event.case.id}", Tone.PLAIN
        case AutoApprovalSet():
            words = AutoApproval(event.mode, event.left).describe() or "everything is asked"
            return f"{words}, set by {event.by.describe()}", Tone.CAUTION
        case Paused():
            dropped = "; the step was dropped and starts again" if event.interrupted else ""
            return f"paused by {event.by.describe()}{dropped}", Tone.CAUTION
        case Resumed():
            return f"continued by {event.by.describe()}", Tone.PLAIN
        case ErrorOccurred():
            return f"error in {event.where}: {event.message}", Tone.BAD
        case SessionClosed():
            return f"{event.reason.words} ({event.message})", Tone.TITLE
    return None
