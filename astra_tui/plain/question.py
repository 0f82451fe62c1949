"""An open question in lines: a plan in full, a diff, and what the engineer said of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from astra_tui.model.approval import Question
from astra_tui.model.author import Author
from astra_tui.model.citations import check_citations
from astra_tui.model.constraints import Ruling, in_order
from astra_tui.model.digest import short
from astra_tui.model.hunks import HEADER, NO_LINE_FEED, diff_lines
from astra_tui.model.plan import Observation, Plan
from astra_tui.model.state import CandidateState
from astra_tui.model.visible import visible_line
from astra_tui.present.words import (
    plan_words,
    prediction_words,
    ruling_words,
    speedup_prediction,
)


def describe_plan(plan: Plan, author: Author, base: CandidateState) -> str:
    """A plan in full, as it is decided on, for the source `base`."""
    predicted = plan.prediction
    lines = [
        f"PLAN {_set_off(plan.title)} ({plan_words(plan, author.describe())})",
        f"  bottleneck: {_set_off(plan.bottleneck)}",
        *(line for o in plan.observations for line in _evidence(o, base)),
        f"  change:     {_set_off(plan.change)}",
        *(f"  can set:    {p.describe()}" for p in plan.parameters),
        f"  expects:    {prediction_words(predicted)}"
        + (f", speedup {speedup_prediction(predicted)}" if base.is_timed else ""),
    ]
    return "\n".join(lines)


def _set_off(text: str) -> str:
    """A field of a plan, none of whose lines can look like another field's."""
    return text.replace("\n", "\n" + " " * 14)


def _evidence(observation: Observation, base: CandidateState) -> list[str]:
    cited = (
        f"              {reading.describe()}" for reading in check_citations(observation, base)
    )
    return [f"  evidence:   {_set_off(observation.sentence)}", *cited]


def describe_diff(old: str, new: str, question: Question, columns: int = 0) -> str:
    """A diff with its hunks numbered from 1, every line made visible as the screen does.

    Nothing in the texts can look like a line of the diff's own: only a line feed ends a line, all
    of a line stands right of its mark, and so does the rest of one that is wider than `columns`,
    which a terminal would begin at the left edge. Outside of ASCII all characters are written out.
    """
    number = 0
    lines = [f"--- {short(question.base)}", f"+++ {short(question.subject)}"]
    for mark, text in diff_lines(old, new):
        if mark == HEADER:
            number += 1
            lines.append(f"@@{text.rstrip()}  (hunk {number})")
            continue
        shown = visible_line(text.removesuffix("\n"), ()).text
        lines += (sign + part for sign, part in _parts(mark, shown, columns))
        if not text.endswith("\n"):
            lines.append(NO_LINE_FEED)
    return "\n".join(lines) if number else ""


def describe_rulings(rulings: Sequence[Ruling]) -> str:
    """A diff against what the engineer said, what is broken first; one line each."""
    return "\n".join(["What was said:", *(f"  {ruling_words(r).words}" for r in in_order(rulings))])


def _parts(mark: str, text: str, columns: int) -> Iterator[tuple[str, str]]:
    """A line in pieces that fit, each after the line's mark, the further ones after `>` as well."""
    most = max(columns - 4, 20)
    if not text.isascii():
        most //= 2  # Some terminals give quotation marks two cells.
    if not columns:
        most = max(len(text), 1)
    yield mark, text[:most]
    for begin in range(most, len(text), most):
        yield mark + "> ", text[begin : begin + most]
