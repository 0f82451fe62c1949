"""The messages to a language model, its answers and what they cost, independent of any wire.

Prices are the user's; none are built in, since they go stale.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any, Protocol

import msgspec

from astra_tui.model.digest import content_hash
from astra_tui.model.settings import WireChoice

Json = dict[str, Any]
"""A JSON object."""


class Speaker(StrEnum):
    """Who speaks."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class ToolCall(msgspec.Struct, frozen=True):
    """A function that the model wants called; `arguments` is its JSON text, unchecked."""

    id: str
    name: str
    arguments: str


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """One turn of a conversation.

    `tool_calls` belong to the assistant, `tool_call_id` to a tool's answer. `opaque` holds items
    of the Responses wire (encrypted reasoning) that have to be sent back unchanged.
    """

    role: Speaker
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    opaque: tuple[Json, ...] = ()


class ToolSpec(msgspec.Struct, frozen=True):
    """A function that the model may ask for; `parameters` is a JSON schema of an object."""

    name: str
    description: str
    parameters: Json

    @property
    def strict(self) -> bool:
        """Whether a server may hold arguments to the schema: it has no optional ones, and no more.

        (https://platform.openai.com/docs/guides/function-calling#strict-mode)
        """
        listed = set(self.parameters.get("properties", {}))
        closed = self.parameters.get("additionalProperties") is False
        return closed and listed == set(self.parameters.get("required", ()))


class AnswerSchema(msgspec.Struct, frozen=True):
    """The JSON schema that a whole answer has to fit."""

    name: str
    schema: Json


class Request(msgspec.Struct, frozen=True, omit_defaults=True):
    """One call of a model. `purpose` says what for, in recordings and costs; no server sees it.

    Raises ValueError for tools together with a schema: several servers then never call a tool
    (vLLM issue 39929).
    """

    messages: tuple[Message, ...]
    model: str
    max_output_tokens: int
    tools: tuple[ToolSpec, ...] = ()
    schema: AnswerSchema | None = None
    temperature: float | None = None
    reasoning_effort: str | None = None
    wire: WireChoice = WireChoice.AUTO
    """How it is sent, and how long it may be silent and take: None and AUTO are the endpoint's."""
    silence_seconds: float | None = None
    call_seconds: float | None = None
    purpose: str = ""

    def __post_init__(self) -> None:
        if self.tools and self.schema is not None:
            raise ValueError("a request has tools or a schema for its answer, never both")

    @property
    def hash(self) -> str:
        """Identifies the request in a recording: equal requests have equal hashes."""
        return content_hash(msgspec.json.encode(self, order="sorted"))


class Usage(msgspec.Struct, frozen=True):
    """Tokens of one or more answers, as their server counted them.

    `input_tokens` includes `cached_tokens`, `output_tokens` includes `reasoning_tokens`.
    `reported` is False where some count is an estimate from the bytes that were sent and received:
    the server gave none, gave less than it can have sent, or the answer broke off.
    """

    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    reported: bool = True

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            reported=self.reported and other.reported,
        )


class Reply(msgspec.Struct, frozen=True, omit_defaults=True):
    """A whole answer. `model` is the server's name of it; `attempts` counts the requests sent.

    `finish` is `stop` or `tool_calls`; answers that ended otherwise are raised as errors.
    """

    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()
    model: str = ""
    finish: str = "stop"
    attempts: int = 1
    opaque: tuple[Json, ...] = ()

    def as_message(self) -> Message:
        """The turn to append to the conversation."""
        return Message(Speaker.ASSISTANT, self.text, self.tool_calls, opaque=self.opaque)


class DeltaKind(StrEnum):
    """What a delta adds; `restart` takes everything back, since the call is made again."""

    TEXT = "text"
    REASONING = "reasoning"
    RESTART = "restart"


class Delta(msgspec.Struct, frozen=True):
    """A piece of an answer while it arrives."""

    kind: DeltaKind
    text: str = ""


OnDelta = Callable[[Delta], None]


class Attempts(Protocol):
    """Is told of every request that is sent for one call, before and after."""

    def begin(self, request: Request) -> Request:
        """The request as it may be sent, perhaps with a lower limit. Raises BudgetSpent."""
        ...

    def end(self, usage: Usage) -> None:
        """What the request that was begun last has cost."""
        ...


class LLM(Protocol):
    """Answers requests: the one interface to a model."""

    async def complete(
        self,
        request: Request,
        on_delta: OnDelta | None = None,
        attempts: Attempts | None = None,
    ) -> Reply:
        """Answer `request`, telling `on_delta` of each piece and `attempts` of each sending.

        Raises LLMError. Cancelling the task ends the call at once.
        """
        ...


class Prices(msgspec.Struct, frozen=True):
    """Dollars for a million tokens; None where the price is not known."""

    input_per_million: float | None = None
    output_per_million: float | None = None
    cached_per_million: float | None = None


def cost(usage: Usage, prices: Prices) -> float | None:
    """Dollars of some calls; None where a price that matters is not known.

    Cached tokens without a price of their own cost as much as others.
    """
    cached = prices.cached_per_million
    cached = prices.input_per_million if cached is None else cached
    parts = (
        (usage.input_tokens - usage.cached_tokens, prices.input_per_million),
        (usage.cached_tokens, cached),
        (usage.output_tokens, prices.output_per_million),
    )
    total = 0.0
    for tokens, price in parts:
        if tokens and price is None:
            return None
        total += tokens * (price or 0.0) / 1e6
    return total
