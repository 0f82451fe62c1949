"""How a role puts a prompt to the model: for words, for a typed answer, or with tools."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from astra_tui.llm.errors import (
    BadAnswer,
    DeadlineExceeded,
    LLMError,
    RequestRefused,
    Truncated,
)
from astra_tui.llm.messages import (
    LLM,
    Delta,
    DeltaKind,
    Message,
    OnDelta,
    Request,
    Speaker,
    ToolSpec,
)
from astra_tui.llm.roles.conversation import Conversation
from astra_tui.llm.structured import ask
from astra_tui.llm.tools import Handler, run_tools
from astra_tui.model.settings import ModelSettings, Role
from astra_tui.model.team import OnText, TeamUnavailable

T = TypeVar("T", bound=msgspec.Struct)
R = TypeVar("R")

UNUSABLE = (BadAnswer, Truncated, DeadlineExceeded, RequestRefused)
"""Errors that cost one answer; after any other, the model cannot be used at all."""

NO_ADVICE = (*UNUSABLE, TeamUnavailable)
"""Errors that cost advice and no more: a server that is gone shows in the next step that counts."""

MAX_TOOL_TURNS = 6


@dataclass(frozen=True)
class Step:
    """One prompt of a role; `purpose` is what the call is recorded under."""

    role: Role
    purpose: str
    prompt: str


class Asker:
    """The model of a team. All methods raise TeamUnavailable when it cannot be reached or used."""

    def __init__(
        self,
        llm: LLM,
        settings_of: Callable[[Role], ModelSettings],
        conversation: Conversation,
        most_tokens: int,
    ):
        """`most_tokens` bounds the answers of roles whose settings say nothing."""
        self._llm = llm
        self._settings_of = settings_of
        self._conversation = conversation
        self._most_tokens = most_tokens
        self._has_tools = True

    async def say(self, step: Step, on_text: OnText | None = None) -> str:
        """The model's words. Raises BadAnswer and Truncated."""
        async with self._conversation.turn():
            with _outages():
                reply = await self._llm.complete(self._request(step), _deltas(step.role, on_text))
            self._conversation.remember(step.prompt, reply.text)
        return reply.text

    async def ask(self, step: Step, answer_type: type[T], on_text: OnText | None = None) -> T:
        """A typed answer. Raises BadAnswer and Truncated."""
        async with self._conversation.turn():
            with _outages():
                answer = await ask(
                    self._llm, self._request(step), answer_type, _deltas(step.role, on_text)
                )
            self._conversation.remember(step.prompt, msgspec.json.encode(answer.value).decode())
        return answer.value

    async def use_tools(
        self, step: Step, tools: tuple[ToolSpec, ...], handlers: Mapping[str, Handler]
    ) -> str:
        """The model's words after it has used tools; empty where the server has no tools.

        Raises BadAnswer and Truncated.
        """
        if not self._has_tools:
            return ""
        request = msgspec.structs.replace(self._request(step), tools=tools)
        async with self._conversation.turn():
            try:
                with _outages():
                    run = await run_tools(self._llm, request, handlers, MAX_TOOL_TURNS)
            except RequestRefused:
                self._has_tools = False
                return ""
            self._conversation.remember(step.prompt, run.reply.text)
        return run.reply.text

    def _request(self, step: Step) -> Request:
        messages = (*self._conversation.opening(step.role), Message(Speaker.USER, step.prompt))
        settings = self._settings_of(step.role)
        return Request(
            messages,
            settings.model,
            settings.output_tokens or self._most_tokens,
            temperature=settings.temperature,
            reasoning_effort=settings.effort or None,
            purpose=step.purpose,
        )


async def retry_once(attempt: Callable[[str], Awaitable[R]]) -> R:
    """What an attempt gives, else a second one, which is told what was wrong with the first."""
    try:
        return await attempt("")
    except UNUSABLE as error:
        problem = error
    hint = f" ({problem.hint})" if problem.hint else ""
    return await attempt(
        f"\nAn earlier answer to this could not be used: {problem.message}{hint}. "
        "Answer again, in full, and not longer than needed.\n"
    )


@contextmanager
def _outages() -> Iterator[None]:
    try:
        yield
    except UNUSABLE:
        raise
    except LLMError as error:
        raise TeamUnavailable(error.describe()) from None


def _deltas(role: Role, on_text: OnText | None) -> OnDelta | None:
    if on_text is None:
        return None

    def tell(delta: Delta) -> None:
        if delta.kind is DeltaKind.TEXT:
            on_text(role.value, delta.text, False)
        elif delta.kind is DeltaKind.RESTART:
            on_text(role.value, "", True)

    return tell
