"""Puts the team of a run together. Only here the loop meets language models."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from astra_tui.engine.record import Record
from astra_tui.engine.stops import answer_tokens
from astra_tui.model.errors import UserError
from astra_tui.model.events import CallReserved, ExchangeMade, StepRemembered
from astra_tui.model.plan import Plan
from astra_tui.model.roles import Role
from astra_tui.model.settings import Budget, RunSettings, TeamKind
from astra_tui.model.team_protocol import Brief, Team
from astra_tui.rpc import ServiceFailed
from astra_tui.sessions.folder import read_blob
from astra_tui.sessions.integrity import read_unaltered
from astra_tui.sessions.journal_reader import has_session

if TYPE_CHECKING:
    from astra_tui.llm import OpenAILLM, Prices, Timeouts
    from astra_tui.llm.asking.metering import MeteredExchange
    from astra_tui.llm.messages import Request

OPENAI_URL = "https://api.openai.com/v1"

_SERVER_SECONDS = 10.0
"""How long a server may take to be reached, when a run begins."""


@dataclass(frozen=True)
class ModelAccess:
    """What it takes to call models. It holds the key and is never stored or printed."""

    key: str = field(default="", repr=False)
    prices: Prices | None = None


class JournaledCalls:
    """The calls of a model's team: reserves and journals every call, within the run's budget.

    It also journals what the single agent remembers. It is given to the team before there is a
    record.
    """

    def __init__(self, budget: Budget | None = None, prices: Prices | None = None) -> None:
        self._budget = budget or Budget()
        self._prices = prices
        self._record: Record | None = None
        self._last_call = 0

    def open(self, record: Record) -> None:
        """From now on calls are journaled there."""
        self._record = record

    def remember(self, prompt: str, answer: str) -> None:
        """A step that the single agent's conversation holds from now on."""
        assert self._record is not None
        put = self._record.store.put
        self._record.emit(StepRemembered(put(prompt), put(answer)))

    def begin_call(self) -> int:
        """The number of the next call."""
        assert self._record is not None
        self._last_call = max(self._last_call, self._record.state.usage.last_call) + 1
        return self._last_call

    def reserve(self, call: int, request: Request) -> Request:
        """Journals what one sending may cost before it is sent. Raises BudgetSpent."""
        from astra_tui.llm import Prices
        from astra_tui.llm.messages import Usage, cost
        from astra_tui.llm.streamed import PROMPT_TOKEN_BYTES

        assert self._record is not None
        prices = self._prices or Prices()
        prompt = -(-len(msgspec.json.encode(request)) // PROMPT_TOKEN_BYTES)
        usage = self._record.state.usage
        # Earlier sendings of this call count on, but not as another call.
        others = replace(usage, calls=usage.calls - any(r.call == call for r in usage.reserved))
        most = answer_tokens(others, self._budget, prices, prompt, request.max_output_tokens)
        dollars = cost(Usage(prompt, 0, most), prices)
        self._record.emit(CallReserved(call, request.purpose, prompt + most, dollars))
        return replace(request, max_output_tokens=most)

    def settle(self, exchange: MeteredExchange) -> None:
        """Journals what a call has cost, in the place of what was reserved for it."""
        assert self._record is not None
        store = self._record.store
        self._record.emit(
            ExchangeMade(
                purpose=exchange.purpose,
                model=exchange.model,
                request=store.put(exchange.request),
                reply=store.put(exchange.reply),
                input_tokens=exchange.usage.input_tokens,
                output_tokens=exchange.usage.output_tokens,
                seconds=exchange.seconds,
                dollars=exchange.dollars,
                error=exchange.error,
                call=exchange.call,
                estimated=not exchange.usage.reported,
            )
        )


def remembered_steps(folder: Path) -> tuple[tuple[str, str], ...]:
    """What the single agent of a session has said and was told so far; nothing in a new folder.

    Raises UserError when the journal or one of its texts cannot be read.
    """
    if not has_session(folder):
        return ()
    return tuple(
        (read_blob(folder, event.prompt), read_blob(folder, event.answer))
        for event in read_unaltered(folder).events
        if isinstance(event, StepRemembered)
    )


async def follow_edit(kind: TeamKind, brief: Brief, shown: Plan, edited: Plan) -> Plan:
    """What an edited plan will be coded as by a team of a kind; calls no model.

    Raises CannotFollow.
    """
    if kind is TeamKind.PLAYBOOK:
        from astra_tui.playbook.playbook_team import PlaybookTeam

        return await PlaybookTeam().follow(brief, shown, edited)
    from astra_tui.llm.roles.coding import follow_edit as follow_in_words

    return await follow_in_words(brief, shown, edited)


async def build_team(
    settings: RunSettings,
    access: ModelAccess,
    calls: JournaledCalls,
    earlier: Sequence[tuple[str, str]] = (),
) -> Team:
    """The team that the settings name; `earlier` is what a single agent remembers already.

    Raises UserError when a model is needed and not set up, and for a budget that cannot be kept;
    ServiceFailed where the model's server cannot be reached.
    """
    if settings.team is TeamKind.PLAYBOOK:
        from astra_tui.playbook.playbook_team import PlaybookTeam

        return PlaybookTeam()
    from astra_tui.llm import Prices
    from astra_tui.llm.asking.conversation import Memory
    from astra_tui.llm.llm_team import LlmTeam

    _require_prices(settings.budget, access.prices)
    llm = _open_model(settings, access)
    if not all(settings.of_role(role).model for role in Role):
        await _refuse_without_model(llm)
    await _refuse_without_server(llm)
    return LlmTeam(
        llm,
        settings.of_role,
        access.prices or Prices(),
        calls,
        single=settings.team is TeamKind.LLM_SINGLE,
        memory=Memory(earlier, calls.remember),
    )


def _require_prices(budget: Budget, prices: Prices | None) -> None:
    known = prices is not None and None not in (
        prices.input_per_million,
        prices.output_per_million,
    )
    if budget.dollars is not None and not known:
        raise UserError(
            "a budget of dollars needs the prices of the model, and they are not known",
            hint="set price_input_per_million and price_output_per_million in astra-tui.toml, "
            "or ASTRA_TUI_PRICE_INPUT_PER_MILLION and ASTRA_TUI_PRICE_OUTPUT_PER_MILLION",
        )


def _open_model(settings: RunSettings, access: ModelAccess) -> OpenAILLM:
    from astra_tui.llm import Endpoint, OpenAILLM, Secret

    if not access.key and not settings.base_url:
        raise UserError(
            f"team {settings.team.value} needs a model, and there is neither a key nor a server",
            hint="set OPENAI_API_KEY, or say --base-url http://... --model NAME, "
            "or --team playbook, which needs none",
        )
    if settings.team is TeamKind.LLM_SINGLE and any(r.model for r in settings.roles.values()):
        raise UserError(
            "the single agent of team llm-single has one model, and roles name others",
            hint="leave out models of roles, or say --team llm",
        )
    return OpenAILLM(
        Endpoint(
            settings.base_url or OPENAI_URL,
            Secret(access.key),
            settings.wire,
            timeouts_of(settings),
        )
    )


def timeouts_of(settings: RunSettings) -> Timeouts:
    """How long calls may take: as they say, else as long as other calls."""
    from astra_tui.llm import Timeouts

    usual = Timeouts()
    total = settings.call_seconds or usual.total
    silence = settings.silence_seconds or min(usual.silence, total)
    return Timeouts(usual.connect, silence, total)


async def _refuse_without_server(llm: OpenAILLM) -> None:
    """Raises ServiceFailed before the baseline is checked for nothing.

    A server that is slow, or has no list of its models, may answer all the same.
    """
    from astra_tui.llm import LLMError, Unreachable

    try:
        async with asyncio.timeout(_SERVER_SECONDS):
            await llm.models()
    except Unreachable as error:
        await llm.close()
        raise ServiceFailed(error.message, hint=error.hint) from None
    except (LLMError, TimeoutError):
        pass


async def _refuse_without_model(llm: OpenAILLM) -> None:
    from astra_tui.llm.models import model_required, offered_models

    try:
        raise UserError(model_required(await offered_models(llm)))
    finally:
        await llm.close()
