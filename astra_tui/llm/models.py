"""What a server offers, and what it can do: for choosing a model and for `doctor`."""

from __future__ import annotations

import time
from typing import Literal

import msgspec

from astra_tui.llm.client import OpenAILLM
from astra_tui.llm.errors import BadAnswer, LLMError
from astra_tui.llm.messages import Delta, DeltaKind, Message, Request, Speaker, ToolSpec
from astra_tui.llm.schemas import SchemaMode
from astra_tui.llm.structured import ask
from astra_tui.llm.surrogates import joined_json

MAX_LISTED = 20
PROBE_TOKENS = 2000
"""Enough for a model that thinks before it says a word."""


class OfferedModel(msgspec.Struct, frozen=True):
    """A model of a server's list; `shutdown_date` as the server writes it, where it does."""

    id: str
    shutdown_date: str | int | None = None


class ModelList(msgspec.Struct, frozen=True):
    """The answer to GET /models."""

    data: tuple[OfferedModel, ...] = ()


SchemaSupport = Literal["json_schema", "json_object with a schema", "json_object", "prompt", "none"]
"""How a server takes schemas; "none" where no valid answer came."""

_SUPPORT: dict[SchemaMode, SchemaSupport] = {
    SchemaMode.JSON_SCHEMA: "json_schema",
    SchemaMode.OBJECT_WITH_SCHEMA: "json_object with a schema",
    SchemaMode.JSON_OBJECT: "json_object",
    SchemaMode.PROMPT: "prompt",
}


class Probe(msgspec.Struct, frozen=True):
    """What a model of a server turned out to do.

    `error` is empty where plain text works. `seconds` is the time of the plain call, its first use
    of the network included.
    """

    model: str
    wire: str = ""
    streaming: bool = False
    usage: bool = False
    schema: SchemaSupport = "none"
    tools: bool = False
    seconds: float = 0.0
    error: str = ""


class Colour(msgspec.Struct, frozen=True):
    """The answer that a probe asks for."""

    colour: str


COLOUR_TOOL = ToolSpec(
    "report_colour",
    "Report a colour.",
    {
        "type": "object",
        "properties": {"colour": {"type": "string"}},
        "required": ["colour"],
        "additionalProperties": False,
    },
)


async def offered_models(llm: OpenAILLM) -> tuple[OfferedModel, ...]:
    """The models of a server, by name. Raises LLMError."""
    try:
        models = msgspec.convert(joined_json(await llm.models()), ModelList)
    except msgspec.ValidationError as error:
        problem = str(error)
    else:
        return tuple(sorted(models.data, key=lambda model: model.id))
    raise BadAnswer(
        f"{llm.endpoint.address} lists its models in an unknown form: {problem}",
        hint="check the base URL, or name the model with --model",
    )


def model_required(models: tuple[OfferedModel, ...]) -> str:
    """What to tell a user who named no model."""
    if not models:
        return "--model is required; this server lists no models"
    names = ", ".join(model.id for model in models[:MAX_LISTED])
    more = f" and {len(models) - MAX_LISTED} more" if len(models) > MAX_LISTED else ""
    return f"--model is required; this server offers: {names}{more}"


async def probe(llm: OpenAILLM, model: str) -> Probe:
    """Try what a model can do with three short calls; never raises LLMError."""
    pieces: list[Delta] = []
    start = time.monotonic()
    try:
        reply = await llm.complete(_request(model, "Name three colours."), pieces.append)
    except LLMError as error:
        return Probe(model, error=error.describe())
    seconds = time.monotonic() - start
    schema = await _probe_schema(llm, model)
    tools = await _probe_tools(llm, model)
    return Probe(
        model=model,
        wire=llm.quirks(model).wire.value,
        streaming=sum(piece.kind is not DeltaKind.RESTART for piece in pieces) > 1,
        usage=reply.usage.reported,
        schema=schema,
        tools=tools,
        seconds=seconds,
    )


async def _probe_schema(llm: OpenAILLM, model: str) -> SchemaSupport:
    try:
        await ask(llm, _request(model, "Name one colour."), Colour)
    except LLMError:
        return "none"
    return _SUPPORT[llm.quirks(model).schema_mode]


async def _probe_tools(llm: OpenAILLM, model: str) -> bool:
    request = _request(model, "Call report_colour with the colour red.")
    try:
        reply = await llm.complete(msgspec.structs.replace(request, tools=(COLOUR_TOOL,)))
    except LLMError:
        return False
    return any(call.name == COLOUR_TOOL.name for call in reply.tool_calls)


def _request(model: str, text: str) -> Request:
    return Request((Message(Speaker.USER, text),), model, PROBE_TOKENS, purpose="probe")
