"""Plans in full: what they rest on and expect, what was said of their code, how it came out."""

from __future__ import annotations

from collections.abc import Sequence

from astra_tui.model.author import Author
from astra_tui.model.citations import check_citations
from astra_tui.model.constraints import Ruling, in_order
from astra_tui.model.plan import Observation, Plan
from astra_tui.model.state import CandidateState, SessionState
from astra_tui.model.verdict import RoundVerdict
from astra_tui.present import document as doc
from astra_tui.present.tones import tone_of
from astra_tui.present.words import (
    plan_words,
    prediction_words,
    round_verdict,
    ruling_words,
    speedup_prediction,
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


def verdict_entry(state: SessionState, verdict: RoundVerdict, remark: str = "") -> doc.Entry:
    """How a candidate came out, and every reason."""
    told = doc.badge(round_verdict(state, verdict))
    return doc.Entry((doc.Strong("Verdict: "), told, remark), doc.paragraphs(*verdict.reasons))


def rulings_blocks(rulings: Sequence[Ruling]) -> list[doc.Block]:
    """A diff against what the engineer said, what is broken first; one line each."""
    told = ((doc.badge(ruling_words(ruling)),) for ruling in in_order(rulings))
    return [doc.Entry(("What was said:",), doc.paragraphs(*told))]
