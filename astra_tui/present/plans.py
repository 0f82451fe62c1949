"""Plans in full: what they rest on and expect, what was said of their code, how it came out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from astra_tui.model import events
from astra_tui.model.author import Author
from astra_tui.model.citations import check_citations
from astra_tui.model.constraints import Ruling, in_order
from astra_tui.model.digest import short
from astra_tui.model.plan import Observation, Plan
from astra_tui.model.roles import Role
from astra_tui.model.state import CandidateState, ProposalState, RoundState, SessionState
from astra_tui.model.verdict import RoundVerdict
from astra_tui.present import document as doc
from astra_tui.present.tones import tone_of
from astra_tui.present.words import (
    decision_words,
    plan_words,
    prediction_words,
    round_verdict,
    ruling_words,
    speedup_prediction,
    sweep_words,
    where_measured,
)


def plan_blocks(plan: Plan, author: Author, base: CandidateState, label: str = "") -> doc.Entry:
    """A plan as it is decided on, for the source `base`."""
    expected = prediction_words(plan.prediction)
    if base.is_timed:
        expected += f", speedup {speedup_prediction(plan.prediction)}"
    fields: list[doc.Block] = [
        *_field("Bottleneck", plan.bottleneck),
        *evidence_blocks(plan.observations, base),
        *_field("Change", plan.change),
        *(block for p in plan.parameters for block in _field("Can set", p.describe())),
        *_field("Expects", expected),
    ]
    name = f"Plan {label}".strip()
    by = f" ({plan_words(plan, author.describe())})"
    return doc.Entry((doc.Strong(f"{name}: "), plan.title, by), fields)


def _field(name: str, text: str) -> list[doc.Block]:
    return doc.paragraphs((doc.Strong(f"{name}: "), text))


def evidence_blocks(observations: Sequence[Observation], base: CandidateState) -> list[doc.Block]:
    """Sentences, each with the numbers that it cites and whether these were measured of `base`."""
    blocks: list[doc.Block] = []
    for observation in observations:
        found = check_citations(observation, base)
        cited = ((doc.Badge(r.describe(), tone_of(r.standing)),) for r in found)
        line = doc.Strong("Evidence: "), observation.sentence
        blocks.append(doc.Entry(line, doc.paragraphs(*cited)))
    return blocks


def outcome_blocks(
    state: SessionState, round_: RoundState, proposal: ProposalState
) -> list[doc.Block]:
    """What was decided of a plan, its code, what sweeps of that found, whether it does as the
    engineer said, and the verdict, where there is one.
    """
    taken = map(decision_words, state.decisions_of(round_.number, proposal.index))
    swept = (state.candidate(written).swept for written in proposal.written)
    rulings = proposal.rulings(proposal.written[-1]) if proposal.written else ()
    blocks = [
        *doc.paragraphs(*(text[0].upper() + text[1:] for text in taken)),
        *doc.paragraphs(*_attempts(state, round_, proposal)),
        *(block for found in swept if found for block in _field("Sweep", sweep_words(found))),
        *(rulings_blocks(rulings) if rulings else []),
    ]
    if (verdict := proposal.verdict) is not None:
        is_best = bool(verdict.candidate) and verdict.candidate == round_.best
        remark = ", the new best" if is_best else where_measured(round_, verdict)
        blocks.append(verdict_entry(state, verdict, remark))
    return blocks


def _attempts(
    state: SessionState, round_: RoundState, proposal: ProposalState
) -> Iterator[doc.Line]:
    change = state.plan_of(round_.number, proposal.index).change
    for attempt in proposal.attempts:
        if isinstance(attempt, events.CodeWritten):
            new = attempt.summary and attempt.summary != change
            by = f" by {attempt.author.describe()}" + (f": {attempt.summary}" if new else "")
            yield doc.Strong("Code: "), doc.Code(short(attempt.candidate)), by
        else:
            yield doc.Strong("No code: "), attempt.reason


def analyses_blocks(candidate: CandidateState) -> list[doc.Block]:
    """What agents made of a candidate; rounds that stand on it begin with its profile's reading."""
    given = (a for a in candidate.analyses if a.role != Role.PROFILING)
    return [block for analysis in given for block in analysis_blocks(analysis)]


def analysis_blocks(given: events.AnalysisGiven) -> list[doc.Block]:
    """What one agent says."""
    who = f"{given.role} agent, {given.author.describe()}:"
    return [*doc.paragraphs(who), doc.Quote(given.text)]


def verdict_entry(state: SessionState, verdict: RoundVerdict, remark: str = "") -> doc.Entry:
    """How a candidate came out, and every reason."""
    told = doc.badge(round_verdict(state, verdict))
    return doc.Entry((doc.Strong("Verdict: "), told, remark), doc.paragraphs(*verdict.reasons))


def rulings_blocks(rulings: Sequence[Ruling]) -> list[doc.Block]:
    """A diff against what the engineer said, what is broken first; one line each."""
    told = ((doc.badge(ruling_words(ruling)),) for ruling in in_order(rulings))
    return [doc.Entry(("What was said:",), doc.paragraphs(*told))]
