"""What a server turned out not to understand, learnt from its refusals.

Each lesson costs one request, once for each endpoint and model. Where the lessons come from:
OpenAI's reasoning models refuse `temperature` and `max_tokens`; gpt-5.4 and later refuse tools
with reasoning over the chat wire; llama-cpp-python answers 500 to `json_schema`; most local
servers have no Responses wire.
"""

from __future__ import annotations

import re

import msgspec

from astra_tui.llm.endpoint import Endpoint, Wire
from astra_tui.llm.messages import Request
from astra_tui.llm.schemas import SchemaMode
from astra_tui.model.settings import WireChoice


class Rejection(msgspec.Struct, frozen=True):
    """An answer that refuses a request: HTTP status and the words of the error, in lower case."""

    status: int
    code: str
    param: str
    text: str


class Quirks(msgspec.Struct, frozen=True):
    """How to speak to one model of one endpoint.

    `token_limits`: names for the limit of output tokens, the one in use first.
    """

    wire: Wire
    fixed_wire: bool
    token_limits: tuple[str, ...]
    absent_wires: frozenset[Wire] = frozenset()
    schema_mode: SchemaMode = SchemaMode.JSON_SCHEMA
    dropped: frozenset[str] = frozenset()
    effort_none_with_tools: bool = False


DROPPABLE = (
    "temperature",
    "stream_options",
    "reasoning_effort",
    "reasoning.summary",
    "reasoning",
    "include",
    "store",
)
"""Parameters that a request can do without."""

NOT_UNDERSTOOD = re.compile(
    r"unsupported|not support|unrecogni[sz]ed|unknown|unexpected|extra (inputs|fields)"
    r"|not permitted|not allowed|not implemented|instead|only the default"
)
ABOUT_SCHEMA = re.compile(r"response_format|json_schema|json_object|text\.format|grammar")
NO_MODEL = re.compile(r"not found|not exist|unknown|invalid model|no such|not available|access")
ABSENT = (404, 405, 501)
REFUSED = (400, 422)


def first_quirks(endpoint: Endpoint) -> Quirks:
    """What to try first: OpenAI's own service and its imitations differ."""
    limits = ("max_completion_tokens", "max_tokens")
    if endpoint.wire is WireChoice.AUTO:
        wire = Wire.RESPONSES if endpoint.is_openai else Wire.CHAT
    else:
        wire = Wire(endpoint.wire.value)
    return Quirks(
        wire=wire,
        fixed_wire=endpoint.wire is not WireChoice.AUTO,
        token_limits=limits if endpoint.is_openai else limits[::-1],
    )


def learn(
    quirks: Quirks, rejection: Rejection, request: Request, sent: frozenset[str]
) -> Quirks | None:
    """The quirks with the lesson of a rejection; None where it teaches nothing new.

    `sent` names the parameters of the refused request. Repeated learning comes to an end: every
    lesson takes an option away.
    """
    if is_unknown_model(rejection, request.model):
        return None
    return (
        _other_wire(quirks, rejection, request)
        or _looser_schema(quirks, rejection, request)
        or _other_token_limit(quirks, rejection)
        or _effort_none(quirks, rejection, request)
        or _without_parameter(quirks, rejection, sent)
    )


def is_unknown_model(rejection: Rejection, model: str) -> bool:
    """Whether a rejection says that the model is not there."""
    if rejection.code == "model_not_found":
        return True
    names_it = model != "" and model.lower() in rejection.text and "model" in rejection.text
    return (
        rejection.status in (*ABSENT, *REFUSED)
        and names_it
        and bool(NO_MODEL.search(rejection.text.replace(model.lower(), "")))
        and not any(name in rejection.text for name in DROPPABLE)
    )


def _other_wire(quirks: Quirks, rejection: Rejection, request: Request) -> Quirks | None:
    if quirks.fixed_wire:
        return None
    other = Wire.CHAT if quirks.wire is Wire.RESPONSES else Wire.RESPONSES
    if other in quirks.absent_wires:
        return None
    if rejection.status in ABSENT:
        absent = quirks.absent_wires | {quirks.wire}
        return msgspec.structs.replace(quirks, wire=other, absent_wires=absent)
    if quirks.wire is Wire.CHAT and request.tools and "/responses" in rejection.text:
        return msgspec.structs.replace(quirks, wire=other)
    return None


def _looser_schema(quirks: Quirks, rejection: Rejection, request: Request) -> Quirks | None:
    if request.schema is None or quirks.schema_mode is SchemaMode.PROMPT:
        return None
    if rejection.status not in (*REFUSED, 500, 501) or not ABOUT_SCHEMA.search(rejection.text):
        return None
    looser = SchemaMode(quirks.schema_mode + 1)
    if quirks.wire is Wire.RESPONSES and looser is SchemaMode.OBJECT_WITH_SCHEMA:
        looser = SchemaMode.JSON_OBJECT
    return msgspec.structs.replace(quirks, schema_mode=looser)


def _other_token_limit(quirks: Quirks, rejection: Rejection) -> Quirks | None:
    if quirks.wire is not Wire.CHAT or len(quirks.token_limits) == 1:
        return None
    if not _not_understood(rejection) or quirks.token_limits[0] not in rejection.text:
        return None
    return msgspec.structs.replace(quirks, token_limits=quirks.token_limits[1:])


def _effort_none(quirks: Quirks, rejection: Rejection, request: Request) -> Quirks | None:
    if quirks.wire is not Wire.CHAT or quirks.effort_none_with_tools or not request.tools:
        return None
    if "reasoning_effort" not in rejection.text or "none" not in rejection.text:
        return None
    return msgspec.structs.replace(quirks, effort_none_with_tools=True)


def _without_parameter(quirks: Quirks, rejection: Rejection, sent: frozenset[str]) -> Quirks | None:
    if not _not_understood(rejection):
        return None
    candidates = [name for name in DROPPABLE if name in sent and name not in quirks.dropped]
    for name in candidates:
        if rejection.param == name or re.search(
            rf"(?<![\w.]){re.escape(name)}(?![\w.])", rejection.text
        ):
            return msgspec.structs.replace(quirks, dropped=quirks.dropped | {name})
    return None


def _not_understood(rejection: Rejection) -> bool:
    return rejection.status in REFUSED and bool(
        NOT_UNDERSTOOD.search(f"{rejection.code} {rejection.text}")
    )
