"""How a role puts a prompt to the model: for words, for a typed answer, or with tools."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from astra_tui.llm.asking.conversation import Conversation
from astra_tui.llm.asking.toolbox import Toolbox
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
)
from astra_tui.llm.schemas import answer_schema, schema_instruction
from astra_tui.llm.structured import ask
from astra_tui.llm.tools import ToolRun, run_tools
from astra_tui.model.roles import Role
from astra_tui.model.settings import ModelSettings
from astra_tui.model.team_protocol import OnText, TeamUnavailable

T = TypeVar("T", bound=msgspec.Struct)
R = TypeVar("R")

UNUSABLE = (BadAnswer, Truncated, DeadlineExceeded, RequestRefused)
"""Errors that cost one answer; after any other, the model cannot be used at all."""

NO_ADVICE = (*UNUSABLE, TeamUnavailable)
"""Errors that cost advice and no more: a server that is gone shows in the next step that counts."""


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

    async def say(
        self, step: Step, on_text: OnText | None = None, box: Toolbox | None = None
    ) -> str:
        """The model's words, in the end, where it has a box of tools and its server knows tools.

        Raises BadAnswer and Truncated.
        """
        request, deltas = self._request(step), _deltas(step.role, on_text)
        async with self._conversation.turn():
            with _outages():
                run = await self._use(box, request, deltas)
                reply = run.reply if run else await self._llm.complete(request, deltas)
            self._conversation.remember(step.prompt, reply.text)
        return reply.text

    async def advise(self, step: Step, box: Toolbox | None = None) -> str:
        """The model's words where they are only advice: as far as they came where they were cut
        at a limit, and "" where there are none.
        """
        try:
            return await self.say(step, box=box)
        except Truncated as cut:
            return cut.partial.text if cut.partial is not None else ""
        except NO_ADVICE:
            return ""

    async def look(self, step: Step, box: Toolbox) -> str:
        """The model's words after it has used tools; "" where its server has none.

        Raises BadAnswer and Truncated.
        """
        async with self._conversation.turn():
            with _outages():
                run = await self._use(box, self._request(step), None)
            if run is not None:
                self._conversation.remember(step.prompt, run.reply.text)
        return run.reply.text if run is not None else ""

    async def _use(
        self, box: Toolbox | None, request: Request, on_delta: OnDelta | None
    ) -> ToolRun | None:
        """A turn with tools; None where there are none."""
        specs = box.specs if box is not None and self._has_tools else ()
        if box is None or not specs:
            return None
        request = msgspec.structs.replace(request, tools=specs)
        most = box.turn.limits.calls + 1
        try:
            return await run_tools(self._llm, request, box.handlers, most, on_delta)
        except RequestRefused:
            if box.told:
                raise
            self._has_tools = False
            return None

    async def ask(
        self,
        step: Step,
        answer_type: type[T],
        on_text: OnText | None = None,
        box: Toolbox | None = None,
        check: Callable[[T], None] = lambda _: None,
    ) -> T:
        """A typed answer, after the tools of a box where the server knows tools.

        `check` raises UserError for an answer that cannot be meant, and the model is asked again.
        Raises BadAnswer and Truncated.
        """
        request, deltas = self._request(step), _deltas(step.role, on_text)
        async with self._conversation.turn():
            with _outages():
                # Not all servers take tools and a schema together: the words say it first.
                wanted = schema_instruction(answer_schema(answer_type)).content
                told = Message(Speaker.USER, f"{step.prompt}\n{wanted}")
                messages = (*request.messages[:-1], told)
                run = await self._use(
                    box, msgspec.structs.replace(request, messages=messages), deltas
                )
                if run is not None:
                    request = msgspec.structs.replace(request, messages=run.messages[:-1])
                first = run.reply if run is not None else None
                answer = await ask(self._llm, request, answer_type, deltas, check, first)
            self._conversation.remember(step.prompt, msgspec.json.encode(answer.value).decode())
        return answer.value

    def _request(self, step: Step) -> Request:
        messages = (*self._conversation.opening(step.role), Message(Speaker.USER, step.prompt))
        settings = self._settings_of(step.role)
        return Request(
            messages,
            settings.model,
            settings.output_tokens or self._most_tokens,
            temperature=settings.temperature,
            reasoning_effort=settings.effort or None,
            wire=settings.wire,
            silence_seconds=settings.silence_seconds,
            call_seconds=settings.call_seconds,
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
