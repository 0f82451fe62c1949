"""The client of OpenAI-compatible servers: attempts, lessons, deadline.

A call is made again as a whole after 429, 5xx, a lost connection, and a stream that breaks off;
`Delta(restart)` then takes back what was shown. What a server does not understand is learnt once
for each model (`quirks.py`).
"""

from __future__ import annotations

import asyncio
import json
import random

from astra_tui.llm import wire_chat, wire_responses
from astra_tui.llm.connection import Connection
from astra_tui.llm.endpoint import Endpoint, Retries, Wire
from astra_tui.llm.errors import DeadlineExceeded, LLMError, RateLimited, ServerFailed
from astra_tui.llm.failures import (
    expected_failures,
    rejection_of,
    translate,
    was_refused,
)
from astra_tui.llm.messages import (
    Attempts,
    Delta,
    DeltaKind,
    Json,
    OnDelta,
    Reply,
    Request,
    Usage,
)
from astra_tui.llm.quirks import Quirks, first_quirks, learn
from astra_tui.llm.streamed import StreamedReply
from astra_tui.model.settings import WireChoice

WIRES = {Wire.CHAT: wire_chat, Wire.RESPONSES: wire_responses}


class OpenAILLM:
    """Answers requests from a server. Use it in one event loop, and close it at the end."""

    def __init__(self, endpoint: Endpoint):
        self.endpoint = endpoint
        self._connection = Connection(endpoint)
        self._quirks: dict[tuple[str, WireChoice], Quirks] = {}

    async def __aenter__(self) -> OpenAILLM:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._connection.close()

    def quirks(self, model: str, endpoint: Endpoint | None = None) -> Quirks:
        """What is known of a model so far, asked as the endpoint says, or a request's own."""
        endpoint = endpoint or self.endpoint
        return self._quirks.get((model, endpoint.wire)) or first_quirks(endpoint)

    async def models(self) -> object:
        """What the server answers to GET /models, as JSON. Raises LLMError."""
        failure: LLMError
        await self._connection.client()
        try:
            async with asyncio.timeout(self.endpoint.timeouts.total):
                return await self._connection.get("/models")
        except TimeoutError:
            failure = _late(self.endpoint)
        except expected_failures() as error:
            failure = translate(error, self.endpoint, "")
        raise failure

    async def complete(
        self,
        request: Request,
        on_delta: OnDelta | None = None,
        attempts: Attempts | None = None,
    ) -> Reply:
        """Answer `request`, telling `on_delta` of each piece and `attempts` of each sending.

        Raises LLMError, and BudgetSpent where `attempts` does.
        """
        limits = request.wire, request.silence_seconds, request.call_seconds
        call = Call(request, self.endpoint.asked_as(*limits), on_delta or _ignore, attempts)
        try:
            async with asyncio.timeout(call.endpoint.timeouts.total) as deadline:
                return await self._persist(call, deadline)
        except TimeoutError:
            pass
        raise _late(call.endpoint)

    async def _persist(self, call: Call, deadline: asyncio.Timeout) -> Reply:
        """Attempts until one succeeds, one fails for good, or there were enough."""
        most = self.endpoint.retries.attempts
        failures = 0
        while True:
            try:
                return await self._attempt(call)
            except LLMError as error:
                failure = error
            failures += 1
            wait = _wait(failure, failures, self.endpoint.retries)
            left = (deadline.when() or 0.0) - asyncio.get_running_loop().time()
            if not failure.passing or failures >= most or wait > left:
                raise failure
            call.take_back()
            await asyncio.sleep(wait)

    async def _attempt(self, call: Call) -> Reply:
        """One attempt, repeated at once as long as the server's refusals teach something."""
        model = call.request.model
        while True:
            quirks = self.quirks(model, call.endpoint)
            await self._connection.client()
            body = WIRES[quirks.wire].body(call.begin(), quirks)
            try:
                failure = await self._send(call, quirks, body)
                if failure is None:
                    return call.streamed.reply(call.sent)
            finally:
                call.end(body)
            rejection = rejection_of(failure)
            learnt = rejection and learn(quirks, rejection, call.request, _parameters(body))
            if not learnt:
                raise translate(failure, call.endpoint, model)
            self._quirks[model, call.endpoint.wire] = learnt

    async def _send(self, call: Call, quirks: Quirks, body: Json) -> Exception | None:
        """Send a body and gather the answer in the call; what went wrong, or None."""
        wire = WIRES[quirks.wire]
        try:
            silence = call.endpoint.timeouts.silence
            async with await self._connection.stream(wire.PATH, body, silence) as events:
                call.taken = True
                async for event in events:
                    call.streamed.answered = True
                    wire.read(event, call.streamed)
        except LLMError:
            raise
        except expected_failures() as error:
            call.taken = call.taken or not was_refused(error)
            return error
        except asyncio.CancelledError:
            call.taken = True  # What the server has read of it is not known.
            raise
        return None


def _late(endpoint: Endpoint) -> DeadlineExceeded:
    return DeadlineExceeded(
        f"{endpoint.address} gave no whole answer in {endpoint.timeouts.total:g} s",
        hint="give calls longer (--call-seconds), or choose a faster model",
    )


class Call:
    """The state of one call over its attempts; `endpoint` is as it wants to be asked."""

    def __init__(
        self, request: Request, endpoint: Endpoint, on_delta: OnDelta, attempts: Attempts | None
    ):
        self.request = request
        self.endpoint = endpoint
        self.sent = 0
        self.taken = False
        """Whether the server may have worked on what was sent last."""
        self._on_delta = on_delta
        self._attempts = attempts
        self.streamed = StreamedReply(on_delta, request.max_output_tokens)

    def begin(self) -> Request:
        """The request as it may be sent now; forgets what an earlier one brought."""
        request = self._attempts.begin(self.request) if self._attempts else self.request
        self.sent += 1
        self.taken = False
        self.streamed = StreamedReply(self._on_delta, request.max_output_tokens)
        return request

    def end(self, body: Json) -> None:
        """Tell what the request that was begun last has cost."""
        if self._attempts is not None:
            sent = len(json.dumps(body, ensure_ascii=False).encode())
            usage = self.streamed.spent(sent) if self.taken else Usage()
            self._attempts.end(usage)

    def take_back(self) -> None:
        """Tell that what was shown counts no more."""
        if self.streamed.shown:
            self._on_delta(Delta(DeltaKind.RESTART))


def _wait(failure: LLMError, failures: int, retries: Retries) -> float:
    """Seconds before the next attempt: the server's wish, else doubled each time, with jitter."""
    if isinstance(failure, RateLimited | ServerFailed) and failure.retry_after is not None:
        return failure.retry_after
    longest: float = min(retries.first_wait * 2.0 ** (failures - 1), retries.longest_wait)
    return longest * random.uniform(0.5, 1.0)


def _parameters(body: Json) -> frozenset[str]:
    nested = {f"reasoning.{name}" for name in body.get("reasoning", {})}
    return frozenset(body) | nested


def _ignore(delta: Delta) -> None:
    """No one watches."""
