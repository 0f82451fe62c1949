"""What is learnt from refusals, and that each lesson costs one request once."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tui.llm import (
    AnswerSchema,
    Endpoint,
    NoSuchModel,
    OpenAILLM,
    Reply,
    Request,
    RequestRefused,
    Secret,
    ToolSpec,
)
from astra_tui.llm.endpoint import Wire
from astra_tui.llm.quirks import DROPPABLE, Rejection, first_quirks, is_unknown_model, learn
from astra_tui.model.settings import WireChoice
from tests.llm.conftest import Scripted, user_request

OBJECT: dict[str, Any] = {"type": "object", "properties": {}, "required": []}
TOOL = ToolSpec("read_file", "Read a file.", OBJECT)
SCHEMA = AnswerSchema("Plan", {"type": "object", "properties": {}, "additionalProperties": False})


def twice(endpoint: Endpoint, request: Request) -> tuple[Reply, Reply]:
    """Two calls of one client."""

    async def scenario() -> tuple[Reply, Reply]:
        async with OpenAILLM(endpoint) as llm:
            return await llm.complete(request), await llm.complete(request)

    return asyncio.run(scenario())


def answers(server: Scripted, *rules: dict[str, Any], **script: Any) -> None:
    server.play({"text": "fine", "times": None}, refuse=rules, **script)


SIMPLE = [
    ("chat", {"param": "temperature", "message": "Unsupported value: 'temperature' is fixed"}),
    ("chat", {"param": "stream_options", "message": "Unrecognized argument: stream_options"}),
    ("chat", {"param": "store", "message": "Extra inputs are not permitted", "status": 422}),
    ("chat", {"param": "reasoning_effort", "message": "Unknown parameter: 'reasoning_effort'"}),
    (
        "chat",
        {
            "param": "max_tokens",
            "message": "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
        },
    ),
    ("responses", {"param": "temperature"}),
    ("responses", {"param": "reasoning.summary", "message": "Unsupported: reasoning.summary"}),
    ("responses", {"param": "reasoning"}),
    ("responses", {"param": "store"}),
]


@pytest.mark.parametrize(("wire", "rule"), SIMPLE)
def test_a_refused_parameter_is_left_out_from_then_on(
    server: Scripted, wire: str, rule: dict[str, Any]
) -> None:
    answers(server, rule)
    request = user_request(temperature=0.5, reasoning_effort="low")
    first, second = twice(server.endpoint(wire), request)
    assert (first.attempts, second.attempts) == (2, 1)
    assert (first.text, second.text) == ("fine", "fine")


def test_the_limit_of_tokens_is_always_sent(server: Scripted) -> None:
    answers(server, {"param": "max_tokens", "message": "unsupported: max_tokens"})
    twice(server.endpoint(), user_request())
    assert [("max_tokens" in b, "max_completion_tokens" in b) for b in server.requests()] == [
        (True, False),
        (False, True),
        (False, True),
    ]


def test_a_bad_value_is_no_reason_to_drop_a_parameter(server: Scripted) -> None:
    rule = {"param": "temperature", "message": "temperature must be at most 2", "code": "range"}
    answers(server, rule)
    with pytest.raises(RequestRefused, match="at most 2"):
        twice(server.endpoint(), user_request(temperature=3.0))
    assert len(server.requests()) == 1


def test_lessons_of_one_model_are_not_those_of_another(server: Scripted) -> None:
    answers(server, {"param": "temperature"}, models=["one", "two"])

    async def scenario() -> list[int]:
        async with OpenAILLM(server.endpoint()) as llm:
            requests = [user_request(model=name, temperature=0.1) for name in ("one", "two", "one")]
            return [(await llm.complete(request)).attempts for request in requests]

    assert asyncio.run(scenario()) == [2, 2, 1]


@pytest.mark.parametrize("status", [400, 422, 500])
def test_schemas_are_asked_for_less_bindingly(server: Scripted, wire: str, status: int) -> None:
    path = "response_format.type" if wire == "chat" else "text.format.type"
    ways = 3 if wire == "chat" else 2  # Only the chat wire has the schema beside json_object.
    for refused, extra in ((("json_schema",), 1), (("json_schema", "json_object"), ways)):
        answers(
            server,
            *(
                {"param": path, "value": value, "status": status, "message": f"no {path} {value}"}
                for value in refused
            ),
        )
        first, second = twice(server.endpoint(wire, attempts=1), user_request(schema=SCHEMA))
        assert (first.attempts, second.attempts) == (1 + extra, 1)
        last = server.requests()[-1]
        said = last["messages"] if wire == "chat" else last["input"]
        assert "JSON schema" in said[-1]["content"]


def test_a_schema_beside_json_object_is_tried_before_json_object_alone(server: Scripted) -> None:
    types = {"param": "response_format.type", "value": "json_schema", "status": 500}
    answers(server, {**types, "message": "response_format.type: input should be 'json_object'"})
    twice(server.endpoint(attempts=1), user_request(schema=SCHEMA))
    last = server.requests()[-1]["response_format"]
    assert last == {"type": "json_object", "schema": SCHEMA.schema}
    beside = {"param": "response_format.schema", "message": "unknown: response_format.schema"}
    answers(server, types, beside)
    first, second = twice(server.endpoint(attempts=1), user_request(schema=SCHEMA))
    assert (first.attempts, second.attempts) == (3, 1)
    assert server.requests()[-1]["response_format"] == {"type": "json_object"}


TOOLS_NEED_NONE = {
    "wire": "chat",
    "tools": True,
    "param": "reasoning_effort",
    "unless": "none",
    "message": "Function tools with reasoning_effort are not supported in "
    "/v1/chat/completions. Use /v1/responses or set reasoning_effort to 'none'.",
}


def test_tools_with_reasoning_move_to_the_responses_wire(server: Scripted) -> None:
    answers(server, TOOLS_NEED_NONE)
    first, second = twice(server.endpoint("auto"), user_request(tools=(TOOL,)))
    assert (first.attempts, second.attempts) == (2, 1)
    assert server.paths() == ["completions", "responses", "responses"]


@pytest.mark.parametrize(("wire", "attempts"), [("chat", 2), ("auto", 4)])
def test_tools_without_the_responses_wire_do_without_reasoning(
    server: Scripted, wire: str, attempts: int
) -> None:
    answers(server, TOOLS_NEED_NONE, wires=["chat"])
    request = user_request(tools=(TOOL,), reasoning_effort="high")
    first, second = twice(server.endpoint(wire), request)
    assert (first.attempts, second.attempts) == (attempts, 1)
    assert server.requests()[-1]["reasoning_effort"] == "none"


@pytest.mark.parametrize("present", ["chat", "responses"])
def test_the_wire_that_exists_is_found(server: Scripted, present: str) -> None:
    answers(server, wires=[present])
    first, second = twice(server.endpoint("auto"), user_request())
    assert (first.attempts, second.attempts) == (1 if present == "chat" else 2, 1)


def test_a_wire_that_was_asked_for_is_not_changed(server: Scripted) -> None:
    answers(server, wires=["chat"])
    with pytest.raises(RequestRefused, match="404"):
        twice(server.endpoint("responses"), user_request())


def test_no_wire_at_all_points_to_the_base_url(server: Scripted) -> None:
    answers(server, wires=[])
    with pytest.raises(RequestRefused, match="/v1"):
        twice(server.endpoint("auto"), user_request())
    assert len(server.requests()) == 2


def test_an_unknown_model_is_no_absent_wire(server: Scripted) -> None:
    answers(server)
    with pytest.raises(NoSuchModel):
        twice(server.endpoint("auto"), user_request(model="gone"))
    assert len(server.requests()) == 1


def test_a_missing_list_of_models_is_no_missing_model() -> None:
    rejection = Rejection(404, "", "", "no route to models: not found")
    assert not is_unknown_model(rejection, "")
    assert not is_unknown_model(rejection, "qwen")
    assert is_unknown_model(Rejection(404, "", "", "model 'qwen' not found"), "Qwen")


def test_openai_itself_is_spoken_to_over_responses() -> None:
    quirks = first_quirks(Endpoint("https://api.openai.com/v1", Secret("")))
    assert quirks.wire is Wire.RESPONSES
    assert quirks.token_limits[0] == "max_completion_tokens"


rejections = st.builds(
    Rejection,
    status=st.sampled_from([400, 404, 405, 422, 500, 501, 503]),
    code=st.sampled_from(["", "unsupported_parameter", "model_not_found"]),
    param=st.sampled_from(["", *DROPPABLE]),
    text=st.lists(
        st.sampled_from(
            [
                *DROPPABLE,
                "unsupported",
                "use /v1/responses",
                "'none'",
                "response_format",
                "max_tokens",
                "max_completion_tokens",
                "instead",
                "test-model",
            ]
        )
    ).map(" ".join),
)


@given(st.lists(rejections, max_size=40), st.booleans(), st.sampled_from(list(WireChoice)))
def test_learning_comes_to_an_end(
    refused: list[Rejection], tools: bool, choice: WireChoice
) -> None:
    endpoint = Endpoint("http://host/v1", Secret(""), choice)
    request = user_request(**({"tools": (TOOL,)} if tools else {"schema": SCHEMA}))
    quirks = first_quirks(endpoint)
    seen = {msgspec.json.encode(quirks, order="sorted")}
    lessons = 0
    for rejection in refused:
        if (learnt := learn(quirks, rejection, request, frozenset(DROPPABLE))) is not None:
            quirks = learnt
            lessons += 1
            assert len(quirks.token_limits) >= 1
            assert len(quirks.absent_wires) < 2
            seen.add(msgspec.json.encode(quirks, order="sorted"))
    assert len(seen) == lessons + 1
