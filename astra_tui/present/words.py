"""What is known of a session in words: how good its best is, verdicts, decisions, predictions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from astra_tui.model.approval import Decision, Question
from astra_tui.model.constraints import Compliance, Judge, Origin, Ruling
from astra_tui.model.digest import short
from astra_tui.model.events import ParentChoice, RoundOpened, SessionClosed, StopReason
from astra_tui.model.gpu import GpuIdentity
from astra_tui.model.ledger import Score
from astra_tui.model.plan import Plan, Prediction, Selection, places_words
from astra_tui.model.settings import RunSettings, SearchKind
from astra_tui.model.state import RoundState, SessionState
from astra_tui.model.timing import Timing, TimingVerdict, WorkloadTiming
from astra_tui.model.tuning import SweptCandidate
from astra_tui.model.verdict import Comparison, Outcome, RoundVerdict, first_moved
from astra_tui.model.yardsticks import ShippedTimes
from astra_tui.present import numbers
from astra_tui.present.tones import Phrase, Tone, phrase_of, words_of
from astra_tui.sessions.summary import BASELINE, told_timing

STAGES = {
    "plan": "planning",
    "code": "writing code",
    "compile": "compiling",
    "check": "checking",
    "sanitize": "running compute-sanitizer",
    "profile": "profiling",
    "time": "timing",
    "sweep": "sweeping",
    "hardware": "reading hardware counters",
}
"""What runs in a stage, by its name in StageBegan."""


# -- times -----------------------------------------------------------------------------------------


def timing_verdict(timing: Timing) -> Phrase:
    """As in "faster", or "inconclusive, 2 of 7 slower": never good news where a workload lost."""
    slower = sum(w.verdict is TimingVerdict.SLOWER for w in timing.workloads)
    return _with_losers(timing.verdict, slower, len(timing.workloads))


def timing_words(timing: Timing) -> Phrase:
    """As in "1.234x [1.230, 1.238], faster"."""
    verdict = timing_verdict(timing)
    return Phrase(f"{numbers.speedup(timing.speedup)}, {verdict.text}", verdict.tone)


def shipped_verdict(shipped: ShippedTimes) -> Phrase:
    """The same against the fastest shipped kernel of each shape."""
    if shipped.verdict is None or shipped.times is None:
        return Phrase("not compared, since not all that serve could be timed", Tone.CAUTION)
    return _with_losers(shipped.verdict, shipped.slower, len(shipped.times.shapes))


def shipped_words(shipped: ShippedTimes) -> Phrase:
    """As in "against the fastest shipped kernels: 1.060x [1.050, 1.070], faster"."""
    verdict = shipped_verdict(shipped)
    mean = f"{numbers.speedup(shipped.speedup)}, " if shipped.speedup else ""
    return Phrase(f"against the fastest shipped kernels: {mean}{verdict.text}", verdict.tone)


def _with_losers(verdict: TimingVerdict, slower: int, workloads: int) -> Phrase:
    if not slower or verdict is TimingVerdict.SLOWER:
        return phrase_of(verdict)
    return Phrase(f"{words_of(verdict)}, {slower} of {workloads} slower", Tone.CAUTION)


def workload_words(timing: WorkloadTiming) -> str:
    """One workload on one line: the pair that decides, its verdict, the floor, every caveat."""
    cold = timing.cold
    found = f"{numbers.speedup(cold.speedup)} {words_of(timing.verdict)}"
    took = numbers.times(cold.base_us, cold.candidate_us)
    text = f"{timing.workload} {timing.dtype.value}: {found}, {took}"
    if timing.of_floor is not None:
        text += f", {numbers.percent(timing.of_floor)} of the floor"
    for caveat in timing.caveats:
        text += f"; {caveat.message}" + (" (it decides nothing)" if caveat.invalidates else "")
    return text


# -- the best --------------------------------------------------------------------------------------


NOTHING_BETTER = Phrase("", Tone.DIM)
"""Of a session whose best is its baseline."""


def best_of(state: SessionState, *, is_brief: bool = False) -> Phrase:
    """How good the best is: measured again against the fastest shipped kernels, else against
    tuned.cu, else against baseline.cu; before that by the timing that made it the best; without
    times by its counters. What speaks against it is said too. Empty where nothing is better.
    """
    opened = state.opened
    if opened is None or not state.has_better:
        return NOTHING_BETTER
    shipped = state.candidate(state.best).shipped
    if shipped is not None and shipped.speedup is not None:
        other, verdict = "fastest shipped", shipped_verdict(shipped)
        return _judged(shipped.speedup.value, other, verdict, is_brief=is_brief)
    if (told := told_timing(state)) is not None:
        other, timing = told
        return _judged(timing.speedup.value, other, timing_verdict(timing), is_brief=is_brief)
    before, now = (state.candidate(h).profile for h in (opened.baseline, state.best))
    if before is None or now is None:
        return NOTHING_BETTER
    moved = first_moved(before.ranking_key(), now.ranking_key())
    if moved is None:
        return NOTHING_BETTER
    name, ratio = moved
    share = numbers.percent(abs(1 - ratio), 1)
    return Phrase(f"{share} {'fewer' if ratio < 1 else 'more'} {name}", Tone.GOOD)


def closed_words(closed: SessionClosed) -> str:
    """Why a run ended, as in "finished: 4 of 4 rounds are done"."""
    is_done = closed.reason is StopReason.ROUNDS
    return f"finished: {closed.message}" if is_done else f"{closed.reason.words} ({closed.message})"


PORTFOLIO = (
    "Each kind of GPU has a winner of its own: times of GPUs of different kinds are not compared, "
    "and no mean is taken over them."
)


def kind_winner(state: SessionState, kind: str) -> Phrase:
    """How good the winner on GPUs of another kind is; nothing before it was chosen."""
    known, opened = state.kinds[kind], state.opened
    if not known.winner or opened is None:
        return NOTHING_BETTER
    timing = known.timing(known.winner, opened.baseline, final=True)
    if known.winner == opened.baseline or timing is None:
        return Phrase("nothing is better than the baseline", Tone.CAUTION)
    return _judged(timing.speedup.value, BASELINE, timing_verdict(timing), is_brief=False)


def _judged(speedup: float, other: str, verdict: Phrase, *, is_brief: bool) -> Phrase:
    """A speedup with what speaks against it; good news needs none. Briefly, the doubt comes before
    what it was measured against, since that must not be cut off.
    """
    words = f"{numbers.ratio(speedup)} vs {other}"
    if verdict.tone is Tone.GOOD:
        return Phrase(words, Tone.GOOD)
    doubt = verdict.text.removeprefix("faster, ")
    if is_brief:
        words, doubt = numbers.ratio(speedup), doubt.removeprefix("inconclusive, ")
        return Phrase(f"{words}, {doubt}", verdict.tone)
    return Phrase(f"{words} ({doubt})", verdict.tone)


# -- rounds ----------------------------------------------------------------------------------------


def round_verdict(state: SessionState, verdict: RoundVerdict | None) -> Phrase:
    """An outcome as in "better", which is in doubt where its timing has a workload that lost."""
    if verdict is None:
        return Phrase("not judged")
    timing = state.candidate(verdict.candidate).timing(verdict.base) if verdict.candidate else None
    if timing is None or verdict.outcome is not Outcome.BETTER:
        return phrase_of(verdict.outcome)
    told = timing_verdict(timing)
    return Phrase(told.text.replace("faster", "better", 1), told.tone)


def where_measured(round_: RoundState, verdict: RoundVerdict | None = None) -> str:
    """What stands after a result: " on cuda:0" where a branch has it from another kind of device,
    and that what is better than its base is not better than the best.
    """
    device = f" on {round_.elsewhere}" if round_.elsewhere else ""
    won = verdict is not None and bool(round_.winner) and verdict.candidate == round_.winner
    is_apart = round_.why is not ParentChoice.BEST and round_.closed and not round_.best
    return f"{device}, but not the best" if won and is_apart else device


def stands_on(round_: RoundState | RoundOpened) -> str:
    """The candidate on which a round stands, and why where it need not be the best."""
    where = f"{short(round_.base)} of round {round_.parent}" if round_.parent else "the baseline"
    if round_.why is ParentChoice.MERGE:
        other = short(round_.other)
        if isinstance(round_, RoundOpened) or not round_.proposals:
            return f"{where}, to be merged with {other} if their changes fit"
        merged = "merged" if any(p.merges for p in round_.proposals) else "not merged"
        return f"{where}, {merged} with {other}"
    if round_.why is ParentChoice.CHOSEN:
        return f"{where}, chosen by the engineer"
    restarted = ", restarted" if round_.why is ParentChoice.RESTART else ""
    drawn = f", drawn from {round_.among} candidates" if round_.among > 1 else ""
    return f"{where}{restarted}{drawn}"


WHY = {
    ParentChoice.BEST: "",
    ParentChoice.LINE: "",
    ParentChoice.DRAWN: ", drawn",
    ParentChoice.RESTART: ", restarted",
    ParentChoice.MERGE: ", merging",
    ParentChoice.CHOSEN: ", chosen",
}
"""Why a round stands on what it stands on, in a few characters."""


def team_words(settings: RunSettings) -> str:
    """Who works, and how it searches where that is not the usual way."""
    who = f"{settings.team.value} {settings.model}".strip()
    is_usual = settings.search is SearchKind.GREEDY
    return who if is_usual else f"{who}, search {settings.search.value}"


def sweep_words(swept: SweptCandidate) -> str:
    """What the sweep of a candidate found, as in "6 of 8 trials timed, threads = 256"."""
    on = f" on {len(swept.gpus)} GPUs" if len(swept.gpus) > 1 else ""
    of = f"{swept.timed} of {swept.trials} trials timed{on}, " if swept.trials else ""
    return of + swept.summary


def comparison_words(comparison: Comparison) -> str:
    """What decided a comparison, in a few characters: times, or the first counter that moved."""
    if comparison.speedup is not None:
        return numbers.speedup(comparison.speedup)
    moved = first_moved(comparison.base_key, comparison.candidate_key)
    if moved is None:
        return "no counter moved"
    name, ratio = moved
    return f"{name.replace('warp instructions', 'instr.')} {numbers.change(ratio)}"


def plan_words(plan: Plan, author: str) -> str:
    """As in "playbook fast_math, move fast_math, low risk"."""
    move = f", move {plan.move}" if plan.move and plan.move not in author else ""
    return f"{author}{move}, {plan.risk.value} risk"


def decision_words(decision: Decision) -> str:
    """As in "diff accepted by engineer mia, hunks 1, 3 only: the second is unsafe"."""
    text = f"{decision.gate.value} {decision.status.value} by {decision.by.describe()}"
    if decision.partial is not None:
        text += f", {decision.describe_partial()}"
    return text + (f": {decision.reason}" if decision.reason else "")


_RULED = {
    Compliance.BROKEN: ("breaks", "broken", Tone.BAD),
    Compliance.UNDECIDED: ("not decided:", "not decided", Tone.CAUTION),
    Compliance.KEPT: ("keeps", "kept", Tone.DIM),
}
"""What begins a ruling, and what counts such: the worst first."""


def ruling_words(ruling: Ruling) -> Phrase:
    """As in 'breaks "no shuffles" (by rule, line 7): the compiled code has shfl.sync.bfly.b32'."""
    what, _, tone = _RULED[ruling.compliance]
    is_plan = ruling.constraint.origin is Origin.PLAN
    quoted = "the plan" if is_plan else f'"{" ".join(ruling.text.split())}"'
    by = "no rule reads it" if ruling.judge is None else f"by {ruling.judge.value}"
    by = "as a model reads it" if ruling.judge is Judge.MODEL else by
    line = f", line {ruling.line}" if ruling.line else ""
    why = f": {ruling.why}" if ruling.why else ""
    return Phrase(f"{what} {quoted} ({by}{line}){why}", tone)


def selection_words(selection: Selection | None) -> tuple[str, ...]:
    """What the profiling agent chose, as in "decided by 16x4096"."""
    if selection is None:
        return ()
    return (
        *([f"decided by {selection.workload}"] if selection.workload else []),
        *([f"caused by {places_words(selection.places)}"] if selection.places else []),
        *(f"rests on: {one.describe()}" for one in selection.measured),
    )


def review_words(rulings: Sequence[Ruling]) -> Phrase:
    """As in "of what you said: 1 broken, 2 kept"; empty where there is nothing to say."""
    found = Counter(ruling.compliance for ruling in rulings)
    seen = [each for each in _RULED if found[each]]
    told = ", ".join(f"{found[each]} {_RULED[each][1]}" for each in seen)
    return Phrase(f"of what was said: {told}", _RULED[seen[0]][2]) if seen else Phrase("")


def question_words(state: SessionState, question: Question) -> str:
    """As in "plan of round 2: Give each row a block"."""
    plan = state.plan_of(question.round, question.proposal)
    return f"{question.gate.value} of round {question.round}: {plan.title}"


def prediction_words(prediction: Prediction) -> str:
    """The counter that a plan expects to change, as in "requests -87.5 %"."""
    name = prediction.counter.value.replace("_", " ")
    return f"{name} {numbers.change(prediction.counter_ratio)}"


def speedup_prediction(prediction: Prediction) -> str:
    """The speedup that a plan expects, as in "1.200x to 3.000x"."""
    bounds = prediction.speedup
    return " to ".join(map(numbers.ratio, bounds)) if bounds else "none"


def score_words(score: Score) -> Phrase:
    """How far a prediction was off, as in "-87.5 %, off by 7.5 points"."""
    error = score.error
    tone = Tone.GOOD if error <= _CLOSE else Tone.PLAIN if error <= _FAR else Tone.CAUTION
    words = f"{numbers.change(score.measured_ratio)}, off by {numbers.points(error)}"
    return Phrase(words, tone)


_CLOSE, _FAR = 0.01, 0.1
"""Differences of ratios up to which a prediction is called good, and from which one is not."""


def device_words(device: str, gpu: GpuIdentity | None) -> str:
    """A device with what identifies it, on one line."""
    if gpu is None:
        return device
    clock = f", SM clock up to {numbers.count(gpu.max_sm_mhz)} MHz" if gpu.max_sm_mhz else ""
    name, driver = gpu.name or "a GPU of unknown name", gpu.driver or "unknown"
    return f"{device}, {name}, driver {driver}{clock}"
