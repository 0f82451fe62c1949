"""Typed answers: schemas, tolerant reading, repairs."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from enum import StrEnum
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tui.llm import (
    Answer,
    BadAnswer,
    Delta,
    DeltaKind,
    OpenAILLM,
    RequestRefused,
    Truncated,
    Usage,
    ask,
)
from astra_tui.llm.asking.diff_review import ReviewAnswer
from astra_tui.llm.messages import AnswerSchema
from astra_tui.llm.roles import testing
from astra_tui.llm.roles.planning import PlanningAnswer
from astra_tui.llm.roles.profiling import ProfilingAnswer
from astra_tui.llm.schemas import answer_schema
from astra_tui.llm.structured import InvalidAnswer, read_answer
from astra_tui.model.plan import Plan
from tests.llm.conftest import Scripted, user_request
from tests.llm.server import schema_problem


class Risk(StrEnum):
    LOW = "low"
    HIGH = "high"


class Place(msgspec.Struct, frozen=True):
    first: int
    last: int = 0


class Idea(msgspec.Struct, frozen=True):
    title: str
    risk: Risk
    speedup: Annotated[float, msgspec.Meta(ge=0.1, le=100)]
    places: tuple[Place, ...] = ()
    note: str | None = None


class Tree(msgspec.Struct, frozen=True):
    name: str
    children: tuple[Tree, ...] = ()


GOOD = {"title": "wider loads", "risk": "low", "speedup": 1.5, "places": [], "note": None}
IDEA = Idea("wider loads", Risk.LOW, 1.5)
TEXT = json.dumps(GOOD)


def asked(
    server: Scripted, wire: str, deltas: list[Delta] | None = None, **fields: Any
) -> Answer[Idea]:
    async def scenario() -> Answer[Idea]:
        async with OpenAILLM(server.endpoint(wire)) as llm:
            watch = None if deltas is None else deltas.append
            return await ask(llm, user_request(**fields), Idea, watch)

    return asyncio.run(scenario())


def objects(node: Any) -> list[dict[str, Any]]:
    """All object schemas in a schema."""
    if isinstance(node, list):
        return [found for item in node for found in objects(item)]
    if not isinstance(node, dict):
        return []
    inner = [found for value in node.values() for found in objects(value)]
    return [node, *inner] if node.get("type") == "object" else inner


@pytest.mark.parametrize("answer_type", [Idea, Plan, Tree])
def test_schemas_are_strict(answer_type: type[msgspec.Struct]) -> None:
    schema = answer_schema(answer_type).schema
    assert schema["type"] == "object"
    found = objects(schema)
    assert found
    for node in found:
        assert node["additionalProperties"] is False
        assert node["required"] == list(node["properties"])
    text = json.dumps(schema)
    assert '"default"' not in text
    for name in schema.get("$defs", {}):
        assert f"#/$defs/{name}" in text


def test_enums_have_a_type() -> None:
    schema = answer_schema(Idea).schema
    assert schema["$defs"]["Risk"] == {"title": "Risk", "enum": ["high", "low"], "type": "string"}


def test_a_dict_has_no_strict_schema() -> None:
    class Loose(msgspec.Struct):
        numbers: dict[str, int]

    with pytest.raises(TypeError, match="numbers"):
        answer_schema(Loose)


def test_a_good_answer_needs_one_call(server: Scripted, wire: str) -> None:
    server.play({"text": GOOD})
    assert asked(server, wire) == (IDEA, Usage(120, 20, 30, 10), 0)
    (body,) = server.requests()
    form = body["response_format"]["json_schema"] if wire == "chat" else body["text"]["format"]
    assert form["strict"] is True
    assert form["schema"] == answer_schema(Idea).schema


WRONG: dict[str, tuple[Any, str]] = {
    "enum": ({**GOOD, "risk": "some"}, "Invalid enum value 'some'"),
    "missing key": ({"title": "x", "risk": "low"}, "missing required field `speedup`"),
    "range": ({**GOOD, "speedup": 1e15}, "<= 100"),
    "type": ({**GOOD, "title": 3}, "Expected `str`"),
    "prose": ("I would widen the loads.", "no JSON object"),
    "empty": ("", "no JSON object"),
    "cut": ('{"title": "x", ', "truncated"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_answer_is_repaired(server: Scripted, wire: str, wrong: str) -> None:
    text, reason = WRONG[wrong]
    server.play({"text": text}, {"text": GOOD})
    deltas: list[Delta] = []
    answer = asked(server, wire, deltas)
    assert (answer.value, answer.repairs) == (IDEA, 1)
    assert answer.usage == Usage(240, 40, 60, 20)
    said = server.requests()[1]["messages" if wire == "chat" else "input"]
    assert said[-2]["role"] == "assistant"
    assert reason in said[-1]["content"]
    assert any(d.kind is DeltaKind.RESTART for d in deltas) or not text


def test_two_repairs_are_enough(server: Scripted, wire: str) -> None:
    server.play({"text": {**GOOD, "risk": "some"}, "times": None})
    with pytest.raises(BadAnswer, match="no valid Idea in 3 answers") as caught:
        asked(server, wire)
    assert len(server.requests()) == 3
    assert caught.value.usage.input_tokens == 360


def test_the_ladder_is_climbed_down_once(server: Scripted, wire: str) -> None:
    path = "response_format" if wire == "chat" else "text.format"
    server.play(
        {"text": GOOD, "times": None},
        refuse=[{"param": path, "status": 500, "message": f"unknown {path}"}],
    )

    async def scenario() -> list[Idea]:
        async with OpenAILLM(server.endpoint(wire, attempts=1)) as llm:
            return [(await ask(llm, user_request(), Idea)).value for _ in range(2)]

    assert asyncio.run(scenario()) == [IDEA, IDEA]
    rungs = 4 if wire == "chat" else 3
    assert len(server.requests()) == rungs + 1


def test_a_cut_answer_is_not_repaired(server: Scripted, wire: str) -> None:
    server.play({"text": '{"title": "x', "finish": "length"})
    with pytest.raises(Truncated):
        asked(server, wire)


def test_a_failing_repair_counts_all_calls(server: Scripted, wire: str) -> None:
    server.play({"text": "no"}, {"text": "{", "finish": "length"})
    with pytest.raises(Truncated) as caught:
        asked(server, wire)
    assert caught.value.usage == Usage(240, 40, 60, 20)


def test_of_two_answers_the_last_counts() -> None:
    first = json.dumps({**GOOD, "title": "an example"})
    assert read_answer(f"{first} or rather {TEXT}", Idea) == IDEA
    assert read_answer(f"```\n{first}\n```\n```\n{TEXT}\n```", Idea) == IDEA


def test_other_refusals_pass_through(server: Scripted, wire: str) -> None:
    server.play({"fault": "status", "status": 400})
    with pytest.raises(RequestRefused):
        asked(server, wire)


@pytest.mark.parametrize(
    "answer",
    [
        TEXT,
        "\ufeff" + TEXT,
        f"Sure! Here it is:\n```json\n{TEXT}\n```\nGood luck.",
        f"```\n{TEXT}\n```",
        f'<think>\nmaybe {{}} or {{"title": 1}}\n</think>\n{TEXT}',
        f"thinking without an opening tag {{x}}</think>{TEXT}",
        f'For example {{"title": "x"}}. My answer: {TEXT} as asked.',
        f"<think>```json\n{{}}\n```</think>```json\n{json.dumps(GOOD, indent=2)}\n```",
        json.dumps({**GOOD, "extra": "ignored"}),
    ],
)
def test_chatter_is_tolerated(answer: str) -> None:
    assert read_answer(answer, Idea) == IDEA


@given(
    st.builds(
        Idea,
        title=st.text(),
        risk=st.sampled_from(Risk),
        speedup=st.floats(0.1, 100),
        places=st.lists(st.builds(Place, st.integers(0, 99), st.integers(0, 99))).map(tuple),
        note=st.none() | st.text(),
    ),
    st.text(alphabet=st.characters(exclude_characters="{}`<>")),
)
def test_every_answer_is_found_in_chatter(idea: Idea, chatter: str) -> None:
    text = msgspec.json.encode(idea).decode()
    assert read_answer(text, Idea) == idea
    assert read_answer(f"{chatter}\n```json\n{text}\n```\n{chatter}", Idea) == idea
    if "</think" not in text:
        assert read_answer(f"{chatter} {text} {chatter}", Idea) == idea


PARTS = [*'{}[]":,`\n\\ ', "```json", "<think>", "</think>", "1e9", '"title"', TEXT[:40], TEXT[40:]]


@given(st.text() | st.lists(st.sampled_from(PARTS)).map("".join))
def test_reading_raises_nothing_but_its_own_error(text: str) -> None:
    with suppress(InvalidAnswer):
        assert isinstance(read_answer(text, Idea), Idea)


@pytest.mark.parametrize("text", ["{" * 50_000, '{"a":' * 50_000, '{"a":[' + "[" * 50_000])
def test_hostile_nesting_is_read_in_time(text: str) -> None:
    with pytest.raises(InvalidAnswer):
        read_answer(text, Idea)


class Described(msgspec.Struct, frozen=True):
    risk: Annotated[Risk, msgspec.Meta(description="how likely it breaks")]
    place: Annotated[Place, msgspec.Meta(description="where")]
    tree: Annotated[Tree, msgspec.Meta(description="of itself")]


ANSWERS = (
    PlanningAnswer,
    ProfilingAnswer,
    testing.TestingAnswer,
    ReviewAnswer,
    Idea,
    Tree,
    Described,
)
"""Every type that a role asks for, and some that are harder."""


def strictly_asked(server: Scripted, wire: str, schema: dict[str, Any]) -> None:
    async def scenario() -> None:
        async with OpenAILLM(server.endpoint(wire)) as llm:
            await llm.complete(user_request(schema=AnswerSchema("Answer", schema)))

    asyncio.run(scenario())


@pytest.mark.parametrize("answer_type", ANSWERS, ids=lambda t: t.__name__)
def test_the_schemas_of_roles_are_taken_as_they_are_by_openais_strict_mode(
    server: Scripted, wire: str, answer_type: type[msgspec.Struct]
) -> None:
    server.play({"text": "{}"}, strict=True)
    strictly_asked(server, wire, answer_schema(answer_type).schema)
    (body,) = server.requests(wire if wire == "responses" else "chat")
    form = body["text"]["format"] if wire == "responses" else body["response_format"]["json_schema"]
    assert form["strict"] is True


def test_what_stood_beside_a_reference_is_not_lost() -> None:
    schema = answer_schema(Described).schema
    risk, place, tree = (schema["properties"][name] for name in ("risk", "place", "tree"))
    assert (risk["description"], risk["enum"]) == ("how likely it breaks", ["high", "low"])
    assert (place["description"], place["required"]) == ("where", ["first", "last"])
    assert tree == {"$ref": "#/$defs/Tree"}
    assert list(schema["$defs"]) == ["Tree"]


CLOSED = {"type": "object", "additionalProperties": False}
COLOUR = {"$ref": "#/$defs/Colour", "description": "of it"}
REFUSED = {
    "$ref cannot have keywords {'description'}": {
        **CLOSED, "properties": {"a": COLOUR}, "required": ["a"],
        "$defs": {"Colour": {"type": "string", "enum": ["red"]}},
    },
    "'additionalProperties' is required": {"type": "object", "properties": {}, "required": []},
    "Missing 'a'": {**CLOSED, "properties": {"a": {"type": "string"}}, "required": []},
    "'default' is not permitted": {
        **CLOSED, "properties": {"a": {"type": "string", "default": ""}}, "required": ["a"],
    },
    "must have a 'type' key": {**CLOSED, "properties": {"a": {"enum": ["x"]}}, "required": ["a"]},
    "'oneOf' is not permitted": {
        **CLOSED, "properties": {"a": {"oneOf": [{"type": "string"}]}}, "required": ["a"],
    },
    "which was not found": {
        **CLOSED, "properties": {"a": {"$ref": "#/$defs/No"}}, "required": ["a"],
    },
    "array schema missing items": {
        **CLOSED, "properties": {"a": {"type": "array"}}, "required": ["a"],
    },
    "schema must be a JSON Schema of": {"type": "array", "items": {"type": "string"}},
}  # fmt: skip


@pytest.mark.parametrize("words", REFUSED, ids=lambda w: w.split("'")[0].strip())
def test_the_server_refuses_as_openai_does(server: Scripted, words: str) -> None:
    server.play({"text": "{}"}, strict=True, models=["test-model"])
    strictly_asked(server, "chat", REFUSED[words])
    first, *later = server.requests("chat")
    assert first["response_format"]["type"] == "json_schema"
    assert later, "it was refused, and asked for less bindingly"
    assert later[0]["response_format"]["type"] == "json_object"
    assert words in schema_problem("chat", first)
