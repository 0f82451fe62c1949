"""The loop in which a model calls functions of ours until it answers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping

import msgspec

from astra_tui.llm.errors import BadAnswer, LLMError
from astra_tui.llm.messages import (
    LLM,
    Delta,
    DeltaKind,
    Json,
    Message,
    OnDelta,
    Reply,
    Request,
    Speaker,
    ToolCall,
    ToolSpec,
    Usage,
)
from astra_tui.llm.surrogates import joined_json
from astra_tui.model.errors import UserError, nearest

Handler = Callable[[Json], Awaitable[str]]
"""Does a call. Its UserErrors are told to the model; other exceptions are faults of ours."""

NO_MORE = "There are no more tools in this turn. Answer now, with what you have."

MAX_REPEATS = 2
"""How often the very same call is done; after that the model hears that nothing changes."""


class ToolRun(msgspec.Struct, frozen=True):
    """The last reply, the whole conversation with it, and the tokens of all turns."""

    reply: Reply
    messages: tuple[Message, ...]
    usage: Usage
    turns: int


async def run_tools(
    llm: LLM,
    request: Request,
    handlers: Mapping[str, Handler],
    max_turns: int,
    on_delta: OnDelta | None = None,
) -> ToolRun:
    """Call the model and the tools it asks for, until it answers without asking.

    Mistakes of the model (an unknown tool, bad arguments) are told to it. In the last of
    `max_turns` replies it has no tools. Raises BadAnswer where it asks for some all the same, and
    what `complete` raises; the error's usage is that of all turns.
    """
    desk = ToolRunner(request.tools, handlers)
    usage = Usage()
    for turn in range(1, max_turns + 1):
        if turn > 1 and on_delta is not None:
            on_delta(Delta(DeltaKind.RESTART))
        if turn == max_turns > 1:
            last = Message(Speaker.USER, NO_MORE)
            request = msgspec.structs.replace(request, tools=(), messages=(*request.messages, last))
        try:
            reply = await llm.complete(request, on_delta)
        except LLMError as error:
            error.usage += usage
            raise
        usage += reply.usage
        messages = (*request.messages, reply.as_message())
        if not reply.tool_calls:
            return ToolRun(reply, messages, usage, turn)
        results = [
            Message(Speaker.TOOL, await desk.answer(call), tool_call_id=call.id)
            for call in reply.tool_calls
        ]
        request = msgspec.structs.replace(request, messages=(*messages, *results))
    raise BadAnswer(
        f"{request.model} asked for tools {max_turns} times and gave no answer",
        hint="try again, or choose another model",
        usage=usage,
    )


class ToolRunner:
    """Does the calls of one run, and refuses endless repetition."""

    def __init__(self, tools: tuple[ToolSpec, ...], handlers: Mapping[str, Handler]):
        self._specs = {tool.name: tool for tool in tools}
        self._handlers = handlers
        self._done: Counter[tuple[str, str]] = Counter()

    async def answer(self, call: ToolCall) -> str:
        """The text for the model: a tool's result, or what is wrong with the call."""
        if call.name not in self._specs or call.name not in self._handlers:
            return f"error: no tool '{call.name}'; {nearest(call.name, self._specs)}"
        try:
            arguments = read_arguments(call, self._specs[call.name])
            self._count(call.name, arguments)
            return await self._handlers[call.name](arguments)
        except UserError as error:
            return f"error: {error.describe()}"

    def _count(self, name: str, arguments: Json) -> None:
        key = (name, json.dumps(arguments, sort_keys=True))
        if self._done[key] >= MAX_REPEATS:
            raise UserError(
                f"{name} was called {MAX_REPEATS} times with these arguments; "
                "the result does not change, so use what you have"
            )
        self._done[key] += 1


def read_arguments(call: ToolCall, spec: ToolSpec) -> Json:
    """The arguments of a call. Raises UserError for text that is no object, and wrong names."""
    try:
        arguments = joined_json(json.loads(call.arguments or "{}"))
    except (ValueError, RecursionError) as error:
        raise UserError(f"the arguments of {call.name} are not JSON: {error}") from None
    if not isinstance(arguments, dict):
        raise UserError(f"the arguments of {call.name} have to be one JSON object")
    known = spec.parameters.get("properties", {})
    missing = [name for name in spec.parameters.get("required", ()) if name not in arguments]
    if missing:
        raise UserError(f"{call.name} needs {', '.join(missing)}")
    for name in arguments:
        if name not in known:
            raise UserError(f"{call.name} has no argument '{name}'", hint=nearest(name, known))
    return arguments
