"""Exchanges with a model as data: written while they happen, answered from later."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable

import msgspec

from astra_tui.llm.errors import ERROR_KINDS, LLMError, UnknownRequest
from astra_tui.llm.messages import (
    LLM,
    Attempts,
    Delta,
    DeltaKind,
    OnDelta,
    Reply,
    Request,
    Usage,
)
from astra_tui.model.digest import short

DELTA_CHARACTERS = 48
"""Size of the pieces in which a replayed answer arrives."""


class RecordedError(msgspec.Struct, frozen=True):
    """An error in place of a reply; `kind` is the name of its class."""

    kind: str
    message: str
    hint: str = ""
    usage: Usage = Usage()


class Exchange(msgspec.Struct, frozen=True, omit_defaults=True):
    """A request and its result: a reply or an error, after `seconds`.

    It holds whole kernel sources: the caller that stores it decides who may read it.
    """

    hash: str
    request: Request
    seconds: float
    reply: Reply | None = None
    error: RecordedError | None = None


class Recorder:
    """Passes requests on, and every exchange to `sink`."""

    def __init__(self, llm: LLM, sink: Callable[[Exchange], None]):
        self._llm = llm
        self._sink = sink

    async def complete(
        self,
        request: Request,
        on_delta: OnDelta | None = None,
        attempts: Attempts | None = None,
    ) -> Reply:
        """Answer from the wrapped model. A cancelled call is not recorded."""
        start = time.monotonic()
        try:
            reply = await self._llm.complete(request, on_delta, attempts)
        except LLMError as error:
            said = RecordedError(type(error).__name__, error.message, error.hint, error.usage)
            seconds = time.monotonic() - start
            self._sink(Exchange(request.hash, request, seconds, error=said))
            raise
        self._sink(Exchange(request.hash, request, time.monotonic() - start, reply=reply))
        return reply


class Replayer:
    """Answers from recorded exchanges; equal requests get their replies in recorded order."""

    def __init__(self, exchanges: Iterable[Exchange]):
        self._left: dict[str, deque[Exchange]] = defaultdict(deque)
        self._known: list[Exchange] = []
        for exchange in exchanges:
            self._left[exchange.hash].append(exchange)
            self._known.append(exchange)

    async def complete(
        self,
        request: Request,
        on_delta: OnDelta | None = None,
        attempts: Attempts | None = None,  # noqa: ARG002 - nothing is sent
    ) -> Reply:
        """The recorded reply. Raises the recorded error, and UnknownRequest for a new request."""
        waiting = self._left.get(request.hash)
        if not waiting:
            raise self._unknown(request)
        exchange = waiting.popleft()
        if exchange.error is not None:
            raise _error_again(exchange.error)
        if exchange.reply is None:
            raise UnknownRequest(
                f"the recording of request {short(request.hash)} has neither reply nor error",
                hint="record the session again",
            )
        if on_delta is not None:
            _show(exchange.reply.text, on_delta)
        return exchange.reply

    def _unknown(self, request: Request) -> UnknownRequest:
        used = sum(exchange.hash == request.hash for exchange in self._known)
        if used:
            reason = f"it was recorded {used} times, and all of these are used up"
        else:
            reason = _difference(request, self._known)
        purpose = f" ({request.purpose})" if request.purpose else ""
        return UnknownRequest(
            f"the recording has no answer to request {short(request.hash)}{purpose}: {reason}",
            hint="the prompts or the kernel changed since; record the session again",
        )


def _error_again(recorded: RecordedError) -> LLMError:
    kind = ERROR_KINDS.get(recorded.kind, LLMError)
    error = kind(recorded.message, hint=recorded.hint)
    error.usage = recorded.usage
    return error


def _difference(request: Request, known: Iterable[Exchange]) -> str:
    """How a request differs from the recorded ones of its purpose, in one phrase."""
    alike = [e.request for e in known if e.request.purpose == request.purpose]
    if not alike:
        return "nothing of its purpose was recorded"
    differing = min((_differing_fields(request, other) for other in alike), key=len)
    return f"the nearest recorded one differs in {', '.join(differing)}"


def _differing_fields(one: Request, other: Request) -> list[str]:
    names = [name for name in one.__struct_fields__ if getattr(one, name) != getattr(other, name)]
    if "messages" not in names:
        return names
    pairs = list(zip(one.messages, other.messages, strict=False))
    places = [f"message {n}" for n, (mine, its) in enumerate(pairs, 1) if mine != its]
    if len(one.messages) != len(other.messages):
        places.append("the number of messages")
    return places + [name for name in names if name != "messages"]


def _show(text: str, on_delta: OnDelta) -> None:
    for start in range(0, len(text), DELTA_CHARACTERS):
        on_delta(Delta(DeltaKind.TEXT, text[start : start + DELTA_CHARACTERS]))
