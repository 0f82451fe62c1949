"""The rounds: what was planned and by whom, what was decided and why, and its result."""

from __future__ import annotations

from astra_tui.model import events
from astra_tui.model.approval import Decision
from astra_tui.model.citations import CitationStatus, check_citations
from astra_tui.model.errors import UserError
from astra_tui.model.ledger import ledger, score
from astra_tui.model.plan import Observation
from astra_tui.model.state import CandidateState, RoundState
from astra_tui.present import document as doc
from astra_tui.present.document import number
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
from astra_tui.sessions.folder import read_blob

_SHOWN_REASONS = 3


def story_section(facts: Facts) -> doc.Section:
    """An overview in a table and a plot, then a section for each round."""
    blocks: list[doc.Block] = []
    if facts.reported:
        blocks.append(_overview(facts))
    figure = speedup_figure(facts)
    if figure is not None:
        blocks.append(figure)
    blocks += _said(facts)
    blocks += [_round(facts, r) for r in facts.state.rounds]
    return doc.Section("Rounds", "rounds", tuple(blocks))


def _overview(facts: Facts) -> doc.Table:
    timed = bool(facts.timings)
    columns = ["round", "plan", "written by", "outcome"]
    columns += ["speedup (95 % interval)"] if timed else []
    rows: list[tuple[doc.Cell, ...]] = []
    for entry in facts.reported:
        verdict = entry.proposal.verdict
        comparison = verdict.comparison if verdict else None
        outcome: list[doc.Inline] = [doc.badge(entry.told)]
        outcome += [where_measured(entry.round, verdict)]
        outcome += [", the new best"] if entry.became_best else []
        by = facts.state.written_by(entry.round.number, entry.proposal.index)
        found = doc.speedup_line(comparison.speedup if comparison else None)
        rows.append((entry.label, entry.plan.title, by, tuple(outcome), *([found] * timed)))
    base = "the version it started from"
    return doc.table(columns, rows, f"All plans; every outcome is against {base}")


def _said(facts: Facts) -> list[doc.Block]:
    """Notes and cases that were added, each with the round in which it came."""
    lines, number = [], 0
    for event in facts.session.contents.events:
        match event:
            case events.RoundOpened():
                number = event.round
            case events.NoteAdded():
                lines.append(f"In round {number}: note by {event.by.describe()}: {event.text}")
            case events.CaseAdded(case=case):
                by = event.by.describe()
                lines.append(f"In round {number}: case {case.id} added by {by}: {case.why}")
    return doc.items(*lines)


def _round(facts: Facts, round_: RoundState) -> doc.Section:
    reported = [t for t in facts.reported if t.round.number == round_.number]
    blocks: list[doc.Block] = []
    if round_.number == 0:
        blocks += _baseline(facts)
    else:
        blocks += doc.paragraphs(f"From {stands_on(round_)}.")
    for entry in reported:
        blocks += _entry(facts, entry)
    if round_.no_plan:
        blocks.append(doc.Paragraph((doc.Strong("No further plan: "), round_.no_plan)))
    if round_.refused:
        title = f"Moves that do not apply ({len(round_.refused)})"
        blocks.append(doc.Details(title, tuple(doc.items(*round_.refused))))
    if not round_.closed:
        blocks.append(doc.Paragraph(("The session ended before this round did.",)))
    return doc.Section(_title(round_, reported), f"round-{round_.number}", tuple(blocks))


def _title(round_: RoundState, reported: list[ReportedProposal]) -> str:
    if round_.number == 0:
        return "Round 0: the baseline"
    plans = "; ".join(t.plan.title for t in reported) or "no plan"
    return f"Round {round_.number}: {plans}"


def _baseline(facts: Facts) -> list[doc.Block]:
    check = facts.baseline.check
    verdict = f"Its check {check.verdict.value}: {check.message}" if check else "It was not checked"
    told = doc.paragraphs((doc.Code(short(facts.baseline.hash)), f" {verdict}."))
    own = [t.timing for t in facts.baseline.timings if t.timing.base == facts.baseline.hash]
    return [*told, *round_timings(facts, own)]


