"""What each call of a model was for, said, and cost."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from astra_tui.agents.llm.errors import LLMError
from astra_tui.agents.llm.messages import LLM, OnDelta, Reply, Request, Usage
from astra_tui.agents.llm.prices import Prices, cost


class BookedExchange(msgspec.Struct, frozen=True):
    """One call as a journal keeps it. `dollars` is None where a price or a count is not known."""

    purpose: str
    model: str
    request: str
    """The conversation that was sent, one paragraph a turn."""
    reply: str
    usage: Usage
    seconds: float
    dollars: float | None
    error: str = ""


class Bookkeeper:
    """Passes requests on, and books every call that was not cancelled, failed ones too."""

    def __init__(self, llm: LLM, prices: Prices, book: Callable[[BookedExchange], None]):
        self._llm = llm
        self._prices = prices
        self._book = book

    async def complete(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        """The reply of the model. Raises LLMError, after it was booked."""
        start = time.monotonic()
        try:
            reply = await self._llm.complete(request, on_delta)
        except LLMError as error:
            self._enter(request, "", error.usage, start, error.describe())
            raise
        self._enter(request, _said(reply), reply.usage, start)
        return reply

    def _enter(
        self, request: Request, reply: str, usage: Usage, start: float, error: str = ""
    ) -> None:
        self._book(
            BookedExchange(
                purpose=request.purpose,
                model=request.model,
                request=transcript(request),
                reply=reply,
                usage=usage,
                seconds=time.monotonic() - start,
                dollars=cost(usage, self._prices),
                error=error,
            )
        )


def transcript(request: Request) -> str:
    """The turns of a request as text."""
    return "\n\n".join(f"[{m.role.value}]\n{m.content}" for m in request.messages)


def _said(reply: Reply) -> str:
    calls = [f"[calls {call.name} {call.arguments}]" for call in reply.tool_calls]
    return "\n".join([*([reply.text] if reply.text else []), *calls])
