"""The chat wire: POST /chat/completions, which every OpenAI-compatible server has."""

from __future__ import annotations

import msgspec

from astra_tui.llm.messages import Json, Message, Request, ToolCall, ToolSpec, Usage
from astra_tui.llm.quirks import Quirks
from astra_tui.llm.schemas import SchemaMode, schema_instruction
from astra_tui.llm.streamed import StreamedReply

PATH = "/chat/completions"


class FunctionPiece(msgspec.Struct):
    """A part of a call's name and arguments."""

    name: str | None = None
    arguments: str | None = None


class CallPiece(msgspec.Struct):
    """A part of a tool call."""

    index: int | None = None
    id: str | None = None
    function: FunctionPiece | None = None


class ChoiceDelta(msgspec.Struct):
    """What a chunk adds. `reasoning_content` is vLLM's and DeepSeek's, `reasoning` OpenRouter's."""

    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    tool_calls: list[CallPiece] | None = None


class Choice(msgspec.Struct):
    """One of the answers; only the first is read."""

    delta: ChoiceDelta | None = None
    finish_reason: str | None = None


class PromptDetails(msgspec.Struct):
    """Of the input tokens."""

    cached_tokens: int | None = None


class CompletionDetails(msgspec.Struct):
    """Of the output tokens."""

    reasoning_tokens: int | None = None


class ChatUsage(msgspec.Struct):
    """The server's count of tokens."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: PromptDetails | None = None
    completion_tokens_details: CompletionDetails | None = None


class Chunk(msgspec.Struct):
    """One event of the stream."""

    choices: list[Choice] | None = None
    usage: ChatUsage | None = None
    model: str | None = None


def body(request: Request, quirks: Quirks) -> Json:
    """The request as this server takes it."""
    messages = [_message(message) for message in request.messages]
    content: Json = {
        "model": request.model,
        "messages": messages,
        "stream": True,
        "stream_options": {"include_usage": True},
        "store": False,
        quirks.token_limits[0]: request.max_output_tokens,
    }
    if request.temperature is not None:
        content["temperature"] = request.temperature
    if request.tools:
        content["tools"] = [_tool(tool) for tool in request.tools]
    effort = request.reasoning_effort
    if request.tools and quirks.effort_none_with_tools:
        effort = "none"
    if effort is not None:
        content["reasoning_effort"] = effort
    if request.schema is not None:
        if quirks.schema_mode is not SchemaMode.JSON_SCHEMA:
            messages.append(_message(schema_instruction(request.schema)))
        if (form := _response_format(request, quirks.schema_mode)) is not None:
            content["response_format"] = form
    return {key: value for key, value in content.items() if key not in quirks.dropped}


def read(event: object, reply: StreamedReply) -> None:
    """Add one event to the reply. Raises msgspec.ValidationError for one of another form."""
    chunk = msgspec.convert(event, Chunk)
    reply.model = chunk.model or reply.model
    if chunk.usage is not None:
        reply.usage = _usage(chunk.usage)
    for choice in (chunk.choices or [])[:1]:
        if choice.delta is not None:
            _read_delta(choice.delta, reply)
        reply.finish = choice.finish_reason or reply.finish


def _read_delta(delta: ChoiceDelta, reply: StreamedReply) -> None:
    if thought := delta.reasoning_content or delta.reasoning:
        reply.add_reasoning(thought)
    if delta.content:
        reply.add_text(delta.content)
    reply.refusal += delta.refusal or ""
    for position, piece in enumerate(delta.tool_calls or []):
        function = piece.function or FunctionPiece()
        index = position if piece.index is None else piece.index
        reply.add_call(index, piece.id or "", function.name or "", function.arguments or "")


def _message(message: Message) -> Json:
    # An empty content is "" and never null: llama-cpp-python refuses null.
    content: Json = {"role": message.role.value, "content": message.content}
    if message.tool_calls:
        content["tool_calls"] = [_call(call) for call in message.tool_calls]
    if message.tool_call_id:
        content["tool_call_id"] = message.tool_call_id
    return content


def _call(call: ToolCall) -> Json:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def _tool(tool: ToolSpec) -> Json:
    return {"type": "function", "function": {**msgspec.to_builtins(tool), "strict": tool.strict}}


def _response_format(request: Request, mode: SchemaMode) -> Json | None:
    if request.schema is None or mode is SchemaMode.PROMPT:
        return None
    if mode is SchemaMode.JSON_OBJECT:
        return {"type": "json_object"}
    if mode is SchemaMode.OBJECT_WITH_SCHEMA:
        return {"type": "json_object", "schema": request.schema.schema}
    named = {"name": request.schema.name, "strict": True, "schema": request.schema.schema}
    return {"type": "json_schema", "json_schema": named}


def _usage(usage: ChatUsage) -> Usage:
    prompt = usage.prompt_tokens_details or PromptDetails()
    completion = usage.completion_tokens_details or CompletionDetails()
    return Usage(
        input_tokens=usage.prompt_tokens or 0,
        cached_tokens=prompt.cached_tokens or 0,
        output_tokens=usage.completion_tokens or 0,
        reasoning_tokens=completion.reasoning_tokens or 0,
    )
