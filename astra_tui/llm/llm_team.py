"""The team of a language model: four agents, or one in all four roles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from astra_tui.llm.asking.asker import Asker
from astra_tui.llm.asking.conversation import Conversation, Memory, OneAgent, SeparateAgents
from astra_tui.llm.asking.diff_review import review_diff
from astra_tui.llm.asking.metering import CallBudget, MeteredLLM
from astra_tui.llm.messages import LLM, Prices
from astra_tui.llm.roles.coding import follow_edit, mend_code, write_code
from astra_tui.llm.roles.planning import make_plans
from astra_tui.llm.roles.profiling import read_profile
from astra_tui.llm.roles.testing import Tester
from astra_tui.model.author import Author, AuthorKind
from astra_tui.model.check import Case
from astra_tui.model.constraints import Ruling
from astra_tui.model.plan import Plan
from astra_tui.model.roles import Role
from astra_tui.model.settings import ModelSettings
from astra_tui.model.team_protocol import Brief, CodeDraft, Failure, OnText, PlanAnswer, Reading

MAX_OUTPUT_TOKENS = 16_384
"""Of one answer, thoughts included."""


class LlmTeam:
    """A `Team` whose roles ask a model; `single` makes them one agent with one conversation.

    `settings_of` says how a role asks its model. `call_budget` is told of every call; `memory` is
    the single agent's. `close` closes the model too. All methods raise TeamUnavailable when the
    model cannot be reached or used at all, and BudgetSpent.
    """

    def __init__(
        self,
        llm: LLM,
        settings_of: Callable[[Role], ModelSettings],
        prices: Prices,
        call_budget: CallBudget,
        single: bool = False,
        memory: Memory | None = None,
    ):
        conversation: Conversation = OneAgent(memory) if single else SeparateAgents()
        metered = MeteredLLM(llm, prices, call_budget)
        self._llm = llm
        self._settings_of = settings_of
        self._asker = Asker(metered, settings_of, conversation, MAX_OUTPUT_TOKENS)
        self._tester = Tester(self._asker)

    async def plan(self, brief: Brief, count: int, on_text: OnText) -> PlanAnswer:
        """At most `count` plans, each one change."""
        return await make_plans(self._asker, self.author_of(Role.PLANNING), brief, count, on_text)

    async def follow(self, brief: Brief, shown: Plan, edited: Plan) -> Plan:
        """The edited plan; a move does what its parameters say, or the model what the words say.

        Raises CannotFollow for a plan that says both, or names a move of its own.
        """
        return await follow_edit(brief, shown, edited)

    async def code(
        self, brief: Brief, plan: Plan, failure: Failure | None, on_text: OnText
    ) -> CodeDraft:
        """The source after a plan, by the model or by the move that the plan names."""
        author = self.author_of(Role.CODING)
        return await write_code(self._asker, author, brief, plan, failure, on_text)

    async def reflect(
        self, brief: Brief, plan: Plan, failure: Failure, on_text: OnText
    ) -> CodeDraft | str:
        """What the coding agent makes of its measured attempt: other code, or why not."""
        author = self.author_of(Role.CODING)
        return await mend_code(self._asker, author, brief, plan, failure, on_text)

    async def review(
        self, brief: Brief, plan: Plan, source: str, undecided: tuple[Ruling, ...]
    ) -> tuple[Ruling, ...]:
        """What the testing agent reads of a diff about constraints that no rule decides."""
        return await review_diff(self._asker, brief, plan, source, undecided)

    async def cases(self, brief: Brief, plan: Plan, source: str) -> tuple[Case, ...]:
        """Cases inside the contract that try to break this source."""
        return await self._tester.new_cases(brief, plan, source)

    async def explain(self, brief: Brief, source: str, failure: Failure) -> str:
        """Why a source failed its check, in a few sentences."""
        return await self._tester.explain(brief, source, failure)

    async def read_profile(self, brief: Brief, on_text: OnText) -> Reading | None:
        """The bottleneck, and what of all that was measured shows it."""
        return await read_profile(self._asker, brief, on_text)

    def author_of(self, role: Role) -> Author:
        """The model of a role."""
        return Author(AuthorKind.MODEL, self._settings_of(role).model)

    async def close(self) -> None:
        """Closes the connections of a model that has some."""
        if isinstance(self._llm, _Closable):
            await self._llm.close()


@runtime_checkable
class _Closable(Protocol):
    """A model with connections, unlike a replayed one."""

    async def close(self) -> None: ...
