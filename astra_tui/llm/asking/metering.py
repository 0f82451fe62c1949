"""What each call of a model was for, its texts, and its cost."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

import msgspec

from astra_tui.llm.errors import LLMError, Truncated
from astra_tui.llm.messages import (
    LLM,
    Attempts,
    OnDelta,
    Prices,
    Reply,
    Request,
    ToolCall,
    Usage,
    cost,
)
from astra_tui.model.team_protocol import BudgetSpent


class MeteredExchange(msgspec.Struct, frozen=True):
    """One call as a journal keeps it. `dollars` is None where a price is not known."""

    purpose: str
    model: str
    request: str
    """The conversation that was sent, one paragraph a turn."""
    reply: str
    usage: Usage
    seconds: float
    dollars: float | None
    error: str = ""
    call: int = 0
    """Its number in the session, by which it was reserved."""


class CallBudget(Protocol):
    """Holds the budget of a run."""

    def begin_call(self) -> int:
        """The number of the next call, which no other call of the session has."""
        ...

    def reserve(self, call: int, request: Request) -> Request:
        """Sets aside what one sending of a call may cost; the request with a limit that fits.

        Raises BudgetSpent where nothing useful fits any more.
        """
        ...

    def settle(self, exchange: MeteredExchange) -> None:
        """What a call has cost takes the place of what was reserved for it."""
        ...


class MeteredLLM:
    """Passes requests on; settles every call of which something was sent, cancelled ones too."""

    def __init__(self, llm: LLM, prices: Prices, call_budget: CallBudget):
        self._llm = llm
        self._prices = prices
        self._call_budget = call_budget

    async def complete(
        self,
        request: Request,
        on_delta: OnDelta | None = None,
        attempts: Attempts | None = None,  # noqa: ARG002 - it is the one that is told of them
    ) -> Reply:
        """The reply of the model. Raises LLMError, after it was settled, and BudgetSpent."""
        call = _Call(self._call_budget.begin_call(), self._call_budget)
        start = time.monotonic()
        said, error = "", ""
        try:
            reply = await self._llm.complete(request, on_delta, call)
            said = _said(reply)
        except LLMError as failure:
            error = failure.describe()
            if isinstance(failure, Truncated) and failure.partial is not None:
                said = _said(failure.partial)
            raise
        except BudgetSpent as spent:
            error = str(spent)
            raise
        except asyncio.CancelledError:
            error = "cancelled"
            raise
        finally:
            if call.sent or not error:
                usage = call.usage if call.sent else reply.usage
                self._enter(call.number, request, said, usage, start, error)
        return reply

    def _enter(
        self, call: int, request: Request, reply: str, usage: Usage, start: float, error: str
    ) -> None:
        self._call_budget.settle(
            MeteredExchange(
                purpose=request.purpose,
                model=request.model,
                request=transcript(request),
                reply=reply,
                usage=usage,
                seconds=time.monotonic() - start,
                dollars=cost(usage, self._prices),
                error=error,
                call=call,
            )
        )


class _Call:
    """The attempts of one call, and what they have cost together."""

    def __init__(self, number: int, call_budget: CallBudget):
        self.number = number
        self.sent = 0
        self.usage = Usage()
        self._call_budget = call_budget

    def begin(self, request: Request) -> Request:
        allowed = self._call_budget.reserve(self.number, request)
        self.sent += 1
        return allowed

    def end(self, usage: Usage) -> None:
        self.usage += usage


def transcript(request: Request) -> str:
    """The turns of a request as text."""
    return "\n\n".join(
        f"[{m.role.value}]\n{_words(m.content, m.tool_calls)}" for m in request.messages
    )


def _said(reply: Reply) -> str:
    return _words(reply.text, reply.tool_calls)


def _words(text: str, tool_calls: tuple[ToolCall, ...]) -> str:
    calls = [f"[calls {call.name} {call.arguments}]" for call in tool_calls]
    return "\n".join([*([text] if text else []), *calls])
