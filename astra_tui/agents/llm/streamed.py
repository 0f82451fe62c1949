"""A reply put together from the pieces of a stream."""

from __future__ import annotations

from astra_tui.agents.llm.errors import BadAnswer, BrokenOff, Truncated
from astra_tui.agents.llm.messages import (
    Delta,
    DeltaKind,
    Json,
    OnDelta,
    Reply,
    ToolCall,
    Usage,
)
from astra_tui.agents.llm.surrogates import HalfKeeper, joined, joined_json

MOST_CHARACTERS = 8_000_000
"""No kernel and no plan is longer; a server that sends more has run away."""


class StreamedReply:
    """Collects one attempt's answer and tells of each piece, in whole characters."""

    def __init__(self, on_delta: OnDelta):
        self._on_delta = on_delta
        self._text: list[str] = []
        self._keepers = {kind: HalfKeeper() for kind in (DeltaKind.TEXT, DeltaKind.REASONING)}
        self._characters = 0
        self._calls: dict[int, ToolCall] = {}
        self.refusal = ""
        self.usage = Usage(reported=False)
        self.model = ""
        self.finish = ""
        self.opaque: list[Json] = []
        self.shown = False
        self.answered = False

    def add_text(self, text: str) -> None:
        """Append to the answer."""
        self._show(DeltaKind.TEXT, self._keepers[DeltaKind.TEXT].add(text))

    def add_reasoning(self, text: str) -> None:
        """Show what the model thinks; it is no part of the answer."""
        self._show(DeltaKind.REASONING, self._keepers[DeltaKind.REASONING].add(text))

    def add_call(self, index: int, id: str, name: str, arguments: str) -> None:  # noqa: A002
        """Extend a tool call. Names are set and arguments appended.

        llama-cpp-python repeats `id` and `name` in every piece.
        """
        known = self._calls.get(index, ToolCall("", "", ""))
        self._count(arguments)
        self._calls[index] = ToolCall(
            id or known.id, name or known.name, known.arguments + arguments
        )

    def reply(self, attempts: int) -> Reply:
        """The whole answer.

        Raises Truncated where it stopped at a limit, BrokenOff where nobody says that it ended,
        BadAnswer where the model or its server's filter declined.
        """
        for kind, keeper in self._keepers.items():
            self._show(kind, keeper.end())
        calls = tuple(self._calls[index] for index in sorted(self._calls))
        reply = Reply(
            text="".join(self._text),
            tool_calls=tuple(
                ToolCall(joined(call.id) or f"call_{n}", joined(call.name), joined(call.arguments))
                for n, call in enumerate(calls)
            ),
            usage=self.usage,
            model=joined(self.model),
            finish="tool_calls" if calls else "stop",
            attempts=attempts,
            opaque=tuple(joined_json(item) for item in self.opaque),
        )
        self._require_end(reply)
        return reply

    def _require_end(self, reply: Reply) -> None:
        if not self.answered:
            raise BadAnswer(
                "the server answered with no event of a stream",
                hint="check the base URL: it usually ends in /v1",
            )
        if not self.finish:
            raise BrokenOff(
                "the answer stops without an end mark",
                hint="the server or a proxy cut it; try again, or ask for less in one answer",
                partial=reply,
            )
        if self.finish == "length":
            raise Truncated(
                "the answer reached its limit of output tokens",
                hint="raise the limit of output tokens, or choose a model that thinks less",
                partial=reply,
            )
        if self.finish == "content_filter" or self.refusal:
            refusal = joined(self.refusal)
            raise BadAnswer(
                "the model declined to answer" + (f": {refusal}" if refusal else ""),
                hint="change the instructions, or choose another model",
                usage=reply.usage,
            )

    def _show(self, kind: DeltaKind, text: str) -> None:
        if not text:
            return
        if kind is DeltaKind.TEXT:
            self._text.append(text)
        self._count(text)
        self.shown = True
        self._on_delta(Delta(kind, text))

    def _count(self, text: str) -> None:
        self._characters += len(text)
        if self._characters > MOST_CHARACTERS:
            raise BadAnswer(
                f"the answer is longer than {MOST_CHARACTERS} characters",
                hint="the model repeats itself; try again, or choose another model",
                usage=self.usage,
            )
