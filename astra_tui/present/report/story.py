"""The rounds: what was planned and by whom, what was decided and why, and its result."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from astra_tui.model.digest import short
from astra_tui.model.errors import UserError
from astra_tui.model.events import NoteAdded
from astra_tui.model.ledger import ledger
from astra_tui.model.state import RoundState
from astra_tui.present import document as doc
from astra_tui.present import numbers, words
from astra_tui.present.plans import analyses_blocks, plan_entry, reading_blocks
from astra_tui.present.report.evidence import round_timing
from astra_tui.present.report.plots import speedup_figure
from astra_tui.present.tones import Phrase, Tone
from astra_tui.sessions.facts import Facts, ReportedProposal
from astra_tui.sessions.folder import read_blob


def rounds(facts: Facts) -> list[doc.Block]:
    """An overview in a table and a plot, then a section for each round."""
    blocks = [_overview(facts)] if facts.reported else []
    blocks += [*speedup_figure(facts), *_additions(facts)]
    return blocks + [_round(facts, r) for r in facts.state.rounds]


def _overview(facts: Facts) -> doc.Block:
    timed = bool(facts.timings)
    columns = ["round", "plan", "written by", "outcome"]
    columns += ["speedup (95 % interval)"] if timed else []
    rows: list[doc.Row] = []
    for entry in facts.reported:
        where = words.where_measured(entry.round, entry.proposal.verdict)
        by = facts.state.written_by(entry.round.number, entry.proposal.index)
        found = doc.speedup_line(entry.proposal.speedup)
        outcome: doc.Line = (words.round_verdict(facts.state, entry.proposal.verdict), where)
        outcome += (", the new best",) if entry.became_best else ()
        rows.append((entry.label, entry.plan.title, by, outcome, *([found] * timed)))
    base = "the version it started from"
    return doc.table(columns, rows, f"All plans; every outcome is against {base}")


def _additions(facts: Facts) -> list[doc.Block]:
    """Notes and cases that were added, each with the round in which it came."""
    lines = []
    for number, event in facts.additions:
        told = (
            f"note by {event.by.describe()}: {event.text}"
            if isinstance(event, NoteAdded)
            else (f"case {event.case.id} added by {event.by.describe()}: {event.case.why}")
        )
        lines.append(f"In round {number}: {told}")
    return doc.items(*lines)


def _round(facts: Facts, round_: RoundState) -> doc.Section:
    reported = [t for t in facts.reported if t.round.number == round_.number]
    if round_.number == 0:
        title = "Round 0: the baseline"
        blocks = _baseline(facts)
    else:
        plans = "; ".join(t.plan.title for t in reported) or "no plan"
        title = f"Round {round_.number}: {plans}"
        blocks = [*doc.paragraphs(f"From {words.stands_on(round_)}."), *_reading(facts, round_)]
    for entry in reported:
        blocks += _entry(facts, entry)
    if round_.no_plan:
        blocks.append(doc.Paragraph((Phrase("No further plan: ", Tone.TITLE), round_.no_plan)))
    if round_.refused:
        refused = f"Moves that do not apply ({len(round_.refused)})"
        blocks.append(doc.folded(refused, *doc.items(*round_.refused)))
    if not round_.closed:
        blocks += doc.paragraphs("The session ended before this round did.")
    return doc.Section(title, blocks, f"round-{round_.number}")


def _baseline(facts: Facts) -> list[doc.Block]:
    check, hash_ = facts.baseline.check, facts.baseline.hash
    verdict = f"Its check {check.verdict.value}: {check.message}" if check else "It was not checked"
    told = doc.paragraphs((doc.Code(short(hash_)), f" {verdict}."))
    own = [t.timing for t in facts.baseline.timings if t.timing.base == hash_]
    return [*told, *(round_timing(timing) for timing in own)]


def _reading(facts: Facts, round_: RoundState) -> list[doc.Block]:
    """What the profiling agent made of the source that a round stands on, and what it measured."""
    blocks = reading_blocks(facts.state, round_)
    found = facts.state.reading(round_.base, round_.number)
    for one in found.selection.measured if found and found.selection else ():
        told = _shown("It", facts, doc.Quote, one.answer)
        blocks.append(doc.folded(one.describe(), told))
    return blocks


def _entry(facts: Facts, entry: ReportedProposal) -> list[doc.Block]:
    blocks: list[doc.Block] = [plan_entry(facts.state, entry.round, entry.proposal, entry.label)]
    if entry.candidate is not None:
        blocks += analyses_blocks(entry.candidate)
        own = [t.timing for t in entry.candidate.timings if not t.final]
        blocks += [round_timing(timing) for timing in own]
    return blocks


def predictions(facts: Facts) -> list[doc.Block]:
    """How far the authors' predictions can be trusted."""
    rows: list[doc.Record] = []
    for entry in ledger(facts.state):
        error, log = entry.mean_error, entry.mean_log_error
        points = None if error is None else doc.Number(100 * error, numbers.points(error))
        row: dict[str, doc.Cell] = {"author": f"{entry.team} {entry.model}".strip()}
        row |= {"plans": entry.plans, "measured": entry.measured, "better": entry.better}
        told = None if log is None else doc.number(log, numbers.decimal, 3)
        rows.append({**row, "mean error": points, "mean |ln error|": told})
    if not rows:
        return doc.paragraphs("No plan was proposed.")
    text = (
        "Each plan predicts how one counter changes. The mean error is in percentage points; of "
        "|ln(measured over predicted)|, 0 is exact and 0.69 is off by a factor of two."
    )
    return [*doc.paragraphs(text), doc.records(rows, "Predictions against measurements")]


