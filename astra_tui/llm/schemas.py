"""JSON schemas of answers, in the strict dialect of OpenAI's structured outputs.

Strict means: every object lists all its properties as required and allows no others, no default is
named, and nothing stands next to a `$ref` (https://platform.openai.com/docs/guides/structured-outputs;
the last rule is known from its refusals, such as those in camel-ai/camel issue 3001).
"""

from __future__ import annotations

import json
from enum import IntEnum
from typing import Any

import msgspec

from astra_tui.llm.messages import AnswerSchema, Message, Speaker


class SchemaMode(IntEnum):
    """How a schema is put to a server, from the most binding way to the least."""

    JSON_SCHEMA = 0
    OBJECT_WITH_SCHEMA = 1
    """`json_object` with the schema next to it, of which llama-cpp-python makes a grammar.

    The Responses wire has no place for it.
    """
    JSON_OBJECT = 2
    PROMPT = 3


def answer_schema(answer_type: type[msgspec.Struct]) -> AnswerSchema:
    """The strict schema of a Struct. Raises TypeError for dicts, which strict schemas lack."""
    (reference,), definitions = msgspec.json.schema_components(
        [answer_type], ref_template="#/$defs/{name}"
    )
    root_name = reference["$ref"].removeprefix("#/$defs/")
    tight = {name: strict(node, name) for name, node in definitions.items()}
    root = with_bare_references(tight[root_name], tight)
    shared: dict[str, Any] = {}
    left = references_in(root)
    while left:
        name = left.pop()
        if name not in shared:
            shared[name] = with_bare_references(tight[name], tight)
            left |= references_in(shared[name])
    whole = {**root, "$defs": {n: shared[n] for n in tight if n in shared}} if shared else root
    return AnswerSchema(answer_type.__name__, whole)


def strict(node: Any, where: str) -> Any:
    """A part of a schema with every object closed, every property required, every enum typed."""
    if isinstance(node, list):
        return [strict(item, where) for item in node]
    if not isinstance(node, dict):
        return node
    properties = node.get("properties")
    if node.get("type") == "object" and properties is None:
        raise TypeError(f"{where}: an answer type cannot hold a dict; use a tuple of structs")
    tight = {
        key: strict(value, where)
        for key, value in node.items()
        if key not in ("default", "properties", "required")
    }
    if properties is not None:
        tight["properties"] = {
            name: strict(value, f"{where}.{name}") for name, value in properties.items()
        }
        tight["required"] = list(properties)
        tight["additionalProperties"] = False
    if "enum" in node and all(isinstance(value, str) for value in node["enum"]):
        tight["type"] = "string"
    return tight


def with_bare_references(node: Any, definitions: dict[str, Any]) -> Any:
    """A part of a schema in which nothing stands next to a `$ref`.

    Where something does, as the description of a field whose type is an enum, the definition is
    written out with it; only of a type that holds itself the reference stays, alone.
    """
    if isinstance(node, list):
        return [with_bare_references(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node and len(node) > 1:
        name = _name_of(node["$ref"])
        if name in _reachable(name, definitions):
            return {"$ref": node["$ref"]}
        siblings = {key: value for key, value in node.items() if key != "$ref"}
        return with_bare_references({**definitions[name], **siblings}, definitions)
    return {key: with_bare_references(value, definitions) for key, value in node.items()}


def references_in(node: Any) -> set[str]:
    """The names of the definitions that a part of a schema refers to."""
    if isinstance(node, list):
        return {name for item in node for name in references_in(item)}
    if not isinstance(node, dict):
        return set()
    found = {name for value in node.values() for name in references_in(value)}
    return found | {_name_of(node["$ref"])} if "$ref" in node else found


def _reachable(name: str, definitions: dict[str, Any]) -> set[str]:
    """The definitions that one refers to, directly or not."""
    found: set[str] = set()
    left = references_in(definitions[name])
    while left:
        one = left.pop()
        if one not in found:
            found.add(one)
            left |= references_in(definitions[one])
    return found


def _name_of(reference: str) -> str:
    return reference.removeprefix("#/$defs/")


def schema_instruction(schema: AnswerSchema) -> Message:
    """The schema as a message, for servers that take it in no other way."""
    return Message(
        Speaker.USER,
        "Answer with one JSON object and nothing else. It has to fit this JSON schema:\n"
        + json.dumps(schema.schema, ensure_ascii=False),
    )
