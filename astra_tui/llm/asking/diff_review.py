"""A reader of diffs: whether code does as its plan and the engineer say, where no rule can tell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import msgspec
from msgspec import Meta

from astra_tui.llm.asking.asker import NO_ADVICE, Asker, Step
from astra_tui.llm.asking.facts import plan_text
from astra_tui.llm.asking.prompts import Data, clipped, compose, numbered
from astra_tui.model.constraints import Compliance, Judge, Ruling
from astra_tui.model.hunks import unified_diff
from astra_tui.model.plan import Plan
from astra_tui.model.roles import Role
from astra_tui.model.team_protocol import Brief

MAX_READ = 40
MAX_TEXT = 600
MAX_WHY = 300
MAX_DIFF = 20_000


class ReadConstraint(msgspec.Struct, frozen=True):
    """What the diff does about one of the listed constraints."""

    number: Annotated[int, Meta(ge=1, le=MAX_READ, description="its number in the list")]
    compliance: Annotated[
        Compliance,
        Meta(description="undecided where the diff does not say, or nothing is demanded"),
    ]
    why: Annotated[str, Meta(description="what in the diff shows it, in one sentence")]
    line: Annotated[int, Meta(ge=0, le=100_000, description="of the candidate; 0 for none")]


class ReviewAnswer(msgspec.Struct, frozen=True):
    """A reading of the diff."""

    constraints: Annotated[tuple[ReadConstraint, ...], Meta(max_length=MAX_READ)]


async def review_diff(
    asker: Asker, brief: Brief, plan: Plan, source: str, undecided: tuple[Ruling, ...]
) -> tuple[Ruling, ...]:
    """What the model says of constraints, in order; nothing where it gives no usable answer."""
    asked = undecided[:MAX_READ]
    prompt = review_prompt(brief, plan, source, asked)
    try:
        answer = await asker.ask(Step(Role.TESTING, "review", prompt), ReviewAnswer)
    except NO_ADVICE:
        return ()
    return tuple(_rulings(asked, answer, source.count("\n") + 1))


def review_prompt(brief: Brief, plan: Plan, source: str, asked: tuple[Ruling, ...]) -> str:
    """The prompt for a reading of a diff."""
    listed = (f"{n}. {clipped(_words(r), MAX_TEXT)}" for n, r in enumerate(asked, 1))
    diff = unified_diff(brief.source, source, "before", "after")
    return compose(
        "review",
        {"round": str(brief.round)},
        {
            "plan": Data("plan", plan_text(plan)),
            "diff": Data("diff", clipped(diff, MAX_DIFF)),
            "source": Data("kernel source", numbered(source)),
            "said": Data("constraints", "\n".join(listed)),
        },
    )


def _words(ruling: Ruling) -> str:
    whole = ruling.constraint.describe()
    return whole if ruling.text in ("", ruling.constraint.text) else f"{ruling.text} (of: {whole})"


def _rulings(asked: tuple[Ruling, ...], answer: ReviewAnswer, lines: int) -> Iterator[Ruling]:
    said = {read.number: read for read in reversed(answer.constraints)}
    for number, ruling in enumerate(asked, 1):
        read = said.get(number)
        if read is not None and read.compliance is not Compliance.UNDECIDED:
            yield msgspec.structs.replace(
                ruling,
                compliance=read.compliance,
                judge=Judge.MODEL,
                why=clipped(" ".join(read.why.split()), MAX_WHY),
                line=read.line if read.line <= lines else 0,
            )