def _entry(facts: Facts, entry: ReportedProposal) -> list[doc.Block]:
    blocks: list[doc.Block] = [_plan_head(entry), _plan_body(facts, entry)]
    blocks += doc.items(*map(_decision, entry.decisions))
    blocks += _attempts(entry)
    blocks += _verdict(entry)
    blocks.append(_prediction(facts, entry))
    if entry.candidate is not None:
        for analysis in entry.candidate.analyses:
            words = f"{analysis.role} agent, {analysis.author.describe()}:"
            blocks += [doc.Paragraph((words,)), doc.Quote(analysis.text)]
        own = [t.timing for t in entry.candidate.timings if not t.final]
        blocks += round_timings(facts, own)
    return blocks


def _plan_head(entry: ReportedProposal) -> doc.Paragraph:
    proposal, plan = entry.proposal, entry.plan
    words: list[doc.Inline] = [doc.Strong(f"Plan {entry.label}: "), plan.title]
    words.append(f", {plan_words(plan, proposal.author.describe())}")
    if plan != proposal.plan:
        words.append(f". The engineer edited it; it was proposed as: {proposal.plan.title}")
    return doc.Paragraph((*words, "."))


def _plan_body(facts: Facts, entry: ReportedProposal) -> doc.Items:
    plan, base = entry.plan, facts.state.candidate(entry.round.base)
    lines: list[doc.Line] = [(doc.Strong("Bottleneck: "), plan.bottleneck)]
    lines += [_evidence(observation, base) for observation in plan.observations]
    lines.append((doc.Strong("Change: "), plan.change))
    return doc.Items(tuple(lines))


def _evidence(observation: Observation, base: CandidateState) -> doc.Line:
    found = check_citations(observation, base)
    words: list[doc.Inline] = [doc.Strong("Evidence: "), observation.sentence]
    wrong = [
        reading.describe() for reading in found if reading.standing is not CitationStatus.AGREES
    ]
    if wrong:
        words += [" ", doc.Badge("not as in the profile", Tone.CAUTION), f" {'; '.join(wrong)}"]
    elif found:
        words += [" ", doc.Badge("as in the profile", Tone.GOOD)]
    return tuple(words)


def _decision(decision: Decision) -> doc.Line:
    words = decision_words(decision)
    return (f"{words[0].upper()}{words[1:]}",)


def _attempts(entry: ReportedProposal) -> list[doc.Block]:
    lines: list[doc.Line] = []
    for attempt in entry.proposal.attempts:
        if isinstance(attempt, events.CodeWritten):
            new = attempt.summary and attempt.summary != entry.plan.change
            summary = f": {attempt.summary}" if new else ""
            head: doc.Line = (doc.Strong("Code: "), doc.Code(short(attempt.candidate)))
            lines.append((*head, f" by {attempt.author.describe()}{summary}"))
        else:
            lines.append((doc.Strong("No code: "), attempt.reason))
    return doc.items(*lines)


def _verdict(entry: ReportedProposal) -> list[doc.Block]:
    verdict = entry.proposal.verdict
    words: list[doc.Inline] = [doc.Strong("Verdict: "), doc.badge(entry.told)]
    words.append(", the new best" if entry.became_best else where_measured(entry.round, verdict))
    if verdict is None:
        return [doc.Paragraph(tuple(words))]
    shown, more = verdict.reasons[:_SHOWN_REASONS], verdict.reasons[_SHOWN_REASONS:]
    if shown:
        words.append(f": {'; '.join(shown)}.")
    blocks: list[doc.Block] = [doc.Paragraph(tuple(words))]
    if more:
        told = pluralised(len(more), "further reason")
        blocks.append(doc.Details(told, tuple(doc.items(*more))))
    return blocks


