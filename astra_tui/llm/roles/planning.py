"""The planning agent: from all that is known to plans."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from astra_tui.llm.asking.asker import NO_ADVICE, UNUSABLE, Asker, Step, retry_once
from astra_tui.llm.asking.evidence import (
    MAX_SENTENCE,
    CitedSentence,
    LineRange,
    cited,
    one_line,
    places_of,
)
from astra_tui.llm.asking.facts import (
    device_text,
    goal_text,
    included_text,
    measured_base,
    measured_text,
    merge_text,
    reading_text,
    said_text,
    task_text,
    tried_text,
)
from astra_tui.llm.asking.move_facts import OfferedMoves, offered_moves
from astra_tui.llm.asking.prompts import (
    Data,
    clipped,
    compose,
    numbered,
    prompt_text,
    refused_features,
)
from astra_tui.llm.asking.toolbox import open_toolbox, tools_text
from astra_tui.llm.errors import is_answer
from astra_tui.model.author import Author
from astra_tui.model.plan import Counter, Plan, Prediction, Risk
from astra_tui.model.roles import Role
from astra_tui.model.team_protocol import Brief, OnText, PlanAnswer, PlanDraft

MAX_PLANS = 8
MAX_EVIDENCE = 6


class ProposedPlan(msgspec.Struct, frozen=True):
    """One change to the kernel."""

    title: Annotated[str, Meta(description="the change in at most ten words")]
    bottleneck: Annotated[str, Meta(description="what limits the kernel now, in one sentence")]
    evidence: Annotated[
        tuple[str | CitedSentence, ...],
        Meta(max_length=MAX_EVIDENCE, description="measured numbers that show it, one a sentence"),
    ]
    change: Annotated[str, Meta(description="what to change, precise enough to write the code")]
    speedup_low: Annotated[
        float, Meta(ge=0.1, le=100, description="old time over new time, at least")
    ]
    speedup_high: Annotated[
        float, Meta(ge=0.1, le=100, description="old time over new time, at most")
    ]
    counter: Annotated[Counter, Meta(description="the counter that will fall most")]
    counter_ratio: Annotated[
        float, Meta(ge=0, le=10, description="its new value over the old one; below 1 is better")
    ]
    risk: Annotated[Risk, Meta(description="how likely the change is to break the kernel")]
    places: Annotated[
        tuple[LineRange, ...], Meta(max_length=8, description="the lines that will change")
    ]
    move: Annotated[str, Meta(description="an applicable playbook move that does it, else empty")]


class PlanningAnswer(msgspec.Struct, frozen=True):
    """The plans of a round."""

    plans: Annotated[
        tuple[ProposedPlan, ...], Meta(max_length=MAX_PLANS, description="the best first")
    ]
    reason: Annotated[str, Meta(description="why there are fewer than asked for, else empty")]


async def make_plans(
    asker: Asker, author: Author, brief: Brief, count: int, on_text: OnText
) -> PlanAnswer:
    """At most `count` plans; none, with the reason, where the model gives no usable answer."""
    moves = await offered_moves(brief)
    seen = await _look_around(asker, brief, moves)
    most = min(count, MAX_PLANS)

    async def attempt(remark: str) -> PlanningAnswer:
        prompt = planning_prompt(brief, most, moves, seen) + remark
        return await asker.ask(Step(Role.PLANNING, "plan", prompt), PlanningAnswer, on_text)

    try:
        answer = await retry_once(attempt)
    except UNUSABLE as error:
        reason = f"the planning agent gave no plan: {error.message}"
        return PlanAnswer((), reason, moves.refused, lost=True, answered=is_answer(error))
    plans = tuple(_plan_of(p, brief, moves) for p in answer.plans)
    new = tuple(p for p in plans if not _is_repeated(p, brief))
    reason = clipped(answer.reason, MAX_SENTENCE)
    if len(new) < len(plans):
        reason = f"repeats of earlier plans: {len(plans) - len(new)}. {reason}".strip()
    drafts = tuple(PlanDraft(plan, author) for plan in new[:most])
    return PlanAnswer(drafts, "" if len(drafts) == most else reason, moves.refused)


def planning_prompt(brief: Brief, count: int, moves: OfferedMoves, seen: str = "") -> str:
    """The prompt for plans; `seen` is what the agent's tools have told it."""
    return compose(
        "plan",
        {
            "round": str(brief.round),
            "count": str(count),
            "refused": refused_features(),
            "goal": goal_text(brief),
            "counts_legend": prompt_text("counts_legend"),
            "included": included_text(brief),
            "merge": merge_text(brief.second),
        },
        {
            "task": Data("task", task_text(brief.task)),
            "source": Data("kernel source", numbered(brief.source)),
            "profile": Data("profile", measured_text(brief)),
            "analysis": Data(
                "analysis by an agent", reading_text(brief.reading, measured_base(brief))
            ),
            "tried": Data("earlier plans", tried_text(brief.tried)),
            "recalled": Data("earlier sessions", "\n".join(brief.recalled)),
            "said": Data("words of the engineer", said_text(brief)),
            "device": Data("device", device_text(brief)),
            "moves": Data("playbook moves", moves.listing()),
            "seen": Data("what your tools told you", seen),
        },
    )


async def _look_around(asker: Asker, brief: Brief, moves: OfferedMoves) -> str:
    """What the agent's tools told it, and what it made of that; "" where it has no tools."""
    box = open_toolbox(brief, Role.PLANNING, moves)
    if box is None:
        return ""
    prompt = compose(
        "look",
        {
            "round": str(brief.round),
            "what": prompt_text("look_moves" if moves.proposals else "look_drafts").strip(),
            "tools": tools_text(box),
            "goal": goal_text(brief),
            "counts_legend": prompt_text("counts_legend"),
            "included": included_text(brief),
        },
        {
            "source": Data("kernel source", numbered(brief.source)),
            "profile": Data("profile", measured_text(brief)),
        },
    )
    try:
        said = await asker.look(Step(Role.PLANNING, "look", prompt), box)
    except NO_ADVICE:  # What it has looked at so far still counts.
        said = ""
    if not box.told:
        return ""
    return f"{box.transcript()}\n\nwhat you made of it: {clipped(said, MAX_SENTENCE)}"


def _plan_of(proposed: ProposedPlan, brief: Brief, moves: OfferedMoves) -> Plan:
    low, high = sorted((proposed.speedup_low, proposed.speedup_high))
    plan = Plan(
        title=one_line(proposed.title),
        bottleneck=one_line(proposed.bottleneck),
        evidence=tuple(cited(said) for said in proposed.evidence),
        change=clipped(proposed.change.strip(), MAX_SENTENCE * 3),
        prediction=Prediction(low, high, proposed.counter, proposed.counter_ratio),
        risk=proposed.risk,
        places=places_of(proposed.places, brief.source),
    )
    move = moves.get(proposed.move)
    if move is None:
        return plan
    # A move does what it does, whatever the model calls it: the engineer has to read the former.
    own = move.plan
    return msgspec.structs.replace(
        plan, change=own.change, places=own.places, move=own.move, parameters=own.parameters
    )


def _is_repeated(plan: Plan, brief: Brief) -> bool:
    """Whether the same words were tried on the same source already."""
    return any(
        t.base == brief.base and (t.plan.title, t.plan.change) == (plan.title, plan.change)
        for t in brief.tried
    )
