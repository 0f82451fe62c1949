"""Every event in one sentence, for the log on the screen, for lines, and for replays."""

from __future__ import annotations

from astra_tui.model import events
from astra_tui.model.approval import AutoApproval
from astra_tui.model.compilation import Severity
from astra_tui.model.constraints import broken
from astra_tui.model.digest import short
from astra_tui.model.findings import sanitizer_words
from astra_tui.present import words as say
from astra_tui.present.numbers import count, pluralised, seconds, speedup, times
from astra_tui.present.tones import Phrase, Tone, tone_of, words_of


def describe(event: events.Event) -> Phrase | None:
    """An event in one sentence; None for those that no reader of a log misses."""
    return _of_plans(event) or _of_code(event) or _of_checks(event) or _of_session(event)


def _of_plans(event: events.Event) -> Phrase | None:
    match event:
        case events.RoundOpened(round=0):
            return Phrase(f"round 0: the baseline {short(event.base)}", Tone.TITLE)
        case events.RoundOpened():
            return Phrase(f"round {event.round}, from {say.stands_on(event)}", Tone.TITLE)
        case events.MemoryRecalled(known=known, predictions=predictions) if known or predictions:
            plans = f"{pluralised(len(known), 'plan')} of earlier sessions, such as"
            told = [f"{plans} {one.describe()}" for one in known[:1]]
            told += [f"the team's predictions so far: {predictions}"] * bool(predictions)
            return Phrase(f"memory: {'; '.join(told)}", Tone.DIM)
        case events.PlanProposed():
            who = say.plan_words(event.plan, event.author.describe())
            return Phrase(f"plan {event.proposal + 1}: {event.plan.title} (by {who})", Tone.ACCENT)
        case events.PlanningFinished(reason=reason) if reason:
            return Phrase(f"no further plan: {reason}")
        case events.DecisionTaken():
            return Phrase(say.decision_words(event.decision))
        case events.RejectionTakenBack():
            return Phrase(f"rejection taken back by {event.by.describe()}")
        case events.VerdictReached(verdict=verdict):
            words = f"verdict {words_of(verdict.outcome)}: {'; '.join(verdict.reasons[:3])}"
            timed = verdict.comparison is not None and verdict.comparison.speedup is not None
            tone = tone_of(verdict.outcome)  # Whether a workload lost, its timing has said.
            return Phrase(words, Tone.PLAIN if timed and tone is Tone.GOOD else tone)
        case events.BestChanged():
            return Phrase(f"the best is now {short(event.candidate)}", Tone.ACCENT)
        case events.AnalysisGiven():
            chosen = say.selection_words(event.selection)
            return Phrase("; ".join([f"{event.role}: {event.text}", *chosen]))
    return None


def _of_code(event: events.Event) -> Phrase | None:
    match event:
        case events.CodeWritten():
            what = f": {event.summary}" if event.summary else ""
            return Phrase(f"code {short(event.candidate)} by {event.author.describe()}{what}")
        case events.DiffReviewed(rulings=rulings):
            told = say.review_words(rulings)
            lines = "".join(f"; {say.ruling_words(r).text}" for r in broken(rulings))
            return Phrase(f"{short(event.candidate)}, {told.text}{lines}", told.tone)
        case events.CodeFailed():
            return Phrase(f"no code: {event.reason}", Tone.BAD)
        case events.CopyFound():
            same = f"runs the code of {short(event.original)}, whose results it shares"
            return Phrase(f"{short(event.candidate)} {same}", Tone.CAUTION)
        case events.CompileFinished(ok=True):
            return Phrase(f"compiled {short(event.candidate)} in {seconds(event.seconds)}")
        case events.CompileFinished():
            errors = [d for d in event.diagnostics if d.severity is Severity.ERROR]
            first = f"line {errors[0].line}: {errors[0].message}" if errors else "no reason given"
            return Phrase(f"{short(event.candidate)} does not compile: {first}", Tone.BAD)
        case events.ExchangeMade():
            tokens = f"{count(event.input_tokens)} tokens in, {count(event.output_tokens)} out"
            failed = f"; failed: {event.error}" if event.error else ""
            text = f"{event.model} for {event.purpose}: {tokens}, {seconds(event.seconds)}{failed}"
            return Phrase(text, Tone.BAD if failed else Tone.DIM)
        case events.ToolUsed():
            what = event.tool if event.subject in event.summary else f"{event.tool} {event.subject}"
            told_of = event.summary + (f"; {event.cut}" if event.cut else "")
            text = f"{event.role.value} agent: {what}: {told_of} ({seconds(event.seconds)})"
            return Phrase(text, Tone.CAUTION if event.cut else Tone.DIM)
    return None


