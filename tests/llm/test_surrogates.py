"""Texts whose characters a stream cuts in two."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tui.llm import Delta, DeltaKind, Reply, wire_chat, wire_responses
from astra_tui.llm.streamed import StreamedReply
from astra_tui.llm.surrogates import joined

ASTRAL = st.characters(min_codepoint=0x10000)
HALVES = st.characters(categories=["Cs"])
WHOLE = st.text(ASTRAL | st.characters(exclude_categories=["Cs"]))
ANY = st.text(ASTRAL | HALVES | st.characters())
CUTS = st.lists(st.integers(0, 40))


def cut(text: str, places: list[int]) -> list[str]:
    """The text in pieces, cut between UTF-16 units, as a reader of escaped JSON gets them."""
    code = text.encode("utf-16-be", "surrogatepass")
    units = [f"\\u{code[i : i + 2].hex()}" for i in range(0, len(code), 2)]
    edges = [0, *sorted(min(place, len(units)) for place in places), len(units)]
    escaped = ("".join(units[start:end]) for start, end in pairwise(edges))
    return [json.loads(f'"{piece}"') for piece in escaped]


def chat_events(pieces: list[str]) -> list[dict[str, Any]]:
    deltas: list[dict[str, Any]] = []
    for piece in pieces:  # The kinds take turns, as tokens of several channels may.
        call = {"index": 0, "id": "1", "function": {"name": "f", "arguments": piece}}
        deltas += [{"reasoning": piece}, {"content": piece}, {"tool_calls": [call]}]
    events = [{"choices": [{"delta": delta}]} for delta in deltas]
    return [*events, {"choices": [{"delta": {}, "finish_reason": "stop"}]}]


def responses_events(pieces: list[str]) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    for piece in pieces:
        events.append({"type": "response.reasoning_text.delta", "delta": piece})
        events.append({"type": "response.output_text.delta", "delta": piece})
    whole = "".join(pieces)
    call = {"type": "function_call", "call_id": "1", "name": "f", "arguments": whole}
    thought = {"type": "reasoning", "encrypted_content": "e30=", "summary": [{"text": whole}]}
    events += [{"type": "response.output_item.done", "item": item} for item in (call, thought)]
    return [*events, {"type": "response.completed", "response": {"model": "m"}}]


WIRES = {"chat": (wire_chat, chat_events), "responses": (wire_responses, responses_events)}


def read(wire: str, pieces: list[str]) -> tuple[Reply, list[Delta]]:
    module, events_of = WIRES[wire]
    deltas: list[Delta] = []
    streamed = StreamedReply(deltas.append, 1_000_000)
    for event in events_of(pieces):
        module.read(event, streamed)
    streamed.answered = True
    return streamed.reply(1), deltas


@pytest.mark.parametrize("wire", WIRES)
@given(text=WHOLE, places=CUTS)
def test_a_text_cut_anywhere_arrives_whole(wire: str, text: str, places: list[int]) -> None:
    reply, deltas = read(wire, cut(text, places))
    shown = {k: "".join(d.text for d in deltas if d.kind is k) for k in DeltaKind}
    assert reply.text == shown[DeltaKind.TEXT] == shown[DeltaKind.REASONING] == text
    assert [call.arguments for call in reply.tool_calls] == [text]
    msgspec.json.encode([reply, deltas])


@pytest.mark.parametrize("wire", WIRES)
@given(text=ANY, places=CUTS)
def test_whatever_arrives_can_be_written(wire: str, text: str, places: list[int]) -> None:
    reply, deltas = read(wire, cut(text, places))
    assert reply.text == joined(text)
    msgspec.json.encode([reply, deltas])
    reply.as_message().content.encode()
