"""Answers of a given type: the schema goes to the server, the answer is checked here anyway.

Servers that refuse `json_schema` are asked less bindingly (`SchemaMode`, learnt by the client);
some accept a schema and ignore it (llama.cpp issues 21922, 24097), so every answer is read
tolerantly and validated, and the model hears what is wrong with it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Generic, NamedTuple, TypeVar

import msgspec

from astra_tui.llm.errors import BadAnswer, LLMError, safe_text
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
from astra_tui.model.errors import UserError

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
    llm: LLM,
    request: Request,
    answer_type: type[T],
    on_delta: OnDelta | None = None,
    check: Callable[[T], None] = lambda _: None,
    first: Reply | None = None,
) -> Answer[T]:
    """Ask for an answer of `answer_type`; `request` has neither tools nor a schema.

    `check` raises UserError for a value that cannot be meant, which the model hears. `first` is a
    reply that there is already.

    Raises BadAnswer where the answer is still wrong after two repairs, and what `complete` raises;
    the error's usage is that of all calls.
    """
    request = msgspec.structs.replace(request, schema=answer_schema(answer_type))
    usage = Usage()
    for repairs in range(MAX_REPAIRS + 1):
        if repairs and on_delta is not None:
            on_delta(Delta(DeltaKind.RESTART))
        try:
            reply = first or await llm.complete(request, on_delta)
        except LLMError as error:
            error.usage += usage
            raise
        usage += reply.usage
        first = None
        try:
            value = read_answer(reply.text, answer_type)
            check(value)
            return Answer(value, usage, repairs)
        except InvalidAnswer as error:
            problem = str(error)
        except UserError as error:
            problem = error.describe()
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


FENCED = re.compile(r"^[ \t]*```[^\n`]*\n(.*?)^[ \t]*```", re.DOTALL | re.MULTILINE)
THOUGHT = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)
END_OF_THOUGHT = re.compile(r"</think(?:ing)?>")
MAX_STARTS = 200
"""Places of a text at which an object is looked for; bounds the work on hostile texts."""


def json_candidates(text: str) -> Iterator[str]:
    """Parts of an answer that may be its JSON object, the likeliest first.

    The whole answer, then without its thoughts, then fenced blocks, then objects in running
    text; of several the last comes first, because examples precede the answer.
    """
    text = text.lstrip("\ufeff").strip()
    spoken = without_thoughts(text)
    seen: set[str] = set()
    for part in (text, spoken, *_fenced(spoken), *_objects(spoken), *_objects(text)):
        if part.startswith("{") and part not in seen:
            seen.add(part)
            yield part


def without_thoughts(text: str) -> str:
    """An answer without `<think>` blocks, also where a chat template ate the opening tag."""
    text = THOUGHT.sub("", text)
    return END_OF_THOUGHT.split(text)[-1].lstrip("\ufeff").strip()


def _fenced(text: str) -> list[str]:
    return [block.strip() for block in reversed(FENCED.findall(text))]


def _objects(text: str) -> list[str]:
    """The outermost JSON objects of a text, last first."""
    decoder = json.JSONDecoder()
    found: list[str] = []
    start = text.find("{")
    for _ in range(MAX_STARTS):
        if start < 0:
            break
        end = start + 1
        try:
            _, end = decoder.raw_decode(text, start)
            found.append(text[start:end])
        except (ValueError, RecursionError):
            pass
        start = text.find("{", end)
    return found[::-1]
