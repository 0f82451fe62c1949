"""Answers of a given type: the schema goes to the server, the answer is checked here anyway.

Servers that refuse `json_schema` are asked less bindingly (`SchemaMode`, learnt by the client);
some accept a schema and ignore it (llama.cpp issues 21922, 24097), so every answer is read
tolerantly and validated, and the model hears what is wrong with it.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

import msgspec

from astra_tui.llm.errors import BadAnswer, LLMError, safe_text
from astra_tui.llm.json_text import json_candidates
from astra_tui.llm.messages import (
    LLM,
    Delta,
    DeltaKind,
    Message,
    OnDelta,
    Reply,
    Request,
    Speaker,
    Usage,
)
from astra_tui.llm.schemas import answer_schema, schema_instruction

T = TypeVar("T", bound=msgspec.Struct)

MAX_REPAIRS = 2
MAX_QUOTED = 20_000
"""Characters of a bad answer that are shown to the model again."""


class Answer(NamedTuple, Generic[T]):
    """A valid answer, the tokens of all calls for it, and how often it had to be repaired."""

    value: T
    usage: Usage
    repairs: int


class InvalidAnswer(ValueError):
    """An answer that is not of its type; the text says why, in words for the model."""


async def ask(
    llm: LLM, request: Request, answer_type: type[T], on_delta: OnDelta | None = None
) -> Answer[T]:
    """Ask for an answer of `answer_type`; `request` has neither tools nor a schema.

    Raises BadAnswer where the answer is still wrong after two repairs, and what `complete` raises;
    the error's usage is that of all calls.
    """
    request = msgspec.structs.replace(request, schema=answer_schema(answer_type))
    usage = Usage()
    for repairs in range(MAX_REPAIRS + 1):
        if repairs and on_delta is not None:
            on_delta(Delta(DeltaKind.RESTART))
        try:
            reply = await llm.complete(request, on_delta)
        except LLMError as error:
            error.usage += usage
            raise
        usage += reply.usage
        try:
            return Answer(read_answer(reply.text, answer_type), usage, repairs)
        except InvalidAnswer as error:
            problem = str(error)
        request = _with_repair(request, reply, problem)
    raise BadAnswer(
        f"{request.model} gave no valid {answer_type.__name__} in {MAX_REPAIRS + 1} answers: "
        f"{problem}; the last one began: {safe_text(reply.text, '', 120)}",
        hint="try again, or choose a model that follows JSON schemas",
        usage=usage,
    )


def read_answer(text: str, answer_type: type[T]) -> T:
    """The value in an answer, also where chatter, a fence or thoughts surround it.

    Raises InvalidAnswer.
    """
    first_problem = ""
    for candidate in json_candidates(text):
        try:
            return msgspec.json.decode(candidate, type=answer_type)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
            first_problem = first_problem or str(error)
    raise InvalidAnswer(first_problem or "it holds no JSON object")


def _with_repair(request: Request, reply: Reply, problem: str) -> Request:
    assert request.schema is not None
    said = Message(Speaker.ASSISTANT, reply.text[:MAX_QUOTED])
    told = Message(
        Speaker.USER,
        f"That answer is not valid: {problem}.\n" + schema_instruction(request.schema).content,
    )
    return msgspec.structs.replace(request, messages=(*request.messages, said, told))
