"""A reply put together from the pieces of a stream."""

from __future__ import annotations

from astra_tui.llm.errors import BadAnswer, BrokenOff, NoAnswer, Truncated
from astra_tui.llm.messages import (
    Delta,
    DeltaKind,
    Json,
    OnDelta,
    Reply,
    ToolCall,
    Usage,
)
from astra_tui.llm.surrogates import SurrogateJoiner, joined, joined_json

PROMPT_TOKEN_BYTES, ANSWER_TOKEN_BYTES = 3, 4
"""Bytes that are taken for one token where a server counts none; code has about 3 to 4."""
LONGEST_TOKEN = 2 * ANSWER_TOKEN_BYTES
"""Bytes of a token at most, on average over an answer: a server that counts fewer miscounts. What
is estimated for an answer is so never more than twice its limit.
"""


class StreamedReply:
    """Collects one attempt's answer and tells of each piece, in whole characters.

    An answer that is certainly longer than `limit` tokens is not read to its end.
    """

    def __init__(self, on_delta: OnDelta, limit: int):
        self._on_delta = on_delta
        self._limit = limit
        self._text: list[str] = []
        self._keepers = {kind: SurrogateJoiner() for kind in (DeltaKind.TEXT, DeltaKind.REASONING)}
        self._bytes = 0
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

    def spent(self, sent_bytes: int) -> Usage:
        """The tokens of this attempt: the server's count, else an estimate from the bytes."""
        received = len(self.refusal.encode("utf-8", "replace")) + self._bytes
        counted = self.usage
        if (
            counted.reported
            and counted.input_tokens
            and (counted.output_tokens * LONGEST_TOKEN >= received)
        ):
            return counted
        return Usage(
            input_tokens=max(counted.input_tokens, -(-sent_bytes // PROMPT_TOKEN_BYTES)),
            cached_tokens=counted.cached_tokens,
            output_tokens=max(counted.output_tokens, -(-received // ANSWER_TOKEN_BYTES)),
            reasoning_tokens=counted.reasoning_tokens,
            reported=False,
        )

    def reply(self, attempts: int) -> Reply:
        """The whole answer.

        Raises Truncated where it stopped at a limit, BrokenOff where no one says that it ended,
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
            raise NoAnswer(
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
                hint="raise the limit of output tokens (--output-tokens), or have the model think "
                "less (--effort)",
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
        self._bytes += len(text.encode("utf-8", "replace"))
        if self._bytes > self._limit * LONGEST_TOKEN:
            raise BadAnswer(
                f"the answer is longer than the {self._limit:,} tokens that were asked for",
                hint="the model repeats itself or its server keeps no limit; try again, or choose "
                "another model",
            )
