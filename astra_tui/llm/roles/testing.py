"""The testing agent: cases that try to break a candidate, and why one failed."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from astra_tui.llm.asking.asker import NO_ADVICE, Asker, Step
from astra_tui.llm.asking.facts import plan_text, said_text, task_text
from astra_tui.llm.asking.prompts import Data, clipped, compose, in_words, numbered
from astra_tui.llm.asking.proposed_cases import InvalidCase, ProposedCase, case_of
from astra_tui.llm.asking.toolbox import TESTED, Toolbox, open_toolbox, tools_text
from astra_tui.model.added_cases import MAX_ELEMENTS
from astra_tui.model.check import Case
from astra_tui.model.plan import Plan
from astra_tui.model.roles import Role
from astra_tui.model.team_protocol import Brief, Failure

MAX_CASES = 4
MAX_WORDS = 120
MAX_MESSAGE = 6_000
MAX_SUITE = 5_000
"""Characters of the suite's cases that are shown."""
MAX_CONDITIONS = 12


class TestingAnswer(msgspec.Struct, frozen=True):
    """Cases to add."""

    cases: Annotated[
        tuple[ProposedCase, ...], Meta(max_length=MAX_CASES, description="none is fine")
    ]


class Tester:
    """The testing agent; it remembers which of its cases were dropped, and why."""

    def __init__(self, asker: Asker):
        self._asker = asker
        self._dropped: list[str] = []

    async def new_cases(self, brief: Brief, plan: Plan, source: str) -> tuple[Case, ...]:
        """At most `MAX_CASES` cases inside the contract; none where there is no usable answer."""
        box = open_toolbox(brief, Role.TESTING, drafts={TESTED: source})
        step = Step(Role.TESTING, "cases", cases_prompt(brief, plan, source, self._dropped, box))
        try:
            answer = await self._asker.ask(step, TestingAnswer, box=box)
        except NO_ADVICE as error:
            self._dropped = [f"all of an answer: {error}"]
            return ()
        self._dropped = []
        return tuple(c for p in answer.cases[:MAX_CASES] if (c := self._case(p, brief)))

    async def explain(self, brief: Brief, source: str, failure: Failure) -> str:
        """What is wrong with a source, in at most `MAX_WORDS` words; empty without an answer."""
        box = open_toolbox(brief, Role.TESTING, drafts={TESTED: source})
        prompt = compose(
            "explain",
            {"round": str(brief.round), "words": str(MAX_WORDS), "tools": tools_text(box)},
            {
                "task": Data("task", task_text(brief.task)),
                "source": Data("kernel source", numbered(source)),
                "said": Data("words of the engineer", said_text(brief)),
                "failure": Data("what failed", clipped(failure.message, MAX_MESSAGE)),
            },
        )
        said = await self._asker.advise(Step(Role.TESTING, "explain", prompt), box)
        return in_words(said, MAX_WORDS)

    def _case(self, proposed: ProposedCase, brief: Brief) -> Case | None:
        try:
            return case_of(proposed, brief.task, brief.round)
        except InvalidCase as problem:
            self._dropped.append(f"{proposed.name[:80]}: {problem}")
            return None


def suite_text(brief: Brief) -> str:
    """The cases that there are: a line for each name and its sizes, with its element types."""
    types: dict[tuple[str, str], list[str]] = {}
    for case in brief.suite:
        sizes = ", ".join(f"{name}={size}" for name, size in case.dims.items())
        types.setdefault((case.name, sizes), []).append(case.dtype.value)
    every = [dtype.value for dtype in brief.task.dtypes]
    lines = [
        f"{name} ({sizes})" + ("" if found == every else f", {', '.join(found)} alone")
        for (name, sizes), found in types.items()
    ]
    return clipped("\n".join(lines), MAX_SUITE)


def conditions_text(brief: Brief) -> str:
    """Conditions of which no case takes one side, a line each."""
    lines = (f"{c.describe()}: {c.why}" for c in brief.open_conditions[:MAX_CONDITIONS])
    return "\n".join(lines)


def cases_prompt(
    brief: Brief, plan: Plan, source: str, dropped: list[str], box: Toolbox | None = None
) -> str:
    """The prompt for cases; `dropped` says what became of earlier ones."""
    return compose(
        "cases",
        {
            "round": str(brief.round),
            "most": str(MAX_CASES),
            "dtypes": ", ".join(d.value for d in brief.task.dtypes),
            "elements": str(MAX_ELEMENTS),
            "tools": tools_text(box),
        },
        {
            "task": Data("task", task_text(brief.task)),
            "plan": Data("plan", plan_text(plan)),
            "source": Data("kernel source", source),
            "said": Data("words of the engineer", said_text(brief)),
            "suite": Data("suite", suite_text(brief)),
            "open": Data("open conditions", conditions_text(brief)),
            "dropped": Data("dropped cases", "\n".join(dropped)),
        },
    )