def _of_checks(event: events.Event) -> Phrase | None:
    match event:
        case events.CheckStarted():
            return Phrase(f"checking {event.cases} cases of {short(event.candidate)}")
        case events.CaseChecked(result=result) if not result.outcome.ok:
            words = f"{result.case.id} {words_of(result.outcome)}: {result.message}"
            return Phrase(words, tone_of(result.outcome))
        case events.CheckFinished():
            words = f"check {words_of(event.verdict)}: {event.message} ({seconds(event.seconds)})"
            return Phrase(words, tone_of(event.verdict))
        case events.Sanitized(reports=reports):
            tone = Tone.BAD if any(report.found for report in reports) else Tone.PLAIN
            words = "; ".join(sanitizer_words(reports))
            return Phrase(f"compute-sanitizer on {short(event.candidate)}: {words}", tone)
        case events.HardwareCountersRead(report=report):
            words = f"hardware counters of {short(event.candidate)}: {report.outcome}"
            return Phrase(words, Tone.PLAIN if report.available else Tone.CAUTION)
        case events.ProfileTaken():
            return Phrase(f"profile of {short(event.candidate)} on {event.profile.device}")
    return _of_timing(event)


def _of_timing(event: events.Event) -> Phrase | None:
    match event:
        case events.RoundsTimed():
            found = f"{speedup(event.speedup)} after {event.rounds} rounds"
            took = times(event.base_us, event.candidate_us)
            return Phrase(f"{event.workload}: {found}, {took}", Tone.DIM)
        case events.WorkloadTimed(timing=timing):
            return Phrase(say.workload_words(timing), tone_of(timing.verdict))
        case events.TimingFinished(timing=timing):
            what = "the best, re-measured" if event.final else f"{short(timing.candidate)} timed"
            told = say.timing_words(timing)
            why = f": {timing.reasons[0]}" if timing.reasons else ""
            words = f"{what} against {short(timing.base)}: {told.text}{why}"
            return Phrase(f"{words} ({seconds(timing.seconds)})", told.tone)
        case events.KindTimed(timing=timing, problem=problem):
            told = say.timing_words(timing) if timing else Phrase(problem, Tone.CAUTION)
            against = f", against {short(event.base)}" if timing else ""
            where = f"{short(event.candidate)} on {event.kind}{against}"
            return Phrase(f"{where}: {told.text}", told.tone)
        case events.KindWinnerChosen():
            return Phrase(f"winner on {event.kind}: {short(event.candidate)}: {event.reason}")
        case events.SweepAdvanced():
            return Phrase(f"sweep of {short(event.candidate)}: {event.progress}", Tone.DIM)
        case events.SweepFinished(swept=swept):
            return Phrase(f"sweep of {short(event.candidate)}: {say.sweep_words(swept)}")
        case events.ShippedTimed(shipped=shipped):
            told = say.shipped_words(shipped)
            return Phrase(f"{short(event.candidate)} {told.text}", told.tone)
    return None


def _of_session(event: events.Event) -> Phrase | None:
    match event:
        case events.SessionOpened(settings=settings):
            who = f"{settings.task}, {say.team_words(settings)}, {settings.device}"
            return Phrase(f"session {event.session}: {who}", Tone.TITLE)
        case events.EngineStarted():
            words = f"engine: process {event.pid} on {event.host}, {event.rounds} rounds"
            return Phrase(words, Tone.DIM)
        case events.DeviceOpened():
            return Phrase(f"device {say.device_words(event.device, event.gpu)}", Tone.DIM)
        case events.ParentChosen():
            words = f"the next round stands on {short(event.candidate)}, says {event.by.describe()}"
            return Phrase(words, Tone.ACCENT)
        case events.NoteAdded():
            return Phrase(f"note from {event.by.describe()}: {event.text}", Tone.ACCENT)
        case events.CaseAdded():
            return Phrase(f"case added by {event.by.describe()}: {event.case.id}")
        case events.AutoApprovalSet():
            words = AutoApproval(event.mode, event.left).describe() or "everything is asked"
            return Phrase(f"{words}, set by {event.by.describe()}", Tone.CAUTION)
        case events.Paused():
            dropped = "; the step was dropped and starts again" if event.interrupted else ""
            return Phrase(f"paused by {event.by.describe()}{dropped}", Tone.CAUTION)
        case events.Resumed():
            return Phrase(f"continued by {event.by.describe()}")
        case events.ErrorOccurred():
            return Phrase(f"error in {event.where}: {event.message}", Tone.BAD)
        case events.SessionClosed():
            return Phrase(say.closed_words(event), Tone.TITLE)
    return None
