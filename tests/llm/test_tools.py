"""The tool loop, with models that make every mistake."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tui.llm import (
    AnswerSchema,
    BadAnswer,
    OpenAILLM,
    ToolCall,
    ToolRun,
    ToolSpec,
    Truncated,
    Usage,
    run_tools,
)
from astra_tui.llm.tools import Handler, read_arguments
from astra_tui.model.errors import UserError
from tests.llm.conftest import Scripted, user_request

READ = ToolSpec(
    "read_lines",
    "Lines of the source.",
    {
        "type": "object",
        "properties": {"first": {"type": "integer"}, "last": {"type": "integer"}},
        "required": ["first"],
    },
)


async def read_lines(arguments: dict[str, Any]) -> str:
    if arguments["first"] < 1:
        raise UserError("lines are counted from 1")
    return f"line {arguments['first']}"


def run(server: Scripted, wire: str, max_turns: int = 6) -> ToolRun:
    handlers: Mapping[str, Handler] = {"read_lines": read_lines}

    async def scenario() -> ToolRun:
        async with OpenAILLM(server.endpoint(wire)) as llm:
            request = user_request(tools=(READ,), reasoning_effort="low")
            return await run_tools(llm, request, handlers, max_turns)

    return asyncio.run(scenario())


def call(arguments: Any, name: str = "read_lines") -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def results(run_of_tools: ToolRun) -> list[str]:
    return [m.content for m in run_of_tools.messages if m.role.value == "tool"]


def test_tools_are_called_and_answered(server: Scripted, wire: str) -> None:
    server.play(
        {"tool_calls": [call({"first": 3}), call({"first": 5, "last": 6})], "reasoning": "look"},
        {"when": {"user": "line 5"}, "text": "done"},
    )
    done = run(server, wire)
    assert (done.reply.text, done.turns) == ("done", 2)
    assert results(done) == ["line 3", "line 5"]
    assert done.usage == Usage(240, 40, 60, 20)


def test_pieces_that_repeat_ids_make_one_call(server: Scripted) -> None:
    entry = {"tool_calls": [call({"first": 3, "last": 4})], "repeat_ids": True, "piece": 3}
    server.play(entry, {"text": "done"})
    assert results(run(server, "chat")) == ["line 3"]
    sent = server.requests()[1]["messages"]
    assert sent[-2]["content"] == ""
    assert sent[-2]["tool_calls"][0]["id"] == sent[-1]["tool_call_id"] == "call_0"
    assert sent[-2]["tool_calls"][0]["function"]["name"] == "read_lines"


def test_encrypted_reasoning_goes_back_unchanged(server: Scripted) -> None:
    server.play({"tool_calls": [call({"first": 3})], "reasoning": "look"}, {"text": "done"})
    run(server, "responses")
    first, second = server.requests()
    assert first["include"] == ["reasoning.encrypted_content"]
    kinds = [item.get("type", item.get("role")) for item in second["input"]]
    assert kinds == ["user", "reasoning", "function_call", "function_call_output"]
    assert second["input"][1]["encrypted_content"] == "e30="


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (call('{"first": '), "are not JSON"),
        (call("[1]"), "one JSON object"),
        (call({}), "needs first"),
        (call({"first": 1, "lst": 2}), "did you mean 'last'"),
        (call({"first": 0}), "counted from 1"),
        (call({}, "read_line"), "did you mean 'read_lines'"),
        (call({}, ""), "no tool ''"),
    ],
)
def test_mistakes_are_told_to_the_model(
    server: Scripted, wire: str, wrong: dict[str, Any], told: str
) -> None:
    server.play({"tool_calls": [wrong]}, {"tool_calls": [call({"first": 1})]}, {"text": "done"})
    first, second = results(run(server, wire))
    assert first.startswith("error: ")
    assert told in first
    assert second == "line 1"


def test_the_same_call_is_not_done_for_ever(server: Scripted, wire: str) -> None:
    again = {"tool_calls": [call({"first": 1, "last": 2})]}
    other_order = {"tool_calls": [call('{"last": 2, "first": 1}')]}
    server.play(again, other_order, again, {"text": "done"})
    assert [r.startswith("error: ") for r in results(run(server, wire))] == [False, False, True]


def test_turns_are_bounded(server: Scripted, wire: str) -> None:
    server.play({"tool_calls": [call({"first": 1})], "times": None})
    with pytest.raises(BadAnswer, match="4 times") as caught:
        run(server, wire, max_turns=4)
    assert caught.value.usage.input_tokens == 480


def test_a_failing_turn_counts_all_turns(server: Scripted, wire: str) -> None:
    server.play({"tool_calls": [call({"first": 1})]}, {"text": "x", "finish": "length"})
    with pytest.raises(Truncated) as caught:
        run(server, wire)
    assert caught.value.usage == Usage(240, 40, 60, 20)


def test_faults_of_ours_are_not_hidden(server: Scripted) -> None:
    async def broken(arguments: dict[str, Any]) -> str:
        raise ZeroDivisionError

    async def scenario() -> None:
        async with OpenAILLM(server.endpoint()) as llm:
            await run_tools(llm, user_request(tools=(READ,)), {"read_lines": broken}, 2)

    server.play({"tool_calls": [call({"first": 1})]})
    with pytest.raises(ZeroDivisionError):
        asyncio.run(scenario())


def test_tools_and_a_schema_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="never both"):
        user_request(tools=(READ,), schema=AnswerSchema("x", {}))


def test_half_a_character_in_arguments_is_replaced() -> None:
    spec = ToolSpec("look", "", {"properties": {"at": {"type": "string"}}})
    arguments = read_arguments(ToolCall("1", "look", '{"at": "\\ud83d \\ud83d\\ude80"}'), spec)
    assert arguments == {"at": "\ufffd \U0001f680"}


@given(st.text() | st.recursive(st.integers(), lambda inner: st.lists(inner)).map(str))
def test_reading_arguments_raises_user_errors_only(text: str) -> None:
    with suppress(UserError):
        assert isinstance(read_arguments(ToolCall("1", "read_lines", text), READ), dict)