def _prediction(facts: Facts, entry: ReportedProposal) -> doc.Table:
    predicted = entry.plan.prediction
    verdict = entry.proposal.verdict
    comparison = verdict.comparison if verdict else None
    found = score(predicted, comparison) if comparison else None
    name = predicted.counter.value.replace("_", " ")
    told = doc.badge(score_words(found)) if found else "not measured"
    less = doc.Number(predicted.counter_ratio - 1, change(predicted.counter_ratio))
    rows: list[tuple[doc.Cell, ...]] = [(name, less, told)]
    if facts.timings:
        speedup = comparison.speedup if comparison else None
        low, high = predicted.speedup or (None, None)
        bounds: doc.Line = (number(low, ratio), " to ", number(high, ratio)) if low and high else ()
        rows.append(("speedup", bounds, doc.speedup_line(speedup) or "not measured"))
    columns = ("what", "predicted", "measured")
    return doc.table(columns, rows, f"Prediction of round {entry.label}")


def ledger_section(facts: Facts) -> doc.Section:
    """How far the authors' predictions can be trusted."""
    rows: list[tuple[doc.Cell, ...]] = []
    for entry in ledger(facts.state):
        author, error, log = f"{entry.team} {entry.model}".strip(), None, None
        if entry.mean_error is not None:
            error = doc.Number(100 * entry.mean_error, points(entry.mean_error))
        if entry.mean_log_error is not None:
            log = number(entry.mean_log_error, decimal, 3)
        rows.append((author, entry.plans, entry.measured, entry.better, error, log))
    columns = ("author", "plans", "measured", "better", "mean error", "mean |ln error|")
    text = (
        "Each plan predicts how one counter changes. The mean error is in percentage points; of "
        "|ln(measured over predicted)|, 0 is exact and 0.69 is off by a factor of two."
    )
    if not rows:
        return doc.Section("Predictions", "ledger", (doc.Paragraph(("No plan was proposed.",)),))
    predictions = doc.table(columns, rows, "Predictions against measurements")
    return doc.Section("Predictions", "ledger", (doc.Paragraph((text,)), predictions))


LONGEST_SOURCE = 200_000
"""Longer sources, in characters, are not shown; kernels of our tasks have some 5,000."""


def sources_section(facts: Facts) -> doc.Section:
    """The diff from the baseline to the best, each accepted step, and both sources."""
    first, last = facts.baseline.hash, facts.best.hash
    if not facts.state.has_better:
        blocks: tuple[doc.Block, ...] = (
            doc.Paragraph(("The best is the baseline: nothing changed.",)),
        )
        return doc.Section("Sources", "sources", (*blocks, _whole(facts, "baseline", first)))
    steps = [t for t in facts.reported if t.became_best and t.proposal.verdict]
    names = [(f"Round {t.label}: {t.plan.title}", t.round.base, t.round.best) for t in steps]
    shown: list[doc.Block] = [doc.Paragraph(("From the baseline to the best:",))]
    shown.append(_change(facts, first, last))
    if names and len(names) > 1:
        shown.append(doc.Paragraph(("The accepted steps, each from the version before it:",)))
        shown += [doc.Details(title, (_change(facts, old, new),)) for title, old, new in names]
    shown += [_whole(facts, "best", last), _whole(facts, "baseline", first)]
    return doc.Section("Sources", "sources", tuple(shown))


def _change(facts: Facts, old: str, new: str) -> doc.Block:
    try:
        texts = _read(facts, old), _read(facts, new)
    except UserError as error:
        return doc.Paragraph((f"This diff cannot be shown: {error.message}.",))
    return doc.Diff(f"{short(old)}.cu", f"{short(new)}.cu", *texts)


def _whole(facts: Facts, name: str, hash_: str) -> doc.Block:
    try:
        text = _read(facts, hash_)
    except UserError as error:
        return doc.Paragraph((f"The source of the {name} cannot be shown: {error.message}.",))
    lines = text.count("\n") + (not text.endswith("\n"))
    title = f"The {name} as a whole: {short(hash_)}.cu, {lines} lines"
    return doc.Details(title, (doc.Source(text),), long=True)


def _read(facts: Facts, hash_: str) -> str:
    text = read_blob(facts.session.folder, hash_)
    if len(text) > LONGEST_SOURCE:
        raise UserError(f"it has {len(text):,} characters, more than {LONGEST_SOURCE:,}")
    return text
