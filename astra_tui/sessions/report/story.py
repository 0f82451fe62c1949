"""The rounds: what was planned and by whom, what was decided and why, and its result."""

from __future__ import annotations

from astra_tui.model.approval import ApprovalStatus, Decision, Question
from astra_tui.model.citations import CitationStatus, check_citations
from astra_tui.model.events import CodeWritten
from astra_tui.model.ledger import ledger, score
from astra_tui.model.plan import Observation
from astra_tui.model.state import CandidateState, RoundState
from astra_tui.sessions.report.document import (
    Badge,
    Block,
    Code,
    Details,
    Inline,
    Items,
    Line,
    Paragraph,
    Quote,
    Section,
    Strong,
    Table,
    Tone,
)
from astra_tui.sessions.report.facts import Facts, ReportedProposal
from astra_tui.sessions.report.numbers import count, decimal, pluralised, ratio
from astra_tui.sessions.report.plots.speedups import speedup_figure
from astra_tui.sessions.report.timings import round_timings, speedup_line
from astra_tui.sessions.report.tones import outcome_badge

_SHOWN_REASONS = 3

_DECIDED = {
    ApprovalStatus.ACCEPTED: Tone.GOOD,
    ApprovalStatus.EDITED: Tone.GOOD,
    ApprovalStatus.REJECTED: Tone.BAD,
    ApprovalStatus.CANCELLED: Tone.PLAIN,
    ApprovalStatus.PENDING: Tone.PLAIN,
}


def story_section(facts: Facts) -> Section:
    """An overview in a table and a plot, then a section for each round."""
    blocks: list[Block] = []
    if facts.reported:
        blocks.append(_overview(facts))
    figure = speedup_figure(facts)
    if figure is not None:
        blocks.append(figure)
    if facts.notes or facts.cases_added:
        blocks.append(_said(facts))
    blocks += [_round(facts, r) for r in facts.state.rounds]
    return Section("Rounds", "rounds", tuple(blocks))


def _overview(facts: Facts) -> Table:
    timed = bool(facts.timings)
    columns = ["round", "plan", "written by", "outcome"]
    columns += ["speedup (95 % interval)"] if timed else []
    rows = []
    for entry in facts.reported:
        verdict = entry.proposal.verdict
        comparison = verdict.comparison if verdict else None
        outcome: list[Inline] = [outcome_badge(entry.outcome)]
        outcome += [", the new best"] if entry.became_best else []
        cells: list[Line] = [
            (entry.label,), (entry.plan.title,),
            (facts.state.written_by(entry.round.number, entry.proposal.index),), tuple(outcome),
        ]  # fmt: skip
        if timed:
            cells.append(speedup_line(comparison.speedup if comparison else None))
        rows.append(tuple(cells))
    base = "the version it started from"
    return Table(f"All plans; every outcome is against {base}", tuple(columns), tuple(rows))


def _said(facts: Facts) -> Items:
    notes = [(n, f"note by {e.by.describe()}: {e.text}") for n, e in facts.notes]
    cases = [
        (n, f"case {e.case.id} added by {e.by.describe()}: {e.case.why}")
        for n, e in facts.cases_added
    ]
    ordered = sorted([*notes, *cases], key=lambda said: said[0])
    return Items(tuple((f"In round {number}: {text}",) for number, text in ordered))


def _round(facts: Facts, round_: RoundState) -> Section:
    reported = [t for t in facts.reported if t.round.number == round_.number]
    blocks: list[Block] = []
    if round_.number == 0:
        blocks += _baseline(facts)
    else:
        base: Line = ("From ", Code(round_.base[:12]))
        parent = f", the best of round {round_.parent}." if round_.parent else ", the baseline."
        blocks.append(Paragraph((*base, parent)))
    for entry in reported:
        blocks += _entry(facts, entry)
    if round_.no_plan:
        blocks.append(Paragraph((Strong("No further plan: "), round_.no_plan)))
    if round_.refused:
        refused = Items(tuple((text,) for text in round_.refused))
        title = f"Moves that do not apply ({len(round_.refused)})"
        blocks.append(Details(title, (refused,)))
    if not round_.closed:
        blocks.append(Paragraph(("The session ended before this round did.",)))
    return Section(_title(round_, reported), f"round-{round_.number}", tuple(blocks))


def _title(round_: RoundState, reported: list[ReportedProposal]) -> str:
    if round_.number == 0:
        return "Round 0: the baseline"
    plans = "; ".join(t.plan.title for t in reported) or "no plan"
    return f"Round {round_.number}: {plans}"


def _baseline(facts: Facts) -> list[Block]:
    check = facts.baseline.check
    verdict = f"Its check {check.verdict.value}: {check.message}" if check else "It was not checked"
    blocks: list[Block] = [Paragraph((Code(facts.baseline.hash[:12]), f" {verdict}."))]
    own = [t.timing for t in facts.baseline.timings if t.timing.base == facts.baseline.hash]
    return blocks + round_timings(facts, own)


def _entry(facts: Facts, entry: ReportedProposal) -> list[Block]:
    blocks: list[Block] = [_plan_head(entry), _plan_body(facts, entry)]
    if entry.decisions:
        blocks.append(Items(tuple(_decision(q, d) for q, d in entry.decisions)))
    blocks += _attempts(entry)
    blocks += _verdict(entry)
    prediction = _prediction(facts, entry)
    if prediction is not None:
        blocks.append(prediction)
    if entry.candidate is not None:
        for analysis in entry.candidate.analyses:
            words = f"{analysis.role} agent, {analysis.author.describe()}:"
            blocks += [Paragraph((words,)), Quote(analysis.text)]
        own = [t.timing for t in entry.candidate.timings if not t.final]
        blocks += round_timings(facts, own)
    return blocks


