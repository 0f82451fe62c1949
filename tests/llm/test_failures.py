"""Hostile and odd words of servers: masked, bounded, and never an exception of another kind."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tui.llm import LLMError, Retries, ServerFailed, wire_chat, wire_responses
from astra_tui.llm.client import _wait
from astra_tui.llm.errors import ERROR_KINDS, MAX_SERVER_TEXT, safe_text
from astra_tui.llm.failures import retry_after
from astra_tui.llm.streamed import StreamedReply
from astra_tui.llm.wire_responses import StreamError


@given(
    st.text(
        alphabet=st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="*"),
        min_size=4,
    ),
    st.text(),
    st.text(),
)
def test_no_key_survives(key: str, before: str, after: str) -> None:
    shown = safe_text(f"{before}{key}{after}", key)
    assert key not in shown
    assert shown.isprintable()
    assert len(shown) <= MAX_SERVER_TEXT


@pytest.mark.parametrize(
    "text", ["Bearer abc.def-ghi", "sk-proj-abcdef123", "hf_abcdefgh", "key sk-abcd***wxyz"]
)
def test_what_looks_like_a_key_is_masked(text: str) -> None:
    shown = safe_text(f"got {text}, refused", "")
    assert "abc" not in shown
    assert "***" in shown


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2", 2.0),
        ("0.5", 0.5),
        ("-3", 0.0),
        ("Thu, 01 Jan 1970 00:00:30 GMT", 20.0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        ("soon", None),
        ("inf", None),
        ("nan", None),
        ("", None),
    ],
)
def test_retry_after_is_read(text: str, seconds: float | None) -> None:
    assert retry_after({"retry-after": text}, now=10.0) == seconds


@given(st.text())
def test_any_retry_after_is_read(text: str) -> None:
    seconds = retry_after({"retry-after": text}, now=0.0)
    assert seconds is None or seconds >= 0


@given(st.integers(1, 60))
def test_waits_grow_up_to_the_longest(failures: int) -> None:
    retries = Retries(first_wait=1.0, longest_wait=8.0)
    longest = min(2.0 ** (failures - 1), 8.0)
    assert longest / 2 <= _wait(ServerFailed("x"), failures, retries) <= longest
    assert _wait(ServerFailed("x", retry_after=42.0), failures, retries) == 42.0


def test_every_error_is_known_by_name() -> None:
    def subclasses(kind: type[LLMError]) -> set[type[LLMError]]:
        return {kind}.union(*(subclasses(inner) for inner in kind.__subclasses__()))

    assert set(ERROR_KINDS.values()) == subclasses(LLMError) - {LLMError}


NAMES = [
    "type",
    "choices",
    "delta",
    "content",
    "tool_calls",
    "index",
    "id",
    "function",
    "name",
    "arguments",
    "finish_reason",
    "usage",
    "prompt_tokens",
    "item",
    "response",
    "call_id",
    "output_index",
    "encrypted_content",
    "error",
    "message",
    "model",
]
TYPES = st.sampled_from([*wire_responses.READERS, "function_call", "reasoning"])
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | TYPES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=5)
    ),
    max_leaves=12,
)
EVENTS = JSON | st.builds(
    lambda kind, rest: {**rest, "type": kind},
    TYPES | JSON,
    st.dictionaries(st.sampled_from(NAMES), JSON),
)


@pytest.mark.parametrize("wire", [wire_chat, wire_responses])
@given(events=st.lists(EVENTS, max_size=5))
def test_any_event_is_read_or_refused(wire: Any, events: list[Any]) -> None:
    reply = StreamedReply(lambda delta: None, 1_000_000)
    with suppress(msgspec.ValidationError, StreamError, LLMError):
        for event in events:
            wire.read(event, reply)
        reply.answered = True
        assert reply.reply(1).finish in ("stop", "tool_calls")
