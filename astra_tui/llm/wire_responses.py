"""The Responses wire: POST /responses, which OpenAI's newer models need for tools."""

from __future__ import annotations

import msgspec

from astra_tui.llm.messages import Json, Message, Request, Speaker, ToolSpec, Usage
from astra_tui.llm.quirks import Quirks
from astra_tui.llm.schemas import SchemaMode, schema_instruction
from astra_tui.llm.streamed import StreamedReply

PATH = "/responses"


class StreamError(Exception):
    """A failure that the server reports inside the stream."""

    def __init__(self, code: str, message: str):
        super().__init__(message)
        self.code = code
        self.message = message


class ErrorBody(msgspec.Struct):
    """Why a response failed."""

    code: str | None = None
    message: str | None = None


class Incomplete(msgspec.Struct):
    """Why a response is incomplete."""

    reason: str | None = None


class InputDetails(msgspec.Struct):
    """Of the input tokens."""

    cached_tokens: int | None = None


class OutputDetails(msgspec.Struct):
    """Of the output tokens."""

    reasoning_tokens: int | None = None


class ResponsesUsage(msgspec.Struct):
    """The server's count of tokens."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: InputDetails | None = None
    output_tokens_details: OutputDetails | None = None


class Response(msgspec.Struct):
    """The state of the whole answer."""

    model: str | None = None
    usage: ResponsesUsage | None = None
    error: ErrorBody | None = None
    incomplete_details: Incomplete | None = None


class Event(msgspec.Struct):
    """One event of the stream; which fields it has depends on its type."""

    type: str
    delta: str | None = None
    item: Json | None = None
    response: Response | None = None
    code: str | None = None
    message: str | None = None
    output_index: int | None = None


class FunctionCall(msgspec.Struct):
    """An item of the output that asks for a tool."""

    call_id: str
    name: str
    arguments: str = ""


def body(request: Request, quirks: Quirks) -> Json:
    """The request as this server takes it. Nothing is stored at the provider."""
    messages = list(request.messages)
    if request.schema is not None and quirks.schema_mode is not SchemaMode.JSON_SCHEMA:
        messages.append(schema_instruction(request.schema))
    content: Json = {
        "model": request.model,
        "instructions": "\n\n".join(m.content for m in messages if m.role is Speaker.SYSTEM),
        "input": [item for message in messages for item in _items(message)],
        "stream": True,
        "store": False,
        "max_output_tokens": request.max_output_tokens,
    }
    if request.temperature is not None:
        content["temperature"] = request.temperature
    if request.tools:
        content["tools"] = [_tool(tool) for tool in request.tools]
        content["include"] = ["reasoning.encrypted_content"]
    if request.reasoning_effort is not None:
        content["reasoning"] = {"effort": request.reasoning_effort}
        if "reasoning.summary" not in quirks.dropped:
            content["reasoning"]["summary"] = "auto"
    if (form := _text_format(request, quirks.schema_mode)) is not None:
        content["text"] = {"format": form}
    return {key: value for key, value in content.items() if key not in quirks.dropped}


def read(event: object, reply: StreamedReply) -> None:
    """Add one event to the reply.

    Raises StreamError for a failure that is reported, msgspec.ValidationError for an event of
    another form.
    """
    kind = event.get("type") if isinstance(event, dict) else None
    if not isinstance(kind, str) or kind not in READERS:
        return
    READERS[kind](msgspec.convert(event, Event), reply)


def _read_text(event: Event, reply: StreamedReply) -> None:
    reply.add_text(event.delta or "")


def _read_reasoning(event: Event, reply: StreamedReply) -> None:
    reply.add_reasoning(event.delta or "")


def _read_refusal(event: Event, reply: StreamedReply) -> None:
    reply.refusal += event.delta or ""


def _read_item(event: Event, reply: StreamedReply) -> None:
    item = event.item or {}
    if item.get("type") == "function_call":
        call = msgspec.convert(item, FunctionCall)
        reply.add_call(event.output_index or 0, call.call_id, call.name, call.arguments)
    elif item.get("type") == "reasoning" and item.get("encrypted_content"):
        reply.opaque.append(item)


def _read_end(event: Event, reply: StreamedReply) -> None:
    response = event.response or Response()
    reply.model = response.model or ""
    if response.usage is not None:
        reply.usage = _usage(response.usage)
    if event.type == "response.completed":
        reply.finish = "stop"
        return
    reason = response.incomplete_details and response.incomplete_details.reason
    reply.finish = "content_filter" if reason == "content_filter" else "length"


def _read_failure(event: Event, reply: StreamedReply) -> None:  # noqa: ARG001 - as all readers
    error = (event.response and event.response.error) or ErrorBody(event.code, event.message)
    raise StreamError(error.code or "", error.message or "the server gives no reason")


READERS = {
    "response.output_text.delta": _read_text,
    "response.reasoning_summary_text.delta": _read_reasoning,
    "response.reasoning_text.delta": _read_reasoning,
    "response.refusal.delta": _read_refusal,
    "response.output_item.done": _read_item,
    "response.completed": _read_end,
    "response.incomplete": _read_end,
    "response.failed": _read_failure,
    "error": _read_failure,
}


def _items(message: Message) -> list[Json]:
    if message.role is Speaker.SYSTEM:
        return []
    if message.role is Speaker.TOOL:
        answer = {"call_id": message.tool_call_id, "output": message.content}
        return [{"type": "function_call_output", **answer}]
    items: list[Json] = list(message.opaque)
    if message.content or not message.tool_calls:
        items.append({"role": message.role.value, "content": message.content})
    for call in message.tool_calls:
        content = {"call_id": call.id, "name": call.name, "arguments": call.arguments}
        items.append({"type": "function_call", **content})
    return items


def _tool(tool: ToolSpec) -> Json:
    return {"type": "function", **msgspec.to_builtins(tool), "strict": tool.strict}


def _text_format(request: Request, mode: SchemaMode) -> Json | None:
    if request.schema is None or mode is SchemaMode.PROMPT:
        return None
    if mode in (SchemaMode.OBJECT_WITH_SCHEMA, SchemaMode.JSON_OBJECT):
        return {"type": "json_object"}
    named = {"name": request.schema.name, "strict": True, "schema": request.schema.schema}
    return {"type": "json_schema", **named}


def _usage(usage: ResponsesUsage) -> Usage:
    received = usage.input_tokens_details or InputDetails()
    sent = usage.output_tokens_details or OutputDetails()
    return Usage(
        input_tokens=usage.input_tokens or 0,
        cached_tokens=received.cached_tokens or 0,
        output_tokens=usage.output_tokens or 0,
        reasoning_tokens=sent.reasoning_tokens or 0,
    )