LONGEST_SOURCE = 200_000
"""Longer sources, in characters, are not shown; kernels of our tasks have some 5,000."""


def sources(facts: Facts) -> list[doc.Block]:
    """The diff from the baseline to the best, each accepted step, and both sources."""
    first, last = facts.baseline.hash, facts.best.hash
    blocks: list[doc.Block] = []
    if facts.state.has_better:
        steps = [t for t in facts.reported if t.became_best and t.proposal.verdict]
        names = [(f"Round {t.label}: {t.plan.title}", t.round.base, t.round.best) for t in steps]
        blocks += [*doc.paragraphs("From the baseline to the best:"), _change(facts, first, last)]
        if len(names) > 1:
            blocks += doc.paragraphs("The accepted steps, each from the version before it:")
            blocks += [doc.folded(name, _change(facts, old, new)) for name, old, new in names]
        blocks.append(_whole(facts, "best", last))
    else:
        blocks += doc.paragraphs("The best is the baseline: nothing changed.")
    return [*blocks, _whole(facts, "baseline", first)]


def _change(facts: Facts, old: str, new: str) -> doc.Block:
    make = partial(doc.Diff, f"{short(old)}.cu", f"{short(new)}.cu")
    return _shown("This diff", facts, make, old, new)


def _whole(facts: Facts, name: str, hash_: str) -> doc.Block:
    def folded(text: str) -> doc.Block:
        lines = text.count("\n") + (not text.endswith("\n"))
        title = f"The {name} as a whole: {short(hash_)}.cu, {lines} lines"
        return doc.folded(title, doc.Source(text), long=True)

    return _shown(f"The source of the {name}", facts, folded, hash_)


def _shown(what: str, facts: Facts, make: Callable[..., doc.Block], *hashes: str) -> doc.Block:
    """What is made of texts of the session, or why it cannot be shown."""
    try:
        return make(*(_read(facts, hash_) for hash_ in hashes))
    except UserError as error:
        return doc.Paragraph((f"{what} cannot be shown: {error.message}.",))


def _read(facts: Facts, hash_: str) -> str:
    text = read_blob(facts.session.folder, hash_)
    if len(text) > LONGEST_SOURCE:
        size, most = map(numbers.count, (len(text), LONGEST_SOURCE))
        raise UserError(f"it has {size} characters, more than {most}")
    return text