def _plan_head(entry: ReportedProposal) -> Paragraph:
    proposal, plan = entry.proposal, entry.plan
    words: list[Inline] = [Strong(f"Plan {entry.label}: "), plan.title]
    words.append(f", by {proposal.author.describe()}, {plan.risk.value} risk")
    if plan.move:
        words += [", move ", Code(plan.move)]
    if plan != proposal.plan:
        words.append(f". The engineer edited it; it was proposed as: {proposal.plan.title}")
    return Paragraph((*words, "."))


def _plan_body(facts: Facts, entry: ReportedProposal) -> Items:
    plan, base = entry.plan, facts.state.candidate(entry.round.base)
    lines: list[Line] = [(Strong("Bottleneck: "), plan.bottleneck)]
    lines += [_evidence(observation, base) for observation in plan.observations]
    lines.append((Strong("Change: "), plan.change))
    return Items(tuple(lines))


def _evidence(observation: Observation, base: CandidateState) -> Line:
    found = check_citations(observation, base)
    words: list[Inline] = [Strong("Evidence: "), observation.sentence]
    wrong = [
        reading.describe() for reading in found if reading.standing is not CitationStatus.AGREES
    ]
    if wrong:
        words += [" ", Badge("not as in the profile", Tone.UNSURE), f" {'; '.join(wrong)}"]
    elif found:
        words += [" ", Badge("as in the profile", Tone.GOOD)]
    return tuple(words)


def _decision(question: Question, decision: Decision) -> Line:
    words: list[Inline] = [f"{decision.gate.value.capitalize()} "]
    words.append(Badge(decision.status.value, _DECIDED[decision.status]))
    words.append(f" by {decision.by.describe()}")
    if decision.partial is not None:
        hunks = ", ".join(str(h + 1) for h in decision.partial)
        words.append(f", hunks {hunks} of {question.hunks} only")
    if decision.reason:
        words.append(f", because: {decision.reason}")
    return tuple(words)


def _attempts(entry: ReportedProposal) -> list[Block]:
    lines: list[Line] = []
    for attempt in entry.proposal.attempts:
        if isinstance(attempt, CodeWritten):
            new = attempt.summary and attempt.summary != entry.plan.change
            summary = f": {attempt.summary}" if new else ""
            head: Line = (Strong("Code: "), Code(attempt.candidate[:12]))
            lines.append((*head, f" by {attempt.author.describe()}{summary}"))
        else:
            lines.append((Strong("No code: "), attempt.reason))
    return [Items(tuple(lines))] if lines else []


def _verdict(entry: ReportedProposal) -> list[Block]:
    verdict = entry.proposal.verdict
    words: list[Inline] = [Strong("Verdict: "), outcome_badge(entry.outcome)]
    if entry.became_best:
        words.append(", the new best")
    if verdict is None:
        return [Paragraph(tuple(words))]
    shown, more = verdict.reasons[:_SHOWN_REASONS], verdict.reasons[_SHOWN_REASONS:]
    if shown:
        words.append(f": {'; '.join(shown)}.")
    blocks: list[Block] = [Paragraph(tuple(words))]
    if more:
        reasons = Items(tuple((text,) for text in more))
        blocks.append(Details(pluralised(len(more), "further reason"), (reasons,)))
    return blocks


def _prediction(facts: Facts, entry: ReportedProposal) -> Table | None:
    predicted = entry.plan.prediction
    verdict = entry.proposal.verdict
    comparison = verdict.comparison if verdict else None
    found = score(predicted, comparison) if comparison else None
    name = predicted.counter.value.replace("_", " ")
    direction = "" if found is None else "as predicted" if found.right_direction else "other way"
    rows: list[tuple[Line, ...]] = [
        (
            (f"{name}, new over old",),
            (ratio(predicted.counter_ratio),),
            (ratio(found.measured_ratio),) if found else ("not measured",),
            (direction,),
        )
    ]
    if facts.timings:
        speedup = comparison.speedup if comparison else None
        bounds = ratio(predicted.speedup_low), " to ", ratio(predicted.speedup_high)
        inside = speedup and predicted.speedup_low <= speedup.value <= predicted.speedup_high
        remark = "" if speedup is None else "within" if inside else "outside"
        measured = speedup_line(speedup) or ("not measured",)
        rows.append((("speedup",), bounds, measured, (remark,)))
    columns = ("what", "predicted", "measured", "direction or range")
    return Table(f"Prediction of round {entry.label}", columns, tuple(rows), frozenset({1, 2}))


def ledger_section(facts: Facts) -> Section:
    """How far the authors' predictions can be trusted."""
    rows = tuple(
        (
            (" ".join((entry.team, entry.model)).strip(),),
            (count(entry.plans),),
            (count(entry.measured),),
            (count(entry.right_direction),),
            (count(entry.better),),
            (decimal(entry.mean_log_error, 3),) if entry.mean_log_error is not None else ("",),
        )
        for entry in ledger(facts.state)
    )
    columns = ("author", "plans", "measured", "right direction", "better", "mean |ln error|")
    text = (
        "Each plan predicts how one counter changes. The error is the mean of |ln(measured over "
        "predicted)|: 0 is exact, 0.69 is off by a factor of two."
    )
    if not rows:
        return Section("Predictions", "ledger", (Paragraph(("No plan was proposed.",)),))
    table = Table("Predictions against measurements", columns, rows, frozenset(range(1, 6)))
    return Section("Predictions", "ledger", (Paragraph((text,)), table))
