"""JSON schemas of answers, in the strict dialect of OpenAI's structured outputs.

Strict means: every object lists all its properties as required and allows no others
(https://platform.openai.com/docs/guides/structured-outputs).
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
    shared = {
        name: node
        for name, node in tight.items()
        if name != root_name or uses_reference(tight, reference["$ref"])
    }
    root = {**tight[root_name], "$defs": shared} if shared else tight[root_name]
    return AnswerSchema(answer_type.__name__, root)


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


def uses_reference(node: Any, reference: str) -> bool:
    """Whether a schema refers to one of its definitions."""
    if isinstance(node, dict):
        return node.get("$ref") == reference or any(
            uses_reference(value, reference) for value in node.values()
        )
    return isinstance(node, list) and any(uses_reference(item, reference) for item in node)


def schema_instruction(schema: AnswerSchema) -> Message:
    """The schema as a message, for servers that take it in no other way."""
    return Message(
        Speaker.USER,
        "Answer with one JSON object and nothing else. It has to fit this JSON schema:\n"
        + json.dumps(schema.schema, ensure_ascii=False),
    )
