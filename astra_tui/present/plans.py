"""Plans in full: what they rest on and expect, what was said of their code, how it came out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from astra_tui.model import events
from astra_tui.model.citations import check_citations
from astra_tui.model.constraints import Ruling, in_order
from astra_tui.model.digest import short
from astra_tui.model.ledger import score
from astra_tui.model.plan import Citation, Observation, Plan, places_words
from astra_tui.model.roles import Role
from astra_tui.model.state import CandidateState, ProposalState, RoundState, SessionState
from astra_tui.model.verdict import RoundVerdict
from astra_tui.present import document as doc
from astra_tui.present import words
from astra_tui.present.numbers import count
from astra_tui.present.tones import Phrase, Tone, tone_of, words_of

Rows = Iterator[tuple[str, doc.Cell]]

CITED = "cites"
"""The name of fields with a number that evidence cites, in the order of `shown_citations`."""

MOST_SHOWN = 200
"""Sentences of evidence, and numbers that they cite: a stranger's plan may have any number."""


def plan_entry(
    state: SessionState, round_: RoundState, proposal: ProposalState, label: str = ""
) -> doc.Entry:
    """A plan as it was decided, and all that became of it so far."""
    plan = state.plan_of(round_.number, proposal.index)
    base = state.candidate(round_.base)
    rows = [
        ("by", words.plan_words(plan, proposal.author.describe())),
        *effects(plan, proposal.verdict, base).items(),
        ("bottleneck", plan.bottleneck),
        ("change", plan.change),
        *_evidence(plan.observations, base),
        *(("can set", parameter.describe()) for parameter in plan.parameters),
        ("at", places_words(plan.places) if plan.places else ""),
        ("edited", f"it was proposed as: {proposal.plan.title}" * (plan != proposal.plan)),
        *_outcome(state, round_, proposal, plan),
    ]
    name = f"Plan {label}".strip()
    return doc.Entry((Phrase(f"{name}: ", Tone.TITLE), plan.title), [doc.fields(rows)])


def effects(plan: Plan, verdict: RoundVerdict | None, base: CandidateState) -> dict[str, doc.Cell]:
    """What a plan expects for the source `base`, and what was measured."""
    expected, comparison = plan.prediction, verdict.comparison if verdict else None
    told: dict[str, doc.Cell] = {"expects": words.prediction_words(expected)}
    if (measured := score(expected, comparison)) is not None:
        told["measured"] = words.score_words(measured)
    elif comparison is not None:
        told["measured"] = "the counter was 0 before"
    elif verdict is not None:
        told["measured"] = f"not measured: {words_of(verdict.outcome)}"
    found = comparison.speedup if comparison else None
    if base.is_timed or found is not None:
        remark = f"{words.speedup_prediction(expected)} expected"
        told["speedup"] = (*doc.speedup_line(found), ", " * bool(found), remark)
    return told


def _evidence(observations: Sequence[Observation], base: CandidateState) -> Rows:
    """Sentences, each with the numbers that it cites and whether these were measured of `base`."""
    shown = _shown(observations)
    for observation in shown:
        yield "evidence", observation.sentence
        for reading in check_citations(observation, base):
            yield CITED, Phrase(reading.describe(), tone_of(reading.standing))
    sentences = len(observations) - len(shown)
    numbers = sum(len(o.cites) for o in observations) - len(shown_citations(observations))
    if sentences or numbers:
        yield "", f"... and {count(sentences)} sentences and {count(numbers)} numbers more"


def _shown(observations: Sequence[Observation]) -> list[Observation]:
    room, shown = MOST_SHOWN, []
    for observation in observations[:MOST_SHOWN]:
        shown.append(replace(observation, cites=observation.cites[:room]))
        room -= len(shown[-1].cites)
    return shown


def shown_citations(observations: Sequence[Observation]) -> list[Citation]:
    """The numbers that evidence cites, as far as they are shown."""
    return [citation for observation in _shown(observations) for citation in observation.cites]


def _outcome(state: SessionState, round_: RoundState, proposal: ProposalState, plan: Plan) -> Rows:
    """What was decided of a plan, its code, what sweeps of that found, whether it does as the
    engineer said, and the verdict, where there is one.
    """
    for decision in state.decisions_of(round_.number, proposal.index):
        yield "decided", words.decision_words(decision)
    for attempt in proposal.attempts:
        if isinstance(attempt, events.CodeWritten):
            new = attempt.summary and attempt.summary != plan.change
            by = f" by {attempt.author.describe()}" + (f": {attempt.summary}" if new else "")
            yield "code", (doc.Code(short(attempt.candidate)), by)
        else:
            yield "no code", attempt.reason
    for candidate in proposal.written:
        if (swept := state.candidate(candidate).swept) is not None:
            yield "sweep", words.sweep_words(swept)
    if proposal.written:
        yield from ruling_rows(proposal.rulings(proposal.written[-1]))
    if (verdict := proposal.verdict) is not None:
        is_best = bool(verdict.candidate) and verdict.candidate == round_.best
        remark = ", the new best" if is_best else words.where_measured(round_, verdict)
        yield from verdict_rows(state, verdict, remark)
    elif state.closed is not None:
        yield "verdict", "not judged"


def ruling_rows(rulings: Sequence[Ruling]) -> Rows:
    """A diff against what the engineer said, what is broken first."""
    for ruling in in_order(rulings):
        yield "said", words.ruling_words(ruling)


def verdict_rows(state: SessionState, verdict: RoundVerdict, remark: str = "") -> Rows:
    """How a candidate came out, and every reason."""
    yield "verdict", (words.round_verdict(state, verdict), remark)
    for reason in verdict.reasons:
        yield "why", reason


def reading_blocks(state: SessionState, round_: RoundState) -> list[doc.Block]:
    """What the profiling agent made of the source that a round stands on, and what it chose."""
    found = state.reading(round_.base, round_.number)
    if found is None:
        return []
    evidence = found.selection.evidence if found.selection is not None else ()
    chosen = (("chosen", text) for text in words.selection_words(found.selection))
    told = doc.fields([*chosen, *_evidence(evidence, state.candidate(round_.base))])
    return [*analysis_blocks(found), told]


def analyses_blocks(candidate: CandidateState) -> list[doc.Block]:
    """What agents made of a candidate; rounds that stand on it begin with its profile's reading."""
    given = (a for a in candidate.analyses if a.role != Role.PROFILING)
    return [block for analysis in given for block in analysis_blocks(analysis)]


def analysis_blocks(given: events.AnalysisGiven) -> list[doc.Block]:
    """What one agent says."""
    who = f"{given.role} agent, {given.author.describe()}:"
    return [*doc.paragraphs(who), doc.Quote(given.text)]
