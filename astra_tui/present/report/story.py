"""The rounds: what was planned and by whom, what was decided and why, and its result."""

from __future__ import annotations

from astra_tui.model.approval import Decision
from astra_tui.model.citations import CitationStatus, check_citations
from astra_tui.model.events import CodeWritten
from astra_tui.model.ledger import ledger, score
from astra_tui.model.plan import Observation
from astra_tui.model.state import CandidateState, RoundState
from astra_tui.present.document import (
    Badge,
    Block,
    Cell,
    Code,
    Details,
    Inline,
    Items,
    Line,
    Number,
    Paragraph,
    Quote,
    Section,
    Strong,
    Table,
    badge,
    number,
    speedup_line,
    table,
)
from astra_tui.present.numbers import change, decimal, pluralised, points, ratio, short
from astra_tui.present.report.facts import Facts, ReportedProposal
from astra_tui.present.report.plots import speedup_figure
from astra_tui.present.report.timings import round_timings
from astra_tui.present.tones import Tone
from astra_tui.present.words import (
    decision_words,
    plan_words,
    score_words,
    stands_on,
    where_measured,
)

_SHOWN_REASONS = 3


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
    rows: list[tuple[Cell, ...]] = []
    for entry in facts.reported:
        verdict = entry.proposal.verdict
        comparison = verdict.comparison if verdict else None
        outcome: list[Inline] = [badge(entry.told)]
        outcome += [where_measured(entry.round, verdict)]
        outcome += [", the new best"] if entry.became_best else []
        by = facts.state.written_by(entry.round.number, entry.proposal.index)
        found = speedup_line(comparison.speedup if comparison else None)
        rows.append((entry.label, entry.plan.title, by, tuple(outcome), *([found] * timed)))
    base = "the version it started from"
    return table(columns, rows, f"All plans; every outcome is against {base}")


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
        blocks.append(Paragraph((f"From {stands_on(round_)}.",)))
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
    blocks: list[Block] = [Paragraph((Code(short(facts.baseline.hash)), f" {verdict}."))]
    own = [t.timing for t in facts.baseline.timings if t.timing.base == facts.baseline.hash]
    return blocks + round_timings(facts, own)


def _entry(facts: Facts, entry: ReportedProposal) -> list[Block]:
    blocks: list[Block] = [_plan_head(entry), _plan_body(facts, entry)]
    if entry.decisions:
        blocks.append(Items(tuple(_decision(d) for _, d in entry.decisions)))
    blocks += _attempts(entry)
    blocks += _verdict(entry)
    blocks.append(_prediction(facts, entry))
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
    words.append(f", {plan_words(plan, proposal.author.describe())}")
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
        words += [" ", Badge("not as in the profile", Tone.CAUTION), f" {'; '.join(wrong)}"]
    elif found:
        words += [" ", Badge("as in the profile", Tone.GOOD)]
    return tuple(words)


def _decision(decision: Decision) -> Line:
    words = decision_words(decision)
    return (f"{words[0].upper()}{words[1:]}",)


def _attempts(entry: ReportedProposal) -> list[Block]:
    lines: list[Line] = []
    for attempt in entry.proposal.attempts:
        if isinstance(attempt, CodeWritten):
            new = attempt.summary and attempt.summary != entry.plan.change
            summary = f": {attempt.summary}" if new else ""
            head: Line = (Strong("Code: "), Code(short(attempt.candidate)))
            lines.append((*head, f" by {attempt.author.describe()}{summary}"))
        else:
            lines.append((Strong("No code: "), attempt.reason))
    return [Items(tuple(lines))] if lines else []


def _verdict(entry: ReportedProposal) -> list[Block]:
    verdict = entry.proposal.verdict
    words: list[Inline] = [Strong("Verdict: "), badge(entry.told)]
    words.append(", the new best" if entry.became_best else where_measured(entry.round, verdict))
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


def _prediction(facts: Facts, entry: ReportedProposal) -> Table:
    predicted = entry.plan.prediction
    verdict = entry.proposal.verdict
    comparison = verdict.comparison if verdict else None
    found = score(predicted, comparison) if comparison else None
    name = predicted.counter.value.replace("_", " ")
    told = badge(score_words(found)) if found else "not measured"
    less = Number(predicted.counter_ratio - 1, change(predicted.counter_ratio))
    rows: list[tuple[Cell, ...]] = [(name, less, told)]
    if facts.timings:
        speedup = comparison.speedup if comparison else None
        low, high = predicted.speedup or (None, None)
        bounds: Line = (number(low, ratio), " to ", number(high, ratio)) if low and high else ()
        rows.append(("speedup", bounds, speedup_line(speedup) or "not measured"))
    columns = ("what", "predicted", "measured")
    return table(columns, rows, f"Prediction of round {entry.label}")


def ledger_section(facts: Facts) -> Section:
    """How far the authors' predictions can be trusted."""
    rows: list[tuple[Cell, ...]] = []
    for entry in ledger(facts.state):
        author, error, log = f"{entry.team} {entry.model}".strip(), None, None
        if entry.mean_error is not None:
            error = Number(100 * entry.mean_error, points(entry.mean_error))
        if entry.mean_log_error is not None:
            log = number(entry.mean_log_error, decimal, 3)
        rows.append((author, entry.plans, entry.measured, entry.better, error, log))
    columns = ("author", "plans", "measured", "better", "mean error", "mean |ln error|")
    text = (
        "Each plan predicts how one counter changes. The mean error is in percentage points; of "
        "|ln(measured over predicted)|, 0 is exact and 0.69 is off by a factor of two."
    )
    if not rows:
        return Section("Predictions", "ledger", (Paragraph(("No plan was proposed.",)),))
    predictions = table(columns, rows, "Predictions against measurements")
    return Section("Predictions", "ledger", (Paragraph((text,)), predictions))
